"""The way of an agent on somebody's SDK or framework: it fails against a provider, becomes a test, and from
then on nothing of it runs: no provider, no network, no tool.
"""

from __future__ import annotations

import json
import os
import re
import textwrap
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, Literal

from adapters.provider import provider
from adapters.replies import Request, Script
from project import MINIMAL, Project, Result
from road import STRANGER

Way = Literal["run", "instrument", "decorated"]
"""How an agent comes to be recorded: by ``stepfork run``, untouched; by two lines at its top; or by
decorators that it has anyway."""

WAYS: tuple[Way, ...] = ("run", "instrument")

KEY = "sk-live-e3b0c44298fc1c149afbf4c8996fb924"
"""The agent's key, which no recording may hold."""

BODIES = """
    import os
    from pathlib import Path

    HERE = Path(__file__).parent


    def ran(what):
        with (HERE / "ran.txt").open("a") as file:
            file.write(f"{what}\\n")
        if os.environ.get("BODIES_RAISE"):
            raise AssertionError(f"{what} was executed")


    def seen(value):
        if isinstance(value, BaseException):
            value = (str(value), value.args, type(value.__cause__).__name__)
        with (HERE / "seen.txt").open("a") as file:
            file.write(f"{type(value).__qualname__} {value!r}\\n")
"""
"""``bodies``, which agents import: each tool says that it ran; what an agent got, it may say as well."""

NO_NETWORK = """
    import os
    import sys
    from pathlib import Path

    REFUSED = Path(__file__).parent / "refused.txt"
    EVENTS = {"socket.connect", "socket.getaddrinfo", "socket.gethostbyname", "socket.sendto"}


    def refuse(event, arguments):
        if event in EVENTS:
            with REFUSED.open("a") as file:
                file.write(f"{event} {arguments[1:]}\\n")
            raise OSError(f"no network here: {event}")


    if os.environ.get("NETWORK_REFUSED"):
        sys.addaudithook(refuse)
"""
"""``sitecustomize`` of all processes there; an attempt is noted, since SDKs hide what they caught."""

OFFLINE = {"NETWORK_REFUSED": "1", "BODIES_RAISE": "1"}

_INSTRUMENTED = "import stepfork\n\nstepfork.instrument()\n\n"
_ROOT = re.compile(r"^(?=(async )?def agent\()", re.MULTILINE)


