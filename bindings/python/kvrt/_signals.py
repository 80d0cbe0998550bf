"""What a signal's handler raises while C runs; and what C calls."""
from __future__ import annotations

import sys
import threading
from types import CodeType, FrameType, TracebackType
from typing import Any, Callable, Dict, Optional, Set, Type, TypeVar

Function = TypeVar("Function", bound=Callable[..., Any])
# Of the functions that C calls: events; the log, which runs handlers of the user's, whose own exceptions are nobody's; wakes.
_events: Set[CodeType] = set()
_logs: Set[CodeType] = set()
_wakes: Dict[CodeType, Callable[[int], None]] = {}


def called_for_event(function: Function) -> Function:
    _events.add(function.__code__)
    return function


def called_for_log(function: Function) -> Function:
    _logs.add(function.__code__)
    return function


def called_for_wake(function: Callable[[int], None]) -> Callable[[int], None]:
    """Its parameter is `user`. It may be called once more than C called it."""
    _wakes[function.__code__] = function
    return function


def on_stack() -> bool:
    """True: within a log or a wake. Also where its first line has not run: Python 3.12 runs a collection, and so finalizers, there."""
    frame: Optional[FrameType] = sys._getframe()
    while frame is not None:
        if frame.f_code in _logs or frame.f_code in _wakes:
            return True
        frame = frame.f_back
    return False


def _of_a_signal(code: CodeType, error: BaseException) -> bool:
    return code in _events or code in _wakes or (code in _logs and not isinstance(error, Exception))


def _in_main() -> bool:
    return threading.current_thread() is threading.main_thread()


class Signals:
    """A with block around a call of C. Python runs the handlers of signals where the call enters a callback, before its first line. What they raise
    there, such as KeyboardInterrupt, has no caller but C: ctypes gives it to sys.unraisablehook. It is kept in `error`, and raised after the call. A wake
    that it cut short is made up for: another thread may wait for it."""

    def __init__(self) -> None:
        self.error: Optional[BaseException] = None
        self._before: Optional[Callable[[Any], object]] = None

    def __enter__(self) -> None:
        if _in_main():  # where handlers run
            self._before, sys.unraisablehook = sys.unraisablehook, self._hook

    def __exit__(self, kind: Optional[Type[BaseException]], value: Optional[BaseException], trace: Optional[TracebackType]) -> None:
        if self._before is None:
            return
        if sys.unraisablehook == self._hook:  # else somebody else has it
            sys.unraisablehook = self._before
        self._before = None
        error, self.error = self.error, None
        if error is not None:
            raise error

    def _hook(self, lost: Any) -> None:
        trace = lost.exc_traceback
        if trace is not None and _in_main() and _of_a_signal(trace.tb_frame.f_code, lost.exc_value):
            self.error = lost.exc_value
            if trace.tb_frame.f_code in _wakes:
                _wakes[trace.tb_frame.f_code](trace.tb_frame.f_locals["user"])
        elif self._before is not None:
            self._before(lost)
