"""The base of all handles, which closes once even while others use it; and callbacks from C."""
from __future__ import annotations

import atexit
import collections
import contextlib
import ctypes
import itertools
import logging
import os
import threading
import time
import warnings
import weakref
from types import TracebackType
from typing import Any, Callable, Deque, Dict, Generator, NoReturn, Optional, SupportsIndex, Tuple, Type, TypeVar

from . import _abi, _raw
from ._enums import Detail, LogLevel, Status
from ._errors import Error, Invalid, TooSmall, Unsupported, call, check_callback, in_callback, inside
from ._signals import Signals, called_for_event, called_for_log, called_for_wake
from ._types import Event, make_event

lib = _abi.lib
Self = TypeVar("Self", bound="Handle")

# ---- log and wake: kept by the library, called on any thread, and not allowed to call it ------------------------------------------------

# The callables, by the key that the library gives back as `user`. The functions below live as long as the process: no thunk is freed while it runs.
_users: Dict[int, Callable[..., None]] = {}
_keys = itertools.count(1)
_freed: Deque[int] = collections.deque()  # keys whose callback comes no more
_late: Deque[Tuple[Callable[[int], None], int]] = collections.deque()  # handles whose finalizer ran inside such a callback
LEVELS: Dict[int, int] = {LogLevel.ERROR: logging.ERROR, LogLevel.WARN: logging.WARNING, LogLevel.INFO: logging.INFO, LogLevel.DEBUG: logging.DEBUG}


def keep(callback: Callable[..., None]) -> int:
    drop_freed()
    key = next(_keys)
    _users[key] = callback
    return key


def drop(key: int) -> None:
    _users.pop(key, None)


def drop_freed() -> None:
    while _freed:
        try:
            drop(_freed.popleft())
        except IndexError:
            return


# The count comes before all else that allocates: that may run finalizers. An exception goes to sys.unraisablehook: nobody here waits for it.
def _wake(user: int) -> None:
    inside.count = getattr(inside, "count", 0) + 1
    try:
        callback = _users.get(user)
        if callback is not None:
            callback()
    finally:
        inside.count -= 1


def _log(user: int, level: int, text: int, size: int) -> None:
    inside.count = getattr(inside, "count", 0) + 1
    try:
        callback = _users.get(user)
        if callback is not None:
            callback(LEVELS.get(level, logging.DEBUG), ctypes.string_at(text, size).decode("utf-8", "replace"))
    finally:
        inside.count -= 1


log_function = _raw.kvrt_log_fn(called_for_log(_log))
wake_function = _raw.kvrt_wake_fn(called_for_wake(_wake))
free_function = _raw.kvrt_free_fn(_freed.append)  # no code of Python, in which a signal's handler could raise, or a finalizer run


# ---- callbacks of one call ---------------------------------------------------------------------------------------------------------------


class Callback:
    """An event callback for one call: an exception in it stops the call and comes out of it. Signals are seen between events."""

    def __init__(self, function: Optional[Callable[[Event], object]] = None) -> None:
        self._error: Optional[BaseException] = None
        self.signals = Signals()

        def call(_user: int, event: int) -> int:
            if self._error is not None or self.signals.error is not None or _exiting:
                return 1
            try:
                if function is not None:
                    function(make_event(_raw.kvrt_event.from_address(event)))
                return 0
            except BaseException as error:
                self._error = error
                return 1

        self.thunk = _raw.kvrt_event_fn(called_for_event(call))

    def finish(self) -> None:
        """To be called after the call, whatever its outcome."""
        error, self._error = self._error, None
        if error is not None:
            raise error


# ---- handles -----------------------------------------------------------------------------------------------------------------------------

EXIT_S = 10.0  # the longest wait at exit for a call, which stops at its next step or event
_exiting = False
workers: "weakref.WeakSet[threading.Thread]" = weakref.WeakSet()
_open: "weakref.WeakValueDictionary[int, Handle]" = weakref.WeakValueDictionary()


