"""A session: one conversation with a model."""
from __future__ import annotations

import array
import contextlib
import ctypes
import functools
import json
import threading
from typing import Any, Callable, Dict, Iterable, Iterator, List, Mapping, Optional, Sequence, Union

from . import _abi
from ._enums import Codec, Durability, EventType, Logits
from ._errors import Busy, Detail, Error, Invalid, Status
from ._generation import AsyncGeneration, GenerateOptions, Generation
from ._handles import Handle, buffer_of, drop, fill, free_function, in_callback, in_range, keep, lib, text_bytes, wake_function
from ._types import AppendInfo, Autosave, Event, Message, Report, SaveReport, SessionInfo, from_struct, make_event
from ._worker import Bell, Core

END_OF_SESSION = 2**64 - 1
SPECIAL = 1


def token_array(tokens: Sequence[int]) -> Any:
    try:
        ids = array.array("i", tokens)
    except OverflowError as error:
        raise Invalid(f"tokens: {error}", Status.INVALID) from None
    return (ctypes.c_int32 * len(ids)).from_buffer(ids) if ids else (ctypes.c_int32 * 0)()


def _close(core: Core, raw: int) -> None:
    lib.kvrt_session_close(raw)
    core.release()


def template_arguments(options: Any, tools: Optional[Sequence[Any]], documents: Optional[Sequence[Any]],
                       variables: Optional[Mapping[str, Any]]) -> None:
    """Sets the chat template's arguments beside the messages, as JSON, in an options struct."""
    if tools is not None:
        if isinstance(tools, (str, Mapping)) or not isinstance(tools, Iterable):
            raise TypeError(f"tools is a list of tools, not {type(tools).__name__}")
        options.tools = json.dumps(list(tools)).encode()
        options.tools_size = len(options.tools)
    if documents is not None:
        options.documents = json.dumps(list(documents)).encode()
        options.documents_size = len(options.documents)
    if variables is not None:
        options.variables = json.dumps(dict(variables)).encode()
        options.variables_size = len(options.variables)


class SessionSetup:
    """The options of a session that is to be opened, and its bell."""

    def __init__(self, core: Core, domain: str = "", tools: Optional[Sequence[Any]] = None, prefix_cache: bool = True,
                 documents: Optional[Sequence[Any]] = None, variables: Optional[Mapping[str, Any]] = None,
                 autosave: Optional[Autosave] = None) -> None:
        self._core = core
        self._bell = Bell()
        self.options = fill(_abi.SessionOptions.make(), no_prefix_cache=not prefix_cache, wake=wake_function, wake_user_free=free_function)
        if domain:
            self.options.domain = text_bytes(domain, "domain")
            self.options.domain_size = len(self.options.domain)
        if autosave is not None:
            name = text_bytes(autosave.name, "autosave.name")
            fill(self.options, autosave_turn=autosave.turn, autosave_tokens=autosave.tokens, autosave_idle_ms=autosave.idle_ms,
                 autosave_name=name, autosave_name_size=len(name))
        template_arguments(self.options, tools, documents, variables)

    def make(self, open_it: Callable[[Any, Any], None]) -> "Session":
        """Makes the session; open_it(options, out) opens it in C."""
        out = ctypes.c_void_p()
        self.options.wake_user = key = keep(self._bell.ring)
        self._core.retain()
        try:
            open_it(ctypes.byref(self.options), ctypes.byref(out))
        except BaseException:
            self._core.release()
            drop(key)
            raise
        return Session(out.value or 0, self._core, self._bell)


