"""Events, messages and the like, and how values are made of structs."""
from __future__ import annotations

import array
import ctypes
import dataclasses
import typing
from typing import Any, Callable, Dict, Optional, Tuple, Type, TypeVar

from . import _raw
from ._base import Struct
from ._enums import EventType, Reason
from ._values import Report, StoreEntry


@dataclasses.dataclass(frozen=True)
class Autosave:
    """When a session saves itself, with the defaults of Session.checkpoint. It needs a store. close saves what is not saved yet. A failure is logged,
    and stands in SessionInfo.last_error_status."""

    turn: bool = False
    """When a generation is over and its DONE was taken."""
    tokens: int = 0
    """Each time that it has grown by so many tokens, or tokens whose KV is computed; 0: not."""
    idle_ms: int = 0
    """When nothing has happened to it for so many milliseconds, at most a day; 0: not."""
    name: str = ""
    """The name to save under, until the session has that of its last save or resume."""


@dataclasses.dataclass(frozen=True)
class TokenLogprob:
    """A token id and its natural log probability."""

    token: int
    logprob: float


@dataclasses.dataclass(frozen=True)
class Event:
    """An event of a generation or of a long call; fields that do not belong to its type are empty."""

    type: EventType
    token: int = 0
    position: int = 0
    text: str = ""
    logprob: float = 0.0
    top: Tuple[TokenLogprob, ...] = ()
    done: int = 0
    total: int = 0
    logits: Optional["array.array[float]"] = None
    reason: Reason = Reason.NONE
    report: Optional[Report] = None
    entry: Optional[StoreEntry] = None


@dataclasses.dataclass(frozen=True)
class Message:
    """A message of the conversation: its fields for the template in `content`, and its tokens [begin, end). `ended`: the model wrote it and ended
    its turn; one that is generated and not ended was cut off, and the next generate goes on with it."""

    content: Dict[str, Any]
    generated: bool
    begin: int
    end: int
    ended: bool


T = TypeVar("T")
_hints: Dict[type, Dict[str, Any]] = {}


def from_struct(cls: Type[T], struct: Any) -> T:
    """Makes the dataclass from the struct whose fields have the same names."""
    if cls not in _hints:
        _hints[cls] = typing.get_type_hints(cls)
    values = {}
    for name, kind in _hints[cls].items():
        value = getattr(struct, name)
        if kind is str:
            values[name] = value.decode("utf-8", "replace")
        elif typing.get_origin(kind) is tuple:
            element: Callable[[Any], Any] = typing.get_args(kind)[0]
            values[name] = tuple(element(v) for v in value)
        else:
            values[name] = kind(value)
    return cls(**values)


def from_address(cls: Type[T], struct: Type[Struct], address: Optional[int]) -> Optional[T]:
    return from_struct(cls, struct.from_address(address)) if address else None


def text_of(event: Any) -> str:
    return ctypes.string_at(event.text, event.text_size).decode("utf-8", "replace") if event.text_size else ""


def make_event(event: Any) -> Event:
    """A copy of a kvrt_event that outlives it."""
    kind = EventType(event.type)
    if kind is EventType.TOKEN:
        top: Tuple[TokenLogprob, ...] = ()
        if event.top_count:
            values = (_raw.kvrt_token_value * event.top_count).from_address(event.top)
            top = tuple(TokenLogprob(v.token, v.value) for v in values)
        return Event(kind, event.token, event.position, text_of(event), event.logprob, top)
    if kind is EventType.LOGITS:
        # A copy: a view of the library's memory could outlive it, and a row is small beside the step that computed it.
        row = array.array("f")
        row.frombytes((ctypes.c_char * (4 * event.logits_count)).from_address(event.logits))
        return Event(kind, position=event.position, logits=row)
    report = from_address(Report, _raw.kvrt_report, event.report)
    entry = from_address(StoreEntry, _raw.kvrt_store_entry, event.entry)
    return Event(kind, text=text_of(event), done=event.done, total=event.total, reason=Reason(event.reason), report=report, entry=entry)
