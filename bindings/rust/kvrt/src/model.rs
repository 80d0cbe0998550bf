//! Models.
use crate::buffer::{fill, fill_text, list, path, text};
use crate::error::{call, Result};
use crate::event::{go_on, watched, Event};
use crate::options::{ModelOptions, PlanOptions, TemplateOptions};
use crate::runtime::Runtime;
use crate::sys;
use crate::value::init;
use crate::values::{CacheProps, Metrics, ModelProps, Plan};
use std::ops::ControlFlow;
use std::path::Path;
use std::ptr::null_mut;
use std::time::Duration;

shared! {
    /// Weights, tokenizer and chat template of a GGUF file, a pool of KV blocks, and a scheduler. Sessions keep it.
    Model, kvrt_model, kvrt_model_retain, kvrt_model_release
}

/// Flags of tokenize, detokenize and the calls like them.
fn flags(special: bool, bos: bool) -> u32 {
    (u32::from(special) * sys::KVRT_TEXT_SPECIAL) | (u32::from(bos) * sys::KVRT_TEXT_BOS)
}

impl Model {
    /// Opens a GGUF file, which must not change while the model is open. It blocks until the file is read; [`Model::open_with`] can stop it.
    ///
    /// Statuses: INVALID: an option outside its bounds, or a split model's file that is not the first. NOT_FOUND. CORRUPT: no sound GGUF. UNSUPPORTED: an
    /// unknown architecture, tensor type or tokenizer: the message names it. LIMIT: kv_bytes_max. NO_MEMORY. IO. DEVICE.
    pub fn open(runtime: &Runtime, file: impl AsRef<Path>, options: &ModelOptions<'_>) -> Result<Model> {
        Model::open_with(runtime, file, options, go_on)
    }