class Scenario:
    """An agent in ``my_agent.py``, and the commands of its way, each of which checks what must hold there.

    Where it is instrumented, its function ``agent`` is made a step, if it has one. ``start`` is another
    command that starts it. With ``parallel``, the order in which an agent saw things is its own affair.
    ``env`` holds for every process; ``beside`` starts what else there is while the agent is recorded, and
    tells it by further environment variables.
    """

    def __init__(
        self,
        folder: Path,
        agent: str,
        script: Script,
        *,
        way: Way = "run",
        files: Mapping[str, str] | None = None,
        start: Sequence[str] | None = None,
        parallel: bool = False,
        env: Mapping[str, str] | None = None,
        beside: Callable[[], AbstractContextManager[Mapping[str, str]]] = lambda: nullcontext({}),
    ) -> None:
        source = textwrap.dedent(agent).lstrip("\n")
        if way == "instrument":
            source = _INSTRUMENTED + _ROOT.sub("@stepfork.step\n", source)
        self.project = Project(folder / "project", {**MINIMAL, "my_agent.py": source, **(files or {})})
        self.name = ""
        self.made: dict[str, Any] = {}
        self.requests: list[Request] = []
        """What the provider was asked while the agent was recorded."""
        self.refused = 0
        """How many of these it did not answer as it should."""
        self.executed: list[str] = []
        """The bodies that ran then."""
        self.saw: list[str] = []
        """What the agent saw then."""
        self._script = script
        self._parallel = parallel
        self._env = {**STRANGER, **(env or {})}
        self._services = beside
        program = ("python", "my_agent.py")
        self._start = tuple(start or (("stepfork", "run", "--", *program) if way == "run" else program))
        self._aside = Project(folder / "aside", {"bodies.py": BODIES, "sitecustomize.py": NO_NETWORK})

    def ran(self) -> list[str]:
        """Return the bodies that ran, and forget it."""
        return self._noted("ran.txt")

    def seen(self) -> list[str]:
        """Return what the agent saw, and forget it."""
        lines = self._noted("seen.txt")
        return sorted(lines) if self._parallel else lines

    def _noted(self, name: str) -> list[str]:
        path = self._aside.root / name
        lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
        path.unlink(missing_ok=True)
        return lines

    def run(self, *command: str, env: Mapping[str, str] | None = None) -> Result:
        """Run a command in the project, with ``bodies`` at hand."""
        path = os.pathsep.join([str(self.project.root), str(self._aside.root)])
        changed = {**self._env, "PYTHONPATH": path, **(env or {})}
        return self.project.run(*command, env=changed, timeout=600)

    def record(self, *says: str, code: int = 1) -> Result:
        """Run the agent against the provider: it fails, saying this, and asks no more than was scripted."""
        with provider(self._script) as server, self._services() as others:
            addresses = {"OPENAI_BASE_URL": f"{server.url}/v1", "ANTHROPIC_BASE_URL": server.url}
            keys = {"OPENAI_API_KEY": KEY, "ANTHROPIC_API_KEY": KEY}
            env = {**addresses, **keys, "PROVIDER_URL": server.url, **others}
            result = self.run(*self._start, env=env)
            self.requests, self.refused, unscripted = server.asked, server.refused, server.unscripted
        assert result.code == code, result
        assert unscripted == [], result
        assert self.requests or not self._script, result
        _says(result, says)
        self.executed, self.saw = self.ran(), self.seen()
        return result

    def offline(self, *command: str, env: Mapping[str, str] | None = None) -> Result:
        """Run a command with no provider, no key, no network and tools that raise: none is even tried."""
        result = self.run(*command, env={**OFFLINE, **(env or {})})
        executed = self.ran() + self._noted("refused.txt")
        assert not executed, f"{executed} in\n{result}"
        return result

    def make(self, *options: str) -> dict[str, Any]:
        """Make the test of the failure; returns what the command says."""
        result = self.offline("stepfork", "make-test", "--json", *options)
        assert result.code == 0, result
        self.made = result.json
        self.name = self.made["name"]
        self.seen()
        assert not [name for name, content in self.project.files().items() if KEY.encode() in content]
        return self.made

    def recorded(self, kind: str) -> Counter[str]:
        """Return how often each call of a kind stands in the recording, by name."""
        events = map(json.loads, self.project.read(f"tests/recordings/{self.name}.jsonl").splitlines())
        calls = [event["call"] for event in events if event["event"] == "start" and event["kind"] == kind]
        return Counter(call.rpartition("/")[2].partition("#")[0] for call in calls)

    def is_recorded_once(self) -> None:
        """Check that what was stacked left one record for each tool that ran and for each request.

        Of a request that the provider refused, there is none where the SDK has tried it again.
        """
        tools, ran = self.recorded("tool"), Counter(self.executed)
        assert {name: tools[name] for name in ran} == ran
        models = self.recorded("model").total()
        if self.requests:
            assert len(self.requests) - self.refused <= models <= len(self.requests), self.recorded("model")

    def pytest(self, *options: str, env: Mapping[str, str] | None = None) -> Result:
        """Run the tests of the project, offline."""
        # The full report is not cut, and shows the user's line and ours.
        return self.offline("pytest", "-q", "-vv", "-p", "no:cacheprovider", *options, env=env)

    def is_still_failing(self, *says: str) -> Result:
        """Check that the test fails as the agent did, which sees what it saw when it was recorded."""
        result = self.is_red("StillFailing", *says)
        assert self.seen() == self.saw, result
        return result

    def is_red(self, *says: str) -> Result:
        """Check that the test fails, saying this."""
        result = self.pytest()
        assert result.code == 1, result
        _says(result, says)
        return result

    def is_green(self, *says: str) -> Result:
        """Check that the test passes, saying this."""
        result = self.pytest()
        assert result.code == 0, result
        _says(result, says)
        return result

    def change(self, old: str, new: str) -> None:
        """Edit the agent."""
        self.project.replace("my_agent.py", old, new)
        self.seen()

    def refuses_the_bug(self, *says: str) -> None:
        """Check that an update accepts nothing while the agent fails as it did."""
        before = self.project.files()
        result = self.pytest("--snapshot-update")
        assert result.code == 1, result
        _says(result, ("StillFailing", *says))
        assert self.project.files() == before
        assert self.seen() == self.saw, result

    def is_accepted(self, *says: str) -> None:
        """Accept what the test shows now; it is green afterwards."""
        result = self.pytest("--snapshot-update")
        assert result.code == 0, result
        _says(result, says)
        self.is_green()

    def replays(self, error: str) -> None:
        """Go the first part of the way: the agent fails, becomes a test, and fails there as it did."""
        self.record(error)
        assert self.executed
        assert self.make()["reason"] == error
        self.is_recorded_once()
        self.is_still_failing(error)

    def walk(self, bug: str, fix: str, *, error: str, shows: Sequence[str] = ()) -> None:
        """Go all the way: what the fix changes is shown and accepted; the bug put back is refused."""
        self.replays(error)
        self.change(bug, fix)
        self.is_red("the recorded failure is gone", *shows)
        self.is_accepted("accepted")
        self.change(fix, bug)
        self.refuses_the_bug(error)


def _says(result: Result, texts: Sequence[str]) -> None:
    for text in texts:
        assert text in result.out + result.err, f"{text!r} is not in\n{result}"
