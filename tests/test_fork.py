"""Locks of a process that forks while its other threads hold them."""

from __future__ import annotations

import sys

import pytest

from project import Project
from stepfork import _fork

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="there is no fork")

_AGENT = """
import importlib, os, pkgutil, sys, threading
from contextlib import suppress
from pathlib import Path
import stepfork
from stepfork import _fork

for module in pkgutil.walk_packages(stepfork.__path__, "stepfork."):
    with suppress(ImportError, KeyError):  # what is there for a library that is not
        importlib.import_module(module.name)

@stepfork.tool
def refund(order):
    return order

@stepfork.step
def agent():
    return refund("A")

def reap(pid):
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
"""

_HELD_ELSEWHERE = (
    _AGENT
    + """
def hold(found, held, go):
    for owner, name in found:
        getattr(owner, name).acquire()
    held.set()
    go.wait()
    for owner, name in found:
        getattr(owner, name).release()

def forked(child):
    found, held, go = list(_fork.locks()), threading.Event(), threading.Event()
    holder = threading.Thread(target=hold, args=(found, held, go))
    holder.start()
    held.wait()
    pid = os.fork()
    if pid == 0:
        assert all(getattr(owner, name).acquire(timeout=0) for owner, name in list(_fork.locks()))
        for owner, name in list(_fork.locks()):
            getattr(owner, name).release()
        child()
        os._exit(0)
    go.set()
    holder.join()
    reap(pid)
    return {f"{getattr(owner, '__name__', type(owner).__name__)}.{name}" for owner, name in found}

def records():
    stepfork.instrument("httpx")
    with stepfork.run("child", path=Path("child.jsonl")):
        agent()
    assert stepfork.replay("child.jsonl", agent).value == "A"

def refuses():
    with suppress(stepfork.errors.StepforkError):
        refund("A")
        os._exit(1)

with stepfork.run("parent", path=Path("parent.jsonl")):
    refund("A")
    names = forked(records)
with suppress(stepfork.errors.UnrecordedCall), stepfork.replaying("parent.jsonl"):
    refund("A")
    names |= forked(refuses)
print(*sorted(names))
"""
)

_HELD_HERE = (
    _AGENT
    + """
from stepfork import _context

with _context._lock:
    pid = os.fork()
if pid == 0:
    with stepfork.run("child", path=Path("child.jsonl")):
        agent()
    os._exit(0)
reap(pid)
"""
)


def test_no_lock_that_another_thread_held_is_held_in_a_forked_child(project: Project) -> None:
    """Every lock of a module, and those of what outlives a run; the child records, replays and refuses."""
    project.write({"agent.py": _HELD_ELSEWHERE})
    done = project.run(sys.executable, "agent.py", timeout=40)
    assert done.code == 0, done
    assert {"Replay._lock", "Redactor._lock", "_Budget._lock", "stepfork._context._lock"} <= {
        *done.out.split()
    }


def test_whoever_forks_while_holding_a_lock_releases_the_one_it_took(project: Project) -> None:
    """The child has a new one, and does not try to release that."""
    project.write({"agent.py": _HELD_HERE})
    done = project.run(sys.executable, "agent.py", timeout=40)
    assert done.code == 0, done


def test_an_object_that_is_gone_is_forgotten() -> None:
    """Each run has locks of its own, and many runs come and go."""

    class Holder:
        pass

    before = len(_fork._owners)
    holder = Holder()
    _fork.renew_in_children(holder, "lock")
    assert len(_fork._owners) == before + 1
    del holder
    assert len(_fork._owners) == before
