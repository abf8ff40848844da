"""What a request to a provider is called, and what of it is recorded: never headers, keys or hosts."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from stepfork.adapters._wire_body import content_of, form_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from stepfork._calls import Kind

_ASK_A_MODEL: Final = frozenset(
    {
        "audio.speech",
        "audio.transcriptions",
        "audio.translations",
        "chat.completions",
        "complete",
        "completions",
        "embeddings",
        "images.edits",
        "images.generations",
        "images.variations",
        "messages",
        "messages.count_tokens",
        "moderations",
        "responses",
        "responses.compact",
        "responses.input_tokens",
    }
)
"""Endpoints of SDKs that ask a model; what is asked of all others is kept apart by its arguments."""

_WORD: Final = re.compile(r"[a-z_]+")
_VERSION: Final = re.compile(r"v\d+(alpha|beta)?\d*")

ENDPOINT: Final = re.compile(
    r"/(?P<plain>(?:chat|fim)/completions|completions|responses|embeddings|messages(?:/count_tokens)?|moderations"
    r"|complete|rerank|images/(?:generations|edits|variations)|audio/(?:speech|transcriptions|translations)"
    r"|api/(?:chat|generate|embed|embeddings)|v[12]/(?:chat|embed|rerank))$"
    r"|/models/(?P<model>[^/:]+):(?P<verb>(?:stream)?[gG]enerateContent|[eE]mbedContent|batchEmbedContents"
    r"|predict|(?:stream)?[rR]awPredict|countTokens)$"
    r"|/model/(?P<id>[^/]+)/(?P<action>converse(?:-stream)?|invoke(?:-with-response-stream)?)$"
)
"""How the path ends where a model is asked: OpenAI and those like it, Anthropic, Ollama, Cohere, Mistral;
Gemini; Bedrock."""

_DEPLOYMENT: Final = re.compile(r"/deployments/([^/]+)/")


class Asked(NamedTuple):
    """What a request is to a recording."""

    kind: Kind
    name: str
    arguments: Mapping[str, Any]
    body: Mapping[str, Any]
    """The fields of its JSON body."""


def asked_of_sdk(sdk: str, options: Any) -> Asked:
    """Return what the options of a request of the OpenAI or Anthropic SDK ask for."""
    path, _, query = str(options.url).partition("?")
    if "://" in path:
        path = "/" + path.split("://", 1)[1].partition("/")[2]
    parts = [part for part in path.split("/") if part and not _VERSION.fullmatch(part)]
    words = [part for part in parts if _WORD.fullmatch(part)]
    name, method = ".".join(words), str(options.method).lower()
    body = _body_of(options)
    arguments = dict(body)
    if len(words) < len(parts):
        arguments["path"] = "/".join(parts)
    params = {**dict(_query(query)), **_given(getattr(options, "params", None))}
    if params:
        arguments["params"] = plain_json(params)
    files = _given(getattr(options, "files", None))
    if files:
        arguments["files"] = list(_files(files))
    is_model = method == "post" and name in _ASK_A_MODEL
    whole = f"{sdk}.{name}" if method == "post" else f"{sdk}.{name}.{method}"
    return Asked("model" if is_model else "tool", _with_stream(whole, body), arguments, body)


def may_ask(request: Any) -> bool:
    """Whether an HTTP request goes where a model is asked."""
    return request.method == "POST" and ENDPOINT.search(request.url.path) is not None


def asked_of_http(request: Any) -> Asked | None:
    """Return what an HTTP request asks a model for; None for any other."""
    path = request.url.path
    found, content = ENDPOINT.search(path), content_of(request)
    if request.method != "POST" or found is None or content is None:
        return None
    form = form_of(request, content)
    body = _json(content) if form is None else form
    name, model = _named(found)
    if model is None and (deployment := _DEPLOYMENT.search(path)):
        model = deployment.group(1)
    if model is None and "model" not in body:
        return None  # somebody's own chat service has messages too
    arguments = dict(body)
    if model is not None:
        arguments.setdefault("model", model)
    return Asked("model", _with_stream(f"http.{name}", body), arguments, body)


def plain_json(value: Any) -> Any:
    """Return what a JSON body of this becomes: models of pydantic as what they are sent as."""
    try:
        return msgspec.to_builtins(_without_omitted(value), enc_hook=_dumped)
    except Exception:  # the codec knows more kinds of values
        return value


def _without_omitted(value: Any) -> Any:
    """Leave out the arguments that nobody gave, for which SDKs have a value of their own."""
    if type(value) is dict:
        return {name: _without_omitted(part) for name, part in value.items() if not _is_omitted(part)}
    if type(value) is list:
        return [_without_omitted(part) for part in value]
    return value


def _is_omitted(value: Any) -> bool:
    return type(value).__name__ in ("NotGiven", "Omit")


def _dumped(value: Any) -> Any:
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json", by_alias=True, exclude_unset=True)
    raise NotImplementedError


def _with_stream(name: str, body: Mapping[str, Any]) -> str:
    return f"{name}.stream" if body.get("stream") in (True, "true") else name  # a form has texts alone


def _body_of(options: Any) -> dict[str, Any]:
    body = getattr(options, "json_data", None)
    more = _given(getattr(options, "extra_json", None))
    content = getattr(options, "content", None)
    if content is not None:
        return {"body": bytes(content) if isinstance(content, bytes | bytearray) else repr(type(content))}
    if body is None or _is_omitted(body):
        return dict(more)
    body = plain_json(body)
    more = plain_json(more)
    return {**body, **more} if isinstance(body, dict) else {"body": body}


def _given(value: Any) -> Any:
    return value if isinstance(value, dict | list | tuple) else {}


def _query(query: str) -> Iterator[tuple[str, str]]:
    for pair in filter(None, query.split("&")):
        name, _, value = pair.partition("=")
        yield name, value


def _files(files: Any) -> Iterator[dict[str, Any]]:
    for field, file in files.items() if isinstance(files, dict) else files:
        name, content = (file[0], file[1]) if isinstance(file, tuple) else (getattr(file, "name", None), file)
        yield {"field": field, "name": str(name or "").rpartition("/")[2], "content": _read(content)}


def _read(content: Any) -> Any:
    """Return what is in a file that is about to be sent, and leave it where it was."""
    if isinstance(content, bytes | bytearray | str):
        return content
    if hasattr(content, "read") and hasattr(content, "seek"):
        position = content.tell()
        try:
            return content.read()
        finally:
            content.seek(position)
    if hasattr(content, "read_bytes"):
        return content.read_bytes()
    return f"a {type(content).__name__}"


def _json(content: bytes) -> dict[str, Any]:
    try:
        body = msgspec.json.decode(content)
    except (msgspec.DecodeError, ValueError):
        return {}
    return body if isinstance(body, dict) else {"body": body}


def _named(found: re.Match[str]) -> tuple[str, str | None]:
    if found["verb"]:
        return found["verb"], found["model"]
    if found["action"]:
        return found["action"], found["id"]
    return ".".join(part for part in found["plain"].split("/") if not _VERSION.fullmatch(part)), None
