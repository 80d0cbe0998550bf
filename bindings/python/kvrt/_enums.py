"""The enums of the library. Made of include/kvrt.abi.json by bindings/raw.py (./dev abi): do not edit."""
from typing import Dict, Type, Union

from ._base import Open, OpenFlag


class Status(Open):
    """The status classes, each with the thing to do next."""

    OK = 0
    """It is done."""
    INVALID = 1
    """The caller's mistake: correct the call."""
    NOT_FOUND = 2
    """No such file, session or message: create it or name another."""
    CONFLICT = 3
    """The name is taken, or another handle saved it since: resume it, take another name, or overwrite."""
    BUSY = 4
    """In use by another call, a generation or another process: try again when that is over."""
    CANCELLED = 5
    """Stopped by Session.cancel, Cancel.fire or a callback."""
    NO_MEMORY = 6
    """The system gave no memory: release something, or lower kv_bytes_max."""
    TOO_SMALL = 7
    """The buffer is smaller than `*needed`: call again with a larger one."""
    LIMIT = 8
    """Past a limit. The message names it, and the option that raises it if there is one."""
    CORRUPT = 9
    """A file is damaged: get it again; for a store see Runtime.repair_store."""
    INCOMPATIBLE = 10
    """Sound, but of another model, program or version: use the one that it belongs to."""
    IO = 11
    """The system failed to read or write. os_code is errno (EMFILE: raise RLIMIT_NOFILE) or SQLite's extended code."""
    NO_SPACE = 12
    """The disk, a quota, RLIMIT_FSIZE or disk_bytes_max is full: free space and call again. No tokens were lost; other saved sessions may have lost KV."""
    DEVICE = 13
    """The compute device failed, or its logits are not numbers (detail NUMERIC)."""
    UNSUPPORTED = 14
    """This build or version cannot do it. The message names the thing."""
    INTERNAL = 15
    """A defect of kvrt: please report the message."""


class Detail(Open):
    """Finer reasons, in Error.detail. Treat one that you do not know as Detail.NONE."""

    NONE = 0
    """The status says it all."""
    FORMAT = 1
    """Bytes that break the format."""
    CATALOG_CORRUPT = 2
    """The store's catalog is damaged, or another store's: see Runtime.repair_store."""
    CATALOG_MISSING = 3
    """A store's directory without its catalog: see Runtime.repair_store."""
    STORE_TOO_NEW = 4
    """A later kvrt wrote the store. It is left as it is."""
    OTHER_PROGRAM = 5
    """The directory or database belongs to another program."""
    READ_ONLY = 6
    """The store, its directory or its file system cannot be written."""
    PERMISSION = 7
    """The system refused access."""
    UNSAFE_DIRECTORY = 8
    """The directory is another user's, or others can write it; or a file in it is theirs, a link, or not a regular file."""
    STORE_LOCKED = 9
    """Another process writes the store, or repairs it."""
    REVISION = 10
    """The name was saved since this handle last saw it."""
    NAME_TAKEN = 11
    """Another session has the name."""
    MODEL_MISMATCH = 12
    """The session was made with another model."""
    FORKED = 13
    """The handle was opened before a fork(2)."""
    REENTRANT = 14
    """A callback called into its own session."""
    CONCURRENT = 15
    """Another thread is inside a call on this session."""
    TEMPLATE_ERROR = 16
    """The chat template is malformed, or refuses the messages."""
    TEMPLATE_LIMIT = 17
    """The chat template takes too many steps, too much memory, depth or output."""
    STATE = 18
    """The call does not fit the session's state."""
    NUMERIC = 19
    """Logits are NaN or infinite."""
    STRUCT_TAIL = 20
    """An option that this library does not know is set."""
    GRAMMAR_ERROR = 21
    """The grammar or schema is malformed, or nothing fits it."""
    GRAMMAR_LIMIT = 22
    """The grammar or schema exceeds a limit."""


