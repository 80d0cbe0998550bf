"""The core that a model and its sessions share: the C handle, and the one thread that computes for asyncio."""
from __future__ import annotations

import asyncio
import collections
import ctypes
import threading
import time
import weakref
from typing import Callable, Deque, Optional, Set

from . import _abi
from ._errors import Error, call
from ._handles import workers

lib = _abi.lib
STEP_MS = 50


class Waiter:
    """A task that waits for a session's next event."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._event = asyncio.Event()
        self.failure: Optional[Error] = None  # the worker's

    def clear(self) -> None:
        self._event.clear()

    async def wait(self) -> None:
        await self._event.wait()
        if self.failure is not None:
            failure, self.failure = self.failure, None
            raise failure

    def ring(self) -> None:
        """Wakes the task. Any thread."""
        try:
            self._loop.call_soon_threadsafe(self._event.set)
        except RuntimeError:  # the loop is closed: nobody waits
            pass


class Bell:
    """A session's wake: rings all its waiters."""

    def __init__(self) -> None:
        self.waiters: Set[Waiter] = set()

    def ring(self) -> None:
        for waiter in tuple(self.waiters):
            waiter.ring()


class Core:
    """The last holder's release releases the model. The worker thread lives while a session is runnable."""

    def __init__(self, raw: int) -> None:
        self.raw = raw
        self._lock = threading.RLock()  # a finalizer may run wherever it is held
        self._holders = 1
        self._running = False
        self._kicked = False
        self._waiters: "weakref.WeakSet[Waiter]" = weakref.WeakSet()  # the tasks that wait for the worker
        self._chores: Deque[Callable[[], None]] = collections.deque()  # generations that were left, to be ended

    def retain(self) -> None:
        with self._lock:
            self._holders += 1

    def release(self, _raw: int = 0) -> None:
        with self._lock:
            self._holders -= 1
            last = self._holders == 0
        if last:
            lib.kvrt_model_release(self.raw)

    def kick(self, waiter: Waiter) -> None:
        """A task waits for an event that a step may give: starts the worker, if it does not run."""
        with self._lock:
            self._kicked = True
            self._waiters.add(waiter)
        self._start()

    def later(self, chore: Callable[[], None]) -> None:
        """Gives the worker something to do that may wait for a step. Finalizers call it: where no thread can start any more, nothing is done."""
        with self._lock:
            self._chores.append(chore)
        try:
            self._start()
        except RuntimeError:
            pass

    def _start(self) -> None:
        with self._lock:
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
                    compute, self._kicked = self._kicked or runnable.value > 0, False
                    if not compute and not self._chores:
                        self._waiters.clear()
                        self._running = False
                        return
                while self._chores:
                    self._chores.popleft()()
                if compute:
                    self._compute(runnable)
        finally:
            self.release()

    def _compute(self, runnable: "ctypes.c_uint32") -> None:
        begin = time.monotonic()
        try:
            call(lib.kvrt_model_step, self.raw, STEP_MS, ctypes.byref(runnable))
        except Error as error:
            self._fail(error)
            runnable.value = 0
            return
        if runnable.value and time.monotonic() - begin < 0.001:
            time.sleep(0.001)  # the runnable sessions wait for blocks that another call holds

    def _fail(self, error: Error) -> None:
        with self._lock:
            waiters = list(self._waiters)
        for waiter in waiters:
            waiter.failure = error
            waiter.ring()
