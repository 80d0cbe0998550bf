"""What the library tells, as Python sees it. Made of include/kvrt.abi.json by bindings/raw.py (./dev abi): do not edit."""
from __future__ import annotations

import dataclasses
from typing import Tuple

from ._enums import Detail, GroupKind, KvFormat, Reason, RepairOutcome, ReuseStopped, State, Status


@dataclasses.dataclass(frozen=True)
class Report:
    """The usage of one prefill or generation. prompt_tokens == reused_memory + reused_disk + prefilled, exactly. Times are in milliseconds."""

    reason: Reason
    """Why a generation ended."""
    prompt_tokens: int
    """Tokens in the session when it began; 0 when the context was full. One less for a prefill without logits on a model with recurrent layers, which
    leaves the last token to the next generation."""
    reused_memory: int
    """Prompt tokens whose KV was in this session, or shared from the pool."""
    reused_disk: int
    """Prompt tokens whose KV came from the store, by this generation or by a resume before it."""
    prefilled: int
    """Prompt tokens that were not reused, but computed (after a cancel: or left to compute). At least 1 if logits are wanted: the last token then always
    runs."""
    generated: int
    """Tokens that the model gave, the end token included."""
    reuse_stopped: ReuseStopped
    """Why the prompt's KV was reused no further than reuse_stopped_at."""
    stop_string_tokens: int
    """The session's last tokens that hold the stop string; 0: none. Truncate to the length less these."""
    reuse_stopped_at: int
    """The position that reuse_stopped is about; prompt_tokens when all was reused. Computing began there, or, with DIFFERENT_TOKEN, at the last end of a
    block before. KV after it may have been reused too."""
    seed: int
    """The seed in use, also when it was drawn."""
    queue_ms: float
    """From begin to the first step with a row of this session."""
    ttft_ms: float
    """From begin to the first token; 0: there was none."""
    prefill_ms: float
    """From the first step to the first token, or to the end if there was none."""
    decode_ms: float
    """From the first token to the last."""
    tpot_ms: float
    """decode_ms for each token after the first."""
    prefill_tokens_per_s: float
    """Prefilled in prefill_ms."""
    decode_tokens_per_s: float
    """Tokens after the first, in decode_ms."""
    kv_units: int
    """Units of this session at the end; shared ones count in full."""
    kv_bytes: int
    """Bytes of these units."""
    pool_bytes_begin: int
    """Bytes of the model's pool that open sessions held when it began; a shared unit counts once."""
    pool_bytes_prefilled: int
    """The same at the first token, or at the end of a prefill."""
    pool_bytes_end: int
    """The same at the end."""
    recomputed: int
    """Tokens whose KV was computed a second time: the session's units were lent to others meanwhile, or reused KV made NaN or infinite logits."""
    drafted: int
    """Tokens that speculation proposed and a step checked."""
    accepted: int
    """Of these, tokens that the answer went on with: `generated` counts them, too. The others left nothing."""


@dataclasses.dataclass(frozen=True)
class StoreEntry:
    """A saved session, as the store lists it. Times are milliseconds since 1970, UTC."""

    pinned: int
    """Its priority, 1 to 255; 0: not pinned."""
    name: str
    """Its name."""
    domain: str
    """"": the default domain."""
    id: str
    """32 hex digits."""
    revision: int
    """Grows with every save of this name; none comes twice, even if the name was removed."""
    tokens: int
    """Tokens of the conversation."""
    chunks: int
    """KV chunks on disk, windows at boundaries among them."""
    chunks_missing: int
    """Further chunks, which are missing: a resume computes them again."""
    bytes: int
    """Bytes of its chunks on disk."""
    bytes_shared: int
    """Of these, bytes that other sessions use too."""
    created_unix_ms: int
    """When the name was first saved."""
    saved_unix_ms: int
    """When it was last saved."""
    expires_unix_ms: int
    """When it expires; 0: never."""


