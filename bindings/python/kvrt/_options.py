"""The options of a generation."""
from __future__ import annotations

import array
import contextlib
import ctypes
import dataclasses
from typing import TYPE_CHECKING, Any, Callable, Generator, List, Mapping, Optional, Sequence, Tuple, Union

from . import _raw
from ._arguments import fill, flag, handle, integer, json_bytes, list_of, mapping, one_of, real, text_bytes, token_array
from ._cancel import Cancel
from ._enums import GrammarKind, Logits, Reply, SamplerKind, Status, ToolChoice
from ._errors import Invalid

if TYPE_CHECKING:
    from ._model import Model

Sampler = Callable[["array.array[float]"], int]


@dataclasses.dataclass(frozen=True)
class GenerateOptions:
    """kvrt_generate_options, whose defaults and bounds these have. 0 is the default of every number.

    max_tokens: tokens at most; 0: until the model ends its turn or the context is full. temperature: 0 is greedy. penalty_window: tokens that the
    penalties look at. logit_bias: numbers to add, by token; -inf bans it. seed: 0 draws one where temperature is not 0; the report has it.
    stop: texts that end the generation, which are not given. stop_tokens: the one that came stays in the session. top_logprobs: alternatives of
    each token. emit_logits: a LOGITS event before every TOKEN.

    sampler: a callable that is given the logits and returns the token; "host": the caller answers LOGITS with Session.accept.
    generation_prompt: open the assistant's turn after append_message. all_or_nothing: a generation that is cancelled or fails leaves the session as
    it was. prefill: choose no token, only compute the queued ones; `logits` says whose rows to show.

    grammar (GBNF) or json_schema (text, or a value for json.dumps): the answer fits it. json_schema_open: objects that do not say
    additionalProperties may have others. continue_grammar: the answer goes on by the grammar of the last one. reply: splits the answer into
    CONTENT, REASONING and TOOL_CALL events. tool_choice: NAMED goes with tool_name, which alone means it. parallel_calls_max, reasoning_tokens_max:
    0 is no limit. cancel: a Cancel that ends it from outside.

    Speculation makes an answer faster and changes nothing of it; it is off by default. draft: a smaller Model of the same runtime and vocabulary that
    proposes tokens; it is kept until the generation ends. lookup: propose tokens that followed the last ones where these came before. prediction: a
    text that the answer is likely to repeat, which lookup proposes from, too. draft_tokens_max: tokens proposed for a step at most, up to 32; 0: 16.
    draft_tokens_min: propose that many though it does not pay, for tests. The report's `drafted` and `accepted` say what came of it."""

    max_tokens: int = 0
    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 0.0
    min_p: float = 0.0
    repetition_penalty: float = 0.0
    frequency_penalty: float = 0.0
    presence_penalty: float = 0.0
    penalty_window: int = 0
    logit_bias: Optional[Mapping[int, float]] = None
    seed: int = 0
    stop: Sequence[str] = ()
    stop_tokens: Sequence[int] = ()
    ignore_eos: bool = False
    top_logprobs: int = 0
    emit_logits: bool = False
    sampler: Union[None, str, Sampler] = None
    generation_prompt: bool = True
    all_or_nothing: bool = False
    prefill: bool = False
    logits: Logits = Logits.NONE
    grammar: Optional[str] = None
    json_schema: Union[None, str, bool, Mapping[str, Any]] = None
    json_schema_open: bool = False
    continue_grammar: bool = False
    reply: Reply = Reply.DEFAULT
    tool_choice: ToolChoice = ToolChoice.DEFAULT
    tool_name: str = ""
    parallel_calls_max: int = 0
    reasoning_tokens_max: int = 0
    cancel: Optional[Cancel] = None
    draft: "Optional[Model]" = None
    prediction: Optional[str] = None
    lookup: bool = False
    draft_tokens_max: int = 0
    draft_tokens_min: int = 0

    @staticmethod
    def of(options: Optional["GenerateOptions"], changes: Mapping[str, Any]) -> "GenerateOptions":
        return dataclasses.replace(handle(options or GenerateOptions(), GenerateOptions, "options"), **changes)

    @property
    def sample(self) -> Optional[Sampler]:
        """The sampler, where it is a callable."""
        return self.sampler if callable(self.sampler) else None

    @contextlib.contextmanager
    def filled(self) -> Generator["_raw.kvrt_generate_options", None, None]:
        """The struct. What it points to lives, and its handles are not closed, inside the with block."""
        struct, _alive = self.to_struct()
        with contextlib.ExitStack() as held:
            if self.cancel is not None:
                struct.cancel = held.enter_context(self.cancel._held())
            if self.draft is not None:
                struct.draft = held.enter_context(self.draft._held())
            yield struct

    def to_struct(self) -> Tuple["_raw.kvrt_generate_options", List[Any]]:
        """The struct without its handles, and the objects that must live as long as it is used."""
        if self.sampler is not None and not callable(self.sampler) and self.sampler != "host":
            raise Invalid(f'sampler is {self.sampler!r}, expected a callable or "host"', Status.INVALID)
        if self.cancel is not None:
            handle(self.cancel, Cancel, "cancel")
        if self.draft is not None:
            from ._model import Model  # which needs this module
            handle(self.draft, Model, "draft")
        kind, grammar = self._grammar()
        struct = fill(_raw.kvrt_generate_options.make(), max_tokens=self.max_tokens, temperature=self.temperature, top_k=self.top_k,
                      top_p=self.top_p, min_p=self.min_p, repetition_penalty=self.repetition_penalty,
                      frequency_penalty=self.frequency_penalty, presence_penalty=self.presence_penalty, penalty_window=self.penalty_window,
                      seed=self.seed, ignore_eos=self.ignore_eos, top_logprobs=self.top_logprobs,
                      sampler=SamplerKind.DEFAULT if self.sampler is None else SamplerKind.HOST, emit_logits=self.emit_logits,
                      no_generation_prompt=not flag(self.generation_prompt, "generation_prompt"), all_or_nothing=self.all_or_nothing,
                      prefill=self.prefill, logits=self.logits, grammar_kind=kind, reply=self.reply, parallel_calls_max=self.parallel_calls_max,
                      reasoning_tokens_max=self.reasoning_tokens_max, lookup=self.lookup, draft_tokens_max=self.draft_tokens_max,
                      draft_tokens_min=self.draft_tokens_min)
        name = text_bytes(self.tool_name, "tool_name")
        choice = one_of(self.tool_choice, ToolChoice, "tool_choice")
        struct.tool_choice = ToolChoice.NAMED if name and choice == ToolChoice.DEFAULT else choice
        struct.tool_name, struct.tool_name_size = name, len(name)
        bias, tokens, texts = self._bias(), token_array(self.stop_tokens, "stop_tokens"), self._stop()
        struct.logit_bias, struct.logit_bias_count = ctypes.addressof(bias), len(bias)
        struct.stop_tokens, struct.stop_token_count = ctypes.addressof(tokens), len(tokens)
        struct.stop_strings, struct.stop_strings_size = texts, len(texts)
        struct.grammar, struct.grammar_size = grammar, len(grammar)
        prediction = None if self.prediction is None else text_bytes(self.prediction, "prediction")
        struct.prediction, struct.prediction_size = prediction, len(prediction or b"")
        return struct, [bias, tokens, texts, grammar, name, prediction]

    def _bias(self) -> Any:
        values: Mapping[Any, Any] = {} if self.logit_bias is None else mapping(self.logit_bias, "logit_bias")
        bias = (_raw.kvrt_token_value * len(values))()
        for slot, (token, value) in zip(bias, values.items()):
            slot.token = integer(token, ctypes.c_int32, "a token of logit_bias")
            slot.value = real(value, f"logit_bias[{token}]")
        return bias

    def _stop(self) -> bytes:
        if isinstance(self.stop, str):
            raise Invalid("stop is a sequence of strings, not one", Status.INVALID)
        texts = [text_bytes(text, f"stop[{index}]") for index, text in enumerate(list_of(self.stop, "stop", "strings"))]
        if any(b"\0" in text for text in texts):
            raise Invalid("stop is a sequence of strings without NUL", Status.INVALID)
        return b"".join(text + b"\0" for text in texts)

    def _grammar(self) -> Tuple[GrammarKind, bytes]:
        """The grammar's kind and its source."""
        go_on, wide = flag(self.continue_grammar, "continue_grammar"), flag(self.json_schema_open, "json_schema_open")
        if (self.grammar is not None) + (self.json_schema is not None) + go_on > 1:
            raise Invalid("grammar, json_schema and continue_grammar exclude each other", Status.INVALID)
        if self.grammar is not None:
            return GrammarKind.GBNF, text_bytes(self.grammar, "grammar")
        if self.json_schema is not None:
            schema = text_bytes(self.json_schema, "json_schema") if isinstance(self.json_schema, str) else json_bytes(self.json_schema, "json_schema")
            return (GrammarKind.JSON_SCHEMA_OPEN if wide else GrammarKind.JSON_SCHEMA), schema
        return (GrammarKind.CONTINUE if go_on else GrammarKind.DEFAULT), b""
