"""The example of an adapter in a package of its own: it keeps its promises, and agents need no edit."""

from __future__ import annotations

import shutil
import tomllib
from pathlib import Path

import pytest

from project import MINIMAL, Project
from road import STRANGER

EXAMPLE = Path(__file__).resolve().parent.parent / "examples" / "adapter_shop"

AGENT = """
    import sys
    import threading
    from http.server import BaseHTTPRequestHandler, HTTPServer

    import shop_client
    {instrument}

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b'{{"total": 120}}')

        def log_message(self, *_args):
            pass


    {step}
    def refund(order_id, url):
        order = shop_client.Client(url).lookup(order_id)
        return {{"amount": order.amount}}


    if __name__ == "__main__":
        with HTTPServer(("127.0.0.1", 0), Handler) as server:
            threading.Thread(target=server.serve_forever, daemon=True).start()
            refund("A-17", f"http://127.0.0.1:{{server.server_port}}")
"""


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """A project in whose environment the example is installed, as its own pyproject.toml says."""
    installed = tmp_path / "project" / "site"
    shutil.copytree(EXAMPLE / "src", installed)
    written = tomllib.loads((EXAMPLE / "pyproject.toml").read_text("utf-8"))["project"]
    points = written["entry-points"]
    lines = [f"[{group}]\n" + "".join(f"{n} = {v}\n" for n, v in points[group].items()) for group in points]
    folder = f"site/{written['name'].replace('-', '_')}-{written['version']}.dist-info"
    metadata = f"Metadata-Version: 2.1\nName: {written['name']}\nVersion: {written['version']}\n"
    files = {f"{folder}/METADATA": metadata, f"{folder}/entry_points.txt": "\n".join(lines)}
    return Project(tmp_path / "project", {**MINIMAL, **files})


def environment(project: Project) -> dict[str, str]:
    """Return the environment in which the example is installed."""
    return {**STRANGER, "PYTHONPATH": f"{project.root}:{project.root / 'site'}"}


@pytest.mark.slow
def test_the_example_keeps_what_adapters_promise(project: Project) -> None:
    """Its own tests pass, as its author runs them."""
    shutil.copytree(EXAMPLE / "tests", project.root / "tests")
    done = project.run("pytest", "-q", "-p", "no:cacheprovider", "tests", env=environment(project))
    assert done.code == 0, done
    assert "36 passed" in done.out, done


@pytest.mark.slow
def test_an_agent_that_uses_the_library_becomes_a_test(project: Project) -> None:
    """Found by its entry point, named by the recording, switched on by the replay; without it, an error."""
    instrument = "import stepfork\n\n    stepfork.instrument('shop')\n"
    source = AGENT.format(instrument=instrument, step="@stepfork.step")
    project.write({"agent.py": source})
    env = environment(project)
    assert "has no attribute 'amount'" in project.run("python", "agent.py", env=env).err
    made = project.run("stepfork", "make-test", "--json", env=env)
    assert made.code == 0, made
    (recording,) = (project.root / "tests" / "recordings").glob("*.jsonl")
    assert '"adapters":["shop"]' in recording.read_text("utf-8").splitlines()[0]
    # The agent need not switch anything on: the recording does.
    project.replace("agent.py", "stepfork.instrument('shop')\n", "\n")
    assert "StillFailing" in project.run("pytest", "-q", env=env).out
    shutil.rmtree(next((project.root / "site").glob("*.dist-info")))
    without = project.run("pytest", "-q", env=env)
    assert without.code == 1
    assert "the recording was made with the adapter 'shop', which is not installed here" in without.out, (
        without
    )


@pytest.mark.slow
def test_an_agent_is_recorded_without_an_edit(project: Project) -> None:
    """``stepfork run`` switches on what is installed."""
    project.write({"agent.py": AGENT.format(instrument="", step="")})
    env = environment(project)
    ran = project.run("stepfork", "run", "--", "python", "agent.py", env=env)
    assert "has no attribute 'amount'" in ran.err, ran
    made = project.run("stepfork", "make-test", env=env)
    assert made.code == 0, made
    assert "StillFailing" in project.run("pytest", "-q", env=env).out
