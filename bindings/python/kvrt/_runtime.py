"""The runtime: compute threads and the log. It opens models and stores."""
from __future__ import annotations

import ctypes
import json
import logging
import os
from typing import Any, Callable, Dict, Optional, Tuple, Union

from . import _abi
from ._enums import Cache, Determinism, Device, Gemm, Isa, KvFormat
from ._errors import call
from ._handles import Handle, buffer_of, drop, fill, free_function, in_range, keep, lib, log_function
from ._model import Model
from ._store import RepairReport, Store
from ._types import CacheInfo, Event, Plan, RuntimeInfo, from_struct

Path = Union[str, "os.PathLike[str]"]
logger = logging.getLogger("kvrt")


def kvrt_level(level: int) -> int:
    """The log level of kvrt.h that shows the same lines as a level of logging."""
    return 4 if level <= logging.DEBUG else 3 if level <= logging.INFO else 2 if level <= logging.WARNING else 1


class Runtime(Handle):
    """kvrt in this process, on one device. Its log goes to the logger "kvrt", by default at the level that logger has now. A handler of that
    logger must not call kvrt, as lines come on any thread from within its calls."""

    def __init__(self, *, threads: int = 0, isa: Isa = Isa.DEFAULT, device: Device = Device.DEFAULT, device_index: int = 0,
                 cuda_library: Optional[Path] = None, determinism: Determinism = Determinism.DEFAULT, prompt_gemm: Gemm = Gemm.DEFAULT,
                 log_level: Optional[int] = None) -> None:
        level = kvrt_level(logger.getEffectiveLevel() if log_level is None else log_level)
        options = fill(_abi.RuntimeOptions.make(), threads=threads, isa=isa, log_level=level, log=log_function, log_user_free=free_function,
                       device=device, device_index=device_index, determinism=determinism, prompt_gemm=prompt_gemm)
        options.cuda_library, options.cuda_library_size = path_bytes(cuda_library)
        options.log_user = key = keep(logger.log)
        out = ctypes.c_void_p()
        super().__init__(0, lib.kvrt_runtime_release)
        self._enter()  # opening logs, so the end of Python waits for it
        try:
            call(lib.kvrt_runtime_open, ctypes.byref(options), ctypes.byref(out))
            self._raw = out.value or 0
        except BaseException:
            self._closed = True
            drop(key)
            raise
        finally:
            self._leave()

    def info(self) -> RuntimeInfo:
        out = _abi.RuntimeProps.make()
        self._call(lib.kvrt_runtime_info, ctypes.byref(out))
        return from_struct(RuntimeInfo, out)

    def set_threads(self, threads: int) -> None:
        """Takes effect with the next step; 0: one thread for each CPU that affinity and cgroup allow."""
        self._call(lib.kvrt_runtime_set_threads, in_range(threads, ctypes.c_uint32, "threads"))

    def open_model(self, path: Optional[Path] = None, *, kv_format: KvFormat = KvFormat.DEFAULT, kv_format_v: KvFormat = KvFormat.DEFAULT,
                   block_tokens: int = 0, prefill_chunk: int = 0, kv_bytes_max: int = 0, step_ms_max: int = 0, kv_populate: bool = False,
                   fd: Optional[int] = None, fd_offset: int = 0, fd_size: int = 0, cache_dir: Union[Path, bool, None] = True, cache_bytes_max: int = 0,
                   progress: Optional[Callable[[Event], object]] = None) -> Model:
        """Opens a GGUF file, by path or by a file descriptor, which stays the caller's. cache_dir: the weight cache, which all processes map: a
        directory; True: KVRT_CACHE, else the user's (~/.cache/kvrt/weights); None or False: none. kv_format: K's, and V's where kv_format_v is
        DEFAULT. An exception of `progress` stops it."""
        options = fill(_abi.ModelOptions.make(), kv_format=kv_format, kv_format_v=kv_format_v, block_tokens=block_tokens, prefill_chunk=prefill_chunk,
                       kv_bytes_max=kv_bytes_max, step_ms_max=step_ms_max, kv_populate=kv_populate, from_fd=fd is not None, fd=fd or 0, fd_offset=fd_offset,
                       fd_size=fd_size)
        name_cache(options, cache_dir, cache_bytes_max)
        out = ctypes.c_void_p()
        name, size = path_bytes(path)
        self._watched(lib.kvrt_model_open, name, size, ctypes.byref(options), callback=progress, out=(ctypes.byref(out),))
        return Model(out.value or 0)

    def cache(self, cache_dir: Union[Path, bool, None] = True, cache_bytes_max: int = 0) -> CacheInfo:
        """The weight cache that open_model takes with the same arguments. NotFound: none; any other error says why nothing is written there."""
        options, out = _abi.ModelOptions.make(), _abi.CacheProps.make()
        name_cache(options, cache_dir, cache_bytes_max)
        self._call(lib.kvrt_model_cache, ctypes.byref(options), ctypes.byref(out))
        return from_struct(CacheInfo, out)

    def open_store(self, path: Path, *, read_only: bool = False, must_exist: bool = False, disk_bytes_max: int = 0,
                   free_bytes_min: int = 0) -> Store:
        options = fill(_abi.StoreOptions.make(), read_only=read_only, must_exist=must_exist, disk_bytes_max=disk_bytes_max,
                       free_bytes_min=free_bytes_min)
        out = ctypes.c_void_p()
        self._call(lib.kvrt_store_open, *path_bytes(path), ctypes.byref(options), ctypes.byref(out))
        return Store(out.value or 0)

    def repair_store(self, path: Path, progress: Optional[Callable[[Event], object]] = None) -> RepairReport:
        """Makes a damaged store sound again; no process may have it open. Each FAULT event names a fault and its outcome."""
        out = _abi.RepairReport.make()
        self._watched(lib.kvrt_store_repair, *path_bytes(path), callback=progress, out=(ctypes.byref(out),))
        return from_struct(RepairReport, out)

    def plan(self, path: Optional[Path] = None, *, kv_format: KvFormat = KvFormat.DEFAULT, kv_format_v: KvFormat = KvFormat.DEFAULT,
             block_tokens: int = 0, sessions: int = 0, session_tokens: int = 0, shared_tokens: int = 0, memory_bytes: int = 0,
             layers: int = 0, kv_heads: int = 0, head_dim: int = 0) -> Plan:
        """The memory that a model and its sessions need, from its file's header alone; without a path, from the geometry given."""
        options = fill(_abi.PlanOptions.make(), kv_format=kv_format, kv_format_v=kv_format_v, block_tokens=block_tokens, sessions=sessions,
                       session_tokens=session_tokens, shared_tokens=shared_tokens, memory_bytes=memory_bytes, layers=layers,
                       kv_heads=kv_heads, head_dim=head_dim)
        out = _abi.Plan.make()
        self._call(lib.kvrt_model_plan, *path_bytes(path), ctypes.byref(options), ctypes.byref(out))
        return from_struct(Plan, out)

    def inspect(self, path: Path, *, whole: bool = False) -> Dict[str, Any]:
        """The contents of a GGUF file, and the parts that kvrt would refuse to run. whole: arrays to their end."""
        found: Dict[str, Any] = json.loads(bytes(buffer_of(self, lib.kvrt_model_inspect, *path_bytes(path), int(whole))))
        return found


def name_cache(options: Any, cache_dir: Union[Path, bool, None], bytes_max: int) -> None:
    fill(options, cache_bytes_max=bytes_max)
    if cache_dir is None or isinstance(cache_dir, bool):
        options.cache = Cache.USER if cache_dir else Cache.NONE
    else:
        options.cache_dir, options.cache_dir_size = path_bytes(cache_dir)


def path_bytes(path: Optional[Path]) -> Tuple[Optional[bytes], int]:
    name = None if path is None else os.fsencode(path)
    return name, len(name or b"")
