"""A session: one conversation with a model."""
from __future__ import annotations

import contextlib
import ctypes
import functools
import json
import threading
from typing import Any, Callable, Dict, Generator, List, Mapping, Optional, Sequence, Union, overload

from . import _raw
from ._arguments import fill, flag, handle, integer, json_bytes, list_of, mapping, one_of, template_arguments, text_bytes, token_array
from ._enums import Codec, Detail, Durability, EventType, Logits, Status, TextFlags
from ._errors import Busy, Cancelled, Error, failure_of, in_callback
from ._generation import AsyncGeneration, Generation
from ._handles import Handle, buffer_of, drop, free_function, keep, lib, wake_function
from ._options import GenerateOptions
from ._signals import Signals
from ._types import Autosave, Event, Message, from_struct, make_event
from ._values import AppendInfo, Report, SaveReport, SessionInfo
from ._worker import Bell, Core

END_OF_SESSION = 2**64 - 1


def _close(core: Core, raw: int) -> None:
    try:
        lib.kvrt_session_close(raw)
    finally:
        core.release()


class SessionSetup:
    """The options of a session that is to be opened, and its bell."""

    def __init__(self, core: Core, domain: str = "", tools: Optional[Sequence[Any]] = None, prefix_cache: bool = True,
                 documents: Optional[Sequence[Any]] = None, variables: Optional[Mapping[str, Any]] = None,
                 autosave: Optional[Autosave] = None) -> None:
        self._core = core
        self._bell = Bell()
        self.options = fill(_raw.kvrt_session_options.make(), no_prefix_cache=not flag(prefix_cache, "prefix_cache"), wake=wake_function,
                            wake_user_free=free_function)
        where = text_bytes(domain, "domain")
        fill(self.options, domain=where, domain_size=len(where))
        if autosave is not None:
            handle(autosave, Autosave, "autosave")
            name = text_bytes(autosave.name, "autosave.name")
            fill(self.options, autosave_turn=flag(autosave.turn, "autosave.turn"), autosave_name=name, autosave_name_size=len(name),
                 autosave_tokens=integer(autosave.tokens, ctypes.c_uint32, "autosave.tokens"),
                 autosave_idle_ms=integer(autosave.idle_ms, ctypes.c_uint32, "autosave.idle_ms"))
        template_arguments(self.options, tools, documents, variables)

    def make(self, open_it: Callable[[Any, Any], None]) -> "Session":
        """Makes the session; open_it(options, out) opens it in C."""
        out = ctypes.c_void_p()
        self.options.wake_user = key = keep(self._bell.ring)
        self._core.retain()
        try:
            open_it(ctypes.byref(self.options), ctypes.byref(out))
        except BaseException:
            if out.value:  # a signal came after C had opened it
                _close(self._core, out.value)
            else:
                self._core.release()
            drop(key)
            raise
        return Session(out.value or 0, self._core, self._bell)