class EventType(Open):
    """Which fields of the event are filled. The others are 0 or None. Ignore a type that you do not know.

    CONTENT, REASONING and TOOL_CALL come only if the option `reply` is set: after the TOKEN that completes them, or before DONE. TOKEN and DONE still
    have the whole text: show the one kind or the other."""

    NONE = 0
    """Next: nothing came before the timeout; the session generates on."""
    TOKEN = 1
    """A new token, also an end or stop token: token, position, text, logprob, and top with top_logprobs."""
    PROGRESS = 2
    """Progress: done of total, in tokens (prefill), bytes (Runtime.open_model, verify, repair), chunks (resume), or expired sessions and one more for
    the files (gc)."""
    LOGITS = 3
    """logits[logits_count] of `position`: they predict the token at position + 1."""
    DONE = 4
    """The end: reason, report, and text: what was held back because a stop string might have begun with it."""
    ENTRY = 5
    """Store.list: entry."""
    FAULT = 6
    """Store.verify and Runtime.repair_store: text says where and what."""
    IDLE = 7
    """Next: the session does not generate; no event will come."""
    CONTENT = 8
    """Text: more of the answer itself."""
    REASONING = 9
    """Text: more of what the model thinks before its answer."""
    TOOL_CALL = 10
    """Text: one whole tool call as JSON: `{"name": string, "arguments": object}`, and `"id"` if the model gave one."""


class Reason(Open):
    """Why a generation ended."""

    NONE = 0
    """It has not ended."""
    EOS = 1
    """The model ended its turn. The end token is in the session."""
    STOP = 2
    """A stop string or a stop token came."""
    MAX_TOKENS = 3
    """max_tokens were generated."""
    CONTEXT_FULL = 4
    """The session has as many tokens as the model's context, or as the whole pool holds: truncate or erase, or start another session. (A pool that
    others fill is LIMIT, from next.)."""
    CANCELLED = 5
    """Session.cancel, Cancel.fire or the callback ended it."""
    PREFILLED = 6
    """A prefill is over."""
    FAILED = 7
    """In no event and no report: next returns the failure as its status, and Session.info has it."""


class ReuseStopped(Open):
    """Why the prompt's KV was reused no further than reuse_stopped_at."""

    ALL = 0
    """All of it was reused."""
    NEW_TOKENS = 1
    """The tokens from here on were never computed after the tokens before them."""
    DIFFERENT_TOKEN = 2
    """A block in memory begins the same and has another token here."""
    NOT_STORED = 3
    """The store knows the tokens and never had their KV."""
    EVICTED = 4
    """This session had computed them; the pool needed the units. From resume, at position 0: it is longer than the pool holds (see "Session states")."""
    DAMAGED = 5
    """The chunk on disk was damaged, missing or could not be read: the log says which. At position 0 with `recomputed`: KV that was reused made logits
    that are not finite, so all was computed again."""
    OTHER_NUMERICS = 6
    """The saved KV is of another format, numerics or block size."""
    WINDOW = 7
    """The tokens from here on had KV, but the window or recurrent state before them is gone. Computing starts at this position, the last boundary: see
    Session.mark."""


class LogLevel(Open):
    """This level and those before it are logged."""

    DEFAULT = 0
    """WARN."""
    ERROR = 1
    """Something failed."""
    WARN = 2
    """Something is wrong, and kvrt goes on."""
    INFO = 3
    """A choice of kvrt's, and its reason."""
    DEBUG = 4
    """All that kvrt has to say."""


class Isa(Open):
    """Which instructions the CPU's kernels use. The results are the same with each."""

    DEFAULT = 0
    """The best that the machine has and that passes its self-check."""
    SCALAR = 1
    """Scalar code."""
    AVX2 = 2
    """AVX2."""
    AVX512 = 3
    """AVX-512."""


