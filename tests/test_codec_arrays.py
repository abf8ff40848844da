"""Arrays of numpy and tables of pandas."""

from __future__ import annotations

import datetime as dt
import math
import zoneinfo
from typing import Any

import msgspec
import numpy as np
import pandas as pd
import pytest

from codec_values import run_python, through_json
from stepfork._codec import Opaque, decode, encode, type_name


@pytest.mark.parametrize(
    "array",
    [
        np.arange(6.0).reshape(2, 3),
        np.array([1, 2], ">i2"),
        np.array([2**63], np.uint64),
        np.array(["é", "x"]),
        np.array([b"a\x00b"]),
        np.array([1 + 2j]),
        np.array([[1, "a"], [None, (2,)]], object),
        np.zeros(20_000, np.float32),
        np.array([(1, 2.0)], dtype=[("a", "i4"), ("b", "f8")]),
        np.array(3),
        np.zeros((0, 3)),
        np.array(["2026-11-30"], "M8[D]"),
        np.arange(4)[::2],
        np.array(["2026-11-30", "NaT"], "M8[s]"),
        np.array([3, 4], "m8[ms]"),
        np.array(["a", "bcd"], np.dtypes.StringDType()),
        np.zeros(2, np.dtype([("a", "i1"), ("b", "f8")], align=True)),
        np.zeros(2, np.dtype([("a", "i1", (2,)), ("b", [("c", "f8")])])),
        np.asfortranarray(np.ones((2, 3))),
    ],
    ids=lambda array: f"{array.dtype}",
)
def test_an_array_comes_back_with_its_dtype_and_shape(array: Any) -> None:
    """Arrays of numbers, text, objects and records are brought back exactly (B32)."""
    back = through_json({"array": array})["array"]
    assert (back.dtype, back.shape) == (array.dtype, array.shape)
    assert np.array_equal(back, array, equal_nan=array.dtype.kind in "fcM")
    assert back.flags.writeable


class Measured(np.ndarray):
    """An array of the user's, with an attribute."""


class Acting(np.ndarray):
    """An array of the user's that runs code whenever one is made."""

    def __array_finalize__(self, other: Any) -> None:
        raise AssertionError("__array_finalize__ ran")


def test_an_array_of_another_class_comes_back_as_that() -> None:
    """Matrices, record arrays, masked arrays and the user's own keep class and attributes (B32)."""
    measured = np.arange(3).view(Measured)
    measured.unit = "m"  # type: ignore[attr-defined]
    assert (type(back := through_json(measured)), back.unit, list(back)) == (Measured, "m", [0, 1, 2])
    records = np.rec.array([(1, 2.0)], dtype=[("a", "i4"), ("b", "f8")])
    assert (type(back := through_json(records)), back.b[0]) == (np.recarray, 2.0)
    masked = np.ma.array([1, 2], mask=[False, True], fill_value=7)
    back = through_json(masked)
    assert (type(back), back.fill_value, back.tolist()) == (np.ma.MaskedArray, 7, [1, None])


def test_no_code_of_an_arrays_class_runs() -> None:
    """An array whose class acts when one is made is a placeholder (B77)."""
    assert encode(np.ndarray.__new__(Measured, 2)).lossy is False
    state = encode(np.arange(2)).plain["state"]
    back = decode({"$object": type_name(Acting), "of": "array", "state": state})
    assert isinstance(back, Opaque)


ZONED = ["2026-01-01", None]
COLUMNS: dict[str, Any] = {
    "int": [1, 2],
    "float": [1.5, math.nan],
    "text": ["x", None],
    "object": [{"a": (1,)}, [1]],
    "text as objects": np.array(["x", "y"], object),
    "bool": [True, False],
    "small": np.array([1, 2], "u1"),
    "complex": [1 + 2j, 0],
    "instant": pd.to_datetime(ZONED),
    "zoned": pd.to_datetime(ZONED).tz_localize("Europe/Berlin"),
    "duration": pd.to_timedelta(["1s", None]),
    "categorical": pd.Categorical(["a", None], categories=["b", "a"], ordered=True),
    "Int64": pd.array([1, None], dtype="Int64"),
    "boolean": pd.array([True, None], dtype="boolean"),
    "Float32": pd.array([1.0, None], dtype="Float32"),
    "string": pd.array(["a", None], dtype="string"),
    "period": pd.period_range("2026-01", periods=2, freq="M"),
    "interval": pd.interval_range(0, 2),
    "sparse": pd.arrays.SparseArray([0.0, 1.0]),
}


