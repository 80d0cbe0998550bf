"""A directory of saved sessions."""
from __future__ import annotations

import ctypes
import json
from typing import Any, Callable, Dict, List, Optional

from . import _raw
from ._arguments import integer, text_bytes
from ._enums import EventType
from ._errors import Corrupt
from ._handles import Handle, buffer_of, lib
from ._types import Event, from_struct
from ._values import GcReport, StoreEntry, StoreInfo


class Store(Handle):
    """A directory of saved sessions. Runtime.open_store opens it. Any number of processes may have one open, and any number of threads may use it at
    once. A call that writes waits up to 5 s for other writers, then it is Busy; one that reads waits for none. An expired session that is not
    pinned is NotFound."""

    def __init__(self, raw: int) -> None:
        super().__init__(raw, lib.kvrt_store_release)

    def info(self) -> StoreInfo:
        """Describes the store's contents and its size on disk."""
        out = _raw.kvrt_store_props.make()
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
        """The entry of one session, as list gives it."""
        out = _raw.kvrt_store_entry.make()
        self._named(lib.kvrt_store_stat, name, domain, ctypes.byref(out))
        return from_struct(StoreEntry, out)

    def show(self, name: str, domain: str = "") -> Dict[str, Any]:
        """The contents of a saved session, without its model: tokens, messages and their spans, chunks, options (kvrt_store_show)."""
        where, what = text_bytes(domain, "domain"), text_bytes(name, "name")
        found: Dict[str, Any] = json.loads(bytes(buffer_of(self, lib.kvrt_store_show, where, len(where), what, len(what))))
        return found

    def remove(self, name: str, domain: str = "") -> None:
        """Removes a saved session, and the chunks that no other session needs. Sessions that are open go on, and may save it again."""
        self._named(lib.kvrt_store_remove, name, domain)

    def rename(self, name: str, to: str, domain: str = "") -> None:
        """Renames a saved session, never over another (Conflict)."""
        new = text_bytes(to, "to")
        self._named(lib.kvrt_store_rename, name, domain, new, len(new))

    def pin(self, name: str, pinned: int = 1, domain: str = "") -> None:
        """Pins a saved session: it does not expire, and loses its KV later than others when room is short. `pinned` is its priority, 1 to 255; 0: not
        pinned, and its expiry counts again."""
        self._named(lib.kvrt_store_pin, name, domain, integer(pinned, ctypes.c_uint32, "pinned"))

    def set_ttl(self, name: str, seconds: int, domain: str = "") -> None:
        """Sets when a saved session expires: so many seconds from now, at most 100 years; 0: never."""
        self._named(lib.kvrt_store_set_ttl, name, domain, integer(seconds, ctypes.c_uint64, "seconds"))

    def gc(self, progress: Optional[Callable[[Event], object]] = None) -> GcReport:
        """Collects garbage: expired sessions that are not pinned, chunks that no session needs, and files in which no chunk is left. Saves do slices
        of this work by themselves. An exception of `progress` stops it; the store is whole wherever that is."""
        out = _raw.kvrt_gc_report.make()
        self._watched(lib.kvrt_store_gc, callback=progress, out=(ctypes.byref(out),))
        return from_struct(GcReport, out)

    def remove_old(self) -> int:
        """Removes the backups of migrations and repairs (catalog.db.old, damaged-<n>), which still hold sessions that were removed since. Returns the
        bytes that were in them."""
        bytes_removed = ctypes.c_uint64()
        self._call(lib.kvrt_store_remove_old, ctypes.byref(bytes_removed))
        return int(bytes_removed.value)

    def verify(self, progress: Optional[Callable[[Event], object]] = None) -> List[str]:
        """Reads and checks the whole store; others may use it meanwhile. Returns the faults, in words; an empty list: all is well. It finds damage, not
        forgery."""
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