class Device(Open):
    """What computes. A runtime computes on one device. Several runtimes may have a device each; one model over several devices is UNSUPPORTED. CUDA is a
    library of its own, libkvrt_cuda.so. The first runtime that asks for CUDA loads it, and it stays loaded until the process ends. libkvrt itself
    needs no driver and no file of NVIDIA's. Each device has numerics of its own: a device does not use KV that another one computed, it computes the
    tokens again (ReuseStopped.OTHER_NUMERICS), unless the host asks for that KV (ForeignKv.ACCEPT)."""

    DEFAULT = 0
    """CPU."""
    CPU = 1
    """The CPU."""
    CUDA = 2
    """An NVIDIA GPU. UNSUPPORTED if libkvrt_cuda.so, the driver or the device is missing: the message says which, and where it was looked for.
    INCOMPATIBLE: libkvrt_cuda.so is of another version, or is another library. DEVICE: the device is there and failed."""
    AUTO = 3
    """CUDA if it opens, else the CPU; the log then says why (INFO)."""


class Determinism(Open):
    """Which bits CUDA promises. A GPU has kernels for few rows and for many, which round differently. Restored KV is exact with each choice."""

    DEFAULT = 0
    """BY_CLASS."""
    BY_CLASS = 1
    """A row's bits depend on whether its step has few rows or many, and on the other rows in no other way. So the last bits of a prompt's KV may change
    with the other sessions that generate, and with the cuts of the prompt into steps (prefill_chunk, step_ms_max, a prefix that is found)."""
    STRICT = 2
    """All of convention 11 holds, as on the CPU: every row takes the kernels for few rows. Prompts are computed 16 rows at a time, so they read the
    weights more often and take longer. Decodes are as fast as ever. STRICT has numerics of its own."""
    NONE = 3
    """A row's bits may depend on all rows of its step, if that is faster."""


class Gemm(Open):
    """The precision in which CUDA multiplies a prompt. It applies to steps of more than 64 tokens (16 if the weights are F16 or BF16)."""

    DEFAULT = 0
    """F16."""
    F16 = 1
    """Activations and weights are rounded to F16."""
    FP8 = 2
    """They are rounded to FP8 (E4M3, a scale for each row): half the bytes of F16, 3 bits of fraction. On one model (135M parameters) the logits were
    off by 7 % of the largest, and perplexity rose by 4 %: try it on your own prompts. Its KV has numerics of its own ("cuda-2-sm90-f8") and is never
    taken for F16's, nor the other way round. FP8 needs compute capability 8.9 and cuBLASLt, else UNSUPPORTED: the message says which is missing.
    Matrices that are F32 in the file, or whose sides are not multiples of 16, stay F16. INVALID with STRICT, which has no such steps. On an H100 it
    was slower than F16, 0.5 to 0.9 times: making FP8 of the weights took more than it saved."""


class KvFormat(Open):
    """The format in which K or V is stored; the two may have different ones. A token takes kv_heads * head_dim elements of each in every layer. A latent
    (DeepSeek) holds K and V in one row of head_dim, so both have one format. INT8 and FP8 also take a scale of 2 bytes for each row of K and of V, in
    every layer and KV head. K in INT8, FP8 and INT4 is stored without a bias of its projection that is large beside what the projection gives
    (Qwen2.5), and attention adds it again. KV of one pair of formats is never used for another: a session that is resumed with another pair keeps its
    tokens, and its KV is computed again (ReuseStopped.OTHER_NUMERICS). Every device computes with every pair."""

    DEFAULT = 0
    """F16."""
    F16 = 1
    """2 bytes an element."""
    BF16 = 2
    """2 bytes: the range of F32 and an eighth of F16's precision."""
    F32 = 3
    """4 bytes."""
    INT8 = 4
    """1 byte. It halves memory, saved KV and the bytes that a decode reads. K is stored transformed (Walsh-Hadamard), which spreads its large elements.
    The loss is small beside that of 4-bit weights, yet not nothing."""
    FP8 = 5
    """1 byte, E4M3. It halves the same as INT8 and loses more: with SmolLM2 a divergence 13 times INT8's. Take INT8, unless you want K stored as it is,
    or each element with a precision relative to itself."""
    INT4 = 6
    """4 bits, and a scale of 2 bytes for each 32 elements: 0.28 of F16's bytes (head_dim counts as the next multiple of 32). K and V are stored
    transformed, as K of INT8 is. With Qwen2.5-Coder 0.5B a divergence 64 times INT8's, with SmolLM2 90 times; of K in INT8 and V in INT4, 9 and 13
    times. `kvrt eval` says what it costs a model."""


