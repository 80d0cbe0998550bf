//! How to generate.
use crate::buffer::{list, text};
use crate::cancel::Cancel;
use crate::error::{Error, Result};
use crate::event::TokenValue;
use crate::numbers::*;
use crate::sys;
use crate::value::init;

/// Options of `Session::begin` and `Session::generate`. The sampler applies, in this order: the grammar; logit_bias; repetition,
/// frequency and presence penalties; temperature; top_k; top_p; min_p. Ties go to the lowest token id. Bounds begin at 0 unless a field
/// says otherwise. A value outside its bounds is INVALID.
#[derive(Clone, Copy, Debug, Default)]
pub struct GenerateOptions<'a> {
    /// Tokens at most; 0: until the model ends its turn or the context is full.
    pub max_tokens: u32,
    /// Up to 100; 0: greedy, the most probable token.
    pub temperature: f32,
    /// Only this number of the most probable tokens; 0: all.
    pub top_k: u32,
    /// Only the fewest tokens that hold this share of the probability, up to 1; 0: all.
    pub top_p: f32,
    /// Only tokens of at least min_p times the best one's probability, up to 1; 0: all.
    pub min_p: f32,
    /// Over the session's tokens, as in transformers, up to 100; 0 and 1: none.
    pub repetition_penalty: f32,
    /// For each time that this generation has given the token, as in OpenAI's API, -100 to 100; 0: none.
    pub frequency_penalty: f32,
    /// Once if this generation has given the token, as in OpenAI's API, -100 to 100; 0: none.
    pub presence_penalty: f32,
    /// The three penalties look at this number of the session's last tokens; 0: all.
    pub penalty_window: u32,
    /// Each value is added to the token's logit; -INFINITY bans the token.
    pub logit_bias: &'a [TokenValue],
    /// A draw depends on seed and position alone. 0: the seed is drawn where temperature is not 0; the report has it.
    pub seed: u64,
    /// Tokens that end the generation. The one that came stays in the session.
    pub stop_tokens: &'a [i32],
    /// Texts that end the generation: up to 16 of 1 to 256 bytes, without NUL. Text that may be the beginning of
    /// one is held back until that is known; then it comes with a later TOKEN, or with DONE. A text that matched is not given, nor is
    /// anything after it.
    pub stop_strings: &'a [&'a str],
    /// Go on past tokens that end the turn.
    pub ignore_eos: bool,
    /// Alternatives that come with each TOKEN, at most 64; 0: none.
    pub top_logprobs: u32,
    /// Who chooses the tokens.
    pub sampler: Sampler,
    /// A LOGITS event before every TOKEN.
    pub emit_logits: bool,
    /// Do not open the assistant's turn after append_message.
    pub no_generation_prompt: bool,
    /// A generation that is cancelled or fails leaves the session as it was before begin.
    pub all_or_nothing: bool,
    /// Choose no token, end with PREFILLED: as `Session::prefill`, but through next.
    pub prefill: bool,
    /// With `prefill`: the logits that it gives.
    pub logits: Logits,
    /// Constrained output. Not with ignore_eos, nor with prefill. With sampler HOST, LOGITS has -INFINITY for tokens that do not fit.
    pub grammar: Grammar<'a>,
    /// How the answer is split into content, reasoning and tool calls.
    pub reply: Reply,
    /// Ends the generation when it is fired, or was; kept until DONE. `None`: none.
    pub cancel: Option<&'a Cancel>,
    /// Which calls of the session's tools the answer has. Not AUTO, REQUIRED or NAMED with a grammar; none of these three fields with `Grammar::Continue` (the answer goes on with those that it
    /// began with), ignore_eos or prefill.
    pub tool_choice: ToolChoice<'a>,
    /// Calls of one answer at most; 0: no limit.
    pub parallel_calls_max: u32,
    /// Tokens of reasoning at most; then its end is the only text that may come, and content or calls follow. 0: no limit.
    pub reasoning_tokens_max: u32,
}

