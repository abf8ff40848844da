"""numpy: arrays, scalars and dtypes. Imported once numpy is loaded by somebody else."""

from __future__ import annotations

from base64 import b64decode, b64encode
from typing import TYPE_CHECKING, Any

import numpy as np

from stepfork._codec.types import type_name

if TYPE_CHECKING:
    from stepfork._calls import Plain
    from stepfork._codec.base import Reader, Walk, Writer

LARGEST_LISTED = 10_000
"""Up to this many elements are written one by one, so that a person can read and a rule compare them."""

_AS_NUMBERS = frozenset("biuf")
_AS_PARTS = frozenset("OUS")


def writer_for(cls: type) -> Writer | None:
    """Return what writes a class of numpy; None for one that is not known here."""
    if cls is np.ndarray:
        return _write_array
    if issubclass(cls, np.generic):
        return _write_scalar
    if issubclass(cls, np.dtype):
        return _write_dtype
    return None


def _write_array(value: np.ndarray[Any, Any], walk: Walk) -> Plain:
    return {"$object": "numpy:ndarray", "of": "array", "state": _write_elements(value, walk)}


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
    if array.dtype.hasobject:
        raise ValueError("objects inside of a structured array")
    return plain | {"bytes": b64encode(np.ascontiguousarray(array).tobytes()).decode()}


def _is_listed(array: np.ndarray[Any, Any]) -> bool:
    """Whether Python's numbers hold the elements exactly and there are not too many."""
    return array.dtype.kind in _AS_NUMBERS and array.dtype.itemsize <= 8 and array.size <= LARGEST_LISTED


def _description(dtype: np.dtype[Any]) -> Any:
    return dtype.str if dtype.names is None else dtype.descr


def read_array(plain: dict[str, Plain], reader: Reader) -> Any:
    """Return the array, scalar or dtype."""
    state = plain["state"]
    dtype = np.dtype(reader.child(state["dtype"]))
    if "shape" not in state:
        return dtype
    array = _read_elements(state, dtype, reader)
    return array if plain["$object"] == "numpy:ndarray" else array[()]


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