class GroupKind(Open):
    """What a group's layers keep of the tokens."""

    EVERYTHING = 1
    """The KV of all of them."""
    WINDOW = 2
    """The KV of the last ones, kv_group_window of which a token sees."""
    RECURRENT = 3
    """A recurrent state."""


class Cache(Open):
    """Which directory keeps weights from one open to the next, if cache_dir names none. In a program that has more rights than its user (setuid) the
    environment is not read."""

    DEFAULT = 0
    """The directory in the environment variable KVRT_CACHE; none if that is unset or empty."""
    NONE = 1
    """None, whatever the environment says. INVALID with a cache_dir."""
    USER = 2
    """As DEFAULT; if KVRT_CACHE is unset, the user's directory: `$XDG_CACHE_HOME/kvrt/weights`, else `$HOME/.cache/kvrt/weights`, made with mode 0700. A
    relative path in these variables counts as unset. None if both are unset, the directory is another user's, or it is on a network file system; the
    log says why (INFO). It is meant for programs that a user starts."""


class TextFlags(OpenFlag):
    """Flags of tokenize, detokenize and the calls like them; combine with |."""

    SPECIAL = 1
    """Into tokens: text that spells a special token becomes it. Into text: special tokens are spelled out."""
    BOS = 2
    """Tokenize: begin with the model's BOS token, if it has one."""


class InspectFlags(OpenFlag):
    """Flags of Runtime.inspect."""

    ALL = 1
    """Arrays to their end; without it only their first elements."""


class RepairOutcome(Open):
    """What a repair did."""

    SOUND = 1
    """There was nothing to do."""
    MENDED = 2
    """Damaged chunks are forgotten."""
    REBUILT = 3
    """There is a new catalog."""


class State(Open):
    """What a session does now ("Session states" says what it may do)."""

    IDLE = 1
    """It waits for calls."""
    GENERATING = 2
    """From begin until next has given DONE or a failure."""
    SUSPENDED = 3
    """Without units: suspended, or resumed too long for the pool; it has computed nothing since."""
    FAILED = 4
    """Its logits were NaN or infinite. It can only be read."""


class ForeignKv(Open):
    """What resume does with saved KV of another arithmetic, a CPU's on a GPU or the other way round."""

    DEFAULT = 0
    """RECOMPUTE."""
    RECOMPUTE = 1
    """The tokens are computed again, and the session is as exact as any."""
    ACCEPT = 2
    """KV of the same format and block size is taken as it is. The answer may then differ from a computed one at a place where two tokens are nearly as
    likely. Such a session is `inexact` for good, and no exact session shares its KV."""


class Logits(Open):
    """Which logits a prefill gives."""

    NONE = 0
    """None."""
    LAST = 1
    """A LOGITS event for the last position."""
    ALL = 2
    """A LOGITS event for every position. Nothing is reused then: all is computed."""


class SamplerKind(Open):
    """Who chooses the tokens."""

    DEFAULT = 0
    """Kvrt, by the options."""
    HOST = 1
    """The host: it answers each LOGITS event with Session.accept."""


class GrammarKind(Open):
    """Constrained output. A token is chosen only if the answer can still become what the grammar says, and the end of the turn only if the answer is
    whole.

    Reasoning is not part of that answer. If the prompt has opened it, or the model opens it with its template's marker, reasoning is unconstrained;
    the answer begins after its end marker and at most two line breaks. If the prompt has closed it, there is none. A GBNF that itself begins with the
    marker that opens reasoning binds reasoning, too."""

    DEFAULT = 0
    """None."""
    GBNF = 1
    """Rules `name ::= ...` as in llama.cpp, beginning with `root`.

    - Text matches neither control tokens nor those that the file calls unused.
    - `<[1000]>` matches the token with that id, of whatever kind.
    - `<think>` matches the token that is spelled so, with the brackets, of whatever kind.
    - `!<think>` matches any token except that one, unused ones, and those that end the turn.
    - A token that the vocabulary lacks is INVALID, with line and column."""
    JSON_SCHEMA = 2
    """JSON text that is valid by this JSON schema: 2020-12, and what earlier drafts write in another way. docs/SCHEMAS.md lists, with examples, which
    valid values kvrt never writes (members in another order than `properties`, other white space, very long numbers and strings), and which schemas
    are LIMIT, or UNSUPPORTED by name with a JSON pointer.

    An object with properties or patternProperties, and without additionalProperties, has no others: JSON_SCHEMA_OPEN lets them come. A name that the
    schema does not list may come twice. If no type is named, a value has one that the keywords are about. Formats hold in every draft."""
    CONTINUE = 3
    """The grammar of the session's last generation, from the place that its answer has reached: after max_tokens, a cancel or a resume. Tokens that were
    appended since must fit it. INVALID: there was none, or its answer is whole."""
    JSON_SCHEMA_OPEN = 4
    """As JSON_SCHEMA; an object whose schema does not say additionalProperties may have other members."""


