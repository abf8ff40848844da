"""Exceptions, as they are recorded and raised again."""

from __future__ import annotations

import errno
import json
import re
import subprocess
import sys
import textwrap
import traceback
from pathlib import Path
from typing import Any

import msgspec
import openai
import pydantic
import pydantic_core
import pytest

from stepfork._codec import decode, decode_exception, encode, encode_exception, type_name
from stepfork.errors import RecordingDamaged


def through_json(exc: BaseException) -> Any:
    """Encode, write and read JSON, decode."""
    plain, lossy = encode_exception(exc)
    assert not lossy, plain
    return decode_exception(msgspec.json.decode(msgspec.json.encode(plain)))


class OutOfStock(Exception):
    """Its constructor takes what its args do not hold."""

    def __init__(self, sku: str, *, left: int) -> None:
        if getattr(type(self), "closed", False):
            raise AssertionError("__init__ ran")
        super().__init__(f"{sku}: {left} left")
        self.sku, self.left, self.where = sku, left, ("shelf", {left})


class Slotted(ValueError):
    __slots__ = ("code",)
    code: tuple[int, ...]


class TwoFaults(ExceptionGroup[Exception]):
    pass


class Item(pydantic.BaseModel):
    count: int
    name: str = "n"

    @pydantic.field_validator("count")
    @classmethod
    def _check(cls, value: int) -> int:
        if value < 0:
            raise ValueError("negative")
        if value > 100:
            raise pydantic_core.PydanticCustomError("too_many", "not {count} of {{them}}", {"count": value})
        return value


def raised(code: str) -> BaseException:
    """Return what code raises."""
    try:
        exec(code)
    except BaseException as exc:
        return exc
    raise AssertionError(code)


@pytest.mark.parametrize(
    "exc",
    [
        ValueError("bad", 3, ("t",)),
        KeyError("amount"),
        SystemExit(2),
        StopIteration(5),
        KeyboardInterrupt(),
        FileNotFoundError(errno.ENOENT, "No such file", "a.txt"),
        OSError("only text"),
        BlockingIOError(errno.EAGAIN, "later", 7),
        TimeoutError(),
        UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte"),
        UnicodeEncodeError("ascii", "\ud800é", 0, 1, "ordinal not in range"),
        raised("import no_such_module"),
        raised("1 +"),
        raised("no_such_name"),
        raised("None.x"),
        json.JSONDecodeError("Expecting value", "{", 1),
        subprocess.CalledProcessError(1, ["ls"], b"out"),
        ExceptionGroup("two", [ValueError(1), ExceptionGroup("in", [KeyError("k")])]),
        TwoFaults("own", [ValueError(1)]),
        BaseExceptionGroup("base", [KeyboardInterrupt()]),
    ],
    ids=lambda exc: type(exc).__name__,
)
def test_an_exception_comes_back_with_type_args_and_message(exc: BaseException) -> None:
    """What ``except`` and handlers look at is as it was (B32)."""
    back = through_json(exc)
    assert type(back) is type(exc)
    assert str(back) == str(exc)
    assert repr(back) == repr(exc)


def test_what_python_keeps_beside_the_args_comes_back() -> None:
    """errno, file name, exit code, value and positions are attributes of their own."""
    missing = through_json(FileNotFoundError(errno.ENOENT, "No such file", "a", None, "b"))
    assert (missing.errno, missing.strerror, missing.filename, missing.filename2) == (
        2,
        "No such file",
        "a",
        "b",
    )
    assert through_json(SystemExit(7)).code == 7
    assert through_json(StopIteration((1,))).value == (1,)
    assert through_json(BlockingIOError(1, "x", 9)).characters_written == 9
    syntax = through_json(raised("a b"))
    assert (syntax.lineno, syntax.text, syntax.offset) == (1, "a b\n", 3)
    unicode = through_json(UnicodeDecodeError("utf-8", b"a\xff", 1, 2, "why"))
    assert (unicode.object, unicode.start, unicode.end) == (b"a\xff", 1, 2)


def test_a_constructor_of_its_own_does_not_run_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Type, args and attributes come back whatever ``__init__`` wants."""
    plain = encode_exception(OutOfStock("A-17", left=2)).plain
    monkeypatch.setattr(OutOfStock, "closed", True, raising=False)
    back: Any = decode_exception(plain)
    assert type(back) is OutOfStock
    assert (str(back), back.sku, back.left, back.where) == ("A-17: 2 left", "A-17", 2, ("shelf", {2}))


def test_attributes_in_slots_come_back() -> None:
    """A slot of an exception class is state like any other."""
    exc = Slotted("s")
    exc.code = (1,)
    assert through_json(exc).code == (1,)


def chained(how: str) -> BaseException:
    """Return a ValueError raised while a KeyError was handled."""
    return raised(f"""