@dataclasses.dataclass(frozen=True)
class RuntimeInfo:
    """A runtime's device, threads and libraries."""

    threads: int
    """Compute threads."""
    device: str
    """"cpu" or "cuda"."""
    isa: str
    """The kernels in use: "avx2", "sm_90"."""
    numerics: str
    """The arithmetic's version: "cpu-3", "cuda-2-sm90", "cuda-1s-sm90" (strict), "cuda-2-sm90-f8"."""
    isa_tables: str
    """Every set of the CPU's kernels, with "ok", "not on this machine" or "differs from scalar"."""
    libraries: str
    """Libraries in use: "sqlite 3.40.1, zstd 1.5.4, ..." """
    device_name: str
    """CUDA: the device, as its maker calls it. Empty on the CPU."""
    device_memory: int
    """CUDA: its memory in bytes. 0 on the CPU."""
    device_memory_free: int
    """CUDA: how much of that is free now. 0 on the CPU."""
    devices: str
    """CUDA, as it was at open, a line each: the versions of driver and runtime, cuBLASLt's or why there is none, every device, the path of
    libkvrt_cuda.so. Empty on the CPU."""


@dataclasses.dataclass(frozen=True)
class ModelInfo:
    """A model's shape, sizes and pool. Sizes are bytes. If has_weights is 0 there are no layers, no pool and no sessions: their fields mean nothing."""

    has_weights: bool
    """False: the file has only a vocabulary: tokenize, detokenize and apply_template work, sessions do not."""
    architecture: str
    """As the file names it: "llama"."""
    name: str
    """As the file names it; "": it does not."""
    vocab_size: int
    """Tokens that the model knows."""
    context_length: int
    """Tokens that a session can have."""
    layers: int
    """Layers."""
    heads: int
    """Query heads of a layer; the most of any if layers differ."""
    kv_heads: int
    """KV heads of a layer; the most likewise."""
    head_dim: int
    """Elements of a head of K; of a latent, which all heads share."""
    width: int
    """Elements of a token's embedding."""
    bos_token: int
    """Its id; -1: none. BERT's is [CLS]."""
    eos_token: int
    """Its id; -1: none. BERT's is [SEP]."""
    add_bos: bool
    """True: append_text to an empty session adds BOS."""
    has_template: bool
    """True: the file has a chat template that parses. append_message says what is wrong."""
    block_tokens: int
    """Tokens of a block."""
    file_bytes: int
    """The file's size."""
    weight_bytes: int
    """The weights in memory."""
    kv_bytes_per_token: int
    """KV of a token in all layers."""
    unit_bytes: int
    """Bytes of a unit."""
    units: int
    """Units of the pool."""
    units_free: int
    """Of these, unused."""
    units_cached: int
    """Of these, held by no session, and kept for a prompt that begins the same; given up when needed."""
    sessions: int
    """Sessions that are open now."""
    load_ms: float
    """Milliseconds that Runtime.open_model took."""
    scratch_bytes: int
    """A step's activations and logits. CUDA: with the memory of kernels and cuBLASLt, which models share."""
    step_ms_max: int
    """Milliseconds that a step may take."""
    kv_format: KvFormat
    """The format in which K or V is stored: of K, never DEFAULT."""
    kv_format_v: KvFormat
    """The format in which K or V is stored: of V, never DEFAULT."""
    kv_groups: int
    """Groups of layers: how many entries of the arrays kv_group_... count. A group that keeps everything comes first."""
    kv_group_layers: Tuple[int, ...]
    """Layers of the group; not those that read another's KV (Gemma 4)."""
    kv_group_window: Tuple[int, ...]
    """WINDOW: tokens that a token sees in them, itself included. Other kinds: 0."""
    kv_group_bytes_per_token: Tuple[int, ...]
    """Bytes of the group's units, for each token of a block. A session of n tokens has, in each group, KV of at most n tokens, rounded up to whole
    blocks, or of kv_group_tokens_max if that is less. Of recurrent layers each block counted so is a recurrent state: a session has at most two, and
    one at each boundary."""
    kv_group_tokens_max: Tuple[int, ...]
    """The most tokens of which a session has KV, in whole blocks; 0: all."""
    kv_group_kind: Tuple[GroupKind, ...]
    """What a group's layers keep of the tokens."""