class ToolChoice(Open):
    """Which calls of the session's tools an answer has.

    A call is bound: it is written as the model's family writes calls, has the name of a tool, and arguments that fit the tool's `parameters` as
    JSON_SCHEMA says. Only the order of members is another: in arguments, and in objects within them, members come in any order, each that the schema
    names at most once, others anywhere. An object that names more than 64 keeps JSON_SCHEMA's order.

    If the family does not write arguments as JSON, kvrt never writes an argument that the family's parser would read as another type. So no string
    has the marker that ends it; and if a string is one of several types, none reads as a number, true, false or null. It works with every `reply`; if
    that names a family, the calls are that family's.

    What a session or a tool is like, and what begin does:

        The session or a tool                           AUTO                 REQUIRED, NAMED      DEFAULT
        no tools                                        INVALID              INVALID              binds no call
        two tools of one name                           INVALID              INVALID              binds no call
        no tool of the name tool_name                                        NAMED: INVALID
        the template does not show calls                UNSUPPORTED          UNSUPPORTED          binds no call
        a name with other characters than letters,      UNSUPPORTED          UNSUPPORTED          binds no call
        digits and _-./; or, if calls are Python's,
        one that does not begin with a letter or _
        a schema that JSON_SCHEMA refuses               its status           its status           binds the arguments to an
                                                                                                  object with members of
                                                                                                  the schema's types
        a member's name that the model's syntax         UNSUPPORTED          UNSUPPORTED          the same
        cannot write, or a value of which it can
        write no constant
        a grammar_kind is set                           calls, or an         INVALID              no call, except what a
                                                        answer that fits                          GBNF writes
        a grammar_kind, a family whose calls are bare   UNSUPPORTED                               no call, except what a
        JSON, and a grammar that a call's beginning                                               GBNF writes
        fits

    NONE is never refused for any of these.

    Reasoning stays free, and comes first. With DEFAULT, AUTO and NONE and no grammar_kind the turn may end in it. It may mention the marker of a
    call, unless the names of all tools have more than 16,384 bytes. If a tool's name follows the marker, it is a call, which ends reasoning and is
    bound as any other.

    With DEFAULT and AUTO an answer may begin with a call that has no marker, if the family's calls are JSON objects with a name: `{"name": "f",
    "arguments":` of a tool f is a call from there on, by itself, in a list, or within a fence of Markdown (with `json`, or without); others may
    follow it. Llama 3 and Gemma may also write `"parameters":`, or a list `[f(k="v")]`. Text that goes on in another way is not bound."""

    DEFAULT = 0
    """As AUTO, if the model's chat template itself writes a call in the way of the family that it shows, and the table above does not say otherwise;
    else calls are not bound."""
    NONE = 1
    """No calls: the markers by which they begin cannot come; what has none is text."""
    AUTO = 2
    """Text; from a call's first marker on, calls. A call ends the text, another may follow."""
    REQUIRED = 3
    """One call or more, and nothing else."""
    NAMED = 4
    """As REQUIRED, of the tool tool_name."""


