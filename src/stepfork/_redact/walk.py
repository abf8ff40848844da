"""The walk that redacts one value: which of its texts are secret, and which are merely looked into."""

from __future__ import annotations

import re
from collections import deque
from typing import TYPE_CHECKING, Any, Final, Protocol

from stepfork._mutation import attribute_of, is_change
from stepfork._plain import SET_TAGS, canonical, tag
from stepfork._redact.match import BYTES_TAGS, based, raw
from stepfork._redact.parameters import is_credential, is_query

if TYPE_CHECKING:
    from stepfork._calls import Plain
    from stepfork._redact.names import Names

__all__ = ["FIXED_TAGS", "NAME_TAGS", "SCALAR_TAGS", "Walk"]

# The text of these is the name of a class: no rule may touch it.
NAME_TAGS: Final = frozenset({"$object", "$exception", "$opaque"})
_OPTION: Final = re.compile(r"--[A-Za-z][A-Za-z0-9_-]*")
_TAG: Final = re.compile(r"\$[a-z]+")
FIXED_TAGS: Final = frozenset({"$ref", "$enum", "$global"})
SCALAR_TAGS: Final = frozenset(
    {"$int", "$float", "$complex", "$datetime", "$date", "$time", "$timedelta", "$decimal", "$uuid"}
)
_SCHEMA_WORDS: Final = frozenset(
    {"type", "title", "description", "default", "const", "enum", "examples", "format", "pattern", "items"}
    | {"properties", "required", "anyOf", "oneOf", "allOf", "minLength", "maxLength", "minimum", "maximum"}
    | {"additionalProperties", "nullable", "deprecated", "readOnly", "writeOnly", "$$ref"}
)
_SCHEMA_SIGNS: Final = frozenset({"anyOf", "oneOf", "allOf", "$$ref"})
_SCHEMA_TYPES: Final = frozenset({"string", "number", "integer", "object", "array", "boolean", "null"})
_SCHEMA_VALUES: Final = frozenset({"default", "const", "examples"})
_QUERY: Final = "?"
"""In place of a label: these are the parameters of a URL's query, of which some may be credentials."""


class _Rewriter(Protocol):
    def text(self, text: str) -> str: ...
    def content(self, data: bytes) -> bytes: ...
    def hide(self, secret: bytes, label: str) -> bytes: ...