@dataclasses.dataclass(frozen=True)
class Metrics:
    """A model's counters since it was opened, and its gauges. prompt_tokens to generated are sums of these fields in the reports, and count what failed,
    too."""

    sessions: int
    """Sessions open now."""
    generating: int
    """Of these, from begin to DONE."""
    paused: int
    """Of these, waiting for their host."""
    units: int
    """Units of the pool."""
    units_used: int
    """Of these, held by sessions now."""
    units_cached: int
    """Of these, held by no session, and kept for a prompt that begins the same."""
    steps: int
    """Steps that were run."""
    step_rows: int
    """Rows in them, one for each token."""
    step_ms_total: float
    """Milliseconds of all steps."""
    step_ms_longest: float
    """Milliseconds of the longest."""
    generations: int
    """Generations that were begun, prefills left out."""
    prefills: int
    """Prefills that were begun."""
    done_eos: int
    """Ended by Reason.EOS."""
    done_stop: int
    """Ended by Reason.STOP."""
    done_max_tokens: int
    """Ended by Reason.MAX_TOKENS."""
    done_context_full: int
    """Ended by Reason.CONTEXT_FULL."""
    done_cancelled: int
    """Ended by Reason.CANCELLED."""
    done_prefilled: int
    """Ended by Reason.PREFILLED."""
    failed: int
    """Ended by a failure."""
    prompt_tokens: int
    """Sum of prompt_tokens."""
    reused_memory: int
    """Sum of reused_memory."""
    reused_disk: int
    """Sum of reused_disk."""
    prefilled: int
    """Sum of prefilled."""
    recomputed: int
    """Sum of recomputed."""
    generated: int
    """Sum of generated."""
    drafted: int
    """Sum of drafted."""
    accepted: int
    """Sum of accepted."""
    preemptions: int
    """Generations that lent their units to others."""
    evictions: int
    """Cached blocks that were given up."""
    first_tokens: int
    """Generations that gave a token: the sums of milliseconds below are over these."""
    ttft_ms_total: float
    """Sum of ttft_ms."""
    queue_ms_total: float
    """Sum of queue_ms."""
    prefill_ms_total: float
    """Sum of prefill_ms."""
    decode_ms_total: float
    """Sum of decode_ms, over `generated - first_tokens` tokens."""


