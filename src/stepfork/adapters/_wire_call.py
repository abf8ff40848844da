"""Begins the call that a request to a model's provider is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from stepfork.adapters._boundary import frame_of
from stepfork.adapters._plain_tools import look, look_for_asked
from stepfork.adapters._wire import Exchange
from stepfork.adapters._wire_serve import Replies

if TYPE_CHECKING:
    from stepfork._calls import Shape
    from stepfork._context import Frame
    from stepfork.adapters._wire_names import Asked


def begun(
    asked: Asked, client: Any, made_in: Frame | None, shape: Shape, sdk: str | None = None
) -> Exchange | Replies | None:
    """Return what records the call or answers it; None where it is to run as if nobody had seen it.

    Raises what a test put in the place of the answer, where that is an error of the SDK or of anybody else.
    """
    if asked.kind == "model":
        look(asked.body)
    frame = frame_of(asked.kind, lambda: (asked.name, asked.arguments), made_in)
    if frame is None:
        return None
    if frame.answer is None:
        return Exchange(frame, client, shape, sdk)
    replies = Replies(frame.answer, client, sdk)
    replies.put_in_form(is_stream=asked.name.endswith(".stream"))
    if asked.kind == "model":
        look_for_asked(asked.body, replies.items, replies.answered, frame.session)
    return replies