class Walk:
    """One walk over one value. Not recursive: a container is copied when it is met and rewritten later.

    A *label* is the name under which a value was found to be secret as a whole; empty if it was not.
    """

    def __init__(self, rewriter: _Rewriter, names: Names) -> None:
        self._rewriter = rewriter
        self._names = names
        self._left: deque[tuple[Any, str]] = deque()
        self._sets: list[list[Any]] = []
        self._texts: dict[str, str] = {}
        self.changed = False

    def run(self, plain: Plain) -> Plain:
        """Return a copy of ``plain`` without secrets; ``changed`` tells whether it differs."""
        result = self._visit(plain, "")
        while self._left:
            container, label = self._left.popleft()
            if type(container) is list:
                self._rewrite_list(container, label)
            else:
                self._rewrite_dict(container, label)
        for members in reversed(self._sets):
            members.sort(key=canonical)
        return result

    def _visit(self, value: Plain, label: str) -> Plain:
        kind = type(value)
        if kind is list:
            return self._later(list(value), label)
        if kind is dict:
            return self._visit_dict(value, label)
        label = "" if label == _QUERY else label
        if kind is str:
            return self._text(value, label)
        return self._hidden(str(value), label) if label and (kind is int or kind is float) else value

    def _later(self, container: Any, label: str) -> Any:
        self._left.append((container, label))
        return container

    def _visit_dict(self, value: dict[str, Any], label: str) -> Plain:
        name = tag(value)
        if label == _QUERY and (name in BYTES_TAGS or name in SCALAR_TAGS):
            label = ""
        if name in BYTES_TAGS:
            return self._bytes(value, str(name), label)
        if name in SCALAR_TAGS:
            return self._hidden(str(value[str(name)]), label) if label else value
        return value if name in FIXED_TAGS else self._later(dict(value), label)

    def _text(self, text: str, label: str) -> str:
        if label:
            return self._hidden(text, label)
        new = self._texts.get(text)
        if new is None:
            new = self._texts[text] = self._rewriter.text(text)
        self.changed |= new != text
        return new

    def _hidden(self, text: str, label: str) -> str:
        hidden = self._rewriter.hide(text.encode("utf-8", "surrogatepass"), label)
        new = hidden.decode("utf-8", "surrogatepass")
        self.changed |= new != text
        return new

    def _bytes(self, value: dict[str, Any], name: str, label: str) -> dict[str, Any]:
        data = raw(value[name])
        new = self._rewriter.hide(data, label) if label else self._rewriter.content(data)
        if new == data:
            return value
        self.changed = True
        return {**value, name: based(new)}

    def _rewrite_list(self, items: list[Any], label: str) -> None:
        if is_change(items):
            label = label or next(filter(None, map(self._secret_in, items[1])), "")
            keys = [step if attribute_of(step) else self._visit(step, "") for step in items[1]]
            items[1:] = [keys, *(self._visit(item, label) for item in items[2:])]
        elif len(items) == 2 and (secret := self._paired(items, label)):
            items[:] = [self._visit(items[0], ""), self._visit(items[1], secret)]
        else:
            labels = [label or self._argument(items, index) for index in range(len(items))]
            items[:] = [self._visit(item, known) for item, known in zip(items, labels, strict=True)]

    def _argument(self, items: list[Any], index: int) -> str:
        """Return the label of a value behind its option, as in ``["--password", ...]``."""
        option, value = items[index - 1] if index else None, items[index]
        if type(option) is not str or type(value) is not str or option[:1] != "-" or value[:1] == "-":
            return ""
        if _OPTION.fullmatch(option) and (secret := self._names.secret(option[2:])):
            return secret
        is_login = option in ("-u", "--user") and ":" in value and type(items[0]) is str
        return "login" if is_login and "curl" in items[0] else ""

    def _secret_in(self, step: Plain) -> str:
        """Return the label of one step of the path of a change."""
        name = attribute_of(step) or self._name_of(step)
        return self._names.secret(name) or ""

    def _paired(self, items: list[Any], label: str) -> str:
        """Return the label of the second of a pair, where that follows from the first alone."""
        if label == _QUERY:
            return self._parameter(items[0], items[1])
        return "" if label else self._header(items[0])

    def _parameter(self, name: Plain, value: Plain) -> str:
        """Return the label of a parameter of a query: ``{"key": ...}``, ``("sig", ...)``."""
        text = self._name_of(name)
        if type(value) is list and value:
            value = value[0]
        if type(value) is str and is_credential(text, value):
            return "url-parameter"
        return self._names.secret(text) or ""

    def _header(self, name: Plain) -> str:
        """Return the label of a header that holds a secret, given as in ``[("authorization", ...)]``."""
        text = self._name_of(name)
        is_header = "-" in text or text.lower() in ("authorization", "cookie")
        return (self._names.secret(text) or "") if is_header else ""

    @staticmethod
    def _name_of(key: Plain) -> str:
        if type(key) is str:
            return key
        return raw(key["$bytes"]).decode("utf-8", "replace") if tag(key) == "$bytes" else ""

    def _rewrite_dict(self, items: dict[str, Any], label: str) -> None:
        name = tag(items)
        if name == "$dict":
            items[name] = [self._rewrite_pair(pair, label) for pair in items[name]]
            return
        labels = {key: self._label_of(key, items, label) for key in items}
        for key, value in items.items():
            if key != name or name not in NAME_TAGS:
                items[key] = self._visit(value, labels[key])
        if name in SET_TAGS:
            self._sets.append(items[str(name)])
        elif name is None or not _TAG.fullmatch(name):
            self._rewrite_keys(items)

    def _rewrite_pair(self, pair: list[Any], label: str) -> list[Any]:
        key, value = pair
        known = self._parameter(key, value) if label == _QUERY else label
        secret = known or self._names.secret(self._name_of(key)) or ""
        return [self._visit(key, ""), self._visit(value, secret)]

    def _rewrite_keys(self, items: dict[str, Any]) -> None:
        keys = {key: self._text(key, "") for key in items}
        if any(new != key for key, new in keys.items()):
            pairs = list(items.items())
            items.clear()
            for key, value in pairs:
                new = keys[key]
                while new in items:  # two spellings of one secret, of the same length
                    new += "*"
                items[new] = value

    def _label_of(self, key: str, items: dict[str, Any], label: str) -> str:
        if label == _QUERY:
            if tag(items) is not None or key == "_dict":  # of a library's own class for them
                return _QUERY
            return self._parameter(key, items[key]) or self._label_of(key, items, "")
        if label:
            return label if key in _SCHEMA_VALUES or not _is_schema(items) else ""
        value = items[key]
        secret = self._names.secret(key)
        if secret is None:
            return _QUERY if is_query(key) else self._named_beside(items) if key == "value" else ""
        is_logprob = secret == "token" and "logprob" in items
        is_folder = secret == "pwd" and type(value) is str and value.startswith(("/", "~"))
        return "" if is_logprob or is_folder else secret

    def _named_beside(self, items: dict[str, Any]) -> str:
        """Return the label of ``{"name": "api_key", "value": ...}``."""
        for key in ("name", "key"):
            if type(name := items.get(key)) is str:
                return self._names.secret(name) or ""
        return ""


def _is_schema(items: dict[str, Any]) -> bool:
    """Whether this describes a parameter that is called ``token``, and is no token."""
    if not items.keys() <= _SCHEMA_WORDS:
        return False
    kind = items.get("type")
    return bool(items.keys() & _SCHEMA_SIGNS) or (type(kind) is str and kind in _SCHEMA_TYPES)