try:
    raise KeyError("first")
except KeyError as first:
    raise ValueError("second") {how}
""")


def test_the_cause_of_an_exception_comes_back() -> None:
    """The chain that ``raise ... from`` makes tells the same story."""
    back = through_json(chained("from first"))
    assert repr(back.__cause__) == "KeyError('first')"
    assert "direct cause" in "".join(traceback.format_exception(back))


def test_the_context_of_an_exception_comes_back() -> None:
    """What was being handled is kept, and ``from None`` hides it."""
    assert repr(through_json(chained("")).__context__) == "KeyError('first')"
    back = through_json(chained("from None"))
    assert (back.__context__, back.__suppress_context__) == (None, True)


def test_the_notes_of_an_exception_come_back() -> None:
    """Notes are kept in order."""
    exc = ValueError("x")
    exc.add_note("while packing")
    exc.add_note("\ud800")
    assert through_json(exc).__notes__ == ["while packing", "\ud800"]


def test_a_long_chain_is_cut() -> None:
    """A retry loop that chains a thousand exceptions is followed ten links far (B11)."""
    last: BaseException = ValueError(0)
    for number in range(1000):
        following = ValueError(number)
        following.__cause__ = last
        last = following
    back, links = through_json(last), 0
    while back.__cause__ is not None:
        back, links = back.__cause__, links + 1
    assert links == 10


def test_where_it_was_raised_is_said_without_a_folder() -> None:
    """File and line of the project, not of the library below it; the folder is that of one machine (B52)."""
    with pytest.raises(ValueError, match="property name") as caught:
        json.loads("{")
    assert re.fullmatch(r"test_exceptions\.py:\d+", encode_exception(caught.value).plain["at"])

    path, code = "/srv/agent/parse.py", "def parse(text): return int(text)"
    functions: dict[str, Any] = {}
    exec(compile(code, path, "exec"), functions)
    with pytest.raises(ValueError, match="invalid literal") as other:
        functions["parse"]("x")
    assert encode_exception(other.value).plain["at"] == "parse.py:1"


def test_an_exception_that_is_handed_around_does_not_say_where_it_was_raised() -> None:
    """As an argument it is to be found again, wherever the replay raises it."""
    exc = raised("{}['k']")
    assert encode({"error": exc}) == encode({"error": KeyError("k")})


def test_an_exception_is_a_value_like_any_other() -> None:
    """Exceptions gathered in a list come back in it."""
    back = decode(encode([1, OutOfStock("a", left=1)]).plain)
    assert (type(back[1]), back[1].left) == (OutOfStock, 1)


def test_an_exception_with_a_part_that_cannot_be_written_keeps_the_rest() -> None:
    """A connection in an attribute costs a placeholder and nothing more (B11)."""
    exc = OutOfStock("a", left=1)
    exc.handler = lambda: 0  # type: ignore[attr-defined]
    plain, lossy = encode_exception(exc)
    assert lossy
    assert decode_exception(plain).left == 1  # type: ignore[attr-defined]


@pytest.mark.parametrize("mark", ["_stepfork_seen", "_stepfork_served"])
def test_the_marks_of_the_engine_are_not_recorded(mark: str) -> None:
    """Stepfork notes on an exception where it was first seen, and in which replay; that is not part of it."""
    exc = ValueError("x")
    setattr(exc, mark, "handle#1")
    assert encode_exception(exc).plain["attrs"] == {}


def test_a_group_that_holds_itself_in_a_context_comes_back() -> None:
    """An inner exception may have been raised while the group was handled (B11)."""
    inner = ValueError("in")
    group = ExceptionGroup("out", [inner])
    inner.__context__ = group
    back = through_json(group)
    assert back.exceptions[0].__context__ is back


@pytest.mark.parametrize(
    "data",
    [{"count": "x"}, {}, {"count": -1}, {"count": 1000}, {"count": "x", "name": 3}],
    ids=["parsing", "missing", "value error", "custom error", "two"],
)
def test_a_validation_error_of_pydantic_comes_back(data: dict[str, Any]) -> None:
    """The commonest failure, a bad tool argument, has its errors, input and text (B32)."""
    with pytest.raises(pydantic.ValidationError) as caught:
        Item(**data)
    back = through_json(caught.value)
    assert type(back) is pydantic.ValidationError
    assert str(back) == str(caught.value)
    assert [(e["type"], e["loc"], e["msg"], e["input"]) for e in back.errors()] == [
        (e["type"], e["loc"], e["msg"], e["input"]) for e in caught.value.errors()
    ]


def test_an_exception_whose_class_is_not_loaded_stands_in_for_it() -> None:
    """It has the class's name and message, and is caught as the nearest base that is loaded."""
    plain = encode_exception(OutOfStock("A-17", left=2)).plain
    plain |= {"$exception": "gone.shop:OutOfStock", "bases": ["gone.shop:Base", "builtins:LookupError"]}
    back = decode_exception(plain)
    assert isinstance(back, LookupError)
    assert (type_name(type(back)), str(back)) == ("gone.shop:OutOfStock", "A-17: 2 left")
    assert encode_exception(back).plain == plain
    assert type(decode_exception(plain)) is type(back)


