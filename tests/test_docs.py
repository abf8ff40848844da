from __future__ import annotations

import re
import subprocess
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec
import pytest
import yaml

from project import Project, clean_environment
from road import STRANGER
from stepfork._settings import settings

CHECKOUT = Path(__file__).resolve().parent.parent
ELSEWHERE = {"anthropic.md", "langgraph.md", "litellm.md", "mcp.md", "openai.md"}
"""They need the libraries that they are about: ``tests/adapters`` runs them."""
DOCUMENTS = [
    path
    for path in [CHECKOUT / "README.md", *sorted((CHECKOUT / "docs").rglob("*.md"))]
    if path.exists() and path.name not in ELSEWHERE
]

# Who reads of async tests has a plug-in that runs them.
READER = STRANGER | {"PYTEST_PLUGINS": f"{STRANGER['PYTEST_PLUGINS']},pytest_asyncio.plugin"}


class Block(NamedTuple):
    """A fenced block of a document."""

    language: str
    text: str
    line: int


def blocks(document: str) -> Iterator[Block]:
    """Yield the fenced blocks of a document, without the indentation of their fence."""
    lines = iter(enumerate(document.splitlines(), start=1))
    for number, line in lines:
        fence = re.fullmatch(r"( *)(`{3,}|~{3,})\s*([\w+-]*).*", line)
        if fence is None:
            continue
        indent, mark, language = fence.groups()
        body = []
        for _, inner in lines:
            if re.fullmatch(rf" *{mark}{mark[0]}*\s*", inner):
                break
            body.append(inner.removeprefix(indent))
        else:
            raise AssertionError(f"line {number}: the block never ends")
        yield Block(language, "\n".join(body) + "\n", number)


def run_python(block: Block, project: Project) -> None:
    """Write the block to the file it names, and run it."""
    named = re.match(r"# file: (\S+)\n", block.text)
    name = named[1] if named else f"block_{block.line}.py"
    project.write({name: block.text})
    # A file that other blocks use is imported, not started.
    how = f"import runpy; runpy.run_path({name!r}, run_name={'block' if named else '__main__'!r})"
    done = project.run("python", "-c", how)
    assert done.code == 0, done


def run_console(block: Block, project: Project) -> None:
    """Run each command, and look for what is shown below it."""
    for command, shown in commands(block.text):
        done = subprocess.run(
            command,
            shell=True,  # what is documented is typed into a shell
            cwd=project.root,
            env=clean_environment(project.root) | READER,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            timeout=300,
            check=False,
        )
        missing = first_missing(shown, done.stdout)
        assert missing is None, f"$ {command}\nshows no {missing!r} in\n{done.stdout}"
        assert shown or done.returncode == 0, f"$ {command}\nexit code {done.returncode}\n{done.stdout}"


def commands(text: str) -> Iterator[tuple[str, list[str]]]:
    """Yield each command with the lines shown below it."""
    joined = text.replace("\\\n", "")
    before, *parts = re.split(r"^\$ ", joined, flags=re.MULTILINE)
    assert not before.strip(), "a console block begins with a command"
    for part in parts:
        command, *shown = part.splitlines()
        yield command, [line for line in shown if line.strip(" .")]


def first_missing(shown: list[str], output: str) -> str | None:
    """Return the first line whose words do not stand together in one line of the output, in order."""
    lines = iter(output.splitlines())
    for line in shown:
        words = [word for part in line.split("...") for word in part.split()]
        if not any(all(word in found for word in words) for found in lines):
            return line
    return None


def parse_toml(block: Block, project: Project) -> None:
    """Parse the block; what it says to stepfork must be right too."""
    tomllib.loads(block.text)
    named = Project(project.root / f"toml_{block.line}", {"pyproject.toml": block.text})
    settings(named.root)


def parse_yaml(block: Block, project: Project) -> None:
    """Parse the block."""
    list(yaml.safe_load_all(block.text))


