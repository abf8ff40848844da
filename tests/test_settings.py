from __future__ import annotations

import os
import re
import tomllib
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

import settings_table
from project import Project
from stepfork._settings import SETTINGS, Options, Setting, Settings, configure, settings
from stepfork.errors import OptionError

named = pytest.mark.parametrize("setting", SETTINGS, ids=lambda setting: setting.name)


@pytest.fixture(autouse=True)
def _no_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("STEPFORK_DIR")


def test_without_any_setting_the_defaults_hold(project: Project) -> None:
    """A project that says nothing gets the default of each setting."""
    found = settings(project.root)
    assert found == Settings()
    assert {row.name: getattr(found, row.name) for row in SETTINGS} == {
        row.name: row.default for row in SETTINGS
    }


@named
def test_the_three_forms_of_a_setting_mean_the_same(
    setting: Setting, project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The example of the docs gives one value, by file, environment or call, and it is not the default."""
    seen = []
    if setting.in_pyproject:
        project.write(
            {"pyproject.toml": f"[tool.stepfork]\n{setting.name} = {settings_table.toml(setting.example)}\n"}
        )
        seen.append(getattr(settings(project.root), setting.name))
        project.write({"pyproject.toml": ""})
    if setting.env:
        monkeypatch.setenv(setting.env, settings_table.environment(setting))
        seen.append(getattr(settings(project.root), setting.name))
        monkeypatch.delenv(setting.env)
    configure(**{setting.name: setting.example})
    seen.append(getattr(settings(project.root), setting.name))
    assert len(seen) == 1 + setting.in_pyproject + bool(setting.env)
    assert all(value == seen[0] for value in seen)
    assert seen[0] != setting.default


def test_configure_beats_the_environment_which_beats_the_file(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each nearer source wins, and what is taken back uncovers the next."""
    seen = [settings(project.root).timeout]
    project.write({"pyproject.toml": "[tool.stepfork]\ntimeout = 1\n"})
    seen.append(settings(project.root).timeout)
    monkeypatch.setenv("STEPFORK_TIMEOUT", "2")
    seen.append(settings(project.root).timeout)
    configure(timeout=3)
    seen.append(settings(project.root).timeout)
    configure(timeout=None)
    seen.append(settings(project.root).timeout)
    monkeypatch.setenv("STEPFORK_TIMEOUT", "")
    seen.append(settings(project.root).timeout)
    assert seen == [60, 1, 2, 3, 2, 1]


def test_a_file_is_read_again_only_when_it_changed(project: Project) -> None:
    """The same object comes back until pyproject.toml has another time or size."""
    first = settings(project.root)
    assert settings(project.root) is first
    file = project.root / "pyproject.toml"
    before = file.stat()
    project.write({"pyproject.toml": "[tool.stepfork]\ntimeout = 5\n"})
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns + 1))
    assert settings(project.root).timeout == 5
    file.unlink()
    assert settings(project.root) == first


def test_each_root_has_settings_of_its_own(project: Project, tmp_path: Path) -> None:
    """Two projects in one process do not see each other's file."""
    other = Project(tmp_path / "other", {"pyproject.toml": "[tool.stepfork]\nrecord = false\n"})
    assert (settings(project.root).record, settings(other.root).record) == (True, False)


