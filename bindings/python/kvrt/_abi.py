"""The library, checked as it is loaded."""
from __future__ import annotations

import ctypes
import os

from . import _raw

UNKNOWN = 2**32 - 1  # kvrt_struct_offset: no such field


def _open_library() -> ctypes.CDLL:
    """The library that KVRT_LIBRARY names; else the one in this package (a wheel has it); else the system's."""
    name = os.environ.get("KVRT_LIBRARY")
    if not name:
        bundled = os.path.join(os.path.dirname(os.path.abspath(__file__)), "libkvrt.so.0")
        name = bundled if os.path.exists(bundled) else "libkvrt.so.0"
    try:
        library = ctypes.CDLL(name)
    except OSError as error:
        raise ImportError(f"kvrt: cannot load its library: {error}. Install libkvrt, or set KVRT_LIBRARY to the path of libkvrt.so.0") from error
    for function, (result, arguments) in _raw.FUNCTIONS.items():
        try:
            entry = getattr(library, function)
        except AttributeError:
            raise ImportError(f"kvrt: {name} has no {function}: it is older than this package, or another library") from None
        entry.restype, entry.argtypes = result, arguments
    if library.kvrt_abi_version() != _raw.ABI_VERSION:
        raise ImportError(f"kvrt: {name} has ABI {library.kvrt_abi_version()}, this package knows {_raw.ABI_VERSION}")
    _compare(name, library)
    return library


def _compare(name: str, library: ctypes.CDLL) -> None:
    """Fails where the library lays out a struct in another way."""
    for cls in _raw.STRUCTS:
        struct = cls.__name__
        size = library.kvrt_struct_size(struct.encode())
        # A longer struct has fields that were appended later.
        if size < ctypes.sizeof(cls):
            raise ImportError(f"kvrt: {name}: {struct} has {size} bytes, this package knows {ctypes.sizeof(cls)}: the library is older")
        for declared in cls._fields_:
            field = declared[0]
            here, there = getattr(cls, field).offset, library.kvrt_struct_offset(struct.encode(), field.encode())
            if here != there:
                found = "no such field" if there == UNKNOWN else f"it at {there}"
                raise ImportError(f"kvrt: {name}: {struct}.{field}: this package knows it at {here}, the library has {found}")


lib = _open_library()
