"""What a graph's thread had saved before: read once in a run, as any other look into a database.

A test has no such database: in a replay every checkpointer is an empty one in memory, into which goes what
was recorded. What the graph saves from then on it finds again there.
"""

from __future__ import annotations

from contextlib import aclosing, suppress
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from stepfork._context import busy, current_frame
from stepfork._served import served, served_later
from stepfork._unopened_run import recording_session
from stepfork._watch import executed, executed_later
from stepfork.adapters._boundary import frame_of, tell

if TYPE_CHECKING:
    from collections.abc import Mapping

    from stepfork._context import Frame, Session
    from stepfork.adapters._patches import Patches

_READERS = ("get_state", "get_state_history", "update_state", "bulk_update_state")
"""Methods of a graph that look at a thread, or change it, without running it; each has an async twin."""

_NAME = "langgraph.thread"

_MOST = 100
"""So many checkpoints are looked through for those of subgraphs."""


class _Known:
    """What one run, or one replay, has seen of threads."""

    def __init__(self, session: Any) -> None:
        self.threads: set[tuple[int, str]] = set()
        self.is_told = not session.is_replay or any(
            call.name == _NAME for call in session.recording.run.walk()
        )
        """Whether there are looks into threads; a graph that had no checkpointer begins with none saved."""
        self.memories: dict[int, tuple[Any, Any]] = {}
        """Of each checkpointer the one that stands for it in a replay; it is held, its id is the key."""


_known: WeakKeyDictionary[Session, _Known] = WeakKeyDictionary()


def watch_savers(graph: Any, patches: Patches) -> None:
    """See to it that whoever asks a graph's thread finds what is recorded of it."""
    patches.put(graph, "checkpointer", _Checkpointer(getattr(graph, "checkpointer", None)))
    for name in _READERS:
        patches.wrap(graph, name, _look)
        patches.wrap(graph, f"a{name}", _alook_over if name == "get_state_history" else _alook)


class _Checkpointer:
    """The attribute of a graph: in a replay, what stands for its checkpointer."""

    def __init__(self, default: Any) -> None:
        self._default = default

    def __get__(self, graph: Any, owner: type) -> Any:
        if graph is None:
            return self._default
        saver = vars(graph).get("checkpointer", self._default)
        if not busy or not _is_saver(saver):
            return saver
        frame: Any = current_frame()
        if frame is None or not frame.session.is_replay or getattr(frame, "is_live", False):
            return saver
        return _memory_for(saver, frame.session)

    def __set__(self, graph: Any, saver: Any) -> None:
        vars(graph)["checkpointer"] = saver


def _is_saver(value: Any) -> bool:
    return value is not None and not isinstance(value, bool)


def _known_of(session: Session) -> _Known:
    known = _known.get(session)
    if known is None:
        known = _known[session] = _Known(session)
    return known


def _memory_for(saver: Any, session: Session) -> Any:
    from langgraph.checkpoint.memory import InMemorySaver

    memories = _known_of(session).memories
    if id(saver) not in memories:
        memories[id(saver)] = saver, InMemorySaver()
    return memories[id(saver)][1]


# -- looking into a thread


def load(graph: Any, config: Any) -> None:
    """Record what the thread had saved, or have it there again; once in a run."""
    look = _Look.at(graph, config)
    frame = None if look is None else look.begun()
    if look is None or frame is None:
        return
    if frame.answer is not None:
        look.restore(frame, served(frame.answer))
        return
    try:
        found = executed(frame, look.found)
    except Exception:  # the graph will see for itself
        return
    tell(frame, found, _newest_of_each)


async def aload(graph: Any, config: Any) -> None:
    """Do the same where the checkpointer may be one for coroutines only."""
    look = _Look.at(graph, config)
    frame = None if look is None else look.begun()
    if look is None or frame is None:
        return
    if frame.answer is not None:
        look.restore(frame, await served_later(frame.answer))
        return
    try:
        found = await executed_later(frame, look.afound)
    except Exception:  # the graph will see for itself
        return
    tell(frame, found, _newest_of_each)


