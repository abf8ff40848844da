"""What a replay answers when it is asked for calls by name."""

from __future__ import annotations

from pathlib import Path

import pytest

import stepfork
from replays import record
from stepfork.errors import OptionError


@stepfork.tool
def publish(text: str) -> str:
    return text


@stepfork.tool
def publish_all(text: str) -> str:
    return text


def test_a_misspelt_name_is_refused_and_an_unknown_one_was_never_called(tmp_path: Path) -> None:
    """``run.never("publsh")`` would be true for ever; a decorated function need not have been called."""
    path = tmp_path / "run.jsonl"
    record(path, lambda: publish("x"))
    run = stepfork.replay(path, lambda: publish("x"))
    for ask in (run.calls, run.called, run.never, lambda name: run.called(name, times=0)):
        with pytest.raises(OptionError, match="'publsh' is no step, tool or model") as caught:
            ask("publsh")
        assert caught.value.detail[0][1].split(", ")[0] == "publish"
    assert run.called("publish", times=1)
    assert run.never("publish_all")
    assert run.never("delete_user")
    assert run.calls("delete_user") == []
