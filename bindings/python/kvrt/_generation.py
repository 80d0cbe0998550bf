"""Generations as iterators."""
from __future__ import annotations

import array
import asyncio
import ctypes
import dataclasses
import json
from types import TracebackType
from typing import TYPE_CHECKING, Any, AsyncIterator, Callable, Iterator, List, Mapping, Optional, Sequence, Tuple, Type, Union

from . import _abi
from ._cancel import Cancel
from ._enums import EventType, Logits, Reply, ToolChoice
from ._errors import Busy, Detail, Error, Invalid, Status
from ._handles import fill, text_bytes
from ._types import Event, Report
from ._worker import Waiter

if TYPE_CHECKING:
    from ._session import Session

Sampler = Callable[["array.array[float]"], int]
_TEXT = (EventType.TOKEN, EventType.DONE)
SLICE_MS = 100  # the longest that a signal waits for Python


@dataclasses.dataclass(frozen=True)
class GenerateOptions:
    """kvrt_generate_options. sampler: a callable that is given the logits and returns the token; "host": the caller answers with accept.
    prefill: sample nothing, only compute the queued tokens; `logits` says whose rows to show. grammar (GBNF) or json_schema (text, or a value
    for json.dumps): the answer fits it; json_schema_open: objects that do not say additionalProperties may have others; continue_grammar: the
    answer goes on by the last one. tool_choice: NAMED goes with tool_name, which alone means it. cancel: a Cancel that ends it from outside."""

    max_tokens: int = 0
    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 0.0
    min_p: float = 0.0
    repetition_penalty: float = 0.0
    frequency_penalty: float = 0.0
    presence_penalty: float = 0.0
    penalty_window: int = 0
    logit_bias: Optional[Mapping[int, float]] = None
    seed: int = 0
    stop: Sequence[str] = ()
    stop_tokens: Sequence[int] = ()
    ignore_eos: bool = False
    top_logprobs: int = 0
    emit_logits: bool = False
    sampler: Union[None, str, Sampler] = None
    generation_prompt: bool = True
    all_or_nothing: bool = False
    prefill: bool = False
    logits: Logits = Logits.NONE
    grammar: Optional[str] = None
    json_schema: Union[None, str, bool, Mapping[str, Any]] = None
    json_schema_open: bool = False
    continue_grammar: bool = False
    reply: Reply = Reply.DEFAULT
    tool_choice: ToolChoice = ToolChoice.DEFAULT
    tool_name: str = ""
    parallel_calls_max: int = 0
    reasoning_tokens_max: int = 0
    cancel: Optional[Cancel] = None

    @staticmethod
    def of(options: Optional["GenerateOptions"], changes: Mapping[str, Any]) -> "GenerateOptions":
        return dataclasses.replace(options or GenerateOptions(), **changes)

    @property
    def sample(self) -> Optional[Sampler]:
        return self.sampler if callable(self.sampler) else None

    def to_struct(self) -> Tuple[Any, List[Any]]:
        """The struct, and the objects that must live as long as it is used."""
        if isinstance(self.sampler, str) and self.sampler != "host":
            raise Invalid(f'sampler is "{self.sampler}", expected a callable or "host"', Status.INVALID)
        kind, grammar = self._grammar()
        struct = fill(_abi.GenerateOptions.make(), max_tokens=self.max_tokens, temperature=self.temperature, top_k=self.top_k,
                      top_p=self.top_p, min_p=self.min_p, repetition_penalty=self.repetition_penalty,
                      frequency_penalty=self.frequency_penalty, presence_penalty=self.presence_penalty, penalty_window=self.penalty_window,
                      seed=self.seed, ignore_eos=self.ignore_eos, top_logprobs=self.top_logprobs, sampler=self.sampler is not None,
                      emit_logits=self.emit_logits, no_generation_prompt=not self.generation_prompt, all_or_nothing=self.all_or_nothing,
                      prefill=self.prefill, logits=self.logits, grammar_kind=kind, reply=self.reply,
                      parallel_calls_max=self.parallel_calls_max, reasoning_tokens_max=self.reasoning_tokens_max)
        name = text_bytes(self.tool_name, "tool_name")
        named = name and self.tool_choice == ToolChoice.DEFAULT
        struct.tool_choice = ToolChoice.NAMED if named else self.tool_choice
        struct.tool_name, struct.tool_name_size = name, len(name)
        bias = (_abi.TokenValue * len(self.logit_bias or {}))()
        for slot, (token, value) in zip(bias, (self.logit_bias or {}).items()):
            fill(slot, token=token, value=value)
        tokens = (ctypes.c_int32 * len(self.stop_tokens))(*self.stop_tokens)
        if isinstance(self.stop, str) or any("\0" in text for text in self.stop):
            raise Invalid("stop is a sequence of strings without NUL", Status.INVALID)
        texts = b"".join(text_bytes(text, "stop") + b"\0" for text in self.stop)
        struct.logit_bias, struct.logit_bias_count = ctypes.addressof(bias), len(bias)
        struct.stop_tokens, struct.stop_token_count = ctypes.addressof(tokens), len(tokens)
        struct.stop_strings, struct.stop_strings_size = texts, len(texts)
        struct.grammar, struct.grammar_size = grammar, len(grammar)
        return struct, [bias, tokens, texts, grammar, name]

    def _grammar(self) -> Tuple[int, bytes]:
        """The grammar's kind and its source."""
        if (self.grammar is not None) + (self.json_schema is not None) + self.continue_grammar > 1:
            raise Invalid("grammar, json_schema and continue_grammar exclude each other", Status.INVALID)
        if self.grammar is not None:
            return 1, text_bytes(self.grammar, "grammar")
        if self.json_schema is not None:
            schema = self.json_schema if isinstance(self.json_schema, str) else json.dumps(self.json_schema)
            return (4 if self.json_schema_open else 2), text_bytes(schema, "json_schema")
        return (3 if self.continue_grammar else 0), b""