def test_an_exception_read_in_another_process_needs_no_import() -> None:
    """Pydantic and the agent's modules are not loaded for it (B77)."""
    with pytest.raises(pydantic.ValidationError) as caught:
        Item()  # type: ignore[call-arg]
    written = msgspec.json.encode([encode_exception(caught.value).plain]).decode()
    code = f"""
        import sys, msgspec
        from stepfork._codec import *
        exc = decode_exception(msgspec.json.decode({written!r})[0])
        assert isinstance(exc, ValueError) and "pydantic_core" not in sys.modules
        print(type_name(type(exc)), str(exc).splitlines()[0])
    """
    env = {"PYTHONPATH": str(Path(__file__).parents[1] / "src")}
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], env=env, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "pydantic_core._pydantic_core:ValidationError 1 validation error for Item"


def test_what_is_no_exception_is_damage() -> None:
    """A recording that claims a call raised a number is not believed (B73)."""
    with pytest.raises(RecordingDamaged):
        decode_exception(5)
    with pytest.raises(RecordingDamaged):
        decode_exception({"$exception": "builtins:ValueError"})


def test_a_status_error_of_an_sdk_comes_back() -> None:
    """Status code, body, headers and the path are there for the agent's retry logic (B32)."""
    import httpx2

    request = httpx2.Request(
        "POST", "https://api.example/v1/chat", headers={"Authorization": "Bearer s"}, content=b"q"
    )
    response = httpx2.Response(429, headers={"retry-after": "7"}, json={"error": 1}, request=request)
    exc = openai.RateLimitError("slow down", response=response, body={"error": 1})
    plain, lossy = encode_exception(exc)
    assert not lossy
    assert "Bearer" not in str(plain)
    back: Any = decode_exception(plain)
    assert type(back) is openai.RateLimitError
    assert (back.status_code, back.body, back.message) == (429, {"error": 1}, "slow down")
    assert (back.response.headers["retry-after"], back.response.json()) == ("7", {"error": 1})
    assert (back.request.method, str(back.request.url)) == ("POST", "/v1/chat")


class VendorError(Exception):
    """As SDKs write them: everything by keyword, an id of the request, a property over the response."""

    def __init__(self, message: str, *, response: Any, body: object) -> None:
        super().__init__(message)
        self.message, self.response, self.body = message, response, body
        self.request_id = response.headers.get("request-id")

    @property
    def status_code(self) -> int:
        return int(self.response.status_code)


class OverloadedError(VendorError):
    pass


def test_an_error_that_hides_its_status_in_a_response_comes_back() -> None:
    """What the agent's retry asks for, status, id and headers, is answered from the recording (B32)."""
    import httpx2

    request = httpx2.Request("POST", "https://api.example/v1/messages")
    response = httpx2.Response(
        529, headers={"request-id": "req-1"}, json={"type": "overloaded"}, request=request
    )
    exc = OverloadedError("overloaded", response=response, body={"type": "overloaded"})
    exc.add_note("third attempt")
    exc.__cause__ = ExceptionGroup("tries", [TimeoutError("1"), ExceptionGroup("more", [exc])])
    back = through_json(exc)
    assert type(back) is OverloadedError
    assert (back.status_code, back.request_id, back.body) == (529, "req-1", {"type": "overloaded"})
    assert back.__notes__ == ["third attempt"]
    again: Any = back.__cause__
    assert again.exceptions[1].exceptions[0] is back