@dataclasses.dataclass(frozen=True)
class Plan:
    """The memory that a model and its sessions take. Sizes are bytes."""

    block_tokens: int
    """Tokens of a block."""
    layers: int
    """As in ModelInfo."""
    heads: int
    """As in ModelInfo; 0 for a geometry."""
    kv_heads: int
    """As in ModelInfo."""
    head_dim: int
    """As in ModelInfo."""
    context_length: int
    """As in ModelInfo; 0 for a geometry."""
    fits: bool
    """True: total_bytes is at most memory_bytes."""
    kv_bytes_per_token: int
    """As in ModelInfo."""
    unit_bytes: int
    """As in ModelInfo."""
    weight_bytes: int
    """The weights in memory."""
    scratch_bytes: int
    """A step's activations and logits, as in ModelInfo."""
    session_units: int
    """The most units of one session; with windows it has fewer between its steps."""
    session_bytes: int
    """Bytes of these."""
    used: float
    """Share of these bytes that hold tokens' KV and recurrent states, 0 to 1."""
    waste: float
    """1 - used."""
    units: int
    """Units of all sessions, shared ones once."""
    kv_bytes: int
    """Bytes of the pool with these: if layers have windows or are recurrent, it has one unit more, of zeros."""
    stored_tokens: int
    """Tokens that these units hold."""
    unshared_tokens: int
    """Tokens that they would hold without sharing."""
    total_bytes: int
    """Weights, scratch and KV."""
    memory_bytes: int
    """The budget."""
    sessions_max: int
    """Sessions of that length that fit the budget."""
    context_max: int
    """Tokens of a single session that fit the budget."""
    kv_groups: int
    """This and the next ones: as in ModelInfo, with steps of 512 tokens."""
    kv_group_layers: Tuple[int, ...]
    """Layers of the group; not those that read another's KV."""
    kv_group_window: Tuple[int, ...]
    """WINDOW: tokens that a token sees in them. Other kinds: 0."""
    kv_group_bytes_per_token: Tuple[int, ...]
    """Bytes of the group's units, for each token of a block."""
    kv_group_tokens_max: Tuple[int, ...]
    """The most tokens of which a session has KV; 0: all."""
    recurrent_bytes: int
    """A recurrent state of all layers, without what its units have beyond it; 0: there is none."""
    boundary_bytes: int
    """What the pool keeps for one boundary at most (Session.mark); 0: it needs to keep nothing."""
    boundaries: int
    """Boundaries of this size that the planned pool keeps beside what sessions hold, at most."""
    kv_group_kind: Tuple[GroupKind, ...]
    """What a group's layers keep of the tokens."""


@dataclasses.dataclass(frozen=True)
class CacheInfo:
    """The weight cache that ModelOptions name (cache_dir, cache). Sizes are bytes."""

    files: int
    """Models there, each in the layout of one machine's CPU."""
    bytes: int
    """Their size."""
    bytes_max: int
    """cache_bytes_max, or its default there."""
    bytes_free: int
    """Free on the file system, less the part that stays free."""
    directory: str
    """Absolute and without linksIt may be missing yet."""


@dataclasses.dataclass(frozen=True)
class StoreInfo:
    """A store's contents and its size on disk."""

    read_only: int
    """1: it is open only for reading. 2: only for reading for lack of room, until a call that writes finds some: see StoreOptions.read_only. 0: for
    writing."""
    format: int
    """The directory's format number."""
    sessions: int
    """Saved sessions, of all domains."""
    chunks: int
    """KV chunks on disk."""
    segments: int
    """Files that hold them."""
    chunk_bytes: int
    """Bytes of the chunks on disk."""
    chunk_raw_bytes: int
    """Bytes of the KV in them, uncompressed."""
    disk_bytes: int
    """Lengths of catalog and segments: a hole that gc punched still counts, as it does for disk_bytes_max."""
    chunks_damaged: int
    """Damaged chunks that were found since open."""
    chunks_evicted: int
    """Chunks that were given up for lack of room since open."""
    old_bytes: int
    """Bytes of the backups of migrations and repairs, not in disk_bytes: see Store.remove_old."""
    bytes_free: int
    """Bytes of KV that saves may add within disk_bytes_max and free_bytes_min, before they evict other KV."""
    resumes_evicted: int
    """Resumes of sessions whose KV was given up for lack of room after they were saved, since the store was made or repaired: if there are many,
    disk_bytes_max is small. A resume beside another process's write may not count."""


@dataclasses.dataclass(frozen=True)
class GcReport:
    """The result of Store.gc."""

    sessions_removed: int
    """Expired sessions that it removed."""
    chunks_removed: int
    """Chunks that no session needs."""
    segments_removed: int
    """Files that it removed."""
    bytes_freed: int
    """Bytes of these files."""
    ms: float
    """Milliseconds that it took."""
    bytes_rewritten: int
    """Bytes of chunks that went from sparse segments into new ones."""
    bytes_punched: int
    """Bytes of removed chunks in segments that stay: zeros now, whose space the file system has back."""
    log_bytes_kept: int
    """Bytes of the catalog's log that stay, which may hold removed data; 0: none. They stay while another process reads an older version of the catalog,
    or was stopped (SIGSTOP) while it read one. The next gc, save or close of this handle finishes."""