    /// As [`Model::open`]; `progress` gets [`Event::Progress`] in bytes, and may stop it: CANCELLED.
    pub fn open_with(
        runtime: &Runtime,
        file: impl AsRef<Path>,
        options: &ModelOptions<'_>,
        progress: impl FnMut(&Event<'_>) -> ControlFlow<()>,
    ) -> Result<Model> {
        let (raw, (data, size)) = (options.raw(), path(Some(file.as_ref())));
        let mut out = null_mut();
        // SAFETY: the path and the options live as long as the call.
        watched(progress, |function, user, err| unsafe {
            sys::kvrt_model_open(runtime.raw(), data, size, &raw, function, user, &mut out, err)
        })?;
        Ok(Model::take(out))
    }

    /// Describes the model, and its pool as it is now.
    pub fn info(&self) -> Result<ModelProps> {
        let mut out = init!(kvrt_model_props);
        // SAFETY: `out` has its struct_size.
        call(|err| unsafe { sys::kvrt_model_info(self.raw(), &mut out, err) })?;
        Ok(ModelProps::of(&out))
    }

    /// Turns text into tokens. Bytes that are no UTF-8 become byte tokens where the vocabulary has them. `special`: text that spells a special token
    /// becomes it. `bos`: begin with the model's BOS token, if it has one. Statuses: LIMIT: the text is too long.
    pub fn tokenize(&self, text: impl AsRef<[u8]>, special: bool, bos: bool) -> Result<Vec<i32>> {
        let (data, size) = list(text.as_ref());
        fill(|tokens, capacity, needed, err| {
            // SAFETY: the text lives as long as the call, and fill gives room for `capacity`.
            unsafe { sys::kvrt_model_tokenize(self.raw(), data.cast(), size, flags(special, bos), tokens, capacity, needed, err) }
        })
    }

    /// Turns tokens into their bytes, which may end within a character. `special`: special tokens are spelled out. Statuses: INVALID: an id outside the
    /// vocabulary.
    pub fn detokenize(&self, tokens: &[i32], special: bool) -> Result<Vec<u8>> {
        let (ids, count) = list(tokens);
        fill(|bytes: *mut u8, capacity, needed, err| {
            // SAFETY: the tokens live as long as the call, and fill gives room for `capacity`.
            unsafe { sys::kvrt_model_detokenize(self.raw(), ids, count, flags(special, false), bytes.cast(), capacity, needed, err) }
        })
    }

    /// Renders messages, a JSON array, with the model's chat template or that of the options. It takes about 100 ms at most. Statuses: INVALID: not a JSON
    /// array of messages, or TEMPLATE_ERROR. LIMIT: TEMPLATE_LIMIT. UNSUPPORTED: the model has no template, or it uses a feature that kvrt lacks.
    pub fn apply_template(&self, messages: &str, options: &TemplateOptions<'_>) -> Result<String> {
        render(self.raw(), messages, options)
    }

    /// Computes for all generating sessions of the model, for hosts with a loop of their own: until no session can go on, or the time is up (0: one step).
    /// Gives the number of sessions that could go on now. It may take one step longer; a step that another thread computes is waited for.
    pub fn step(&self, time: Duration) -> Result<u32> {
        let mut runnable = 0;
        // SAFETY: `runnable` lives as long as the call.
        call(|err| unsafe { sys::kvrt_model_step(self.raw(), milliseconds(time) as u32, &mut runnable, err) })?;
        Ok(runnable)
    }

    /// The model's counters now.
    pub fn metrics(&self) -> Result<Metrics> {
        let mut out = init!(kvrt_metrics);
        // SAFETY: `out` has its struct_size.
        call(|err| unsafe { sys::kvrt_model_metrics(self.raw(), &mut out, err) })?;
        Ok(Metrics::of(&out))
    }

    /// The counters as text for Prometheus, labelled `model="label"`; `None`: with the model's name.
    pub fn metrics_text(&self, label: Option<&str>) -> Result<String> {
        let (label, size) = text(label);
        fill_text(|data, capacity, needed, err| {
            // SAFETY: the label lives as long as the call.
            unsafe { sys::kvrt_model_metrics_text(self.raw(), label, size, data, capacity, needed, err) }
        })
    }

    /// The memory that a model and its sessions will take, from the file's header alone; without a file, of the geometry in the options. Statuses: of the
    /// file as [`Model::open`]. INVALID: a file and a geometry, or neither. LIMIT: more sessions or tokens than a limit or the context allows.
    pub fn plan(runtime: &Runtime, file: Option<&Path>, options: &PlanOptions) -> Result<Plan> {
        let (raw, (data, size)) = (options.raw(), path(file));
        let mut out = init!(kvrt_plan);
        // SAFETY: the path and the options live as long as the call.
        call(|err| unsafe { sys::kvrt_model_plan(runtime.raw(), data, size, &raw, &mut out, err) })?;
        Ok(Plan::of(&out))
    }

    /// The weight cache that the options name; it makes nothing. Statuses: NOT_FOUND: they name none. INVALID, IO, UNSUPPORTED: the directory can get no
    /// new file.
    pub fn cache(runtime: &Runtime, options: &ModelOptions<'_>) -> Result<CacheProps> {
        let raw = options.raw();
        let mut out = init!(kvrt_cache_props);
        // SAFETY: the options live as long as the call.
        call(|err| unsafe { sys::kvrt_model_cache(runtime.raw(), &raw, &mut out, err) })?;
        Ok(CacheProps::of(&out))
    }

    /// The contents of a GGUF file as JSON, from its header alone. `all`: arrays to their end. Statuses: NOT_FOUND, CORRUPT, IO, LIMIT.
    pub fn inspect(runtime: &Runtime, file: impl AsRef<Path>, all: bool) -> Result<String> {
        let (name, size) = path(Some(file.as_ref()));
        fill_text(|data, capacity, needed, err| {
            let flags = u32::from(all) * sys::KVRT_INSPECT_ALL;
            // SAFETY: the path lives as long as the call.
            unsafe { sys::kvrt_model_inspect(runtime.raw(), name, size, flags, data, capacity, needed, err) }
        })
    }
}

/// Renders messages with the template in the options' `source`, without a model: see [`Model::apply_template`].
pub fn apply_template(messages: &str, options: &TemplateOptions<'_>) -> Result<String> {
    render(null_mut(), messages, options)
}

fn render(model: *mut sys::kvrt_model, messages: &str, options: &TemplateOptions<'_>) -> Result<String> {
    let (raw, (messages, size)) = (options.raw(), text(Some(messages)));
    fill_text(|data, capacity, needed, err| {
        // SAFETY: the messages and the options live as long as the call; the model has an owner, or is NULL.
        unsafe { sys::kvrt_model_apply_template(model, messages, size, &raw, data, capacity, needed, err) }
    })
}

/// Milliseconds, rounded up, as a timeout can have at most.
pub(crate) fn milliseconds(time: Duration) -> i32 {
    i32::try_from((time.as_nanos() + 999_999) / 1_000_000).unwrap_or(i32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timeout_is_not_shortened() {
        let ms = |nanoseconds| milliseconds(Duration::from_nanos(nanoseconds));
        assert_eq!((ms(0), ms(1), ms(1_000_000), ms(1_000_001)), (0, 1, 1, 2));
        assert_eq!(milliseconds(Duration::MAX), i32::MAX);
    }
}