def test_the_root_is_found_from_the_working_directory(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a root, the project around the working directory counts."""
    project.write({"pyproject.toml": "[tool.stepfork]\ntimeout = 0.5\n", "deep/er/note.txt": ""})
    monkeypatch.chdir(project.root / "deep" / "er")
    assert settings().timeout == 0.5


@pytest.mark.parametrize(
    ("toml", "says"),
    [
        ("[tool.stepfork]\ntiemout = 3", ["'tiemout'", "did you mean timeout?"]),
        ("[tool.stepfork]\non_failed = 'print'", ["'on_failed'"]),
        ("[tool.stepfork]\ntimeout = 'soon'", ["timeout in", "'soon'", "a number of seconds above 0"]),
        ("[tool.stepfork]\ntimeout = 0", ["out of range"]),
        ("[tool.stepfork]\ntimeout = nan", ["out of range"]),
        ("[tool.stepfork]\nrecord = 1", ["record in", "of type int"]),
        ("[tool.stepfork]\nblob_bytes = 1.5", ["whole number"]),
        ("[tool.stepfork]\nblob_bytes = true", ["of type bool"]),
        ("[tool.stepfork]\nblob_bytes = -1", ["it is negative"]),
        ("[tool.stepfork]\nredact_keys = 'ssn'", ["a list of texts", "of type str"]),
        ("[tool.stepfork]\nredact_keys = [1]", ["1 is no text"]),
        ("[tool.stepfork]\nredact_patterns = ['(']", ["'(' is no regular expression"]),
        ("[tool.stepfork]\nredactor = 'privacy.scrub'", ["neither a function nor the name of one"]),
        ("[tool.stepfork]\ntolerance = 3", ["it is no table"]),
        ("[tool.stepfork.moved]\nOrder = 'shop:Order'", ["'Order' is not of the form module:Class"]),
        ("[tool.stepfork]\ndir = ''", ["it is no path"]),
        ("[tool]\nstepfork = 3", ["is no table"]),
        ("[tool.stepfork\n", ["cannot be read", "line 1"]),
    ],
)
def test_a_wrong_line_in_the_file_is_named(toml: str, says: list[str], project: Project) -> None:
    """The message names the file, the value, and what is expected or near."""
    project.write({"pyproject.toml": toml})
    with pytest.raises(OptionError) as caught:
        settings(project.root)
    for words in [*says, str(project.root / "pyproject.toml")]:
        assert words in str(caught.value)


@pytest.mark.parametrize(
    ("variable", "value", "says"),
    [
        ("STEPFORK_RECORD", "perhaps", ["STEPFORK_RECORD", "'perhaps'", "on or off"]),
        ("STEPFORK_RECROD", "off", ["'STEPFORK_RECROD'", "did you mean STEPFORK_RECORD?"]),
        ("STEPFORK_TIMEOUT", "1m", ["STEPFORK_TIMEOUT", "'1m'"]),
        ("STEPFORK_TOLERANCE", "score=1", ["STEPFORK_TOLERANCE", "a table"]),
        ("STEPFORK_OVERRIDE", "[1]", ["STEPFORK_OVERRIDE", "it is no table"]),
    ],
)
def test_a_wrong_variable_is_named(
    variable: str, value: str, says: list[str], project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The message names the variable, its text, and what is expected or near."""
    monkeypatch.setenv(variable, value)
    with pytest.raises(OptionError) as caught:
        settings(project.root)
    for words in says:
        assert words in str(caught.value)


@pytest.mark.parametrize(
    ("word", "on"), [("off", False), ("OFF", False), ("0", False), ("no", False), ("On", True)]
)
def test_a_switch_in_the_environment_takes_the_usual_words(
    word: str, on: bool, project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Case does not matter, and 0 and no are off too."""
    monkeypatch.setenv("STEPFORK_RECORD", word)
    assert settings(project.root).record is on


def test_variables_of_others_are_left_alone(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """A STEPFORK_ name that is near to no setting may belong to another tool."""
    monkeypatch.setenv("STEPFORK_CORPUS", "elsewhere")
    assert settings(project.root) == Settings()


def test_configure_takes_all_or_nothing(project: Project) -> None:
    """A call with one wrong value changes no setting."""
    with pytest.raises(OptionError, match=r"stepfork\.configure\(blob_bytes=\.\.\.\) does not fit: -7"):
        configure(timeout=5, blob_bytes=-7)
    with pytest.raises(OptionError, match="did you mean redact_keys"):
        configure(timeout=5, redact_key=["ssn"])  # type: ignore[call-arg]
    assert settings(project.root) == Settings()


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"dir": 3}, "a path"),
        ({"dir": b"runs"}, "a path"),
        ({"on_failed": "print"}, "which cannot be called"),
        ({"redact_keys": 3}, "a list of texts"),
        ({"tolerance": {1: "anything()"}}, "its keys are not all texts"),
    ],
)
def test_configure_says_what_it_expected(options: Any, says: str) -> None:
    """A value of the wrong kind is told from what would have fitted."""
    with pytest.raises(OptionError, match=re.escape(says)):
        configure(**options)


def test_functions_are_taken_as_they_are(project: Project) -> None:
    """A redactor and a hook can be any callable."""
    configure(redactor=str.upper, on_failed=print)
    found = settings(project.root)
    assert found.redactor is str.upper
    assert found.on_failed is print


def test_what_configure_was_given_can_be_changed_afterwards(project: Project) -> None:
    """A list or table that its owner goes on changing does not change the settings."""
    keys, rules = ["ssn"], {"score": "anything()"}
    configure(redact_keys=keys, tolerance=rules)
    keys.append("iban")
    rules["total"] = "anything()"
    assert settings(project.root).redact_keys == ("ssn",)
    assert settings(project.root).tolerance == {"score": "anything()"}


def test_a_redactor_that_is_named_is_imported_when_it_is_first_called(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Reading the settings runs no code of the project; a wrong name shows at the first call (B44)."""
    project.write(
        {
            "pyproject.toml": "[tool.stepfork]\nredactor = 'settings_privacy:Rules.scrub'\n",
            "settings_privacy.py": "class Rules:\n    scrub = staticmethod(str.upper)\n",
        }
    )
    redactor = settings(project.root).redactor
    assert redactor is not None
    with pytest.raises(ModuleNotFoundError):
        redactor("secret")
    monkeypatch.syspath_prepend(project.root)
    assert redactor("secret") == "SECRET"


def test_the_keywords_of_configure_are_the_settings() -> None:
    """What type checkers know of ``configure`` is what it takes."""
    assert list(Options.__annotations__) == [field.name for field in fields(Settings)]


def test_the_table_in_the_docs_is_the_table_in_the_code() -> None:
    """``docs/settings.md`` shows each setting in its three forms, with its default."""
    written = settings_table.DOCUMENT.read_text(encoding="utf-8")
    assert written == settings_table.drawn(), "python tests/settings_table.py writes it anew"


@named
def test_an_example_in_toml_reads_back(setting: Setting) -> None:
    """What the table shows for pyproject.toml is TOML, and says what it should."""
    if not setting.in_pyproject:
        assert callable(setting.example)
        return
    read: Any = tomllib.loads(f"value = {settings_table.toml(setting.example)}")["value"]
    expected = setting.example
    expected = str(expected) if isinstance(expected, Path) else expected
    assert read == (list(expected) if isinstance(expected, tuple) else expected)
