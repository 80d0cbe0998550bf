"""A model: its text, its sessions and its counters."""
from __future__ import annotations

import ctypes
import json
from typing import Any, Callable, List, Mapping, Optional, Sequence

from . import _abi
from ._enums import ForeignKv
from ._handles import Handle, buffer_of, fill, lib, text_bytes
from ._session import Session, SessionSetup, template_arguments, token_array
from ._store import Store
from ._types import Autosave, Event, Metrics, ModelInfo, Report, from_struct
from ._worker import Core

SPECIAL, BOS = 1, 2


class Model(Handle):
    """A model. Runtime.open_model opens it; its sessions keep it alive."""

    def __init__(self, raw: int) -> None:
        self._core = Core(raw)
        super().__init__(raw, self._core.release)

    def info(self) -> ModelInfo:
        out = _abi.ModelProps.make()
        self._call(lib.kvrt_model_info, ctypes.byref(out))
        return from_struct(ModelInfo, out)

    def tokenize(self, text: str, *, special: bool = False, bos: bool = False) -> List[int]:
        """special: text that spells a special token becomes that token; bos: begin with the model's BOS token, if it has one."""
        data = text_bytes(text, "text")
        return list(buffer_of(self, lib.kvrt_model_tokenize, data, len(data), special * SPECIAL | bos * BOS, kind=ctypes.c_int32))

    def detokenize(self, tokens: Sequence[int], *, special: bool = False) -> str:
        """Bytes that are no whole code point become U+FFFD; detokenize_bytes gives them as they are."""
        return self.detokenize_bytes(tokens, special=special).decode("utf-8", "replace")

    def detokenize_bytes(self, tokens: Sequence[int], *, special: bool = False) -> bytes:
        ids = token_array(tokens)
        return bytes(buffer_of(self, lib.kvrt_model_detokenize, ids, len(ids), special * SPECIAL))

    def apply_template(self, messages: Sequence[Mapping[str, Any]], *, tools: Optional[Sequence[Any]] = None, source: Optional[str] = None,
                       documents: Optional[Sequence[Any]] = None, variables: Optional[Mapping[str, Any]] = None,
                       generation_prompt: bool = True) -> str:
        """The prompt that the model's chat template, or the one in `source`, makes of the messages. variables: further variables of the template."""
        return apply_template(messages, tools=tools, documents=documents, variables=variables, source=source,
                              generation_prompt=generation_prompt, model=self)

    def metrics(self) -> Metrics:
        out = _abi.Metrics.make()
        self._call(lib.kvrt_model_metrics, ctypes.byref(out))
        return from_struct(Metrics, out)

    def metrics_text(self, label: Optional[str] = None) -> str:
        """The metrics as text for Prometheus, labelled model="label"; by default with the model's name."""
        name = None if label is None else text_bytes(label, "label")
        return bytes(buffer_of(self, lib.kvrt_model_metrics_text, name, len(name or b""))).decode()

    def step(self, ms: int = 0) -> int:
        """For hosts with a loop of their own: computes for up to `ms`, and returns how many sessions could go on. agenerate calls it by itself."""
        runnable = ctypes.c_uint32()
        self._call(lib.kvrt_model_step, ms, ctypes.byref(runnable))
        return runnable.value

    def open_session(self, *, store: Optional[Store] = None, domain: str = "", tools: Optional[Sequence[Any]] = None,
                     documents: Optional[Sequence[Any]] = None, variables: Optional[Mapping[str, Any]] = None,
                     prefix_cache: bool = True, autosave: Optional[Autosave] = None) -> Session:
        """store: the session saves there, and finds prefixes; domain: sessions share KV only within one; tools, documents, variables: for the
        chat template, saved with the session."""
        setup = SessionSetup(self._core, domain, tools, prefix_cache, documents, variables, autosave)
        if store is None:
            return setup.make(lambda options, out: self._call(lib.kvrt_session_open, options, out))
        setup.options.store = store._enter()
        try:
            return setup.make(lambda options, out: self._call(lib.kvrt_session_open, options, out))
        finally:
            store._leave()

    def resume(self, store: Store, name: str, *, domain: str = "", tools: Optional[Sequence[Any]] = None,
               documents: Optional[Sequence[Any]] = None, variables: Optional[Mapping[str, Any]] = None, prefix_cache: bool = True,
               autosave: Optional[Autosave] = None, foreign_kv: ForeignKv = ForeignKv.DEFAULT,
               progress: Optional[Callable[[Event], object]] = None) -> Session:
        """Opens a saved session and loads its KV; its `resumed` is the report of that. NotFound when there is none of that name."""
        setup = SessionSetup(self._core, domain, tools, prefix_cache, documents, variables, autosave)
        fill(setup.options, foreign_kv=foreign_kv)
        report = _abi.Report.make()
        what = text_bytes(name, "name")
        raw = store._enter()
        try:
            session = setup.make(lambda options, out: self._watched(
                lib.kvrt_session_resume, raw, what, len(what), options, callback=progress, out=(ctypes.byref(report), out)))
        finally:
            store._leave()
        session.resumed = from_struct(Report, report)
        return session


def apply_template(messages: Sequence[Mapping[str, Any]], *, tools: Optional[Sequence[Any]] = None, source: Optional[str] = None,
                   documents: Optional[Sequence[Any]] = None, variables: Optional[Mapping[str, Any]] = None, generation_prompt: bool = True,
                   model: Optional[Model] = None) -> str:
    """Renders messages with a Jinja template; without a model it takes `source`."""
    options = _abi.TemplateOptions.make()
    options.no_generation_prompt = not generation_prompt
    if source is not None:
        options.source = text_bytes(source, "source")
        options.source_size = len(options.source)
    template_arguments(options, tools, documents, variables)
    data = json.dumps(list(messages)).encode()
    return bytes(buffer_of(model, lib.kvrt_model_apply_template, data, len(data), ctypes.byref(options))).decode("utf-8", "replace")
