//! The parts of options that their roles do not tell: callbacks, descriptors, lists, and enums with what belongs to a value.
use crate::buffer::{list, text};
use crate::error::{Error, Result};
use crate::kept::{self, Log, User, Wake};
use crate::numbers::Status;
use crate::options::{GenerateOptions, ModelOptions, RuntimeOptions, SessionOptions};
use crate::sys;
use crate::value::init;
use std::os::unix::io::AsRawFd;

// Each `raw` gives the header's struct, which points into the options: it is for a call that ends while they live.

impl RuntimeOptions<'_> {
    pub(crate) fn raw(&self, log: &User<Log>) -> sys::kvrt_runtime_options {
        let mut raw = self.plain();
        raw.log = log.when(kept::log as sys::kvrt_log_fn);
        raw.log_user = log.pointer();
        raw.log_user_free = log.when(kept::free::<Log> as sys::kvrt_free_fn);
        raw
    }
}

impl ModelOptions<'_> {
    pub(crate) fn raw(&self) -> sys::kvrt_model_options {
        let mut raw = self.plain();
        raw.from_fd = self.fd.is_some().into();
        raw.fd = self.fd.map_or(0, |fd| fd.as_raw_fd());
        raw
    }
}

impl SessionOptions<'_> {
    pub(crate) fn raw(&self, wake: &User<Wake>) -> sys::kvrt_session_options {
        let mut raw = self.plain();
        set_wake(&mut raw, wake);
        raw
    }
}

/// Session options with only a wake.
pub(crate) fn wake_options(wake: &User<Wake>) -> sys::kvrt_session_options {
    let mut raw = init!(kvrt_session_options);
    set_wake(&mut raw, wake);
    raw
}

fn set_wake(raw: &mut sys::kvrt_session_options, wake: &User<Wake>) {
    raw.wake = wake.when(kept::wake as sys::kvrt_wake_fn);
    raw.wake_user = wake.pointer();
    raw.wake_user_free = wake.when(kept::free::<Wake> as sys::kvrt_free_fn);
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
        let mut raw = self.plain();
        let (bias, count) = list(self.logit_bias);
        (raw.logit_bias, raw.logit_bias_count) = (bias.cast(), count);
        (raw.stop_tokens, raw.stop_token_count) = list(self.stop_tokens);
        let (stops, size) = list(stops);
        (raw.stop_strings, raw.stop_strings_size) = (stops.cast(), size);
        let (kind, grammar) = self.grammar.raw();
        raw.grammar_kind = kind;
        (raw.grammar, raw.grammar_size) = text(grammar);
        let (choice, name) = self.tool_choice.raw();
        raw.tool_choice = choice;
        (raw.tool_name, raw.tool_name_size) = text(name);
        raw
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::TokenValue;
    use crate::generate::{Grammar, ToolChoice};
    use crate::kept::{bytes, slice};
    use crate::numbers::*;
    use std::os::unix::io::AsFd;
    use std::path::Path;

    /// The text that a pointer and a length of a struct stand for.
    fn said(data: *const std::os::raw::c_char, size: usize) -> &'static str {
        std::str::from_utf8(unsafe { bytes(data, size) }).unwrap()
    }

    #[test]
    fn each_field_has_its_value() {
        let file = std::fs::File::open("/dev/null").unwrap();
        let model = ModelOptions {
            kv_format: KvFormat::INT8,
            block_tokens: 16,
            prefill_chunk: 3,
            kv_bytes_max: 4,
            step_ms_max: 5,
            fd: Some(file.as_fd()),
            kv_populate: false,
            fd_offset: 7,
            fd_size: 8,
            cache_dir: Some(Path::new("weights")),
            cache: Cache::USER,
            kv_format_v: KvFormat::FP8,
            cache_bytes_max: 12,
        };
        let raw = model.raw();
        assert_eq!((raw.kv_format, raw.block_tokens, raw.prefill_chunk, raw.kv_bytes_max, raw.step_ms_max), (4, 16, 3, 4, 5));
        assert_eq!((raw.from_fd, raw.fd, raw.kv_populate, raw.fd_offset, raw.fd_size), (1, file.as_raw_fd(), 0, 7, 8));
        assert_eq!((said(raw.cache_dir, raw.cache_dir_size), raw.cache, raw.kv_format_v, raw.cache_bytes_max), ("weights", 2, 5, 12));
        assert_eq!(ModelOptions { kv_populate: true, fd: None, ..model }.raw().kv_populate, 1);

        let log = User::new(&Some(Log::new(|_, _| ())));
        let runtime = RuntimeOptions {
            threads: 1,
            isa: Isa::AVX2,
            log_level: LogLevel::INFO,
            log: None,
            device: Device::AUTO,
            device_index: 5,
            cuda_library: Some(Path::new("cuda")),
            determinism: Determinism::BY_CLASS,
            prompt_gemm: Gemm::FP8,
        };
        let raw = runtime.raw(&log);
        assert_eq!((raw.threads, raw.isa, raw.log_level, raw.device, raw.device_index), (1, 2, 3, 3, 5));
        assert_eq!((said(raw.cuda_library, raw.cuda_library_size), raw.determinism, raw.prompt_gemm), ("cuda", 1, 2));
        assert!(raw.log.is_some() && raw.log_user == log.pointer() && raw.log_user_free.is_some());
        let raw = runtime.raw(&User::new(&None));
        assert!(raw.log.is_none() && raw.log_user.is_null() && raw.log_user_free.is_none());
    }

    #[test]
    fn each_field_of_a_generation_has_its_value() {
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
