"""pandas: frames, series, indexes, arrays and scalars. Imported once pandas is loaded by somebody else.

A column is written as what numpy or pandas has it as: an array of numpy, a categorical, an instant with
its time zone, or a dtype with the elements one by one. Importing this registers the classes.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import numpy as np

from stepfork._codec.registry import register

if TYPE_CHECKING:
    from stepfork._codec.registry import Pair

pd: Any = sys.modules["pandas"]


def _values(array: Any) -> Any:
    """Return what an array of pandas holds, of classes that can be written."""
    dtype = array.dtype
    if isinstance(dtype, np.dtype) or type(array) is pd.arrays.NumpyExtensionArray:
        return array.to_numpy()
    if isinstance(dtype, pd.CategoricalDtype):
        return array
    if isinstance(dtype, pd.DatetimeTZDtype):
        return pd.DatetimeIndex(array).tz_convert("UTC").tz_localize(None).to_numpy(), dtype.tz
    if pd.api.types.pandas_dtype(str(dtype)) != dtype:
        raise ValueError(f"the dtype {dtype} is more than its name says")
    return str(dtype), array.to_numpy(object).tolist()


def _array(values: Any) -> Any:
    """Undo :func:`_values`."""
    if not isinstance(values, tuple):
        return values
    first, second = values
    if isinstance(first, str):
        return pd.array(second, dtype=pd.api.types.pandas_dtype(first))
    return pd.DatetimeIndex(first).tz_localize("UTC").tz_convert(second).array


def _frame_parts(frame: Any) -> dict[str, Any]:
    columns = [_values(frame.iloc[:, place].array) for place in range(frame.shape[1])]
    parts = {"columns": frame.columns, "index": frame.index, "values": columns}
    return parts | {"attrs": frame.attrs} if frame.attrs else parts


def _frame(parts: dict[str, Any]) -> Any:
    index = parts["index"]
    columns = {place: _as_series(values, index) for place, values in enumerate(parts["values"])}
    frame = pd.DataFrame(columns, index=index)
    frame.columns = parts["columns"]
    frame.attrs.update(parts.get("attrs", {}))
    return frame


def _as_series(values: Any, index: Any) -> Any:
    array = _array(values)
    return pd.Series(array, index=index, dtype=array.dtype)


def _series_parts(series: Any) -> dict[str, Any]:
    parts = {"name": series.name, "index": series.index, "values": _values(series.array)}
    return parts | {"attrs": series.attrs} if series.attrs else parts


def _series(parts: dict[str, Any]) -> Any:
    series = _as_series(parts["values"], parts["index"])
    series.name = parts["name"]
    series.attrs.update(parts.get("attrs", {}))
    return series


def _index_parts(index: Any) -> dict[str, Any]:
    parts = {"name": index.name, "values": _values(index.array)}
    if isinstance(index, pd.DatetimeIndex | pd.TimedeltaIndex) and index.freqstr:
        parts["freq"] = index.freqstr
    return parts


def _index(parts: dict[str, Any]) -> Any:
    array = _array(parts["values"])
    index = pd.Index(array, dtype=array.dtype, name=parts["name"])
    return type(index)(index, freq=parts["freq"]) if "freq" in parts else index


def _range_parts(index: Any) -> list[Any]:
    return [index.start, index.stop, index.step, index.name]


def _range(parts: list[Any]) -> Any:
    start, stop, step, name = parts
    return pd.RangeIndex(start, stop, step, name=name)


def _multi_parts(index: Any) -> dict[str, Any]:
    levels = [index.get_level_values(place) for place in range(index.nlevels)]
    return {"names": list(index.names), "levels": levels}


def _multi(parts: dict[str, Any]) -> Any:
    return pd.MultiIndex.from_arrays(parts["levels"], names=parts["names"])


def _categorical_parts(value: Any) -> list[Any]:
    return [value.codes, value.categories, value.ordered]


def _categorical(parts: list[Any]) -> Any:
    codes, categories, ordered = parts
    return pd.Categorical.from_codes(codes, categories=categories, ordered=ordered)


def _instant_parts(instant: Any) -> list[Any]:
    if instant.tz is None:
        return [instant.to_datetime64(), None]
    return [instant.tz_convert("UTC").tz_localize(None).to_datetime64(), instant.tz]


def _instant(parts: list[Any]) -> Any:
    instant, zone = pd.Timestamp(parts[0]), parts[1]
    return instant if zone is None else instant.tz_localize("UTC").tz_convert(zone)


def _period_parts(period: Any) -> list[Any]:
    return [period.ordinal, period.freqstr]


def _period(parts: list[Any]) -> Any:
    return pd.Period(ordinal=parts[0], freq=parts[1])


def _interval_parts(interval: Any) -> list[Any]:
    return [interval.left, interval.right, interval.closed]


def _only(value: object) -> Pair:
    return lambda it: None, lambda parts: value


def _register_all() -> None:
    register(pd.DataFrame, _frame_parts, _frame)
    register(pd.Series, _series_parts, _series)
    for cls in (pd.Index, pd.DatetimeIndex, pd.TimedeltaIndex, pd.PeriodIndex, pd.IntervalIndex):
        register(cls, _index_parts, _index)
    register(pd.CategoricalIndex, _index_parts, _index)
    register(pd.RangeIndex, _range_parts, _range)
    register(pd.MultiIndex, _multi_parts, _multi)
    register(pd.Categorical, _categorical_parts, _categorical)
    register(pd.Timestamp, _instant_parts, _instant)
    register(pd.Timedelta, lambda delta: delta.to_timedelta64(), pd.Timedelta)
    register(pd.Period, _period_parts, _period)
    register(pd.Interval, _interval_parts, lambda parts: pd.Interval(*parts))
    register(type(pd.NaT), *_only(pd.NaT))
    register(type(pd.NA), *_only(pd.NA))


_register_all()