/// Constrained output: a token is chosen only if the answer can still become what the grammar says, and the end of the turn only where the answer is whole.
/// Reasoning is no part of that answer, and free. `kvrt.h` says at KVRT_GRAMMAR_... what is taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Grammar<'a> {
    /// None.
    #[default]
    Default,
    /// Rules `name ::= ...` as in llama.cpp, beginning with `root`.
    Gbnf(&'a str),
    /// JSON text that is valid by this JSON schema.
    JsonSchema(&'a str),
    /// As JsonSchema; an object whose schema does not say additionalProperties may have others.
    JsonSchemaOpen(&'a str),
    /// The grammar of the session's last generation, from where its answer stands. INVALID: there was none, or its answer is whole.
    Continue,
}

impl<'a> Grammar<'a> {
    fn raw(self) -> (u32, Option<&'a str>) {
        match self {
            Grammar::Default => (sys::KVRT_GRAMMAR_DEFAULT, None),
            Grammar::Gbnf(source) => (sys::KVRT_GRAMMAR_GBNF, Some(source)),
            Grammar::JsonSchema(source) => (sys::KVRT_GRAMMAR_JSON_SCHEMA, Some(source)),
            Grammar::JsonSchemaOpen(source) => (sys::KVRT_GRAMMAR_JSON_SCHEMA_OPEN, Some(source)),
            Grammar::Continue => (sys::KVRT_GRAMMAR_CONTINUE, None),
        }
    }
}

/// Which calls of the session's tools an answer has. Calls are bound: written as the model's family writes them, by names that there are, with arguments
/// that fit the tool's `parameters`. Reasoning stays free, and comes first. Auto, Required and Named are INVALID in a session without tools, and
/// UNSUPPORTED where the template does not show calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum ToolChoice<'a> {
    /// Auto where that is possible; else calls are not bound.
    #[default]
    Default,
    /// No calls: the marks by which they begin cannot come; what has none is text.
    None,
    /// Text; from a call's begin on, calls. A call ends the text, another may follow.
    Auto,
    /// One call or more, and nothing else.
    Required,
    /// As Required, of the tool of this name. A name that there is not is INVALID.
    Named(&'a str),
}

impl<'a> ToolChoice<'a> {
    fn raw(self) -> (u32, Option<&'a str>) {
        match self {
            ToolChoice::Default => (sys::KVRT_TOOL_CHOICE_DEFAULT, None),
            ToolChoice::None => (sys::KVRT_TOOL_CHOICE_NONE, None),
            ToolChoice::Auto => (sys::KVRT_TOOL_CHOICE_AUTO, None),
            ToolChoice::Required => (sys::KVRT_TOOL_CHOICE_REQUIRED, None),
            ToolChoice::Named(name) => (sys::KVRT_TOOL_CHOICE_NAMED, Some(name)),
        }
    }
}

impl GenerateOptions<'_> {
    /// The stop strings as the header wants them, each ended by a NUL.
    pub(crate) fn stops(&self) -> Result<Vec<u8>> {
        if let Some(bad) = self.stop_strings.iter().find(|text| text.contains('\0')) {
            return Err(Error::new(Status::INVALID, format!("stop_strings: {bad:?} has a NUL")));
        }
        Ok(self.stop_strings.iter().flat_map(|text| text.bytes().chain([0])).collect())
    }

    /// The header's struct, which points into the options and `stops`.
    pub(crate) fn raw(&self, stops: &[u8]) -> sys::kvrt_generate_options {
        let mut raw = init!(kvrt_generate_options);
        raw.max_tokens = self.max_tokens;
        raw.temperature = self.temperature;
        raw.top_k = self.top_k;
        raw.top_p = self.top_p;
        raw.min_p = self.min_p;
        raw.repetition_penalty = self.repetition_penalty;
        raw.frequency_penalty = self.frequency_penalty;
        raw.presence_penalty = self.presence_penalty;
        raw.penalty_window = self.penalty_window;
        let (bias, count) = list(self.logit_bias);
        (raw.logit_bias, raw.logit_bias_count) = (bias.cast(), count);
        raw.seed = self.seed;
        (raw.stop_tokens, raw.stop_token_count) = list(self.stop_tokens);
        let (stops, size) = list(stops);
        (raw.stop_strings, raw.stop_strings_size) = (stops.cast(), size);
        raw.ignore_eos = self.ignore_eos.into();
        raw.top_logprobs = self.top_logprobs;
        raw.sampler = self.sampler.number();
        raw.emit_logits = self.emit_logits.into();
        raw.no_generation_prompt = self.no_generation_prompt.into();
        raw.all_or_nothing = self.all_or_nothing.into();
        raw.prefill = self.prefill.into();
        raw.logits = self.logits.number();
        let (kind, grammar) = self.grammar.raw();
        raw.grammar_kind = kind;
        (raw.grammar, raw.grammar_size) = text(grammar);
        raw.reply = self.reply.number();
        raw.cancel = self.cancel.map_or(std::ptr::null_mut(), Cancel::raw);
        let (choice, name) = self.tool_choice.raw();
        raw.tool_choice = choice;
        (raw.tool_name, raw.tool_name_size) = text(name);
        raw.parallel_calls_max = self.parallel_calls_max;
        raw.reasoning_tokens_max = self.reasoning_tokens_max;
        raw
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kept::{bytes, slice};

    #[test]
    fn each_field_has_its_value() {
        let options = GenerateOptions {
            max_tokens: 1,
            temperature: 2.0,
            top_k: 3,
            top_p: 4.0,
            min_p: 5.0,
            repetition_penalty: 6.0,
            frequency_penalty: 7.0,
            presence_penalty: 8.0,
            penalty_window: 9,
            logit_bias: &[TokenValue { token: 10, value: 11.0 }],
            seed: 12,
            stop_tokens: &[13, 14],
            stop_strings: &["ab", "c"],
            top_logprobs: 15,
            sampler: Sampler::HOST,
            logits: Logits::ALL,
            grammar: Grammar::JsonSchemaOpen("{}"),
            reply: Reply::GEMMA,
            tool_choice: ToolChoice::Named("f"),
            parallel_calls_max: 16,
            reasoning_tokens_max: 17,
            ..Default::default()
        };
        let stops = options.stops().unwrap();
        let raw = options.raw(&stops);
        assert_eq!((raw.max_tokens, raw.temperature, raw.top_k, raw.top_p, raw.min_p), (1, 2.0, 3, 4.0, 5.0));
        assert_eq!((raw.repetition_penalty, raw.frequency_penalty, raw.presence_penalty, raw.penalty_window), (6.0, 7.0, 8.0, 9));
        let (bias, tokens) = unsafe { (slice(raw.logit_bias, raw.logit_bias_count), slice(raw.stop_tokens, raw.stop_token_count)) };
        assert_eq!((bias.len(), bias[0].token, bias[0].value, raw.seed, tokens), (1, 10, 11.0, 12, &[13, 14][..]));
        assert_eq!(unsafe { bytes(raw.stop_strings, raw.stop_strings_size) }, b"ab\0c\0");
        assert_eq!((raw.top_logprobs, raw.sampler, raw.logits, raw.grammar_kind, raw.reply), (15, 1, 2, 4, 6));
        let texts = unsafe { (bytes(raw.grammar, raw.grammar_size), bytes(raw.tool_name, raw.tool_name_size)) };
        assert_eq!((texts, raw.tool_choice), ((&b"{}"[..], &b"f"[..]), 4));
        assert_eq!((raw.parallel_calls_max, raw.reasoning_tokens_max, raw.cancel.is_null()), (16, 17, true));
    }

    #[test]
    fn each_flag_is_its_own() {
        let flags = |o: GenerateOptions<'_>| {
            let raw = o.raw(&[]);
            [raw.ignore_eos, raw.emit_logits, raw.no_generation_prompt, raw.all_or_nothing, raw.prefill]
        };
        let none = GenerateOptions::default();
        assert_eq!(flags(none), [0; 5]);
        assert_eq!(flags(GenerateOptions { ignore_eos: true, ..none }), [1, 0, 0, 0, 0]);
        assert_eq!(flags(GenerateOptions { emit_logits: true, ..none }), [0, 1, 0, 0, 0]);
        assert_eq!(flags(GenerateOptions { no_generation_prompt: true, ..none }), [0, 0, 1, 0, 0]);
        assert_eq!(flags(GenerateOptions { all_or_nothing: true, ..none }), [0, 0, 0, 1, 0]);
        assert_eq!(flags(GenerateOptions { prefill: true, ..none }), [0, 0, 0, 0, 1]);
    }
}
