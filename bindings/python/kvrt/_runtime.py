"""The runtime: compute threads and the log. It opens models and stores."""
from __future__ import annotations

import ctypes
import json
import logging
from typing import Any, Callable, Dict, Optional, Union

from . import _raw
from ._arguments import Path, fill, flag, integer, path_bytes, wrong
from ._enums import Cache, Determinism, Device, Gemm, InspectFlags, Isa, KvFormat, LogLevel
from ._errors import call, check_callback
from ._handles import Handle, buffer_of, drop, free_function, keep, lib, log_function, opening
from ._model import Model
from ._store import Store
from ._types import Event, from_struct
from ._values import CacheInfo, Plan, RepairReport, RuntimeInfo

logger = logging.getLogger("kvrt")


def kvrt_level(level: int) -> LogLevel:
    """The log level of kvrt.h that shows the same lines as a level of logging."""
    if isinstance(level, bool) or not isinstance(level, int):
        raise wrong("log_level", level, "a level of logging")
    return next((own for own, of_logging in ((LogLevel.DEBUG, logging.DEBUG), (LogLevel.INFO, logging.INFO), (LogLevel.WARN, logging.WARNING))
                 if level <= of_logging), LogLevel.ERROR)


class Runtime(Handle):
    """kvrt in this process, on one device. threads: compute threads, the caller's included, at most 256; 0: one for each CPU that affinity and
    cgroup leave. isa: INVALID with CUDA. device_index, determinism, prompt_gemm: of CUDA. cuda_library: the path of libkvrt_cuda.so; None: the one
    beside libkvrt (the package kvrt-cuda puts it there), else as the dynamic linker finds it. Unsupported: the machine lacks the isa or the device;
    the message says what is missing.

    The log goes to the logger "kvrt", by default at the level that logger has now; log_level is a level of logging. A handler of that logger must
    not call kvrt, as lines come on any thread from within its calls."""

    def __init__(self, *, threads: int = 0, isa: Isa = Isa.DEFAULT, device: Device = Device.DEFAULT, device_index: int = 0,
                 cuda_library: Optional[Path] = None, determinism: Determinism = Determinism.DEFAULT, prompt_gemm: Gemm = Gemm.DEFAULT,
                 log_level: Optional[int] = None) -> None:
        check_callback()
        level = kvrt_level(logger.getEffectiveLevel() if log_level is None else log_level)
        options = fill(_raw.kvrt_runtime_options.make(), threads=threads, isa=isa, log_level=level, log=log_function, log_user_free=free_function,
                       device=device, device_index=device_index, determinism=determinism, prompt_gemm=prompt_gemm)
        options.cuda_library, options.cuda_library_size = path_bytes(cuda_library, "cuda_library")
        options.log_user = key = keep(logger.log)
        out = ctypes.c_void_p()
        super().__init__(0, lib.kvrt_runtime_release)
        self._enter()  # opening logs, so the end of Python waits for it
        try:
            call(lib.kvrt_runtime_open, ctypes.byref(options), ctypes.byref(out))
        except BaseException:
            self._closed = True  # _leave releases it, where a signal came after C had opened it
            drop(key)
            raise
        finally:
            self._raw = out.value or 0
            self._leave()

    def info(self) -> RuntimeInfo:
        """Describes the runtime's device, threads and libraries."""
        out = _raw.kvrt_runtime_props.make()
        self._call(lib.kvrt_runtime_info, ctypes.byref(out))
        return from_struct(RuntimeInfo, out)

    def set_threads(self, threads: int) -> None:
        """From the next step on: 1 to 256; 0: one for each CPU that affinity and cgroup leave. Any time, any thread."""
        self._call(lib.kvrt_runtime_set_threads, integer(threads, ctypes.c_uint32, "threads"))

    def open_model(self, path: Optional[Path] = None, *, kv_format: KvFormat = KvFormat.DEFAULT, kv_format_v: KvFormat = KvFormat.DEFAULT,
                   block_tokens: int = 0, prefill_chunk: int = 0, kv_bytes_max: int = 0, step_ms_max: int = 0, kv_populate: bool = False,
                   fd: Optional[int] = None, fd_offset: int = 0, fd_size: int = 0, cache_dir: Union[Path, bool, None] = True, cache_bytes_max: int = 0,
                   progress: Optional[Callable[[Event], object]] = None) -> Model:
        """Opens a GGUF file, which must not change while the model is open: by path (of a split model the first file), or by a file descriptor that
        is open for reading, seekable, and stays the caller's. fd_offset, fd_size: where the GGUF lies in it; 0 bytes: to the end.

        kv_format: K's, and V's where kv_format_v is DEFAULT. block_tokens: 16, 32 (0), 64, 128 or 256. prefill_chunk: prompt tokens of a step, 1 to
        512 (0). kv_bytes_max: the pool; 0: four contexts, and at most a quarter of the free memory. step_ms_max: milliseconds that a step may take;
        0: 50. kv_populate: the whole pool gets its memory now. cache_dir: the weight cache, which all processes map: a directory; True: KVRT_CACHE,
        else the user's (~/.cache/kvrt/weights); None or False: none. cache_bytes_max: of all its files; 0: a tenth of the file system, at most
        20 GiB. progress sees bytes; an exception of it stops the open and comes out.

        NotFound, Corrupt, Unsupported: what is wrong with the file. LimitExceeded: kv_bytes_max does not suit the machine."""
        options = fill(_raw.kvrt_model_options.make(), kv_format=kv_format, kv_format_v=kv_format_v, block_tokens=block_tokens, prefill_chunk=prefill_chunk,
                       kv_bytes_max=kv_bytes_max, step_ms_max=step_ms_max, kv_populate=kv_populate, from_fd=fd is not None,
                       fd=0 if fd is None else fd, fd_offset=fd_offset, fd_size=fd_size)
        name_cache(options, cache_dir, cache_bytes_max)
        name, size = path_bytes(path)
        with opening(lib.kvrt_model_release) as out:
            self._watched(lib.kvrt_model_open, name, size, ctypes.byref(options), callback=progress, out=(ctypes.byref(out),))
        return Model(out.value or 0)

    def cache(self, cache_dir: Union[Path, bool, None] = True, cache_bytes_max: int = 0) -> CacheInfo:
        """Describes the weight cache that open_model takes with the same arguments, and makes nothing. NotFound: they name none; any other error says
        why nothing can be written there."""
        options, out = _raw.kvrt_model_options.make(), _raw.kvrt_cache_props.make()
        name_cache(options, cache_dir, cache_bytes_max)
        self._call(lib.kvrt_model_cache, ctypes.byref(options), ctypes.byref(out))
        return from_struct(CacheInfo, out)

    def open_store(self, path: Path, *, read_only: bool = False, must_exist: bool = False, disk_bytes_max: int = 0,
                   free_bytes_min: int = 0) -> Store:
        """Opens a store, and makes it where there is none, with mode 0700. The directory is on a local file system, holds conversations in clear, and
        is trusted as this process is. read_only: never write; must_exist: NotFound instead of a new one. disk_bytes_max: of catalog and segments;
        0: no cap. free_bytes_min: bytes that KV leaves free on the file system; 0: a twentieth of it, at most 1 GiB. A directory that is open in this
        runtime already gives the same store. Corrupt: see repair_store. Waits up to 5 s for other writers."""
        options = fill(_raw.kvrt_store_options.make(), read_only=read_only, must_exist=must_exist, disk_bytes_max=disk_bytes_max,
                       free_bytes_min=free_bytes_min)
        with opening(lib.kvrt_store_release) as out:
            self._call(lib.kvrt_store_open, *path_bytes(path), ctypes.byref(options), ctypes.byref(out))
        return Store(out.value or 0)

    def repair_store(self, path: Path, progress: Optional[Callable[[Event], object]] = None) -> RepairReport:
        """Makes a sound store of a damaged one, of all that its checksums can prove. Nobody may have it open. progress sees each FAULT with its
        treatment, and bytes; an exception of it stops the repair, and nothing has changed then."""
        out = _raw.kvrt_repair_report.make()
        self._watched(lib.kvrt_store_repair, *path_bytes(path), callback=progress, out=(ctypes.byref(out),))
        return from_struct(RepairReport, out)

    def plan(self, path: Optional[Path] = None, *, kv_format: KvFormat = KvFormat.DEFAULT, kv_format_v: KvFormat = KvFormat.DEFAULT,
             block_tokens: int = 0, sessions: int = 0, session_tokens: int = 0, shared_tokens: int = 0, memory_bytes: int = 0,
             layers: int = 0, kv_heads: int = 0, head_dim: int = 0) -> Plan:
        """The memory that a model and its sessions will take, from its file's header alone; without a path, from layers, kv_heads, head_dim and
        session_tokens. sessions: 0 is 1. session_tokens: of each; 0: the model's context. shared_tokens: leading ones that all have in common.
        memory_bytes: the budget; 0: the device's free memory. Sizes are bytes."""
        options = fill(_raw.kvrt_plan_options.make(), kv_format=kv_format, kv_format_v=kv_format_v, block_tokens=block_tokens, sessions=sessions,
                       session_tokens=session_tokens, shared_tokens=shared_tokens, memory_bytes=memory_bytes, layers=layers,
                       kv_heads=kv_heads, head_dim=head_dim)
        out = _raw.kvrt_plan.make()
        self._call(lib.kvrt_model_plan, *path_bytes(path), ctypes.byref(options), ctypes.byref(out))
        return from_struct(Plan, out)

    def inspect(self, path: Path, *, whole: bool = False) -> Dict[str, Any]:
        """The contents of a GGUF file, from its header alone, and the parts that kvrt cannot run ("refused"). whole: arrays to their end."""
        flags = InspectFlags.ALL if flag(whole, "whole") else 0
        found: Dict[str, Any] = json.loads(bytes(buffer_of(self, lib.kvrt_model_inspect, *path_bytes(path), flags)))
        return found


def name_cache(options: "_raw.kvrt_model_options", cache_dir: Union[Path, bool, None], bytes_max: int) -> None:
    fill(options, cache_bytes_max=bytes_max)
    if cache_dir is None or isinstance(cache_dir, bool):
        options.cache = Cache.USER if cache_dir else Cache.NONE
    else:
        options.cache_dir, options.cache_dir_size = path_bytes(cache_dir, "cache_dir")
