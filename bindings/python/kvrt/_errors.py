"""The status classes of kvrt.h, and one exception for each."""
from __future__ import annotations

import ctypes
import threading
from typing import TYPE_CHECKING, Any, Callable, Dict, Optional, Type

from . import _raw
from ._abi import lib
from ._enums import Detail, Status
from ._signals import Signals, on_stack

if TYPE_CHECKING:
    from ._values import Report


class Error(Exception):
    """A call of kvrt failed. `status` is the class, `detail` a finer reason, `os_code` errno or SQLite's extended code (0: none), and `message` says
    what, where, expected and found."""

    def __init__(self, message: str, status: Status = Status.INTERNAL, detail: Detail = Detail.NONE, os_code: int = 0) -> None:
        super().__init__(message)
        self.message = message
        self.status = status
        self.detail = detail
        self.os_code = os_code


class Invalid(Error, ValueError):
    """The call is wrong: mend it."""


class NotFound(Error, LookupError):
    """No such file, session or message."""


class Conflict(Error):
    """The name is taken, or another handle has saved it since: resume it, take another name, or overwrite."""


class Busy(Error):
    """In use by another call, a generation or another process: try again when that is over."""


class Cancelled(Error):
    """Stopped by Session.cancel, Cancel.fire or a callback. `report` has the usage of the prefill or generation that it ended."""

    report: "Optional[Report]" = None


class NoMemory(Error, MemoryError):
    """The system gave no memory: close something, or lower kv_bytes_max."""


class TooSmall(Error):
    """A buffer is too small; this package grows its own."""


class LimitExceeded(Error):
    """Past a limit. The message names it, and the option that raises it where there is one."""


class Corrupt(Error):
    """A file is damaged: get it again; for a store see Runtime.repair_store."""


class Incompatible(Error):
    """Sound, but of another model, program or version."""


class IOFailed(Error):
    """The system failed to read or write; os_code says why."""


class NoSpace(Error):
    """The disk, a quota, RLIMIT_FSIZE or disk_bytes_max is full: no tokens were lost; other saved sessions may have lost KV."""


class DeviceFailed(Error):
    """The compute device failed, or its logits are no numbers (Detail.NUMERIC)."""


class Unsupported(Error):
    """This build or version cannot do it; the message names the thing."""


class Internal(Error):
    """A defect of kvrt: please report the message."""


CLASSES: Dict[Status, Type[Error]] = {
    Status.INVALID: Invalid, Status.NOT_FOUND: NotFound, Status.CONFLICT: Conflict, Status.BUSY: Busy, Status.CANCELLED: Cancelled,
    Status.NO_MEMORY: NoMemory, Status.TOO_SMALL: TooSmall, Status.LIMIT: LimitExceeded, Status.CORRUPT: Corrupt,
    Status.INCOMPATIBLE: Incompatible, Status.IO: IOFailed, Status.NO_SPACE: NoSpace, Status.DEVICE: DeviceFailed,
    Status.UNSUPPORTED: Unsupported, Status.INTERNAL: Internal,
}


def make_error(status: int, detail: int = 0, os_code: int = 0, message: str = "") -> Error:
    known = Status(status)
    return CLASSES.get(known, Error)(message or lib.kvrt_status_name(known).decode(), known, Detail(detail), os_code)


def failure_of(status: int, error: _raw.kvrt_error) -> Error:
    return make_error(status, error.detail, error.os_code, error.message.decode("utf-8", "replace"))


inside = threading.local()  # count: how many of log and wake this thread is in


def in_callback() -> bool:
    """True: inside log or wake, where no call of kvrt may be made, not by a finalizer either."""
    return bool(getattr(inside, "count", 0)) or on_stack()


def check_callback() -> None:
    if getattr(inside, "count", 0):
        raise Invalid("kvrt was called from within a handler of its log", Status.INVALID)


def call(function: Callable[..., int], *args: Any, signals: Optional[Signals] = None) -> None:
    """Calls a function that returns a status, with an error struct of its own, which no finalizer and no other thread overwrites."""
    check_callback()
    error = _raw.kvrt_error.make()
    with signals or Signals():
        status = function(*args, ctypes.byref(error))
    if status != 0:
        raise failure_of(status, error)
