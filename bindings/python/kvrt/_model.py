"""A model: its text, its sessions and its counters."""
from __future__ import annotations

import ctypes
import dataclasses
from typing import Any, Callable, List, Mapping, Optional, Sequence

from . import _raw
from ._arguments import fill, flag, handle, integer, json_bytes, list_of, mapping, template_arguments, text_bytes, token_array
from ._enums import ForeignKv, TextFlags
from ._errors import NotFound
from ._handles import Handle, buffer_of, lib
from ._session import Session, SessionSetup
from ._store import Store
from ._types import Autosave, Event, from_struct
from ._values import Metrics, ModelInfo, Report
from ._worker import Core

class Model(Handle):
    """Weights, tokenizer and chat template of a GGUF file, and a pool of KV blocks for its sessions. Runtime.open_model opens it; its sessions keep
    it alive. Any number of threads may use it at once."""

    def __init__(self, raw: int) -> None:
        self._core = Core(raw)
        super().__init__(raw, self._core.release)

    def info(self) -> ModelInfo:
        """Describes the model, and its pool as it is now."""
        out = _raw.kvrt_model_props.make()
        self._call(lib.kvrt_model_info, ctypes.byref(out))
        return from_struct(ModelInfo, out)

    def tokenize(self, text: str, *, special: bool = False, bos: bool = False) -> List[int]:
        """Turns text into tokens. special: text that spells a special token becomes it; bos: begin with the model's BOS token, if it has one."""
        data = text_bytes(text, "text")
        flags = (TextFlags.SPECIAL if flag(special, "special") else 0) | (TextFlags.BOS if flag(bos, "bos") else 0)
        return list(buffer_of(self, lib.kvrt_model_tokenize, data, len(data), flags, kind=ctypes.c_int32))

    def detokenize(self, tokens: Sequence[int], *, special: bool = False) -> str:
        """Turns tokens into text; special: special tokens are spelled out. Bytes that are no whole character become U+FFFD; detokenize_bytes gives
        them as they are."""
        return self.detokenize_bytes(tokens, special=special).decode("utf-8", "replace")

    def detokenize_bytes(self, tokens: Sequence[int], *, special: bool = False) -> bytes:
        """Turns tokens into their bytes. Invalid: an id outside the vocabulary."""
        ids, flags = token_array(tokens), TextFlags.SPECIAL if flag(special, "special") else 0
        return bytes(buffer_of(self, lib.kvrt_model_detokenize, ids, len(ids), flags))

    def apply_template(self, messages: Sequence[Mapping[str, Any]], *, tools: Optional[Sequence[Any]] = None, source: Optional[str] = None,
                       documents: Optional[Sequence[Any]] = None, variables: Optional[Mapping[str, Any]] = None,
                       generation_prompt: bool = True) -> str:
        """The prompt that the model's chat template, or the one in `source`, makes of the messages. tools, documents: its variables of these names;
        variables: more of them; generation_prompt: open the assistant's turn. Takes about 100 ms at most."""
        return apply_template(messages, tools=tools, documents=documents, variables=variables, source=source,
                              generation_prompt=generation_prompt, model=self)

    def metrics(self) -> Metrics:
        """The model's counters since it was opened, and its gauges."""
        out = _raw.kvrt_metrics.make()
        self._call(lib.kvrt_model_metrics, ctypes.byref(out))
        return from_struct(Metrics, out)

    def metrics_text(self, label: Optional[str] = None) -> str:
        """The metrics as text in Prometheus' format, labelled model="label"; by default with the model's name."""
        name = None if label is None else text_bytes(label, "label")
        return bytes(buffer_of(self, lib.kvrt_model_metrics_text, name, len(name or b""))).decode()

    def step(self, ms: int = 0) -> int:
        """For hosts with a loop of their own: computes for all generating sessions, until none can go on or `ms` milliseconds are up (0: one step).
        Returns the number of sessions that could go on now. agenerate calls it by itself."""
        runnable = ctypes.c_uint32()
        self._call(lib.kvrt_model_step, integer(ms, ctypes.c_uint32, "ms"), ctypes.byref(runnable))
        return runnable.value

    def open_session(self, *, store: Optional[Store] = None, domain: str = "", tools: Optional[Sequence[Any]] = None,
                     documents: Optional[Sequence[Any]] = None, variables: Optional[Mapping[str, Any]] = None,
                     prefix_cache: bool = True, autosave: Optional[Autosave] = None) -> Session:
        """Opens an empty session. store: the session is saved there, and finds stored prefixes; domain: sessions share KV only within one; tools,
        documents, variables: of the chat template, saved with the session; prefix_cache False: in memory it uses no KV of other sessions and offers
        them none; autosave: needs a store. The first session of a model with a store reads the whole model file."""
        setup = SessionSetup(self._core, domain, tools, prefix_cache, documents, variables, autosave)
        if store is None:
            return setup.make(lambda options, out: self._call(lib.kvrt_session_open, options, out))
        setup.options.store = handle(store, Store, "store")._enter()
        try:
            return setup.make(lambda options, out: self._call(lib.kvrt_session_open, options, out))
        finally:
            store._leave()

    def resume(self, store: Store, name: str, *, domain: str = "", tools: Optional[Sequence[Any]] = None,
               documents: Optional[Sequence[Any]] = None, variables: Optional[Mapping[str, Any]] = None, prefix_cache: bool = True,
               autosave: Optional[Autosave] = None, foreign_kv: ForeignKv = ForeignKv.DEFAULT,
               progress: Optional[Callable[[Event], object]] = None) -> Session:
        """Opens a saved session and loads its KV; its `resumed` is the report of that. The domain must be the one that it was saved in; tools, documents
        and variables that are None stay as they were saved. foreign_kv: ACCEPT takes KV of another arithmetic. progress sees chunks; an exception of
        it stops the resume and comes out. A session that is longer than the pool holds is SUSPENDED: it can be read, and made shorter. NotFound:
        there is none of that name, or it has expired. Incompatible: it is another model's."""
        setup = SessionSetup(self._core, domain, tools, prefix_cache, documents, variables, autosave)
        fill(setup.options, foreign_kv=foreign_kv)
        report = _raw.kvrt_report.make()
        what = text_bytes(name, "name")
        raw = handle(store, Store, "store")._enter()
        try:
            session = setup.make(lambda options, out: self._watched(
                lib.kvrt_session_resume, raw, what, len(what), options, callback=progress, out=(ctypes.byref(report), out)))
        finally:
            store._leave()
        session.resumed = from_struct(Report, report)
        return session

    def resume_or_open(self, store: Store, name: str, *, domain: str = "", tools: Optional[Sequence[Any]] = None,
                       documents: Optional[Sequence[Any]] = None, variables: Optional[Mapping[str, Any]] = None, prefix_cache: bool = True,
                       autosave: Optional[Autosave] = None, foreign_kv: ForeignKv = ForeignKv.DEFAULT,
                       progress: Optional[Callable[[Event], object]] = None) -> Session:
        """The saved session of this name; where there is none, an empty session with that store and these options, whose `resumed` is None. Autosave
        saves it under that name, unless it names another; without autosave, save it under that name."""
        try:
            return self.resume(store, name, domain=domain, tools=tools, documents=documents, variables=variables, prefix_cache=prefix_cache,
                               autosave=autosave, foreign_kv=foreign_kv, progress=progress)
        except NotFound:
            if autosave is not None and not autosave.name:
                autosave = dataclasses.replace(autosave, name=name)
            return self.open_session(store=store, domain=domain, tools=tools, documents=documents, variables=variables, prefix_cache=prefix_cache,
                                     autosave=autosave)


def apply_template(messages: Sequence[Mapping[str, Any]], *, tools: Optional[Sequence[Any]] = None, source: Optional[str] = None,
                   documents: Optional[Sequence[Any]] = None, variables: Optional[Mapping[str, Any]] = None, generation_prompt: bool = True,
                   model: Optional[Model] = None) -> str:
    """Renders messages with a Jinja template: Model.apply_template, that also works without a model where there is a `source`."""
    options = _raw.kvrt_template_options.make()
    options.no_generation_prompt = not flag(generation_prompt, "generation_prompt")
    if source is not None:
        data = text_bytes(source, "source")
        fill(options, source=data, source_size=len(data))
    template_arguments(options, tools, documents, variables)
    data = json_bytes([dict(mapping(m, f"messages[{i}]")) for i, m in enumerate(list_of(messages, "messages", "messages"))], "messages")
    return bytes(buffer_of(model, lib.kvrt_model_apply_template, data, len(data), ctypes.byref(options))).decode("utf-8", "replace")
