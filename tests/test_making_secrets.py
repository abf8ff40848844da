"""What ``make-test`` does about secrets: a second look, what a replay needs of the environment, links."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from project import MINIMAL, Project
from road import STRANGER
from stepfork._making.leftover import Look, check_nothing_left
from stepfork._recording import read_run
from stepfork.errors import NotRedacted

BARE: dict[str, str | None] = {**STRANGER, "PYTHONPATH": None}
SECRET = "kS83-hd72-Qm41-zz09"

AGENT = """
    import os
    import stepfork


    class Denied(Exception):
        pass


    @stepfork.tool
    def fetch(account, headers):
        return {"balance": 0, "note": "ticket TCK-20261130-77"}


    @stepfork.step
    def handle(account):
        found = fetch(account, {"Authorization": f"Bearer {key()}"})
        raise Denied(found["note"])


    def key():
        return {key}


    if __name__ == "__main__":
        handle(7)
"""


def recorded(project: Project, key: str, **environ: str) -> dict[str, str | None]:
    """Run the agent with these variables; return the environment to make the test in."""
    env = {**BARE, **environ}
    project.write({"agent.py": AGENT.replace("{key}", key)})
    assert "Denied" in project.run("python", "agent.py", env=env).err
    return env


def variables(project: Project) -> list[str]:
    """Return which variables the recording of the test has a replay set."""
    (path,) = project.root.glob("tests/recordings/*.jsonl")
    return list(read_run(path).variables)


@pytest.mark.slow
def test_a_key_that_the_agent_wants_is_needed_by_nobody_who_runs_the_test(project: Project) -> None:
    """The recording names it and no others; where it is set, to whatever, the test shows the same (B43)."""
    env = recorded(project, 'os.environ["BANK_API_KEY"]', BANK_API_KEY=SECRET, MAIL_TOKEN=f"{SECRET}-2")
    made = project.stepfork("make-test", "--json", env=env)
    assert made.code == 0, made
    assert made.json["environment"] == []
    assert variables(project) == ["BANK_API_KEY"]
    assert not [name for name, data in project.files().items() if SECRET.encode() in data]
    for value in ("x", None):
        seen = project.pytest("-q", env={**BARE, "BANK_API_KEY": value})
        assert (seen.code, "StillFailing" in seen.out) == (1, True), seen
    project.replace("agent.py", "raise Denied", "return str")
    assert project.pytest("-q", "--snapshot-update", env=env).code == 0
    assert project.pytest("-q", env=BARE).code == 0


@pytest.mark.slow
@pytest.mark.parametrize(
    "key",
    [
        'os.environ["BANK_LOGIN_TOKEN"]',
        'os.environ.get("BANK_LOGIN_TOKEN") or exit("log in first")',
    ],
)
def test_a_run_from_elsewhere_becomes_a_test_where_its_variables_are_not_set(
    key: str, project: Project
) -> None:
    """Whether or not the error tells which is missing; the names of all others are left out."""
    recorded(project, key, BANK_LOGIN_TOKEN=SECRET, MAIL_TOKEN=f"{SECRET}-2", SOME_KEY="abc")
    made = project.stepfork("make-test", "--json", env=BARE)
    assert (made.code, made.json["environment"]) == (0, []), made
    assert variables(project) == ["BANK_LOGIN_TOKEN"]
    seen = project.pytest("-q", env=BARE)
    assert (seen.code, "StillFailing" in seen.out) == (1, True), seen


@pytest.mark.slow
def test_a_variable_whose_value_matters_is_named(project: Project) -> None:
    """No placeholder will do for it: whoever runs the test has to set it."""
    env = recorded(project, 'len(str(int(os.environ["BANK_SHARD_KEY"])))', BANK_SHARD_KEY="1234567890")
    made = project.stepfork("make-test", "--json", env=env)
    assert (made.code, made.json["environment"]) == (0, ["BANK_SHARD_KEY"]), made
    assert "a replay needs BANK_SHARD_KEY in its environment (with a value like here)" in made.json["notes"]
    assert variables(project) == []


LOADING = """
    import os

    if os.path.exists(".env"):
        for line in open(".env"):
            os.environ.setdefault(*line.strip().split("="))