@pytest.mark.parametrize("name", COLUMNS)
def test_a_column_comes_back_with_its_dtype(name: str) -> None:
    """Numbers, text, instants with a zone, categoricals, what is missing: all is as it was (B31, B32)."""
    frame = pd.DataFrame({name: COLUMNS[name]})
    back = through_json(frame)
    pd.testing.assert_frame_equal(back, frame, check_exact=True)
    assert list(back.dtypes) == list(frame.dtypes)
    pd.testing.assert_series_equal(through_json(frame[name]), frame[name], check_exact=True)


@pytest.mark.parametrize(
    "frame",
    [
        pd.DataFrame(),
        pd.DataFrame(index=[1, 2]),
        pd.DataFrame(columns=["a"]),
        pd.DataFrame({1: [1], "1": [2]}),
        pd.DataFrame([[1, 2]], columns=["a", "a"]),
        pd.DataFrame({"a": [1]}, index=pd.MultiIndex.from_tuples([(1, "x")], names=["k", None])),
        pd.DataFrame({"a": range(20_000)}, index=pd.date_range("2026", periods=20_000, freq="h", tz="UTC")),
    ],
    ids=["empty", "no columns", "no rows", "mixed names", "twice", "two levels", "large"],
)
def test_a_frame_comes_back_with_its_index_and_columns(frame: pd.DataFrame) -> None:
    """Names of columns, levels of the index and its frequency are part of a frame (B32)."""
    frame.attrs["source"] = ("db", 1)
    back = through_json(frame)
    pd.testing.assert_frame_equal(back, frame, check_exact=True, check_freq=True)
    assert back.attrs == {"source": ("db", 1)}


@pytest.mark.parametrize(
    "index",
    [
        pd.Index([1, 2]),
        pd.RangeIndex(3, name="n"),
        pd.date_range("2026", periods=3, freq="D"),
        pd.date_range("2026", periods=3, tz="Europe/Berlin"),
        pd.timedelta_range("1s", periods=2),
        pd.period_range("2026", periods=2),
        pd.IntervalIndex.from_breaks([0, 1, 2]),
        pd.CategoricalIndex(["a"]),
        pd.Index(["a", 1.5, None], dtype=object),
        pd.MultiIndex.from_product([[1, 2], pd.date_range("2026", periods=2, tz="UTC")]),
    ],
    ids=lambda index: type(index).__name__,
)
def test_an_index_comes_back_as_its_own_kind(index: Any) -> None:
    """Each kind of index keeps its class, dtype, name and frequency (B32)."""
    back = through_json(index)
    pd.testing.assert_index_equal(back, index, exact=True)
    assert getattr(back, "freq", None) == getattr(index, "freq", None)


@pytest.mark.parametrize(
    "value",
    [
        pd.Timestamp("2026-01-01 00:00:00.123456789"),
        pd.Timestamp("2026-01-01", tz="Europe/Berlin"),
        pd.Timestamp(dt.datetime(2026, 10, 25, 2, 30, fold=1, tzinfo=zoneinfo.ZoneInfo("Europe/Berlin"))),
        pd.Timestamp("2026-01-01", tz=dt.timezone(dt.timedelta(hours=2))),
        pd.Timedelta("1s"),
        pd.Timedelta(3, "ns"),
        pd.Period("2026-01", "M"),
        pd.Interval(0, 1, "both"),
    ],
    ids=lambda value: str(value),
)
def test_a_scalar_of_pandas_comes_back(value: Any) -> None:
    """Instants keep nanoseconds, unit, zone and fold (B32)."""
    back = through_json(value)
    assert (type(back), back) == (type(value), value)
    for detail in ("unit", "tz", "fold", "freq", "closed"):
        assert getattr(back, detail, None) == getattr(value, detail, None)


def test_what_is_missing_in_pandas_is_that_very_object() -> None:
    """NaT and NA are compared by identity (B31)."""
    back = through_json([pd.NaT, pd.NA])
    assert back[0] is pd.NaT
    assert back[1] is pd.NA


def test_a_frame_of_a_derived_class_is_a_placeholder() -> None:
    """What a library adds to a frame is not known here, so no half of it is recorded."""

    class Places(pd.DataFrame):  # type: ignore[misc]
        pass

    assert encode(Places({"a": [1]})).lossy


def test_a_frame_read_without_pandas_is_a_stand_in() -> None:
    """Reading a recording imports no library (B77)."""
    plain = msgspec.json.encode(encode(pd.DataFrame({"a": [1]})).plain).decode()
    output = run_python(
        f"""
        import sys, msgspec
        from stepfork._codec import *
        plain = msgspec.json.decode({plain!r})
        frame = decode(plain)
        assert encode(frame) == (plain, False) and "pandas" not in sys.modules and "numpy" not in sys.modules
        print(frame)
        """
    )
    assert "stand-in for pandas:DataFrame" in output
