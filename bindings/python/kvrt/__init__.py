"""kvrt: LLM inference in this process, with conversations that survive it. kvrt.h is the manual; names and meanings are its own.

    with kvrt.Runtime() as runtime, runtime.open_model("model.gguf") as model, model.open_session() as chat:
        chat.append_message("Tell me about lighthouses.")
        for event in chat.generate(max_tokens=64):
            print(event.text, end="", flush=True)

Every handle closes with its with block, in any order. A failed call raises kvrt.Error, or the subclass of its status class.
"""
from ._enums import (Codec, Detail, Determinism, Device, Durability, EventType, ForeignKv, Gemm, GroupKind, Isa, KvFormat, Logits, Reason, RepairOutcome, Reply,
                     ReuseStopped, State, Status, ToolChoice)
from ._errors import (Busy, Cancelled, Conflict, Corrupt, DeviceFailed, Error, Incompatible, Internal, Invalid, IOFailed, LimitExceeded, NoMemory,
                      NoSpace, NotFound, TooSmall, Unsupported)
from ._abi import lib as _lib
from ._cancel import Cancel
from ._generation import AsyncGeneration, Generation
from ._model import Model, apply_template
from ._options import GenerateOptions, Sampler
from ._runtime import Runtime
from ._session import Session
from ._store import Store
from ._types import Autosave, Event, Message, TokenLogprob
from ._values import (AppendInfo, CacheInfo, GcReport, Metrics, ModelInfo, Plan, RepairReport, Report, RuntimeInfo, SaveReport, SessionInfo, StoreEntry,
                      StoreInfo)

__version__ = "0.1.0"


def library_version() -> str:
    """The version of libkvrt, which may be newer than this package."""
    number: int = _lib.kvrt_version()
    return f"{number >> 16}.{number >> 8 & 255}.{number & 255}"


__all__ = [
    "AppendInfo", "AsyncGeneration", "Autosave", "Busy", "CacheInfo", "Cancel", "Cancelled", "Codec", "Conflict", "Corrupt", "Detail", "Determinism", "Device", "DeviceFailed", "Durability", "Error", "Event",
    "EventType", "ForeignKv", "GcReport", "Gemm", "GenerateOptions", "Generation", "GroupKind", "IOFailed", "Incompatible", "Internal", "Invalid", "Isa", "KvFormat",
    "LimitExceeded", "Logits", "Message", "Metrics", "Model", "ModelInfo", "NoMemory", "NoSpace", "NotFound", "Plan", "Reason", "RepairOutcome", "RepairReport", "Reply", "Report",
    "ReuseStopped", "Runtime", "RuntimeInfo", "Sampler", "SaveReport", "Session", "SessionInfo", "State", "Status", "Store", "StoreEntry",
    "StoreInfo", "TokenLogprob", "TooSmall", "ToolChoice", "Unsupported", "apply_template", "library_version",
]