class Session(Handle):
    """A conversation. Model.open_session, Model.resume and Session.fork make it. One call at a time, except cancel, checkpoint and reads."""

    def __init__(self, raw: int, core: Core, bell: Bell) -> None:
        self.resumed: Optional[Report] = None
        self._core = core
        self._bell = bell
        self._busy = threading.Lock()
        self._owner = 0
        self._begun = 0  # counts the generations
        self._abandoned = False  # a generation was left where it could not be ended
        self._drained: Optional[Report] = None  # the report of the generation that was ended last
        super().__init__(raw, functools.partial(_close, core))

    # ---- one call at a time ----------------------------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def _turn(self) -> Iterator[None]:
        """Keeps kvrt.h's rule here as well: an event's pointers are read before another call begins or the session ends."""
        self._enter()
        try:
            if not self._busy.acquire(blocking=False):
                mine = self._owner == threading.get_ident()
                raise Busy("called from inside a callback of the same session" if mine else "another thread is inside a call on this session",
                           Status.BUSY, Detail.REENTRANT if mine else Detail.CONCURRENT)
            self._owner = threading.get_ident()
            try:
                if self._abandoned:
                    self._drain()
                yield
            finally:
                self._owner = 0
                self._busy.release()
        finally:
            self._leave()

    def _interrupt(self) -> None:
        lib.kvrt_session_cancel(self._raw, None)

    def close(self) -> None:
        super().close()
        self._bell.ring()  # a task that waits finds the session closed

    def _next(self, timeout_ms: int) -> Any:
        event = _abi.Event.make()
        self._call(lib.kvrt_session_next, ctypes.byref(event), timeout_ms)
        return event

    def _drain(self) -> None:
        """Ends the generation, within one step. The caller has the turn."""
        self._abandoned = False
        self._call(lib.kvrt_session_cancel)
        while True:
            try:
                event = self._next(100)
            except Error:
                return
            if event.type in (EventType.DONE, EventType.IDLE):
                self._drained = make_event(event).report
                return

    def _leave_generation(self, number: int, wait: bool) -> Optional[Report]:
        """Ends generation `number`, if it is still the session's; without `wait` the next call on the session drains its events."""
        if self._begun != number or self.closed:
            return None
        self._abandoned = True
        if in_callback():
            return None
        self.cancel()
        if not wait:
            return None
        with self._turn():
            return self._drained

    # ---- reading ---------------------------------------------------------------------------------------------------------------------

    def info(self) -> SessionInfo:
        out = _abi.SessionProps.make()
        self._call(lib.kvrt_session_info, ctypes.byref(out))
        return from_struct(SessionInfo, out)

    def tokens(self) -> List[int]:
        return list(buffer_of(self, lib.kvrt_session_tokens, kind=ctypes.c_int32))

    def text(self, begin: int = 0, end: Optional[int] = None, *, special: bool = False) -> str:
        """The text of the tokens [begin, end); special: special tokens are spelled out."""
        first = in_range(begin, ctypes.c_uint64, "begin")
        last = END_OF_SESSION if end is None else in_range(end, ctypes.c_uint64, "end")
        return bytes(buffer_of(self, lib.kvrt_session_text, first, last, special * SPECIAL)).decode("utf-8", "replace")

    def message(self, index: int) -> Message:
        props = _abi.MessageProps.make()
        data = buffer_of(self, lib.kvrt_session_message, in_range(index, ctypes.c_uint64, "index"), ctypes.byref(props))
        content: Dict[str, Any] = json.loads(bytes(data))
        return Message(content, bool(props.generated), props.begin, props.end)

    def messages(self) -> List[Message]:
        return [self.message(i) for i in range(self.info().messages)]

    # ---- changing --------------------------------------------------------------------------------------------------------------------

    def append(self, tokens: Sequence[int]) -> None:
        ids = token_array(tokens)
        with self._turn():
            self._call(lib.kvrt_session_append, ids, len(ids))

    def append_text(self, text: str, *, special: bool = False) -> None:
        data = text_bytes(text, "text")
        with self._turn():
            self._call(lib.kvrt_session_append_text, data, len(data), special * SPECIAL)

    def append_message(self, message: Union[str, Mapping[str, Any]], *, role: str = "user") -> AppendInfo:
        """Appends a message, as the chat template takes it, or as text of `role`."""
        whole = {"role": role, "content": message} if isinstance(message, str) else dict(message)
        return self._messages(lib.kvrt_session_append_message, whole)

    def set_messages(self, messages: Sequence[Mapping[str, Any]]) -> AppendInfo:
        """Replaces the conversation; the messages that are equal from the start stay, with their KV."""
        return self._messages(lib.kvrt_session_set_messages, [dict(m) for m in messages])

    def _messages(self, function: Callable[..., int], value: object) -> AppendInfo:
        data = json.dumps(value).encode()
        out = _abi.AppendInfo.make()
        with self._turn():
            self._call(function, data, len(data), ctypes.byref(out))
        return from_struct(AppendInfo, out)

    def truncate(self, count: int) -> None:
        with self._turn():
            self._call(lib.kvrt_session_truncate, in_range(count, ctypes.c_uint64, "count"))

    def mark(self, tokens: int = 0) -> None:
        """Makes a boundary: the last end of a block within the first `tokens` tokens (0: of all). Where layers have windows, a rewind goes on from there."""
        with self._turn():
            self._call(lib.kvrt_session_mark, in_range(tokens, ctypes.c_uint64, "tokens"))

    def erase(self, begin: int, end: int) -> None:
        """Drops the tokens [begin, end); the tokens after them move up and are computed again."""
        first, last = in_range(begin, ctypes.c_uint64, "begin"), in_range(end, ctypes.c_uint64, "end")
        with self._turn():
            self._call(lib.kvrt_session_erase, first, last)

    def fork(self) -> "Session":
        """A copy that shares all KV; it is unsaved, with an id of its own."""
        with self._turn():
            return SessionSetup(self._core).make(lambda options, out: self._call(lib.kvrt_session_fork, options, out))

    # ---- compute ---------------------------------------------------------------------------------------------------------------------

    def prefill(self, logits: Logits = Logits.NONE, callback: Optional[Callable[[Event], object]] = None) -> Report:
        """Computes the queued tokens. The callback sees PROGRESS, and the LOGITS asked for."""
        out = _abi.Report.make()
        with self._turn():
            self._watched(lib.kvrt_session_prefill, int(logits), callback=callback, out=(ctypes.byref(out),))
        return from_struct(Report, out)

    def generate(self, options: Optional[GenerateOptions] = None, **changes: Any) -> Generation:
        """Begins a generation: for event in session.generate(max_tokens=64). The names are those of GenerateOptions."""
        return Generation(self, GenerateOptions.of(options, changes))

    def agenerate(self, options: Optional[GenerateOptions] = None, **changes: Any) -> AsyncGeneration:
        """Like generate, for asyncio: async for event in session.agenerate(max_tokens=64). One thread per model computes."""
        return AsyncGeneration(self, GenerateOptions.of(options, changes))

    def begin(self, options: Optional[GenerateOptions] = None, **changes: Any) -> None:
        """Begins a generation for a host that calls next, and accept, by itself."""
        self._begin(GenerateOptions.of(options, changes))

    def _begin(self, options: GenerateOptions) -> int:
        struct, _alive = options.to_struct()
        with self._turn(), options.cancel._held() if options.cancel is not None else contextlib.nullcontext() as struct.cancel:
            self._call(lib.kvrt_session_begin, ctypes.byref(struct))
            self._begun += 1
            return self._begun

    def next(self, timeout_ms: int = -1) -> Event:
        """The next event after begin. timeout_ms 0 takes an event that is there and never computes. NONE: none came in time; IDLE: none will come."""
        timeout = in_range(timeout_ms, ctypes.c_int32, "timeout_ms")
        with self._turn():
            return make_event(self._next(timeout))

    def accept(self, token: int) -> None:
        """Gives, with sampler="host", the token that follows the position of the last LOGITS event."""
        self._call(lib.kvrt_session_accept, in_range(token, ctypes.c_int32, "token"))

    def cancel(self) -> None:
        """Ends a generation or prefill, within one step. Any thread."""
        self._call(lib.kvrt_session_cancel)

    # ---- save ------------------------------------------------------------------------------------------------------------------------

    def checkpoint(self, name: str, *, durability: Durability = Durability.DEFAULT, overwrite: bool = False, pin: int = 0,
                   ttl_seconds: int = 0, codec: Codec = Codec.DEFAULT) -> SaveReport:
        """Saves the session under `name` in its store; it stays in memory. Any thread, also while it generates."""
        return self._save(lib.kvrt_session_checkpoint, name, durability, overwrite, pin, ttl_seconds, codec)

    def suspend(self, name: str, *, durability: Durability = Durability.DEFAULT, overwrite: bool = False, pin: int = 0,
                ttl_seconds: int = 0, codec: Codec = Codec.DEFAULT) -> SaveReport:
        """Saves the session and gives its blocks back; the next call that computes warms it again."""
        with self._turn():
            return self._save(lib.kvrt_session_suspend, name, durability, overwrite, pin, ttl_seconds, codec)

    def _save(self, function: Callable[..., int], name: str, durability: Durability, overwrite: bool, pin: int, ttl: int,
              codec: Codec) -> SaveReport:
        options = fill(_abi.SaveOptions.make(), durability=durability, overwrite=overwrite, pin=pin, ttl_seconds=ttl, codec=codec)
        out = _abi.SaveReport.make()
        what = text_bytes(name, "name")
        self._call(function, what, len(what), ctypes.byref(options), ctypes.byref(out))
        return from_struct(SaveReport, out)