class _Stream:
    """A generation that has begun."""

    _over = True

    def __init__(self, session: "Session", options: GenerateOptions) -> None:
        self._report: Optional[Report] = None
        self._session = session
        self._options = options
        self._number = session._begin(options)
        self._over = False

    @property
    def report(self) -> Report:
        """The usage of a generation that has ended: at DONE, or after close."""
        if self._report is None:
            raise Invalid("the generation has not ended, or failed", Status.INVALID, Detail.STATE)
        return self._report

    def _pull(self, timeout_ms: int) -> Optional[Event]:
        """The next event to show. None: there is none yet, or the generation is over."""
        while not self._over:
            try:
                event = self._session.next(timeout_ms)
            except Busy:
                raise
            except BaseException:
                self._leave(wait=False)  # the traceback may keep this object
                raise
            if event.type is EventType.NONE:
                return None
            if event.type is EventType.IDLE:  # another caller took DONE
                self._over = True
                return None
            if event.type is EventType.DONE:
                self._over = True
                self._report = event.report
            sample = self._options.sample
            if event.logits is None or sample is None:
                return event
            try:
                self._session.accept(sample(event.logits))
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
    """Iterates over the events up to DONE. Leaving the loop or the with block, or dropping the object, cancels the generation."""

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
        """The whole text, up to the end."""
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


class AsyncGeneration(_Stream):
    """A generation for asyncio. Cancelling the task cancels it. The sampler runs in the event loop."""

    def __init__(self, session: "Session", options: GenerateOptions) -> None:
        self._waiter = Waiter()
        super().__init__(session, options)
        session._bell.waiters.add(self._waiter)

    def __aiter__(self) -> AsyncIterator[Event]:
        return self

    async def __anext__(self) -> Event:
        try:
            return await self._anext()
        except asyncio.CancelledError:
            await self.aclose()
            raise

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
        return "".join([event.text async for event in self if event.type in _TEXT])

    async def aclose(self) -> None:
        """Cancels the generation, and waits for the step that it is in."""
        if self._over:
            return
        self._session.cancel()
        while True:
            self._waiter.clear()
            try:
                event = self._pull(0)
            except Error:
                return
            if self._over:
                return
            if event is None:
                self._session._core.kick(self._waiter)
                await self._waiter.wait()

    def __del__(self) -> None:
        self._finalize(wait=False)
        if hasattr(self, "_session"):
            self._session._bell.waiters.discard(self._waiter)

    async def __aenter__(self) -> "AsyncGeneration":
        return self

    async def __aexit__(self, kind: Optional[Type[BaseException]], value: Optional[BaseException], trace: Optional[TracebackType]) -> None:
        await self.aclose()