"""


@pytest.mark.slow
@pytest.mark.parametrize("when", ["when imported", "while it runs"])
def test_keys_from_a_file_that_is_not_there_elsewhere_are_not_needed(when: str, project: Project) -> None:
    """What the project itself sets, in the run or in its proof, a replay sets where the project does not."""
    agent = AGENT.replace("{key}", 'os.environ["BANK_API_KEY"]')
    before = "import stepfork\n" if when == "when imported" else "found = fetch"
    project.write(
        {
            ".env": f"BANK_API_KEY={SECRET}\n",
            "loading.py": LOADING,
            "agent.py": re.sub(
                f"^( +){before}", r"\1import loading\n\g<0>", agent, count=1, flags=re.MULTILINE
            ),
        }
    )
    assert "Denied" in project.run("python", "agent.py", env=BARE).err
    made = project.stepfork("make-test", "--json", env=BARE)
    assert (made.code, made.json["environment"]) == (0, []), made
    assert variables(project) == ["BANK_API_KEY"]
    (project.root / ".env").unlink()
    seen = project.pytest("-q", env=BARE)
    assert (seen.code, "StillFailing" in seen.out) == (1, True), seen


@pytest.mark.slow
def test_no_variable_is_named_where_a_replay_needs_none(project: Project) -> None:
    """The agent reads the key only if it is there; the test is proved without it."""
    env = recorded(project, 'os.environ.get("BANK_API_KEY")', BANK_API_KEY=SECRET)
    made = project.stepfork("make-test", "--json", env=env)
    assert made.code == 0, made
    assert made.json["environment"] == []
    assert not [note for note in made.json["notes"] if "environment" in note]


@pytest.mark.slow
def test_a_rule_that_came_after_the_run_takes_its_secrets_out(project: Project) -> None:
    """Told in one line; the journal is not touched, and the failure comes back (B43, B44)."""
    env = recorded(project, '"no key"')
    journals = project.files(".stepfork/runs")
    project.write(
        {"pyproject.toml": MINIMAL["pyproject.toml"] + "[tool.stepfork]\nredact_patterns = ['TCK-[0-9-]+']\n"}
    )
    made = project.stepfork("make-test", env=env)
    assert made.code == 0, made
    assert "note   secrets were found and replaced: pattern 1\n" in made.out
    written = {
        name: data for name, data in project.files().items() if name.startswith(("tests/", "snapshots/"))
    }
    assert not [name for name, data in written.items() if b"TCK-2026" in data]
    kept = project.files(".stepfork/runs")
    assert {name: kept[name] for name in journals if name.endswith(".jsonl")} == {
        name: data for name, data in journals.items() if name.endswith(".jsonl")
    }


def test_a_secret_in_a_name_never_gets_into_a_test(project: Project) -> None:
    """Known only when the test is made, it is replaced; what then is not the recorded run is refused."""
    source = f"""
        import stepfork


        def agent():
            with stepfork.run("ticket {SECRET}"):
                raise LookupError("no such ticket")


        if __name__ == "__main__":
            agent()
    """
    project.write({"agent.py": source})
    project.run("python", "agent.py", env=BARE)
    before = project.files()
    env = {**BARE, "BANK_API_KEY": SECRET}
    refused = project.stepfork("make-test", "--entry", "agent:agent", "--name", "t", "--json", env=env)
    assert (refused.code, refused.json["error"]["code"]) == (3, "SF401"), refused
    assert project.files() == before


def test_a_secret_in_a_name_is_in_no_file_of_the_runs(project: Project) -> None:
    """(B43) Neither in the journal nor in what the folder of the runs remembers of it."""
    source = """
        import os, stepfork

        with stepfork.run("ticket " + os.environ["BANK_API_KEY"]):
            raise LookupError("no such ticket")
    """
    project.write({"agent.py": source})
    project.run("python", "agent.py", env={**BARE, "BANK_API_KEY": SECRET})
    kept = {name: data for name, data in project.files().items() if name.startswith(".stepfork")}
    assert len(kept) >= 2
    assert not [name for name, data in kept.items() if SECRET.encode() in data]


def test_text_for_people_is_held_to_the_shapes_of_secrets_too(tmp_path: Path) -> None:
    """In a recording as a whole only values are looked for; each of its texts was looked at by every rule."""
    key = b"said sk-proj-a8Kd03jfmQ29vbXzLpQ8sT41 to me"
    check_nothing_left([Look(tmp_path / "a.jsonl", key, is_text=False)], {}, None)
    with pytest.raises(NotRedacted, match=r"openai-key would stand in a\.yaml"):
        check_nothing_left([Look(tmp_path / "a.yaml", key, is_text=True)], {}, None)
    check_nothing_left([Look(tmp_path / "a.yaml", b"said [redacted-1]****", is_text=True)], {}, None)


@pytest.mark.parametrize("link", ["tests", "tests/recordings", "tests/recordings/t.jsonl"])
def test_nothing_is_written_through_a_link_that_leads_out_of_the_project(
    link: str, project: Project, tmp_path: Path
) -> None:
    """Neither a folder nor a file that is not there yet (B47)."""
    env = recorded(project, "'no key'")
    outside = tmp_path / "outside"
    outside.mkdir()
    (project.root / link).parent.mkdir(parents=True, exist_ok=True)
    target = outside if not link.endswith(".jsonl") else outside / "t.jsonl"
    (project.root / link).symlink_to(target)
    refused = project.stepfork("make-test", "--name", "t", env=env)
    assert refused.code == 2, refused
    assert "is a link out of" in refused.err or "exists already" in refused.err
    assert not list(outside.iterdir())
