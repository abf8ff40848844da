"""The end of an interpreter whose daemon threads are in native code."""

from __future__ import annotations

from project import Project

AGENT = """
import atexit, threading, time
atexit.register(lambda: print(*said))  # the last of all
atexit.register(lambda: time.sleep(0.2))
from stepfork._redact.ending import InterpreterEnds, not_at_the_end

said = []
begun = threading.Event()

def native(seconds, answer):
    begun.set()
    time.sleep(seconds)
    return answer

def work():
    said.append(not_at_the_end(native)(0.3, "left"))
    try:
        not_at_the_end(native)(0, "in")
    except InterpreterEnds:
        said.append("too late")

threading.Thread(target=work, daemon=True).start()
begun.wait()
atexit.register(lambda: said.append("exit began"))
atexit.register(lambda: said.append(not_at_the_end(native)(0, "main")))
"""


def test_the_end_waits_for_who_is_in_native_code_and_lets_nobody_else_in(project: Project) -> None:
    """Whoever came back from there later would be unwound through it, and abort the process (B12)."""
    project.write({"agent.py": AGENT})
    shown = project.run("python", "agent.py")
    assert (shown.code, shown.err) == (0, ""), shown
    assert shown.out.split() == ["main", "exit", "began", "left", "too", "late"]
