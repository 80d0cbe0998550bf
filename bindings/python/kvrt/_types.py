"""Reports of kvrt.h as Python sees them. Fields have the names and meanings of the header."""
from __future__ import annotations

import array
import ctypes
import dataclasses
import typing
from typing import Any, Dict, Optional, Tuple, Type, TypeVar

from . import _raw
from ._base import Struct
from ._enums import Detail, EventType, GroupKind, KvFormat, Reason, RepairOutcome, ReuseStopped, State, Status


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
class Report:
    """The usage of one prefill, generation or resume: kvrt_report. prompt_tokens == reused_memory + reused_disk + prefilled, exactly. Times are in
    milliseconds."""

    reason: Reason
    prompt_tokens: int
    reused_memory: int
    reused_disk: int
    prefilled: int
    generated: int
    reuse_stopped: ReuseStopped
    stop_string_tokens: int
    reuse_stopped_at: int
    seed: int
    queue_ms: float
    ttft_ms: float
    prefill_ms: float
    decode_ms: float
    tpot_ms: float
    prefill_tokens_per_s: float
    decode_tokens_per_s: float
    kv_units: int
    kv_bytes: int
    pool_bytes_begin: int
    pool_bytes_prefilled: int
    pool_bytes_end: int
    recomputed: int


@dataclasses.dataclass(frozen=True)
class StoreEntry:
    """A saved session, as the store lists it: kvrt_store_entry. Times are milliseconds since 1970, UTC; expires_unix_ms 0: never."""

    name: str
    domain: str
    id: str
    revision: int
    tokens: int
    chunks: int
    chunks_missing: int
    bytes: int
    bytes_shared: int
    created_unix_ms: int
    saved_unix_ms: int
    expires_unix_ms: int
    pinned: int


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
class RuntimeInfo:
    """A runtime's device, threads and libraries: kvrt_runtime_props."""

    threads: int
    device: str
    isa: str
    numerics: str
    isa_tables: str
    libraries: str
    device_name: str
    device_memory: int
    device_memory_free: int
    devices: str


@dataclasses.dataclass(frozen=True)
class ModelInfo:
    """A model's shape, sizes in bytes, and pool: kvrt_model_props. bos_token, eos_token: -1 is none. The first kv_groups entries of the kv_group tuples count."""

    has_weights: bool
    architecture: str
    name: str
    vocab_size: int
    context_length: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    width: int
    bos_token: int
    eos_token: int
    add_bos: bool
    has_template: bool
    block_tokens: int
    file_bytes: int
    weight_bytes: int
    kv_bytes_per_token: int
    unit_bytes: int
    units: int
    units_free: int
    units_cached: int
    sessions: int
    load_ms: float
    scratch_bytes: int
    step_ms_max: int
    kv_format: KvFormat
    kv_format_v: KvFormat
    kv_groups: int
    kv_group_layers: Tuple[int, ...]
    kv_group_window: Tuple[int, ...]
    kv_group_bytes_per_token: Tuple[int, ...]
    kv_group_tokens_max: Tuple[int, ...]
    kv_group_kind: Tuple[GroupKind, ...]


@dataclasses.dataclass(frozen=True)
class Metrics:
    """A model's counters since it was opened, and its gauges: kvrt_metrics."""

    sessions: int
    generating: int
    paused: int
    units: int
    units_used: int
    units_cached: int
    steps: int
    step_rows: int
    step_ms_total: float
    step_ms_longest: float
    generations: int
    prefills: int
    done_eos: int
    done_stop: int
    done_max_tokens: int
    done_context_full: int
    done_cancelled: int
    done_prefilled: int
    failed: int
    prompt_tokens: int
    reused_memory: int
    reused_disk: int
    prefilled: int
    recomputed: int
    generated: int
    preemptions: int
    evictions: int
    first_tokens: int
    ttft_ms_total: float
    queue_ms_total: float
    prefill_ms_total: float
    decode_ms_total: float


