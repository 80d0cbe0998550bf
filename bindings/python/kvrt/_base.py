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


def formatted(value: int, spec: str) -> str:
    """A value of an enum in an f-string: its name, as print has it, unless the format is one for numbers, such as :d."""
    return format(int(value), spec) if spec.endswith(tuple("bcdeEfFgGnoxX%")) else format(str(value), spec)


class Open(enum.IntEnum):
    """An enum that takes unknown values: a newer library may have more of them."""

    def __str__(self) -> str:
        return self.name

    def __format__(self, format_spec: str) -> str:
        return formatted(self, format_spec)

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

    def __str__(self) -> str:
        known = [flag for flag in type(self) if flag and flag in self]
        rest = int(self) & ~sum(map(int, known))
        return "|".join([str(flag.name) for flag in known] + ([hex(rest)] if rest else [])) or "0"

    def __format__(self, format_spec: str) -> str:
        return formatted(self, format_spec)