class Handle:
    """A handle of kvrt.h. close, a with block or the garbage collector closes it, once; calls that are still inside it end first."""

    def __init__(self, raw: int, release: Callable[[int], None]) -> None:
        self._raw = raw
        self._release = release
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._inside = 0
        self._closed = False
        _open[id(self)] = self
        close_late()

    def _enter(self) -> int:
        self._check_process()
        with self._lock:
            if self._closed:
                raise Invalid(f"{self!r} is closed", Status.INVALID)
            self._inside += 1
        return self._raw

    def _leave(self) -> None:
        with self._lock:
            last = self._closed and self._inside == 1
            if not last:
                self._inside -= 1
        if last:
            self._free()

    def _free(self) -> None:
        """Releases the handle; it counts as in use until that is done."""
        try:
            if self._raw:
                with Signals():
                    self._release(self._raw)
        finally:
            self._inside = 0
            drop_freed()

    @contextlib.contextmanager
    def _held(self) -> Generator[int, None, None]:
        """The C handle, which is not closed inside the with block."""
        raw = self._enter()
        try:
            yield raw
        finally:
            self._leave()

    def _call(self, function: Callable[..., int], *args: Any, signals: Optional[Signals] = None) -> None:
        raw = self._enter()
        try:
            call(function, raw, *args, signals=signals)
        finally:
            self._leave()

    def _watched(self, function: Callable[..., int], *args: Any, callback: Optional[Callable[[Event], object]], out: Any = ()) -> None:
        """A call with an event callback; `out` has the arguments after it."""
        guard = Callback(callback)
        failure: Optional[Error] = None
        try:
            self._call(function, *args, guard.thunk, None, *out, signals=guard.signals)
        except Error as error:
            failure = error
        guard.finish()
        if failure is not None:
            raise failure

    def _check_process(self) -> None:
        """Comes before any lock: another thread of the parent may have held that at the fork."""
        check_callback()
        if self._pid != os.getpid():
            raise Unsupported(f"{self!r} was opened by process {self._pid}, this is its child: open it anew here", Status.UNSUPPORTED,
                              Detail.FORKED)

    def _interrupt(self) -> None:
        """Ends a call that is inside the handle, if it can."""

    @property
    def closed(self) -> bool:
        """True: close was called. A call that is still inside ends first."""
        return self._closed

    def close(self) -> None:
        """Any thread, any order, more than once. Where another thread is inside a call, the end of that call frees the handle. Within a handler of the
        log, which must not call kvrt, the next handle that is opened frees it."""
        if self._pid != os.getpid():
            self._closed = True
            return
        with self._lock:
            if self._closed:
                return
            self._closed = True
            free = self._inside == 0
            if free:
                self._inside = 1
            elif not in_callback():
                self._interrupt()
        if free and in_callback():
            _late.append((self._release, self._raw))
        elif free:
            self._free()

    def __enter__(self: Self) -> Self:
        self._check_process()
        return self

    def __exit__(self, kind: Optional[Type[BaseException]], value: Optional[BaseException], trace: Optional[TracebackType]) -> None:
        self.close()

    def __del__(self) -> None:
        if getattr(self, "_closed", True) or self._pid != os.getpid():
            return
        try:
            warnings.warn(f"unclosed {self!r}", ResourceWarning, source=self)
        finally:  # the filters may turn a warning into an exception
            self.close()

    def __reduce_ex__(self, protocol: SupportsIndex) -> NoReturn:
        raise TypeError(f"a kvrt.{type(self).__name__} cannot be copied or pickled; of a session, Session.fork() makes a copy")

    def __repr__(self) -> str:
        return f"<kvrt.{type(self).__name__} at {id(self):#x}{', closed' if self._closed else ''}>"


@contextlib.contextmanager
def opening(release: Callable[[int], None]) -> Generator[ctypes.c_void_p, None, None]:
    """Where an open puts its handle. What a signal's handler raises after C has opened it releases it."""
    out = ctypes.c_void_p()
    try:
        yield out
    except BaseException:
        if out.value:
            release(out.value)
        raise


def close_late() -> None:
    while _late:
        try:
            release, raw = _late.popleft()
        except IndexError:
            return
        with Signals():
            release(raw)


def _close_all() -> None:
    """Runs at exit, while threads and modules are still whole. A daemon thread must be out of the library before Python ends: a log line or
    a wake would end that thread in the middle of the library, and the process with it. A forked child has none of its parent's threads."""
    global _exiting
    _exiting = True
    deadline = time.monotonic() + EXIT_S
    while True:
        handles = [handle for handle in (ref() for ref in _open.valuerefs()) if handle is not None and handle._pid == os.getpid()]
        for handle in handles:
            handle.close()
        close_late()
        if not any(handle._inside for handle in handles) or time.monotonic() > deadline:
            break
        time.sleep(0.002)
    for worker in list(workers):
        worker.join(max(0.0, deadline - time.monotonic()))


atexit.register(_close_all)


# ---- results ----------------------------------------------------------------------------------------------------------------------------


def buffer_of(handle: Optional[Handle], function: Callable[..., int], *args: Any, kind: Any = ctypes.c_char) -> Any:
    """The output of a call with (buffer, capacity, &needed), as a ctypes array; handle None: NULL."""
    needed = ctypes.c_size_t()
    capacity = 256
    while True:
        buffer = (kind * capacity)()
        raw = handle._enter() if handle is not None else None
        try:
            call(function, raw, *args, buffer, capacity, ctypes.byref(needed))
            return (kind * needed.value).from_buffer(buffer) if needed.value else (kind * 0)()
        except TooSmall:
            pass
        finally:
            if handle is not None:
                handle._leave()
        capacity = needed.value