@dataclasses.dataclass(frozen=True)
class RepairReport:
    """The result of Runtime.repair_store."""

    outcome: RepairOutcome
    """What a repair did."""
    sessions_kept: int
    """Sessions under their names, with all their tokens and messages."""
    sessions_with_holes: int
    """Of those, sessions that lost chunks, which a resume computes again."""
    sessions_recovered: int
    """Sessions whose name is lost: tokens, without messages, under names like recovered-0123456789ab."""
    sessions_lost: int
    """Sessions that had a name, and of which too little is left; 0 if no record told of any."""
    chunks_kept: int
    """Chunks that are sound."""
    chunks_lost: int
    """Chunks that are not."""
    bytes_kept: int
    """Bytes of chunks_kept."""
    ms: float
    """Milliseconds that it took."""
    chunks_orphaned: int
    """Whole chunks of lost sessions: nothing tells their model and domain."""


@dataclasses.dataclass(frozen=True)
class SessionInfo:
    """A session as it is now."""

    state: State
    """What a session does now ("Session states" says what it may do)."""
    tokens: int
    """Tokens that it has."""
    kv_tokens: int
    """Leading tokens that are computed and whose KV the session has (in layers with windows: the part that the next token needs); with recurrent layers,
    those up to its last recurrent state. A generation first looks for more KV in the pool and the store."""
    kv_units: int
    """Units that it holds, shared ones in full."""
    kv_bytes: int
    """Bytes of these."""
    events_unread: int
    """Events that next has ready."""
    messages: int
    """Messages of its conversation."""
    revision: int
    """The revision of its name that it last saved or resumed; 0: it was never saved."""
    id: str
    """32 hex digits. Suspend and resume keep it; a save under another name takes a new one."""
    name: str
    """The name of the last save or resume; "": none."""
    last_error_status: Status
    """The status of the last generation or save that failed; Status.OK: none did."""
    last_error_detail: Detail
    """Finer reasons, in Error.detail."""
    awaits_accept: bool
    """True: the generation waits for Session.accept."""
    inexact: bool
    """True: it was resumed with ForeignKv.ACCEPT, and took KV of another arithmetic."""
    last_error_message: str
    """The message of last_error_status."""
    other_process: int
    """The id of another process that has a session of this name open for saving; 0: none is known; -1: one whose id cannot be seen from here, for
    example in another container. This call looks: ask after resume. The name is that of the last save or resume; before there is one, autosave_name.
    Both may go on, but once one of the two has saved, a save of the other is CONFLICT: a fork can be saved under another name. Not seen are sessions
    in a store that is open read-only (they see others), sessions of kvrt 0.1, and sessions of another runtime of this process; when one of the last
    kind closes, other processes no longer see this session either."""


@dataclasses.dataclass(frozen=True)
class AppendInfo:
    """The change of a session's tokens by a message."""

    appended: int
    """Tokens that were added at the end."""
    rewritten: int
    """Tokens that were dropped before, because the template now renders the earlier conversation otherwise."""
    rewritten_at: int
    """Position of the first of these; with none, the session's length before the call."""


@dataclasses.dataclass(frozen=True)
class SaveReport:
    """The result of a save."""

    revision: int
    """As in StoreEntry."""
    tokens: int
    """Tokens that were saved."""
    chunks: int
    """KV chunks of this session: those on disk, windows at boundaries among them, and those that are missing."""
    chunks_written: int
    """Of these, chunks that the store did not have."""
    bytes_written: int
    """Bytes of chunks_written."""
    ms: float
    """Milliseconds that the save took."""
    chunks_missing: int
    """Of `chunks`, those that the store lacks now, for lack of room, or because their KV was not in memory. A resume computes them again. Windows at
    boundaries before the session's end do not count."""
