"""The enums of kvrt.h, which says what each value means. Made of include/kvrt.abi.json by bindings/raw.py (./dev abi): do not edit."""
from ._base import Open, OpenFlag


class Status(Open):
    """KVRT_...: the class of a call's result."""

    OK = 0
    INVALID = 1
    NOT_FOUND = 2
    CONFLICT = 3
    BUSY = 4
    CANCELLED = 5
    NO_MEMORY = 6
    TOO_SMALL = 7
    LIMIT = 8
    CORRUPT = 9
    INCOMPATIBLE = 10
    IO = 11
    NO_SPACE = 12
    DEVICE = 13
    UNSUPPORTED = 14
    INTERNAL = 15


class Detail(Open):
    """KVRT_DETAIL_...: the finer reason of a failure."""

    NONE = 0
    FORMAT = 1
    CATALOG_CORRUPT = 2
    CATALOG_MISSING = 3
    STORE_TOO_NEW = 4
    OTHER_PROGRAM = 5
    READ_ONLY = 6
    PERMISSION = 7
    UNSAFE_DIRECTORY = 8
    STORE_LOCKED = 9
    REVISION = 10
    NAME_TAKEN = 11
    MODEL_MISMATCH = 12
    FORKED = 13
    REENTRANT = 14
    CONCURRENT = 15
    TEMPLATE_ERROR = 16
    TEMPLATE_LIMIT = 17
    STATE = 18
    NUMERIC = 19
    STRUCT_TAIL = 20
    GRAMMAR_ERROR = 21
    GRAMMAR_LIMIT = 22


class EventType(Open):
    """KVRT_EVENT_...: what an event tells."""

    NONE = 0
    TOKEN = 1
    PROGRESS = 2
    LOGITS = 3
    DONE = 4
    ENTRY = 5
    FAULT = 6
    IDLE = 7
    CONTENT = 8
    REASONING = 9
    TOOL_CALL = 10


class Reason(Open):
    """KVRT_REASON_...: why a generation ended."""

    NONE = 0
    EOS = 1
    STOP = 2
    MAX_TOKENS = 3
    CONTEXT_FULL = 4
    CANCELLED = 5
    PREFILLED = 6
    FAILED = 7


class ReuseStopped(Open):
    """KVRT_REUSE_...: why a prompt's KV was reused no further than reuse_stopped_at."""

    ALL = 0
    NEW_TOKENS = 1
    DIFFERENT_TOKEN = 2
    NOT_STORED = 3
    EVICTED = 4
    DAMAGED = 5
    OTHER_NUMERICS = 6
    WINDOW = 7


class LogLevel(Open):
    """KVRT_LOG_...: the level of a line of the log."""

    DEFAULT = 0
    ERROR = 1
    WARN = 2
    INFO = 3
    DEBUG = 4


class Isa(Open):
    """KVRT_ISA_...: which instructions the CPU's kernels use."""

    DEFAULT = 0
    SCALAR = 1
    AVX2 = 2
    AVX512 = 3


class Device(Open):
    """KVRT_DEVICE_...: what a runtime computes on."""

    DEFAULT = 0
    CPU = 1
    CUDA = 2
    AUTO = 3


class Determinism(Open):
    """KVRT_DETERMINISM_...: which bits CUDA promises."""

    DEFAULT = 0
    BY_CLASS = 1
    STRICT = 2
    NONE = 3


class Gemm(Open):
    """KVRT_GEMM_...: the precision in which CUDA multiplies a prompt."""

    DEFAULT = 0
    F16 = 1
    FP8 = 2


class KvFormat(Open):
    """KVRT_KV_...: the format in which K or V is stored."""

    DEFAULT = 0
    F16 = 1
    BF16 = 2
    F32 = 3
    INT8 = 4
    FP8 = 5


class GroupKind(Open):
    """KVRT_GROUP_...: what a group's layers keep of the tokens."""

    EVERYTHING = 1
    WINDOW = 2
    RECURRENT = 3


class Cache(Open):
    """KVRT_CACHE_...: which directory keeps weights from one open to the next."""

    DEFAULT = 0
    NONE = 1
    USER = 2


class TextFlags(OpenFlag):
    """KVRT_TEXT_...: flags of tokenize, detokenize and the calls like them."""

    SPECIAL = 1
    BOS = 2


class InspectFlags(OpenFlag):
    """KVRT_INSPECT_...: flags of inspect."""

    ALL = 1


class RepairOutcome(Open):
    """KVRT_REPAIR_...: what a repair did."""

    SOUND = 1
    MENDED = 2
    REBUILT = 3


class State(Open):
    """KVRT_STATE_...: a session's state."""

    IDLE = 1
    GENERATING = 2
    SUSPENDED = 3
    FAILED = 4


class ForeignKv(Open):
    """KVRT_FOREIGN_KV_...: the use that a resume makes of KV of another arithmetic."""

    DEFAULT = 0
    RECOMPUTE = 1
    ACCEPT = 2


class Logits(Open):
    """KVRT_LOGITS_...: which logits a prefill gives."""

    NONE = 0
    LAST = 1
    ALL = 2


class SamplerKind(Open):
    """KVRT_SAMPLER_...: who chooses the tokens."""

    DEFAULT = 0
    HOST = 1


class GrammarKind(Open):
    """KVRT_GRAMMAR_...: what an answer is constrained by."""

    DEFAULT = 0
    GBNF = 1
    JSON_SCHEMA = 2
    CONTINUE = 3
    JSON_SCHEMA_OPEN = 4


class ToolChoice(Open):
    """KVRT_TOOL_CHOICE_...: which calls of the session's tools an answer has."""

    DEFAULT = 0
    NONE = 1
    AUTO = 2
    REQUIRED = 3
    NAMED = 4


class Reply(Open):
    """KVRT_REPLY_...: how an answer is split into CONTENT, REASONING and TOOL_CALL events."""

    DEFAULT = 0
    AUTO = 1
    PLAIN = 2
    HERMES = 3
    LLAMA3 = 4
    MISTRAL = 5
    GEMMA = 6
    DEEPSEEK = 7


class Durability(Open):
    """KVRT_DURABILITY_...: which part of a save is on the disk when it returns."""

    DEFAULT = 0
    NONE = 1
    PROCESS = 2
    TOKENS = 3
    KV = 4


class Codec(Open):
    """KVRT_CODEC_...: how a save stores KV chunks."""

    DEFAULT = 0
    NONE = 1
    ZSTD = 2
