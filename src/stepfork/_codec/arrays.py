"""numpy: arrays, scalars and dtypes. Imported once numpy is loaded by somebody else."""

from __future__ import annotations

from base64 import b64decode, b64encode
from typing import TYPE_CHECKING, Any

import numpy as np

from stepfork._codec.objects import shape_of
from stepfork._codec.types import type_name

if TYPE_CHECKING:
    from stepfork._calls import Plain
    from stepfork._codec.base import Reader, Walk, Writer

LARGEST_LISTED = 10_000
"""Up to this many elements are written one by one, so that a person can read and a rule compare them."""

_AS_NUMBERS = frozenset("biuf")
_AS_PARTS = frozenset("OUST")


def writer_for(cls: type) -> Writer | None:
    """Return what writes a class of numpy; None for one that is not known here."""
    if issubclass(cls, np.ndarray):
        return _write_array if _is_made_by_view(cls) else None
    if issubclass(cls, np.generic):
        return _write_scalar
    if issubclass(cls, np.dtype):
        return _write_dtype
    return None


def _is_made_by_view(cls: type) -> bool:
    """Whether an array can be made one of that class without running code of the user's."""
    hooks = [layer for layer in cls.__mro__ if "__array_finalize__" in vars(layer)]
    return hooks[0].__module__.partition(".")[0] == "numpy" and not issubclass(cls, np.memmap)


def _write_array(value: np.ndarray[Any, Any], walk: Walk) -> Plain:
    plain = {
        "$object": type_name(type(value)),
        "of": "array",
        "state": _write_elements(np.ndarray.view(value, np.ndarray), walk),
    }
    contents = shape_of(type(value)).state_of(value)
    return plain | {"extra": walk.child(contents)} if contents else plain


def _write_scalar(value: np.generic, walk: Walk) -> Plain:
    return {
        "$object": type_name(type(value)),
        "of": "array",
        "state": _write_elements(np.asarray(value), walk),
    }


def _write_dtype(value: np.dtype[Any], walk: Walk) -> Plain:
    return {"$object": "numpy:dtype", "of": "array", "state": {"dtype": walk.child(_description(value))}}


def _write_elements(array: np.ndarray[Any, Any], walk: Walk) -> dict[str, Plain]:
    walk.spend(array.nbytes)
    plain = {"dtype": walk.child(_description(array.dtype)), "shape": list(array.shape)}
    if array.dtype.kind in _AS_PARTS or _is_listed(array):
        return plain | {"elements": walk.child(array.ravel().tolist())}
    if array.dtype.kind == "M" and array.size <= LARGEST_LISTED:
        return plain | {"elements": array.ravel().astype("U").tolist()}
    if array.dtype.hasobject:
        raise ValueError("objects inside of a structured array")
    return plain | {"bytes": b64encode(np.ascontiguousarray(array).tobytes()).decode()}


def _is_listed(array: np.ndarray[Any, Any]) -> bool:
    """Whether JSON's numbers hold the elements exactly and there are not too many."""
    return array.dtype.kind in _AS_NUMBERS and array.dtype.itemsize <= 8 and array.size <= LARGEST_LISTED


def _description(dtype: np.dtype[Any]) -> Any:
    """Return what ``np.dtype`` makes an equal dtype of."""
    if dtype.kind == "T":
        text, plainest = "T", np.dtype("T")
        if dtype != plainest:
            raise ValueError("a text dtype with a value for what is missing")
        return text
    if dtype.subdtype is not None:
        return _description(dtype.subdtype[0]), dtype.subdtype[1]
    if dtype.names is None:
        return dtype.str
    if np.dtype(dtype.descr) == dtype:
        return dtype.descr
    fields = [dtype.fields[name] for name in dtype.names]  # type: ignore[index]
    return {
        "names": list(dtype.names),
        "formats": [_description(field[0]) for field in fields],
        "offsets": [field[1] for field in fields],
        "itemsize": dtype.itemsize,
        "aligned": dtype.isalignedstruct,
    }


def read_array(plain: dict[str, Plain], reader: Reader) -> Any:
    """Return the array, scalar or dtype."""
    state = plain["state"]
    dtype = np.dtype(reader.child(state["dtype"]))
    if "shape" not in state:
        return dtype
    array = _read_elements(state, dtype, reader)
    if plain["$object"] == "numpy:ndarray":
        return array
    cls = reader.classes.find(plain["$object"])
    if cls is not None and issubclass(cls, np.generic):
        return array[()]
    return _as(cls, array, plain, reader)


def _as(cls: type | None, array: np.ndarray[Any, Any], plain: dict[str, Plain], reader: Reader) -> Any:
    if cls is None or not issubclass(cls, np.ndarray) or not _is_made_by_view(cls):
        return reader.stand_in(plain, "its class is not loaded, or cannot be made without running its code")
    made = array.view(cls)
    for name, part in reader.child(plain.get("extra", {})).items():
        shape_of(cls).put(made, name, part)
    return made


def _read_elements(state: dict[str, Plain], dtype: np.dtype[Any], reader: Reader) -> np.ndarray[Any, Any]:
    shape = tuple(state["shape"])
    if "bytes" in state:
        return np.frombuffer(b64decode(state["bytes"], validate=True), dtype).reshape(shape).copy()
    elements = reader.child(state["elements"])
    if dtype.kind != "O":
        return np.array(elements, dtype).reshape(shape)
    array: np.ndarray[Any, Any] = np.empty(len(elements), dtype)
    for index, element in enumerate(elements):  # one by one: an element may itself be a list
        array[index] = element
    return array.reshape(shape)
