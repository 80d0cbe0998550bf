"""The status classes of kvrt.h, and one exception for each."""
from __future__ import annotations

import ctypes
import enum
from typing import Any, Callable, Dict, Optional, Type

from . import _abi


class _Open(enum.IntEnum):
    """An enum that takes unknown values: a newer library may have more of them."""

    @classmethod
    def _missing_(cls, value: object) -> Optional["_Open"]:
        if not isinstance(value, int):
            return None
        made = int.__new__(cls, value)
        made._name_ = f"UNKNOWN_{value}"
        made._value_ = value
        return made


class Status(_Open):
    OK = 0
    INVALID = 1
    NOT_FOUND = 2
    CONFLICT = 3
    BUSY = 4
    CANCELLED = 5
    NO_MEMORY = 6
    TOO_SMALL = 7
    LIMIT = 8
    CORRUPT = 9
    INCOMPATIBLE = 10
    IO = 11
    NO_SPACE = 12
    DEVICE = 13
    UNSUPPORTED = 14
    INTERNAL = 15


class Detail(_Open):
    NONE = 0
    FORMAT = 1
    CATALOG_CORRUPT = 2
    CATALOG_MISSING = 3
    STORE_TOO_NEW = 4
    FOREIGN_PROGRAM = 5
    READ_ONLY = 6
    PERMISSION = 7
    UNSAFE_DIRECTORY = 8
    STORE_LOCKED = 9
    REVISION = 10
    NAME_TAKEN = 11
    MODEL_MISMATCH = 12
    FORKED = 13
    REENTRANT = 14
    CONCURRENT = 15
    TEMPLATE_ERROR = 16
    TEMPLATE_LIMIT = 17
    STATE = 18
    NUMERIC = 19
    STRUCT_TAIL = 20
    GRAMMAR_ERROR = 21
    GRAMMAR_LIMIT = 22


class Error(Exception):
    """A call of kvrt failed: the class, a finer reason, the code of errno or SQLite, and a message that says what failed and where."""

    def __init__(self, message: str, status: Status = Status.INTERNAL, detail: Detail = Detail.NONE, os_code: int = 0) -> None:
        super().__init__(message)
        self.message = message
        self.status = status
        self.detail = detail
        self.os_code = os_code


class Invalid(Error, ValueError):
    """The call is wrong: mend it."""


class NotFound(Error, LookupError):
    """No such file, session or name."""


class Conflict(Error):
    """The name is taken, or another handle has saved it since: resume it, take another name, or overwrite."""


class Busy(Error):
    """Another call, a generation or another process uses it: try again when that is over."""


class Cancelled(Error):
    """Stopped by cancel or by a callback."""


class NoMemory(Error, MemoryError):
    """The system gave no memory."""


class TooSmall(Error):
    """A buffer is too small; this package grows its own."""


class LimitExceeded(Error):
    """A limit was passed; the message names the option that raises it."""


class Corrupt(Error):
    """A file is damaged."""


class Incompatible(Error):
    """The data is sound, but belongs to another model or a later format."""


class IOFailed(Error):
    """The system failed to read or write; os_code says why."""


class NoSpace(Error):
    """The disk, a quota or disk_bytes_max is full; nothing was lost."""


class DeviceFailed(Error):
    """The compute device failed."""


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
    return CLASSES.get(known, Error)(message or known.name, known, Detail(detail), os_code)


def call(function: Callable[..., int], *args: Any) -> None:
    """Calls a function that returns a status, with an error struct of its own, which no finalizer and no other thread overwrites."""
    error = _abi.Error.make()
    status = function(*args, ctypes.byref(error))
    if status != 0:
        raise make_error(status, error.detail, error.os_code, error.message.decode("utf-8", "replace"))
