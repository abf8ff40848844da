"""What is known of a client's session with an MCP server, and whether it is to reach it."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from stepfork._context import _frame, child_of_replay, current_frame, leave, replay_is_open

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from stepfork._context import Frame

SERVER = "mcp.server"
"""The argument that tells the tools of one server from those of another, of equal names."""

_SERVER_INFO = "io.modelcontextprotocol/serverInfo"


@dataclass(eq=False)
class Connection:
    """One session."""

    place: dict[str, str]
    """Where the server is, as far as that is the same elsewhere."""
    session: Any = field(repr=False)
    named: dict[str, str] = field(default_factory=dict)
    """What the server calls itself."""
    frames: dict[int, Frame] = field(default_factory=dict)
    """The calls under way that are executed, by the number of the request."""
    tools: list[Frame] = field(default_factory=list)
    """Those that are calls of tools: in them a server asks its client back."""
    unsent: list[Callable[[], Any]] = field(default_factory=list)
    """Sends what only the recording has answered so far, and a server must hear first."""
    is_reached: bool = True
    """Whether what it has to hear first was sent."""
    _begun: int = 0

    def learn(self, result: Any) -> None:
        """Note the server's name, from what it answered to the handshake."""
        if isinstance(result, dict):
            info = result.get("serverInfo") or (result.get("_meta") or {}).get(_SERVER_INFO) or {}
            self.named = {SERVER: info["name"]} if isinstance(info, dict) and "name" in info else {}

    async def catch_up(self) -> None:
        """Before the first call that runs live, send what the recording answered."""
        unsent, self.unsent = self.unsent, []
        for send in unsent:
            await send()
        self.is_reached = True

    @property
    def newest(self) -> Frame | None:
        """The call that began last, of those that are executed now."""
        frames = self.tools or list(self.frames.values())
        return frames[-1] if frames else None

    @contextmanager
    def executing(self, frame: Frame, method: str) -> Iterator[None]:
        """Have what is called meanwhile stand below this call."""
        self._begun += 1
        number = getattr(self.session, "_request_id", self._begun)
        self.frames[number] = frame
        tools = [frame] if method == "tools/call" else []
        self.tools += tools
        token = _frame.set(frame)
        try:
            yield
        finally:
            leave(token)
            self.frames.pop(number, None)
            self.tools = [each for each in self.tools if each not in tools]


_NAME = "_stepfork_mcp"


def connection_of(session: Any) -> Connection:
    """Return what is known of this session."""
    known = vars(session).get(_NAME)
    if not isinstance(known, Connection):
        known = vars(session)[_NAME] = Connection(_place_of(session), session)
        known.is_reached = not is_replayed()
        stream = _inner(getattr(session, "_write_stream", None))
        if hasattr(stream, "_state"):
            vars(stream._state)[_NAME] = known
    return known


def connection_to(server_session: Any) -> Connection | None:
    """Return the client's end of a session, where that is in this process too."""
    state = getattr(_inner(getattr(server_session, "_read_stream", None)), "_state", None)
    return None if state is None else vars(state).get(_NAME)


def mark(stream: Any, place: str) -> None:
    """Note on what a session reads from where it leads."""
    vars(_inner(stream))[_NAME] = place


def _place_of(session: Any) -> dict[str, str]:
    stream = getattr(session, "_read_stream", None) or getattr(
        getattr(session, "_dispatcher", None), "_read_stream", None
    )
    place = getattr(_inner(stream), _NAME, None)
    return {SERVER: place} if isinstance(place, str) else {}


def _inner(stream: Any) -> Any:
    while hasattr(stream, "_inner"):
        stream = stream._inner
    return stream


def is_replayed() -> bool:
    """Whether what runs here is replayed, and so is to reach nothing."""
    frame = _frame.get()
    if frame is None or not frame.session.is_open:
        if not replay_is_open():
            return child_of_replay or (frame is not None and frame.session.is_replay)
        frame = current_frame()
    return frame is not None and frame.session.is_replay and not runs_live(frame)


def runs_live(frame: Frame | None) -> bool:
    """Whether this call of a replay, or the one that is under way here, is really made."""
    frame = frame or _frame.get()
    return bool(getattr(frame, "is_live", False))