class Reply(Open):
    """How an answer is split into content, reasoning and tool calls. AUTO goes by the chat template. PLAIN to DEEPSEEK are for files whose template does
    not show tool calls: they name the way in which a family of models writes them.

    A tool call that is malformed or cut short is content; one that was cut comes as a call when the answer goes on and ends it. A session without
    tools has no tool calls, whatever its text. An argument that a model writes as bare text has a type that the tool's schema allows, if it reads so,
    and else is a string. With a reply, a stop string does not reach over a control token.

    The message that an answer becomes does not depend on `reply`: it has tool_calls if the template renders them, and reasoning_content if the
    template would not find reasoning within the content."""

    DEFAULT = 0
    """Not at all: there are only TOKEN events."""
    AUTO = 1
    """As the model's chat template shows tool calls and reasoning."""
    PLAIN = 2
    """No tool calls."""
    HERMES = 3
    """`<tool_call>{...}</tool_call>`: Hermes, Qwen 2.5 and 3."""
    LLAMA3 = 4
    """Llama 3."""
    MISTRAL = 5
    """Mistral."""
    GEMMA = 6
    """Gemma."""
    DEEPSEEK = 7
    """DeepSeek."""


class Durability(Open):
    """Which part of a save is safely on the disk when it returns."""

    DEFAULT = 0
    """TOKENS."""
    NONE = 1
    """As PROCESS."""
    PROCESS = 2
    """The save survives the process, not a power cut."""
    TOKENS = 3
    """The tokens survive a power cut; KV may have to be computed again."""
    KV = 4
    """The saved KV survives it too."""


class Codec(Open):
    """How a save stores the KV chunks that it writes. Chunks that the store has stay as they are."""

    DEFAULT = 0
    """ZSTD."""
    NONE = 1
    """As they are, which loads sooner. A last block that is not full is packed all the same, so that its empty slots take no room."""
    ZSTD = 2
    """Packed (level 1): KV in F16, INT8 and FP8 by a seventh, in BF16 by a third, in INT4 not at all."""


# By the names that they have in the header.
ENUMS: Dict[str, Union[Type[Open], Type[OpenFlag]]] = {
    "KVRT": Status,
    "KVRT_DETAIL": Detail,
    "KVRT_EVENT": EventType,
    "KVRT_REASON": Reason,
    "KVRT_REUSE": ReuseStopped,
    "KVRT_LOG": LogLevel,
    "KVRT_ISA": Isa,
    "KVRT_DEVICE": Device,
    "KVRT_DETERMINISM": Determinism,
    "KVRT_GEMM": Gemm,
    "KVRT_KV": KvFormat,
    "KVRT_GROUP": GroupKind,
    "KVRT_CACHE": Cache,
    "KVRT_TEXT": TextFlags,
    "KVRT_INSPECT": InspectFlags,
    "KVRT_REPAIR": RepairOutcome,
    "KVRT_STATE": State,
    "KVRT_FOREIGN_KV": ForeignKv,
    "KVRT_LOGITS": Logits,
    "KVRT_SAMPLER": SamplerKind,
    "KVRT_GRAMMAR": GrammarKind,
    "KVRT_TOOL_CHOICE": ToolChoice,
    "KVRT_REPLY": Reply,
    "KVRT_DURABILITY": Durability,
    "KVRT_CODEC": Codec,
}

# The options whose number is a value of an enum.
OPTIONS: Dict[str, Type[Open]] = {
    "isa": Isa,
    "log_level": LogLevel,
    "device": Device,
    "determinism": Determinism,
    "prompt_gemm": Gemm,
    "kv_format": KvFormat,
    "cache": Cache,
    "kv_format_v": KvFormat,
    "foreign_kv": ForeignKv,
    "sampler": SamplerKind,
    "logits": Logits,
    "grammar_kind": GrammarKind,
    "reply": Reply,
    "tool_choice": ToolChoice,
    "durability": Durability,
    "codec": Codec,
}

# The options that are 0 or 1.
FLAGS = {
    "from_fd",
    "kv_populate",
    "no_generation_prompt",
    "read_only",
    "must_exist",
    "no_prefix_cache",
    "autosave_turn",
    "ignore_eos",
    "emit_logits",
    "all_or_nothing",
    "prefill",
    "lookup",
    "overwrite",
}