@dataclasses.dataclass(frozen=True)
class Plan:
    """The memory that a model and its sessions take, in bytes: kvrt_plan."""

    block_tokens: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    context_length: int
    fits: bool
    kv_bytes_per_token: int
    unit_bytes: int
    weight_bytes: int
    scratch_bytes: int
    session_units: int
    session_bytes: int
    used: float
    waste: float
    units: int
    kv_bytes: int
    stored_tokens: int
    unshared_tokens: int
    total_bytes: int
    memory_bytes: int
    sessions_max: int
    context_max: int
    kv_groups: int
    kv_group_layers: Tuple[int, ...]
    kv_group_window: Tuple[int, ...]
    kv_group_bytes_per_token: Tuple[int, ...]
    kv_group_tokens_max: Tuple[int, ...]
    recurrent_bytes: int
    boundary_bytes: int
    boundaries: int
    kv_group_kind: Tuple[GroupKind, ...]


@dataclasses.dataclass(frozen=True)
class CacheInfo:
    """A weight cache: kvrt_cache_props. Sizes are bytes."""

    files: int
    bytes: int
    bytes_max: int
    bytes_free: int
    directory: str


@dataclasses.dataclass(frozen=True)
class StoreInfo:
    """A store's contents and its size on disk in bytes: kvrt_store_props."""

    read_only: bool
    format: int
    sessions: int
    chunks: int
    segments: int
    chunk_bytes: int
    chunk_raw_bytes: int
    disk_bytes: int
    chunks_damaged: int
    chunks_evicted: int
    old_bytes: int
    bytes_free: int
    resumes_evicted: int


@dataclasses.dataclass(frozen=True)
class GcReport:
    """What Store.gc removed: kvrt_gc_report."""

    sessions_removed: int
    chunks_removed: int
    segments_removed: int
    bytes_freed: int
    ms: float
    bytes_rewritten: int
    bytes_punched: int
    log_bytes_kept: int


@dataclasses.dataclass(frozen=True)
class RepairReport:
    """What a repair kept and lost: kvrt_repair_report."""

    outcome: RepairOutcome
    sessions_kept: int
    sessions_with_holes: int
    sessions_recovered: int
    sessions_lost: int
    chunks_kept: int
    chunks_lost: int
    bytes_kept: int
    ms: float
    chunks_orphaned: int


@dataclasses.dataclass(frozen=True)
class SessionInfo:
    """A session's state: kvrt_session_props."""

    state: State
    tokens: int
    kv_tokens: int
    kv_units: int
    kv_bytes: int
    events_unread: int
    messages: int
    revision: int
    id: str
    name: str
    last_error_status: Status
    last_error_detail: Detail
    awaits_accept: bool
    inexact: bool
    last_error_message: str
    other_process: int


@dataclasses.dataclass(frozen=True)
class AppendInfo:
    """The change of a session's tokens by a message: `appended` at the end, `rewritten` dropped before, at the position rewritten_at."""

    appended: int
    rewritten: int
    rewritten_at: int


@dataclasses.dataclass(frozen=True)
class Message:
    """A message of the conversation: its fields for the template in `content`, and its tokens [begin, end). `ended`: the model wrote it and ended
    its turn; one that is generated and not ended was cut off, and the next generate goes on with it."""

    content: Dict[str, Any]
    generated: bool
    begin: int
    end: int
    ended: bool


@dataclasses.dataclass(frozen=True)
class SaveReport:
    """The result of a save: kvrt_save_report. chunks_missing are those that the store lacks; a resume computes them again."""

    revision: int
    tokens: int
    chunks: int
    chunks_written: int
    bytes_written: int
    ms: float
    chunks_missing: int


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
        else:
            values[name] = tuple(map(typing.get_args(kind)[0], value)) if typing.get_origin(kind) is tuple else kind(value)
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