class Session(Handle):
    """A conversation. Model.open_session, Model.resume and Session.fork make it. It takes one call at a time; beside that any thread may call
    cancel, accept, checkpoint and the reads (info, tokens, text, message). A call that it cannot take now raises Busy."""

    def __init__(self, raw: int, core: Core, bell: Bell) -> None:
        self.resumed: Optional[Report] = None
        """The report of the resume that opened it: the tokens whose KV came back. None: it was not resumed."""
        self._core = core
        self._bell = bell
        self._busy = threading.Lock()
        self._owner = 0
        self._drainer = 0  # the worker's thread, while it ends a generation that was left
        self._begun = 0  # counts the generations
        self._abandoned = False  # a generation was left where it could not be ended
        self._drained: Optional[Report] = None  # the report of the generation that was ended last
        # What next fills: one call at a time has the turn, and reads both before it ends.
        self._event, self._error = _raw.kvrt_event.make(), _raw.kvrt_error.make()
        self._event_at, self._error_at = ctypes.byref(self._event), ctypes.byref(self._error)
        self._signals = Signals()
        super().__init__(raw, functools.partial(_close, core))

    # ---- one call at a time ----------------------------------------------------------------------------------------------------------

    def _begin_turn(self) -> None:
        """Keeps kvrt.h's rule here as well: an event's pointers are read before another call begins or the session ends. It waits for the worker, of
        which the user knows nothing."""
        self._enter()
        try:
            me, drainer = threading.get_ident(), self._drainer
            while not self._busy.acquire(blocking=False):
                before, drainer = drainer, self._drainer
                if before in (0, me) and drainer in (0, me):  # its turn may have ended since
                    mine = self._owner == me
                    raise Busy("called from inside a callback of the same session" if mine else "another thread is inside a call on this session",
                               Status.BUSY, Detail.REENTRANT if mine else Detail.CONCURRENT)
                if self._busy.acquire(timeout=0.01):
                    break
        except BaseException:
            self._leave()
            raise
        self._owner = me

    def _end_turn(self) -> None:
        self._owner = 0
        self._busy.release()
        self._leave()

    @contextlib.contextmanager
    def _turn(self) -> Generator[None, None, None]:
        self._begin_turn()
        try:
            if self._abandoned:
                self._drain(-1)
            yield
        finally:
            self._end_turn()

    def _interrupt(self) -> None:
        with Signals():
            lib.kvrt_session_cancel(self._raw, None)

    def close(self) -> None:
        """Ends the session. A call that another thread is inside is cancelled, and its end closes the session. With autosave it is saved once
        more; save it yourself before, where you need the exception. More than once is fine."""
        try:
            super().close()
        finally:
            self._bell.ring()  # a task that waits finds the session closed

    def _next(self, timeout_ms: int) -> Event:
        """The caller has the turn."""
        with self._signals:
            status = lib.kvrt_session_next(self._raw, self._event_at, timeout_ms, self._error_at)
        if status:
            raise failure_of(status, self._error)
        return make_event(self._event)

    def _take(self, timeout_ms: int) -> Event:
        self._begin_turn()
        try:
            if self._abandoned:
                self._drain(-1)
            return self._next(timeout_ms)
        finally:
            self._end_turn()

    def _drain(self, timeout_ms: int) -> None:
        """Ends the generation that was left, within one step; with timeout 0 only if no step runs. The caller has the turn."""
        self._drained = None
        self._call(lib.kvrt_session_cancel)
        while True:
            try:
                event = self._next(timeout_ms)
            except Error:  # it has failed, and so ended
                self._abandoned = False
                return
            if event.type is EventType.NONE:
                return
            if event.type in (EventType.DONE, EventType.IDLE):
                self._abandoned, self._drained = False, event.report
                return

    def _leave_generation(self, number: int, wait: bool) -> Optional[Report]:
        """Ends generation `number`, if it is still the session's. Without `wait`: now where no step runs, else the worker does."""
        if self._begun != number or self.closed:
            return None
        self._abandoned = True
        if in_callback():
            self._core.later(self._drain_later)
            return None
        self.cancel()
        if wait:
            with self._turn():
                return self._drained
        try:
            self._begin_turn()
        except Busy:  # a step of this session's: what comes next drains it
            self._core.later(self._drain_later)
            return None
        try:
            self._drain(0)
        finally:
            self._end_turn()
        if self._abandoned:
            self._core.later(self._drain_later)
        return None if self._abandoned else self._drained

    def _drain_later(self) -> None:
        self._drainer = threading.get_ident()
        try:
            with self._turn():
                pass
        except Error:
            pass
        finally:
            self._drainer = 0

    # ---- reading ---------------------------------------------------------------------------------------------------------------------

    def info(self) -> SessionInfo:
        """Its state as it is now. It waits for no step."""
        out = _raw.kvrt_session_props.make()
        self._call(lib.kvrt_session_info, ctypes.byref(out))
        return from_struct(SessionInfo, out)

    def tokens(self) -> List[int]:
        """All its token ids."""
        return list(buffer_of(self, lib.kvrt_session_tokens, kind=ctypes.c_int32))

    def text(self, begin: int = 0, end: Optional[int] = None, *, special: bool = False) -> str:
        """The text of the tokens [begin, end), by default all; special: special tokens are spelled out. Bytes that are no whole character become
        U+FFFD."""
        first = integer(begin, ctypes.c_uint64, "begin")
        last = END_OF_SESSION if end is None else integer(end, ctypes.c_uint64, "end")
        flags = TextFlags.SPECIAL if flag(special, "special") else 0
        return bytes(buffer_of(self, lib.kvrt_session_text, first, last, flags)).decode("utf-8", "replace")

    def message(self, index: int) -> Message:
        """Message `index`, from 0, and where it lies. NotFound: the session has fewer."""
        props = _raw.kvrt_message_props.make()
        data = buffer_of(self, lib.kvrt_session_message, integer(index, ctypes.c_uint64, "index"), ctypes.byref(props))
        content: Dict[str, Any] = json.loads(bytes(data))
        return Message(content, bool(props.generated), props.begin, props.end, bool(props.ended))

    def messages(self) -> List[Message]:
        """All its messages: message for each of them."""
        return [self.message(i) for i in range(self.info().messages)]

    # ---- changing --------------------------------------------------------------------------------------------------------------------

    def append(self, tokens: Sequence[int]) -> None:
        """Appends tokens as they are; the next generation computes them. Invalid: an id outside the vocabulary."""
        ids = token_array(tokens)
        with self._turn():
            self._call(lib.kvrt_session_append, ids, len(ids))

    def append_text(self, text: str, *, special: bool = False) -> None:
        """Appends text, tokenized as Model.tokenize does. The first text of an empty session gets a BOS where the model asks for it."""
        data, flags = text_bytes(text, "text"), TextFlags.SPECIAL if flag(special, "special") else 0
        with self._turn():
            self._call(lib.kvrt_session_append_text, data, len(data), flags)

    def append_message(self, message: Union[str, Mapping[str, Any]], *, role: str = "user") -> AppendInfo:
        """Appends a message, as the chat template takes it, or text of `role`. The next generation computes it and opens the assistant's turn; the
        answer becomes a message of its own. Tokens that belong to no message (append, append_text) are dropped, and count as rewritten. Text that
        spells a control token becomes that token: take such spellings out of text that you do not trust."""
        if isinstance(message, str):
            message = {"role": role, "content": message}
        return self._messages(lib.kvrt_session_append_message, json_bytes(dict(mapping(message, "message")), "message"))

    def set_messages(self, messages: Sequence[Mapping[str, Any]]) -> AppendInfo:
        """Makes the conversation be these messages. Leading ones that are equal stay, with their tokens and KV; from the first difference on the old
        ones are dropped and the new ones appended."""
        whole = [dict(mapping(m, f"messages[{i}]")) for i, m in enumerate(list_of(messages, "messages", "messages"))]
        return self._messages(lib.kvrt_session_set_messages, json_bytes(whole, "messages"))

    def _messages(self, function: Callable[..., int], data: bytes) -> AppendInfo:
        out = _raw.kvrt_append_info.make()
        with self._turn():
            self._call(function, data, len(data), ctypes.byref(out))
        return from_struct(AppendInfo, out)

    def truncate(self, count: int) -> None:
        """Keeps the first `count` tokens and the messages that end within them, with their KV. Where layers have windows or are recurrent, the next
        generation goes on from the last boundary before (see mark)."""
        with self._turn():
            self._call(lib.kvrt_session_truncate, integer(count, ctypes.c_uint64, "count"))

    def mark(self, tokens: int = 0) -> None:
        """Makes a boundary: the last end of a block within the first `tokens` tokens (0: of all). Where layers have windows or are recurrent, a
        truncate, a fork or another session with the same tokens goes on from there; where none is, it does nothing."""
        with self._turn():
            self._call(lib.kvrt_session_mark, integer(tokens, ctypes.c_uint64, "tokens"))

    def erase(self, begin: int, end: int) -> None:
        """Drops the tokens [begin, end) and the messages in them; the tokens after them move to lower positions and are computed again. Invalid: the
        range cuts a message in two."""
        first, last = integer(begin, ctypes.c_uint64, "begin"), integer(end, ctypes.c_uint64, "end")
        with self._turn():
            self._call(lib.kvrt_session_erase, first, last)

    def fork(self) -> "Session":
        """A copy that shares all KV until one of the two writes. It has the options of this session but autosave's name, is not saved, and has an id
        of its own."""
        with self._turn():
            return SessionSetup(self._core).make(lambda options, out: self._call(lib.kvrt_session_fork, options, out))

    # ---- compute ---------------------------------------------------------------------------------------------------------------------

    def prefill(self, logits: Logits = Logits.NONE, callback: Optional[Callable[[Event], object]] = None) -> Report:
        """Computes the queued tokens now; a generation would do so by itself. The callback sees PROGRESS, the LOGITS asked for, and DONE. Cancelled:
        by session.cancel(); its `report` says what was computed, which stays."""
        which = one_of(logits, Logits, "logits")
        with self._turn():
            return self._reported(lib.kvrt_session_prefill, which, callback=callback)

    @overload
    def generate(self, options: Optional[GenerateOptions] = None, *, callback: None = None, **changes: Any) -> Generation: ...

    @overload
    def generate(self, options: Optional[GenerateOptions] = None, *, callback: Callable[[Event], object], **changes: Any) -> Report: ...

    def generate(self, options: Optional[GenerateOptions] = None, *, callback: Optional[Callable[[Event], object]] = None,
                 **changes: Any) -> Union[Generation, Report]:
        """Begins a generation: for event in session.generate(max_tokens=64). The names are those of GenerateOptions.

        With a callback it blocks until DONE, gives each event to the callback, and returns the report. An exception of the callback ends the
        generation and comes out of this call; the tokens so far stay. A cancel from elsewhere raises Cancelled, which has the report."""
        whole = GenerateOptions.of(options, changes)
        return Generation(self, whole) if callback is None else self._generate(whole, callback)

    def _generate(self, options: GenerateOptions, callback: Callable[[Event], object]) -> Report:
        sample = options.sample

        def see(event: Event) -> None:
            if event.logits is not None and sample is not None:
                self.accept(sample(event.logits))
                if not options.emit_logits:
                    return
            callback(event)

        with options.filled() as struct, self._turn():
            return self._reported(lib.kvrt_session_generate, ctypes.byref(struct), callback=see)

    def _reported(self, function: Callable[..., int], argument: Any, callback: Optional[Callable[[Event], object]]) -> Report:
        """A call that computes until DONE."""
        out = _raw.kvrt_report.make()
        try:
            self._watched(function, argument, callback=callback, out=(ctypes.byref(out),))
        except Cancelled as error:
            error.report = from_struct(Report, out)
            raise
        return from_struct(Report, out)

    def agenerate(self, options: Optional[GenerateOptions] = None, **changes: Any) -> AsyncGeneration:
        """Like generate, for asyncio: async for event in session.agenerate(max_tokens=64). One thread per model computes."""
        return AsyncGeneration(self, GenerateOptions.of(options, changes))

    def begin(self, options: Optional[GenerateOptions] = None, **changes: Any) -> None:
        """Begins a generation for a host that calls next, and accept, by itself. It computes nothing; steps do."""
        self._begin(GenerateOptions.of(options, changes))

    def _begin(self, options: GenerateOptions) -> int:
        with options.filled() as struct, self._turn():
            self._call(lib.kvrt_session_begin, ctypes.byref(struct))
            self._begun += 1
            return self._begun

    def next(self, timeout_ms: int = -1) -> Event:
        """The next event after begin, computing as needed. timeout_ms: milliseconds to wait for an event, and then the end of a step; below 0: as
        long as it takes; 0: only takes an event that is there. NONE: nothing came in time; IDLE: the session does not generate. A failure of the
        generation is raised once, in place of DONE."""
        return self._take(integer(timeout_ms, ctypes.c_int32, "timeout_ms"))

    def accept(self, token: int) -> None:
        """Gives, with sampler="host", the token that follows the position of the last LOGITS event. Any thread, also in a callback."""
        self._call(lib.kvrt_session_accept, integer(token, ctypes.c_int32, "token"))

    def cancel(self) -> None:
        """Ends a generation or prefill within one step, at its last token; without one it does nothing. Any thread. It waits for nothing."""
        self._call(lib.kvrt_session_cancel)

    # ---- save ------------------------------------------------------------------------------------------------------------------------

    def checkpoint(self, name: str, *, durability: Durability = Durability.DEFAULT, overwrite: bool = False, pin: int = 0,
                   ttl_seconds: int = 0, codec: Codec = Codec.DEFAULT) -> SaveReport:
        """Saves the session under `name` (1 to 255 bytes) in its store; it stays in memory. Any thread, also while it generates. overwrite: replace
        another session of this name, or a newer save of this one, instead of Conflict. pin: 1 to 255, see Store.pin; ttl_seconds: it expires so long
        after this save; 0 leaves either as it is. NoSpace: the tokens have no room; see SaveReport.chunks_missing for KV."""
        return self._save(lib.kvrt_session_checkpoint, name, durability, overwrite, pin, ttl_seconds, codec)

    def suspend(self, name: str, *, durability: Durability = Durability.DEFAULT, overwrite: bool = False, pin: int = 0,
                ttl_seconds: int = 0, codec: Codec = Codec.DEFAULT) -> SaveReport:
        """Saves the session as checkpoint does, and gives its blocks back; the next call that computes loads its KV again."""
        with self._turn():
            return self._save(lib.kvrt_session_suspend, name, durability, overwrite, pin, ttl_seconds, codec)

    def _save(self, function: Callable[..., int], name: str, durability: Durability, overwrite: bool, pin: int, ttl: int,
              codec: Codec) -> SaveReport:
        options = fill(_raw.kvrt_save_options.make(), durability=durability, overwrite=overwrite, pin=pin, ttl_seconds=ttl, codec=codec)
        out = _raw.kvrt_save_report.make()
        what = text_bytes(name, "name")
        self._call(function, what, len(what), ctypes.byref(options), ctypes.byref(out))
        return from_struct(SaveReport, out)
