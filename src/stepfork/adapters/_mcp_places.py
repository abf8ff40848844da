"""What a recording says of where an MCP server is: what tells servers apart, and nothing that opens one.

Commands and URLs of servers carry keys in many places, and few of them look like it. So of a command are
kept the program, the names of its options and a few words that name transports; of a URL the host, and the
parts of the path that read as words. The rest is left out, and what may be a secret is hidden elsewhere too.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

from stepfork._redact.names import word_set
from stepfork._redact.parameters import is_made
from stepfork.adapters._credentials import split_url

if TYPE_CHECKING:
    from collections.abc import Iterator
    from urllib.parse import SplitResult

__all__ = ["hidden_parts", "place_of"]

_RUNNERS: Final = word_set(
    """python pythonw pypy node deno bun bunx npx npm pnpm pnpx yarn tsx ts-node uv uvx pipx poetry pdm
    hatch docker podman nerdctl java ruby php go cargo dotnet sh bash zsh cmd env"""
)
"""Programs that start the server's own."""
_CONTAINERS: Final = frozenset({"docker", "podman", "nerdctl"})
_STEPS: Final = frozenset({"run", "exec", "tool", "dlx", "x"})
"""Words of theirs that come before it."""
_NAMES_IT: Final = frozenset({"-m", "-jar", "--"})
_ALONE: Final = word_set(
    """-y --yes -i -t -it -ti -d --rm --init --interactive --tty -q --quiet -s --silent -I -B -E -O
    --isolated --offline --no-sync --frozen --no-cache --privileged -A --allow-all /c"""
)
"""Options of theirs that take no value."""
_TAKE_A_VALUE: Final = word_set(
    """-u --user -e --env --env-file -v --volume --mount -p --publish --name --network -w --workdir -l
    --label --add-host --directory --project --with --with-editable --from --python --package --extra
    --group -W -X -r --require --import --platform --pull --entrypoint --memory --cpus"""
)
_TRANSPORTS: Final = word_set("stdio sse http streamable-http streamable_http ws serve server start mcp")
_PROGRAM: Final = re.compile(r"@?[A-Za-z0-9_][\w.+-]*(?:/[\w.+-]+)*(?:[:@][\w.-]{1,20})?")
_OPTION: Final = re.compile(r"--[A-Za-z][A-Za-z-]*(?==|\Z)|-[A-Za-z]")
_VERSION: Final = re.compile(r"v\d{1,3}(?:\.\d{1,2})?")
_WORDS: Final = re.compile(r"[a-z]{1,20}\d{0,2}(?:[-_.][a-z]{1,20}\d{0,2}){0,3}")
_NAME: Final = re.compile(r"(?:[A-Z][a-z]+){1,4}\d{0,2}")
"""``MyCompany``: whatever the server tells may be full of it."""
_UNREADABLE: Final = re.compile(r"[^aeiouy]{6}")
_ADDRESS: Final = re.compile(r"[0-9.]+|[0-9a-f:]+:[0-9a-f:]*")
_HIDDEN: Final = "*"


def place_of(target: Any) -> str:
    """Say where a server is, without what differs between two machines, and without secrets."""
    if hasattr(target, "command"):
        return " ".join(_command(str(target.command), [str(word) for word in target.args or ()]))
    parts = split_url(str(target))
    return _HIDDEN if parts is None else _host(parts) + _path(parts)


def _command(command: str, words: list[str]) -> Iterator[str]:
    name = _file_name(command)
    yield name if _PROGRAM.fullmatch(name) and not is_made(name) else _HIDDEN
    before = _until_program(name, words)
    own, rest = words[:before], words[before:]
    for word in own[:-1]:
        yield from [word] if word in _STEPS else _option(word)
    if own and _runner(_file_name(own[-1])):
        yield from _command(own[-1], rest)
        return
    yield from map(_program, own[-1:])
    for word in rest:
        yield from [word] if word in _TRANSPORTS else _option(word)


def _option(word: str) -> list[str]:
    option = _OPTION.match(word)
    return [option[0]] if option else []


def _runner(name: str) -> str | None:
    """Return the runner of this name, whatever its version."""
    bare = re.sub(r"[\d.]*(?:\.exe|\.cmd|\.bat)?$", "", name.lower())
    return bare if bare in _RUNNERS else None


def _until_program(command: str, words: list[str]) -> int:
    """Return how many words of a runner there are up to the program's name; 0 where that is not sure."""
    runner, index = _runner(command), 0
    if runner is None:
        return 0
    alone = _ALONE if runner in _CONTAINERS else _ALONE | {"-u"}
    while index < len(words):
        word = words[index]
        if word in _NAMES_IT:
            return index + 2
        if word in alone or word in _STEPS or "=" in word:
            index += 1
        elif word in _TAKE_A_VALUE:
            index += 2
        else:
            return 0 if word.startswith("-") else index + 1
    return 0


def _program(word: str) -> str:
    if "://" in word:
        return place_of(word)
    name = _file_name(word) if word.startswith("/") or "\\" in word else word
    return name if _PROGRAM.fullmatch(name) and not is_made(name) else _HIDDEN


def _file_name(path: str) -> str:
    return re.split(r"[/\\]", path)[-1]


def _host(parts: SplitResult) -> str:
    name = parts.hostname
    if name in ("localhost", "127.0.0.1", "::1", None):
        return ""
    if _ADDRESS.fullmatch(name):
        return name
    *own, domain, top = ["", *name.split(".")] if "." not in name else name.split(".")
    return ".".join([*(label if _reads(label) else _HIDDEN for label in own), domain, top]).lstrip(".")


def _path(parts: SplitResult) -> str:
    segments = [part if not part or _reads(part) else _HIDDEN for part in parts.path.split("/")]
    return "/".join(segments) or "/"


def _reads(part: str) -> bool:
    """Whether this is made of words: what nobody can read may be a key."""
    is_words = _WORDS.fullmatch(part) is not None and _UNREADABLE.search(part) is None
    return is_words or _VERSION.fullmatch(part) is not None


def hidden_parts(url: str) -> set[str]:
    """Return the parts of a path that may be secrets, of those that are left out of the place."""
    parts = split_url(url)
    hidden = [unquote(part) for part in parts.path.split("/") if not _reads(part)] if parts else []
    return {part for part in hidden if not _NAME.fullmatch(part)}
