"""A directory of saved sessions."""
from __future__ import annotations

import ctypes
import dataclasses
import json
from typing import Any, Callable, Dict, List, Optional

from . import _abi
from ._enums import EventType
from ._errors import Corrupt, _Open
from ._handles import Handle, buffer_of, in_range, lib, text_bytes
from ._types import Event, GcReport, StoreEntry, StoreInfo, from_struct


class RepairOutcome(_Open):
    SOUND = 1
    MENDED = 2
    REBUILT = 3


@dataclasses.dataclass(frozen=True)
class RepairReport:
    outcome: RepairOutcome
    sessions_kept: int
    sessions_with_holes: int
    sessions_recovered: int
    sessions_lost: int
    chunks_kept: int
    chunks_lost: int
    bytes_kept: int
    ms: float
    chunks_unowned: int


class Store(Handle):
    """A store. Runtime.open_store opens it; any number of processes may have a directory open."""

    def __init__(self, raw: int) -> None:
        super().__init__(raw, lib.kvrt_store_release)

    def info(self) -> StoreInfo:
        out = _abi.StoreProps.make()
        self._call(lib.kvrt_store_info, ctypes.byref(out))
        return from_struct(StoreInfo, out)

    def list(self, domain: Optional[str] = None) -> List[StoreEntry]:
        """The sessions of a domain ("": the default one), or of all domains, sorted by domain and name."""
        found: List[StoreEntry] = []

        def note(event: Event) -> None:
            if event.entry is not None:
                found.append(event.entry)

        name = None if domain is None else text_bytes(domain, "domain")
        self._watched(lib.kvrt_store_list, name, len(name or b""), callback=note)
        return found

    def stat(self, name: str, domain: str = "") -> StoreEntry:
        out = _abi.StoreEntry.make()
        self._named(lib.kvrt_store_stat, name, domain, ctypes.byref(out))
        return from_struct(StoreEntry, out)

    def show(self, name: str, domain: str = "") -> Dict[str, Any]:
        """The contents of a saved session, without its model: tokens, messages and their spans, chunks, options (kvrt_store_show)."""
        where, what = text_bytes(domain, "domain"), text_bytes(name, "name")
        found: Dict[str, Any] = json.loads(bytes(buffer_of(self, lib.kvrt_store_show, where, len(where), what, len(what))))
        return found

    def remove(self, name: str, domain: str = "") -> None:
        self._named(lib.kvrt_store_remove, name, domain)

    def rename(self, name: str, to: str, domain: str = "") -> None:
        new = text_bytes(to, "name")
        self._named(lib.kvrt_store_rename, name, domain, new, len(new))

    def pin(self, name: str, pinned: int = 1, domain: str = "") -> None:
        """Pins a session: gc leaves it, expired or not. `pinned` is its priority when space is short, 1 to 255; 0: not pinned."""
        self._named(lib.kvrt_store_pin, name, domain, int(pinned))

    def set_ttl(self, name: str, seconds: int, domain: str = "") -> None:
        """Sets when a session expires: so many seconds from now; 0: never."""
        self._named(lib.kvrt_store_set_ttl, name, domain, in_range(seconds, ctypes.c_uint64, "seconds"))

    def gc(self, progress: Optional[Callable[[Event], object]] = None) -> GcReport:
        out = _abi.GcReport.make()
        self._watched(lib.kvrt_store_gc, callback=progress, out=(ctypes.byref(out),))
        return from_struct(GcReport, out)

    def remove_old(self) -> int:
        """Removes the files that migrations and repairs left (catalog.db.old, damaged-<n>). Returns their bytes."""
        bytes_removed = ctypes.c_uint64()
        self._call(lib.kvrt_store_remove_old, ctypes.byref(bytes_removed))
        return int(bytes_removed.value)

    def verify(self, progress: Optional[Callable[[Event], object]] = None) -> List[str]:
        """Reads and checks everything. Returns the faults, in words; an empty list: all is well."""
        faults: List[str] = []

        def note(event: Event) -> None:
            if event.type is EventType.FAULT:
                faults.append(event.text)
            if progress is not None:
                progress(event)

        try:
            self._watched(lib.kvrt_store_verify, callback=note)
        except Corrupt:
            if not faults:
                raise
        return faults

    def _named(self, function: Callable[..., int], name: str, domain: str, *rest: object) -> None:
        where, what = text_bytes(domain, "domain"), text_bytes(name, "name")
        self._call(function, where, len(where), what, len(what), *rest)
