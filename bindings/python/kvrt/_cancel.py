"""A cancel: ends generations from outside."""
from __future__ import annotations

import ctypes

from ._errors import call
from ._handles import Handle, lib
from ._signals import Signals


class Cancel(Handle):
    """Ends every generation that was begun with it, session.generate(cancel=...): any number, of any sessions, from any thread. A fired
    cancel stays fired: a generation that is begun with it later ends at once. It may be closed before its generations end."""

    def __init__(self) -> None:
        out = ctypes.c_void_p()
        call(lib.kvrt_cancel_open, ctypes.byref(out))
        super().__init__(out.value or 0, lib.kvrt_cancel_release)

    def fire(self) -> None:
        """Does not wait for a step that runs: a generation in it ends with it."""
        with self._held() as raw, Signals():
            lib.kvrt_cancel_fire(raw)

    @property
    def fired(self) -> bool:
        """True: it was fired."""
        with self._held() as raw:
            return bool(lib.kvrt_cancel_fired(raw))
