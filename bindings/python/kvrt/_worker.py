"""What a model and its sessions share: its C handle, and the one thread that computes for asyncio."""
from __future__ import annotations

import asyncio
import ctypes
import threading
import time
from typing import Optional, Set

from . import _abi
from ._errors import Error, last_error
from ._handles import workers

lib = _abi.lib
STEP_MS = 50


class Bell:
    """Rings an event loop from any thread: a session's wake."""

    def __init__(self) -> None:
        self._loop: Optional[asyncio.AbstractEventLoop] = None
        self._event: Optional[asyncio.Event] = None
        self.failure: Optional[Error] = None  # of the worker

    def arm(self) -> None:
        self._event = asyncio.Event()
        self._loop = asyncio.get_running_loop()

    def clear(self) -> None:
        if self._event is not None:
            self._event.clear()

    async def wait(self) -> None:
        if self._event is not None:
            await self._event.wait()
        if self.failure is not None:
            failure, self.failure = self.failure, None
            raise failure

    def ring(self) -> None:
        loop, event = self._loop, self._event
        if loop is None or event is None:
            return
        try:
            loop.call_soon_threadsafe(event.set)
        except RuntimeError:  # the loop is closed: nobody waits
            self._loop = None


class Core:
    """The model is released with the last of its holders. The worker lives while something is runnable."""

    def __init__(self, raw: int) -> None:
        self.raw = raw
        self._lock = threading.Lock()
        self._holders = 1
        self._running = False
        self._kicked = False
        self._bells: Set[Bell] = set()  # of those who wait for the worker

    def retain(self) -> None:
        with self._lock:
            self._holders += 1

    def release(self, _raw: int = 0) -> None:
        with self._lock:
            self._holders -= 1
            last = self._holders == 0
        if last:
            lib.kvrt_model_release(self.raw)

    def kick(self, bell: Bell) -> None:
        """Somebody waits for what a step may give."""
        with self._lock:
            self._kicked = True
            self._bells.add(bell)
            if self._running:
                return
            self._running = True
            self._holders += 1
        thread = threading.Thread(target=self._run, name="kvrt-worker", daemon=True)
        workers.add(thread)
        try:
            thread.start()
        except BaseException:
            self._running = False
            self.release()
            raise

    def _run(self) -> None:
        runnable = ctypes.c_uint32(0)
        try:
            while True:
                with self._lock:
                    if not self._kicked and runnable.value == 0:
                        self._running = False
                        self._bells.clear()
                        return
                    self._kicked = False
                begin = time.monotonic()
                status = lib.kvrt_model_step(self.raw, STEP_MS, ctypes.byref(runnable))
                if status != 0:
                    self._fail(last_error(status))
                    runnable.value = 0
                elif runnable.value and time.monotonic() - begin < 0.001:
                    time.sleep(0.001)  # what could run waits for blocks that another call holds
        finally:
            self.release()

    def _fail(self, error: Error) -> None:
        with self._lock:
            bells = list(self._bells)
        for bell in bells:
            bell.failure = error
            bell.ring()