def parse_json(block: Block, project: Project) -> None:
    """Parse the block as one document, or each line of it."""
    for text in [block.text] if block.language == "json" else block.text.splitlines():
        msgspec.json.decode(text)


def leave_alone(block: Block, project: Project) -> None:
    """Pictures and text are for people."""


LANGUAGES: dict[str, Callable[[Block, Project], None]] = {
    "python": run_python,
    "console": run_console,
    "toml": parse_toml,
    "yaml": parse_yaml,
    "json": parse_json,
    "jsonl": parse_json,
    "text": leave_alone,
    "mermaid": leave_alone,
}


def run_document(document: str, project: Project) -> list[str]:
    """Run every block of a document in one folder, one after the other; return their languages."""
    languages = []
    for block in blocks(document):
        assert block.language in LANGUAGES, f"line {block.line}: say what {block.language!r} is, in LANGUAGES"
        try:
            LANGUAGES[block.language](block, project)
        except Exception as error:
            error.add_note(f"in the block at line {block.line}")
            raise
        languages.append(block.language)
    return languages


LONG = {"accept.md", "make-test.md", "record.md", "replay.md", "run.md"}
"""They start many processes."""


@pytest.mark.parametrize(
    "path",
    [
        pytest.param(path, marks=pytest.mark.slow if path.name in LONG else (), id=path.name)
        for path in DOCUMENTS
    ],
)
def test_every_block_of_a_document_does_what_it_says(path: Path, project: Project) -> None:
    """Programs run, commands show what is shown below them, and data can be read."""
    document = path.read_text(encoding="utf-8")
    assert len(run_document(document, project)) == len(
        re.findall(r"^ *(?:```|~~~)\S", document, re.MULTILINE)
    )


GOOD = """\
Text.

```python
# file: shop/agent.py
def handle(order):
    return order.upper()


if __name__ == "__main__":
    raise SystemExit("imported, not started")
```

- In a list:

  ```python
  from shop.agent import handle

  assert handle("a") == "A"
  ```

```console
$ python -c "print('one two'); \\
print('three'); print('took 0.31 s')"
two
...
took ... s
$ ls shop
agent.py
```

````text
``` is no fence here
````

```yaml
a: 1
```

```jsonl
{"a": 1}
{"b": 2}
```
"""


def test_blocks_share_a_folder_and_are_run_in_order(project: Project) -> None:
    """A file that one block names is there for the next, and only that is left behind."""
    assert run_document(GOOD, project) == ["python", "python", "console", "text", "yaml", "jsonl"]
    assert project.read("shop/agent.py").startswith("# file: shop/agent.py\ndef handle")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("```python\nassert 1 == 2\n```", "AssertionError"),
        ("```python\n# file: a.py\nimport no_such_module\n```", "no_such_module"),
        ("```console\n$ echo one\ntwo\n```", "shows no 'two'"),
        ("```console\n$ printf 'a\\nb\\n'\nb\na\n```", "shows no 'a'"),
        ("```console\n$ no-such-command\n```", "exit code 127"),
        ("```console\nno prompt\n```", "begins with a command"),
        ("```toml\na = \n```", "Invalid value"),
        ("```toml\n[tool.stepfork]\ntiemout = 1\n```", "did you mean timeout"),
        ("```yaml\n[\n```", "expected the node content"),
        ("```json\n{\n```", "truncated"),
        ("```\nwhat am I?\n```", "say what '' is"),
        ("```python\npass\n", "never ends"),
    ],
)
def test_a_block_that_is_wrong_fails(text: str, says: str, project: Project) -> None:
    """Each kind of block has a way to fail, and is named by its line."""
    with pytest.raises(Exception, match=re.escape(says)):
        run_document(text, project)


def test_words_are_looked_for_line_by_line() -> None:
    """The words of a line stand in one line of the output, and the lines in their order."""
    output = "3 passed in 0.12s\ndone at noon\n"
    assert first_missing(["3 passed in ...s", "done"], output) is None
    assert first_missing(["passed done"], output) == "passed done"
    assert first_missing(["done", "3 passed"], output) == "3 passed"