class _Look:
    """A look into a thread of a checkpointer."""

    def __init__(self, graph: Any, saver: Any, conf: Mapping[str, Any], key: tuple[int, str]) -> None:
        self._graph = graph
        self._saver = saver
        self._key = key
        self._thread = conf["thread_id"]
        self._checkpoint = conf.get("checkpoint_id")

    @classmethod
    def at(cls, graph: Any, config: Any) -> _Look | None:
        """Return the look that is due now; None where nothing is recorded, or all is known already."""
        if not busy:
            return None
        frame: Any = current_frame()
        saver, conf = vars(graph).get("checkpointer"), _configurable(graph, config)
        if frame is None or not _is_saver(saver) or "thread_id" not in conf or _LENT in conf:
            return None
        spec = getattr(frame, "spec", None)
        if spec is not None and spec.kind != "step":
            return None
        known = _known_of(recording_session(frame.session))
        key = id(saver), str(conf["thread_id"])
        if key in known.threads or not known.is_told:
            return None
        known.threads.add(key)
        return cls(graph, saver, conf, key)

    def begun(self) -> Frame | None:
        """Return the frame of this call."""
        asked = {"thread_id": self._thread}
        if self._checkpoint is not None:
            asked["checkpoint_id"] = self._checkpoint
        frame = frame_of("tool", lambda: (_NAME, asked))
        if frame is not None:  # it may have opened the run
            _known_of(frame.session).threads.add(self._key)
        return frame

    def found(self) -> list[Any]:
        """Return what is needed to go on from here: the newest checkpoint, and those of its subgraphs."""
        newest = self._saver.get_tuple(self._where)
        if newest is None:
            return []
        found = [newest]
        if self._has_subgraphs(newest):
            with suppress(NotImplementedError):  # some checkpointers cannot; then the newest is all there is
                found += self._saver.list(self._everywhere, limit=_MOST)
        return found

    async def afound(self) -> list[Any]:
        """Do the same with a checkpointer for coroutines."""
        newest = await self._saver.aget_tuple(self._where)
        if newest is None:
            return []
        found = [newest]
        if self._has_subgraphs(newest):
            with suppress(NotImplementedError):
                found += [each async for each in self._saver.alist(self._everywhere, limit=_MOST)]
        return found

    def restore(self, frame: Any, saved: list[dict[str, Any]]) -> None:
        """Put what was recorded into the checkpointer of this replay."""
        memory = _memory_for(self._saver, frame.session)
        for each in saved:
            where = {"thread_id": self._thread, "checkpoint_ns": each["ns"], "checkpoint_id": each["parent"]}
            checkpoint = each["checkpoint"]
            memory.put({"configurable": where}, checkpoint, each["metadata"], checkpoint["channel_versions"])
            where["checkpoint_id"] = checkpoint["id"]
            for task, channel, value in each["writes"]:
                memory.put_writes({"configurable": where}, [(channel, value)], task)

    @property
    def _where(self) -> Any:
        where = {"thread_id": self._thread, "checkpoint_ns": ""}
        if self._checkpoint is not None:
            where["checkpoint_id"] = self._checkpoint
        return {"configurable": where}

    @property
    def _everywhere(self) -> Any:
        return {"configurable": {"thread_id": self._thread}}

    def _has_subgraphs(self, newest: Any) -> bool:
        """Whether more belongs to it: subgraphs that wait for an answer, or that remember."""
        if any(channel == "__interrupt__" for _, channel, _ in newest.pending_writes or ()):
            return True
        nodes = getattr(self._graph, "nodes", {}).values()
        return any(vars(sub).get("checkpointer") is True for node in nodes for sub in node.subgraphs or ())


_LENT = "__pregel_checkpointer"
"""In the configuration of a subgraph: the checkpointer that its parent lends it."""


def _configurable(graph: Any, config: Any) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for each in (getattr(graph, "config", None), config):
        if isinstance(each, dict) and isinstance(each.get("configurable"), dict):
            found.update(each["configurable"])
    return found


def _newest_of_each(found: list[Any]) -> list[dict[str, Any]]:
    """Return the first checkpoint of each namespace as plain values."""
    newest: dict[str, dict[str, Any]] = {}
    for each in found:
        name = each.config["configurable"].get("checkpoint_ns", "")
        parent = (each.parent_config or {}).get("configurable", {}).get("checkpoint_id")
        if name not in newest:
            newest[name] = {
                "ns": name,
                "parent": parent,
                "checkpoint": dict(each.checkpoint),
                "metadata": dict(each.metadata),
                "writes": [tuple(write)[:3] for write in each.pending_writes or ()],
            }
    return list(newest.values())


def _look(wrapped: Any, graph: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    load(graph, args[0] if args else kwargs.get("config"))
    return wrapped(*args, **kwargs)


async def _alook(wrapped: Any, graph: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    await aload(graph, args[0] if args else kwargs.get("config"))
    return await wrapped(*args, **kwargs)


async def _alook_over(wrapped: Any, graph: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    await aload(graph, args[0] if args else kwargs.get("config"))
    async with aclosing(wrapped(*args, **kwargs)) as states:
        async for each in states:
            yield each
