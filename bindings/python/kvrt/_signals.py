"""What a signal's handler raises while C runs."""
from __future__ import annotations

import sys
import threading
from types import CodeType, TracebackType
from typing import Any, Callable, Optional, Set, Type, TypeVar

Function = TypeVar("Function", bound=Callable[..., Any])
_entries: Set[CodeType] = set()  # of the functions that C calls
_logs: Set[CodeType] = set()


def called_by_c(function: Function, log: bool = False) -> Function:
    """Marks a function that C calls. log: it runs handlers of the user's, whose own exceptions are nobody's."""
    (_logs if log else _entries).add(function.__code__)
    return function


def _in_main() -> bool:
    return threading.current_thread() is threading.main_thread()


class Signals:
    """A with block around a call of C. Python runs the handlers of signals where the call enters a callback, before its first line. What they raise
    there, such as KeyboardInterrupt, has no caller but C: ctypes gives it to sys.unraisablehook. It is kept in `error`, and raised after the call."""

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
        code = lost.exc_traceback.tb_frame.f_code if lost.exc_traceback is not None else None
        if _in_main() and (code in _entries or (code in _logs and not isinstance(lost.exc_value, Exception))):
            self.error = lost.exc_value
        elif self._before is not None:
            self._before(lost)
