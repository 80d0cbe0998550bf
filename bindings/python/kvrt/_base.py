"""The bases of what bindings/raw.py makes of kvrt.h: its structs and its enums."""
from __future__ import annotations

import ctypes
import enum
from typing import Optional, Type, TypeVar

S = TypeVar("S", bound="Struct")


class Struct(ctypes.Structure):
    """A struct of kvrt.h; the first field of all but one is struct_size."""

    struct_size: int

    @classmethod
    def make(cls: Type[S]) -> S:
        made = cls()
        made.struct_size = ctypes.sizeof(cls)
        return made


class Open(enum.IntEnum):
    """An enum that takes unknown values: a newer library may have more of them."""

    @classmethod
    def _missing_(cls, value: object) -> Optional["Open"]:
        if not isinstance(value, int):
            return None
        made = int.__new__(cls, value)
        made._name_ = f"UNKNOWN_{value}"
        made._value_ = value
        return made


class OpenFlag(enum.IntFlag):
    """Flags, which take unknown ones."""
