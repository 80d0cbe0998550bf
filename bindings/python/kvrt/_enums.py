"""Enums of kvrt.h as Python sees them."""
from __future__ import annotations

from ._errors import _Open


class EventType(_Open):
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


class Reason(_Open):
    NONE = 0
    EOS = 1
    STOP = 2
    MAX_TOKENS = 3
    CONTEXT_FULL = 4
    CANCELLED = 5
    PREFILLED = 6
    FAILED = 7


class ForeignKv(_Open):
    """The use that a resume makes of KV that another device computed."""
    DEFAULT = 0
    RECOMPUTE = 1
    ACCEPT = 2


class ReuseStopped(_Open):
    ALL = 0
    NEW_TOKENS = 1
    DIFFERENT_TOKEN = 2
    NOT_STORED = 3
    EVICTED = 4
    DAMAGED = 5
    OTHER_NUMERICS = 6
    WINDOW = 7


class State(_Open):
    IDLE = 1
    GENERATING = 2
    SUSPENDED = 3
    FAILED = 4


class Device(_Open):
    DEFAULT = 0
    CPU = 1
    CUDA = 2
    AUTO = 3


class Determinism(_Open):
    DEFAULT = 0
    BY_CLASS = 1
    STRICT = 2
    NONE = 3


class Isa(_Open):
    DEFAULT = 0
    SCALAR = 1
    AVX2 = 2
    AVX512 = 3


class Cache(_Open):
    DEFAULT = 0
    NONE = 1
    USER = 2


class Gemm(_Open):
    DEFAULT = 0
    F16 = 1
    FP8 = 2


class KvFormat(_Open):
    DEFAULT = 0
    F16 = 1
    BF16 = 2
    F32 = 3
    INT8 = 4
    FP8 = 5


class Logits(_Open):
    NONE = 0
    LAST = 1
    ALL = 2


class Reply(_Open):
    """The format by which an answer is split into CONTENT, REASONING and TOOL_CALL events."""
    DEFAULT = 0
    AUTO = 1
    PLAIN = 2
    HERMES = 3
    LLAMA3 = 4
    MISTRAL = 5
    GEMMA = 6
    DEEPSEEK = 7


class ToolChoice(_Open):
    """Which calls of the session's tools an answer has."""
    DEFAULT = 0
    NONE = 1
    AUTO = 2
    REQUIRED = 3
    NAMED = 4


class Durability(_Open):
    DEFAULT = 0
    NONE = 1
    PROCESS = 2
    TOKENS = 3
    KV = 4


class Codec(_Open):
    DEFAULT = 0
    NONE = 1
    ZSTD = 2
