"""Generations as iterators."""
from __future__ import annotations

import asyncio
import functools
import weakref
from types import TracebackType
from typing import TYPE_CHECKING, Any, AsyncIterator, Iterator, Optional, Type

from ._enums import Detail, EventType, Status
from ._errors import Busy, Error, Invalid
from ._options import GenerateOptions
from ._types import Event
from ._values import Report
from ._worker import Waiter

if TYPE_CHECKING:
    from ._session import Session

_TEXT = (EventType.TOKEN, EventType.DONE)
SLICE_MS = 100  # the longest that a signal waits for Python


class _Stream:
    """A generation that has begun."""

    _over = True

    def __init__(self, session: "Session", options: GenerateOptions) -> None:
        self._report: Optional[Report] = None
        self._session = session
        self._options = options
        self._sample = options.sample
        self._number = session._begin(options)
        self._over = False

    @property
    def report(self) -> Report:
        """The usage of a generation that has ended: at DONE, or after close. Before, and where it failed: Invalid."""
        if self._report is None:
            raise Invalid("the generation has not ended, or failed", Status.INVALID, Detail.STATE)
        return self._report

    def _pull(self, timeout_ms: int) -> Optional[Event]:
        """The next event to show. None: there is none yet, or the generation is over."""
        while not self._over:
            try:
                event = self._session._take(timeout_ms)
            except Busy:
                raise
            except BaseException:
                self._leave(wait=False)  # the traceback may keep this object
                raise
            kind = event.type
            if kind is EventType.TOKEN:
                return event
            if kind is EventType.NONE:
                return None
            if kind is EventType.IDLE:  # another caller took DONE
                self._over = True
                return None
            if kind is EventType.DONE:
                self._over = True
                self._report = event.report
            if event.logits is None or self._sample is None:
                return event
            try:
                self._session.accept(self._sample(event.logits))
            except BaseException:
                self._leave(wait=False)
                raise
            if self._options.emit_logits:
                return event
        return None

    def _leave(self, wait: bool) -> None:
        if not self._over:
            self._over = True
            self._report = self._session._leave_generation(self._number, wait)

    def _finalize(self, wait: bool) -> None:
        try:
            self._leave(wait)
        except Error:
            pass


class Generation(_Stream):
    """Iterates over the events up to DONE. Leaving the loop or the with block, or dropping the object, cancels the generation. While a call
    waits, other threads of Python run; a signal is seen within 0.1 s and a step."""

    def __iter__(self) -> Iterator[Event]:
        return self

    def __next__(self) -> Event:
        while True:
            event = self._pull(SLICE_MS)
            if event is not None:
                return event
            if self._over:
                raise StopIteration

    def read(self) -> str:
        """The whole text that is still to come, up to the end; report.reason says whether it was cancelled."""
        return "".join(event.text for event in self if event.type in _TEXT)

    def close(self) -> None:
        """Cancels the generation, and waits for the step that it is in."""
        self._leave(wait=True)

    def __del__(self) -> None:
        self._finalize(wait=True)

    def __enter__(self) -> "Generation":
        return self

    def __exit__(self, kind: Optional[Type[BaseException]], value: Optional[BaseException], trace: Optional[TracebackType]) -> None:
        self.close()


def _task_done(reader: "weakref.ref[AsyncGeneration]", task: "asyncio.Task[Any]") -> None:
    generation = reader()
    if generation is not None and task.cancelled():
        generation._finalize(wait=False)


class AsyncGeneration(_Stream):
    """A generation for asyncio. Cancelling the task that reads it cancels it, wherever that task waits. A loop that is left by break or by an
    exception leaves it to the collector: `async with` ends it there. The sampler runs in the event loop."""

    def __init__(self, session: "Session", options: GenerateOptions) -> None:
        self._waiter = Waiter()
        self._task: "Optional[asyncio.Task[Any]]" = None  # the one that reads
        self._done = functools.partial(_task_done, weakref.ref(self))
        super().__init__(session, options)
        session._bell.waiters.add(self._waiter)

    def __aiter__(self) -> AsyncIterator[Event]:
        return self

    async def __anext__(self) -> Event:
        self._watch_task()
        try:
            return await self._anext()
        except asyncio.CancelledError:
            await self.aclose()
            raise
        finally:
            if self._over:
                self._forget_task()

    def _watch_task(self) -> None:
        """A task that is cancelled while its loop's body waits for something else never comes back here, and its traceback keeps this object."""
        task = asyncio.current_task()
        if task is not self._task and task is not None:
            self._forget_task()
            self._task = task
            task.add_done_callback(self._done)

    def _forget_task(self) -> None:
        if self._task is not None:
            self._task.remove_done_callback(self._done)
            self._task = None

    async def _anext(self) -> Event:
        await asyncio.sleep(0)  # other tasks have their turn, also when events are plenty
        while True:
            self._waiter.clear()
            event = self._pull(0)
            if event is not None:
                return event
            if self._over:
                raise StopAsyncIteration
            self._session._core.kick(self._waiter)
            await self._waiter.wait()

    async def read(self) -> str:
        """The whole text that is still to come, up to the end; report.reason says whether it was cancelled."""
        return "".join([event.text async for event in self if event.type in _TEXT])

    async def aclose(self) -> None:
        """Cancels the generation, and waits for the step that it is in."""
        try:
            if not self._over:
                self._session.cancel()
            while not self._over:
                self._waiter.clear()
                if self._pull(0) is None and not self._over:
                    self._session._core.kick(self._waiter)
                    await self._waiter.wait()
        except Error:  # the session was closed, or the generation has failed: it is over
            self._finalize(wait=False)

    def __del__(self) -> None:
        self._finalize(wait=False)
        if hasattr(self, "_session"):
            self._session._bell.waiters.discard(self._waiter)
            self._forget_task()

    async def __aenter__(self) -> "AsyncGeneration":
        return self

    async def __aexit__(self, kind: Optional[Type[BaseException]], value: Optional[BaseException], trace: Optional[TracebackType]) -> None:
        await self.aclose()
