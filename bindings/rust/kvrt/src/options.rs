//! Options of the calls that open, plan, render, generate and save. `Default` is what the library does by itself.
// Made of include/kvrt.abi.json by bindings/raw.py (./dev abi): do not edit.
use crate::buffer::{path, text, word};
use crate::cancel::Cancel;
use crate::event::TokenValue;
use crate::generate::{Grammar, ToolChoice};
use crate::kept::{Log, Wake};
use crate::model::Model;
use crate::numbers::*;
use crate::store::Store;
use crate::sys;
use crate::value::init;
use std::os::unix::io::BorrowedFd;
use std::path::Path;

/// Options of `Runtime::open`.
#[derive(Clone, Debug, Default)]
pub struct RuntimeOptions<'a> {
    /// Compute threads, the caller's included, at most 256; 0: one for each CPU that affinity and cgroup leave.
    pub threads: u32,
    /// Which instructions the CPU's kernels use. UNSUPPORTED: the machine lacks it. INVALID with `Device::CUDA`.
    pub isa: Isa,
    /// This level and those before it are logged.
    pub log_level: LogLevel,
    /// Receives the lines of the log; `None`: nothing is logged.
    pub log: Option<Log>,
    /// What computes.
    pub device: Device,
    /// Which of the driver's CUDA devices, from 0. UNSUPPORTED: there is no such device (with AUTO the CPU computes then). INVALID with
    /// the CPU, except 0.
    pub device_index: u32,
    /// Path of libkvrt_cuda.so; `None`: the one beside libkvrt, else as the dynamic linker finds it.
    pub cuda_library: Option<&'a Path>,
    /// Which bits CUDA promises. The CPU ignores it.
    pub determinism: Determinism,
    /// The precision in which CUDA multiplies a prompt. INVALID with `Device::CPU`, except DEFAULT. With `Device::AUTO` the CPU ignores
    /// it.
    pub prompt_gemm: Gemm,
}

impl RuntimeOptions<'_> {
    /// The header's struct, which points into the options: it is for a call that ends while they live. raw_options.rs has the rest of it.
    pub(crate) fn plain(&self) -> sys::kvrt_runtime_options {
        let mut raw = init!(kvrt_runtime_options);
        raw.threads = self.threads;
        raw.isa = self.isa.number();
        raw.log_level = self.log_level.number() as u32;
        raw.device = self.device.number();
        raw.device_index = self.device_index;
        (raw.cuda_library, raw.cuda_library_size) = path(self.cuda_library);
        raw.determinism = self.determinism.number();
        raw.prompt_gemm = self.prompt_gemm.number();
        raw
    }
}

/// Options of `Model::open`.
#[derive(Clone, Copy, Debug, Default)]
pub struct ModelOptions<'a> {
    /// The format in which K or V is stored: of K, and of V if kv_format_v is 0.
    pub kv_format: KvFormat,
    /// Tokens of a block: 16, 32, 64, 128 or 256; 0: 32.
    pub block_tokens: u32,
    /// Prompt tokens of a step at most, 1 to 512; 0: 512. It holds whatever step_ms_max allows. A smaller number makes cancel take effect
    /// sooner.
    pub prefill_chunk: u32,
    /// Bytes of the pool, reserved at open. At least the KV of two blocks (and a unit of zeros if layers have windows or are recurrent);
    /// at most the memory of the machine (CUDA: of the device). 0: four contexts, and at most a quarter of the free memory.
    pub kv_bytes_max: u64,
    /// Milliseconds that a step may take, 1 to 60000; 0: 50. A step takes as many prompt tokens as fit this time by measured speed, and
    /// one at least; if decodes fill the time already, the prompt has half of their time. With 0, a prompt that delays nobody may have
    /// steps of up to 500 ms, and a step without decodes has at least 32 prompt tokens. "Pace" in docs/USING.md has the details.
    pub step_ms_max: u32,
    /// Read the file from this descriptor, which is open for reading and seekable. The path then only names it in messages, and may be
    /// empty. The caller may close it after `Model::open`.
    pub fd: Option<BorrowedFd<'a>>,
    /// The whole pool gets its memory at open, or NO_MEMORY if less is free. False: a page gets its memory on its first use, which can
    /// double the time of a step on a virtual machine.
    pub kv_populate: bool,
    /// `fd`: the byte of `fd` at which the GGUF begins.
    pub fd_offset: u64,
    /// `fd`: its bytes; 0: to the end of the file.
    pub fd_size: u64,
    /// Path of a directory that keeps the weights as the CPU has them in memory; `None`: see `cache`. It is made if it is missing.
    ///
    /// The first open of a model writes a file of about its size there. Later opens map that file, which is faster, and processes share
    /// its pages. When several processes open at once, one writes and the others wait for it: at most half a minute, and a second more
    /// for each 50 MB. Checksums guard every byte at open. The file is matched to its model by the model file's inode, size, times and
    /// header and a sample of its tensors, not by reading it all: a copy of the model has a file of its own.
    ///
    /// No other user may be able to write the directory. While a model uses a file of it, the file may be removed, but not changed.
    /// Whatever is wrong with the directory is logged (WARN) and costs only time. It is not used for a part of a file (fd_size), nor on
    /// CUDA. A callback of `Model::open` that opens another model with the same directory waits as another process would.
    pub cache_dir: Option<&'a Path>,
    /// Which directory keeps weights from one open to the next, if cache_dir names none.
    pub cache: Cache,
    /// The format in which K or V is stored: of V; 0: as K's.
    pub kv_format_v: KvFormat,
    /// Bytes of all files in the weight cache together; 0: a tenth of the file system, at most 20 GiB. To make room for a new file, files
    /// that no process maps are removed, the least recently used first. A file that finds no room, or that would leave less than a
    /// twentieth of the file system free (at most 1 GiB), is not written.
    pub cache_bytes_max: u64,
}

impl ModelOptions<'_> {
    /// The header's struct, which points into the options: it is for a call that ends while they live. raw_options.rs has the rest of it.
    pub(crate) fn plain(&self) -> sys::kvrt_model_options {
        let mut raw = init!(kvrt_model_options);
        raw.kv_format = self.kv_format.number();
        raw.block_tokens = self.block_tokens;
        raw.prefill_chunk = self.prefill_chunk;
        raw.kv_bytes_max = self.kv_bytes_max;
        raw.step_ms_max = self.step_ms_max;
        raw.kv_populate = self.kv_populate.into();
        raw.fd_offset = self.fd_offset;
        raw.fd_size = self.fd_size;
        (raw.cache_dir, raw.cache_dir_size) = path(self.cache_dir);
        raw.cache = self.cache.number();
        raw.kv_format_v = self.kv_format_v.number();
        raw.cache_bytes_max = self.cache_bytes_max;
        raw
    }
}

/// Options of `Model::apply_template`.
#[derive(Clone, Copy, Debug, Default)]
pub struct TemplateOptions<'a> {
    /// Do not open the assistant's turn.
    pub no_generation_prompt: bool,
    /// A Jinja template to use instead of the model's; the model may then be `None`. `None`: the model's.
    pub source: Option<&'a str>,
    /// A JSON array, the template's variable `tools`; `None`: none.
    pub tools: Option<&'a str>,
    /// A JSON array, the template's variable `documents`; `None`: none.
    pub documents: Option<&'a str>,
    /// A JSON object with more variables by name: `{"enable_thinking": false}`; `None`: none. They may replace bos_token and eos_token.
    pub variables: Option<&'a str>,
}

impl TemplateOptions<'_> {
    /// The header's struct, which points into the options: it is for a call that ends while they live.
    pub(crate) fn raw(&self) -> sys::kvrt_template_options {
        let mut raw = init!(kvrt_template_options);
        raw.no_generation_prompt = self.no_generation_prompt.into();
        (raw.source, raw.source_size) = text(self.source);
        (raw.tools, raw.tools_size) = text(self.tools);
        (raw.documents, raw.documents_size) = text(self.documents);
        (raw.variables, raw.variables_size) = text(self.variables);
        raw
    }
}

/// The sessions that `Model::plan` plans for.
#[derive(Clone, Copy, Debug, Default)]
pub struct PlanOptions {
    /// As in `ModelOptions`.
    pub kv_format: KvFormat,
    /// As in `ModelOptions`; 0: 32.
    pub block_tokens: u32,
    /// Number of sessions, at most 65536; 0: 1.
    pub sessions: u32,
    /// Tokens of each, at most the model's context; 0: the model's context.
    pub session_tokens: u64,
    /// Leading tokens that all sessions have in common, at most session_tokens.
    pub shared_tokens: u64,
    /// The budget for everything; 0: the device's free memory.
    pub memory_bytes: u64,
    /// With path `None`: the geometry that takes the file's place (weights and scratch are 0 then); else 0.
    pub layers: u32,
    /// The same.
    pub kv_heads: u32,
    /// The same.
    pub head_dim: u32,
    /// As in `ModelOptions`.
    pub kv_format_v: KvFormat,
}

impl PlanOptions {
    /// The header's struct, which points into the options: it is for a call that ends while they live.
    pub(crate) fn raw(&self) -> sys::kvrt_plan_options {
        let mut raw = init!(kvrt_plan_options);
        raw.kv_format = self.kv_format.number();
        raw.block_tokens = self.block_tokens;
        raw.sessions = self.sessions;
        raw.session_tokens = self.session_tokens;
        raw.shared_tokens = self.shared_tokens;
        raw.memory_bytes = self.memory_bytes;
        raw.layers = self.layers;
        raw.kv_heads = self.kv_heads;
        raw.head_dim = self.head_dim;
        raw.kv_format_v = self.kv_format_v.number();
        raw
    }
}

/// Options of `Store::open`.
#[derive(Clone, Copy, Debug, Default)]
pub struct StoreOptions {
    /// Never write.
    ///
    /// A directory that cannot be written is opened so by itself. So is a store that was closed and whose file system has no room or no
    /// inode for the catalog's log; a WARN in the log says why. Then the next call that writes, or `Store::open` of the same directory,
    /// takes up writing if there is room; else a call that writes is NO_SPACE, and its message names what is missing.
    ///
    /// If no process has it open for writing at that moment, it is read without the log. After somebody writes, reads fail with IO: open
    /// it again.
    pub read_only: bool,
    /// NOT_FOUND instead of making a new store.
    pub must_exist: bool,
    /// Bytes that catalog and segments may take on the disk, as `StoreProps::disk_bytes` counts them; 0: no cap. If KV would pass the
    /// cap, other saved sessions lose KV (see `Store::pin`); if that is not enough, the save leaves KV out. A save whose tokens would
    /// pass it is NO_SPACE. The catalog's log may pass it by some 100 KiB until the next save or gc.
    pub disk_bytes_max: u64,
    /// Bytes that KV leaves free on the file system, for tokens and for others; 0: a twentieth of the file system, at most 1 GiB. It is
    /// 64 KiB at least. A save makes room as for disk_bytes_max.
    pub free_bytes_min: u64,
}

impl StoreOptions {
    /// The header's struct, which points into the options: it is for a call that ends while they live.
    pub(crate) fn raw(&self) -> sys::kvrt_store_options {
        let mut raw = init!(kvrt_store_options);
        raw.read_only = self.read_only.into();
        raw.must_exist = self.must_exist.into();
        raw.disk_bytes_max = self.disk_bytes_max;
        raw.free_bytes_min = self.free_bytes_min;
        raw
    }
}

/// Options of `Session::open` and `Session::resume`. `Session::fork` reads only the wake fields.
#[derive(Clone, Debug, Default)]
pub struct SessionOptions<'a> {
    /// In memory, the session uses no KV of other sessions and offers them none. Its own KV comes back from the store, whether it was
    /// saved with this option or without. Saving is as without the option: the store keeps a chunk of the same tokens once in a domain,
    /// and sessions without this option find it there, whichever session saved it. To share nothing at all, give the session a domain of
    /// its own.
    pub no_prefix_cache: bool,
    /// Where the session is saved, and finds stored prefixes; `None`: nowhere. resume ignores it: its store is a parameter.
    pub store: Option<&'a Store>,
    /// Sharing scope, up to 255 bytes of UTF-8. Nothing is shared between domains. "": the default one. Nothing is shared between
    /// sessions with a store and those without, either: the model's contents, which name KV, are hashed only for a store.
    pub domain: &'a str,
    /// A JSON array of objects, the template's variable `tools`; `None`: none. It is saved with the session; in resume `None` keeps the
    /// saved ones.
    pub tools: Option<&'a str>,
    /// Called when next has something to give (an event or a failure) and had nothing before; `None`: none. It runs on the thread that
    /// computes, cancels, accepts or begins, with no lock held. It may still come while close returns, and once after it.
    pub wake: Option<Wake>,
    /// A JSON array, the template's variable `documents`. Saved as tools are.
    pub documents: Option<&'a str>,
    /// A JSON object with more variables of the template, as in `TemplateOptions`. Saved as tools are. strftime_now gives the template
    /// the time when the session was opened, also after a resume; in a session that repair recovered, that of the resume.
    pub variables: Option<&'a str>,
    /// Autosave: the library saves the session by itself, each time that one of the three options below says so. It needs a store.
    ///
    /// The save has the tokens, the messages and the KV of full blocks. Its options are checkpoint's defaults. Its name is that of the
    /// session's last save or resume; before there is one, autosave_name; with neither, nothing is saved. close saves the rest that is
    /// not saved yet, with the KV of the last block. A failure is logged and stands in `SessionProps::last_error_status` (that of close
    /// is only logged); the next occasion tries again. The saves run on a thread of the store's, which computes nothing, sleeps when
    /// nothing is due, and works in small portions while others generate.
    pub autosave_name: &'a str,
    /// Save when a generation is over and its DONE was taken; a prefill is one.
    pub autosave_turn: bool,
    /// Save each time that the session has grown by this number of tokens, or of tokens whose KV is computed; 0: not.
    pub autosave_tokens: u32,
    /// Save when nothing has happened to the session for this number of milliseconds, at most a day; 0: not.
    pub autosave_idle_ms: u32,
    /// What resume does with saved KV of another arithmetic, a CPU's on a GPU or the other way round.
    pub foreign_kv: ForeignKv,
}

impl SessionOptions<'_> {
    /// The header's struct, which points into the options: it is for a call that ends while they live. raw_options.rs has the rest of it.
    pub(crate) fn plain(&self) -> sys::kvrt_session_options {
        let mut raw = init!(kvrt_session_options);
        raw.no_prefix_cache = self.no_prefix_cache.into();
        raw.store = self.store.map_or(std::ptr::null_mut(), Store::raw);
        (raw.domain, raw.domain_size) = word(self.domain);
        (raw.tools, raw.tools_size) = text(self.tools);
        (raw.documents, raw.documents_size) = text(self.documents);
        (raw.variables, raw.variables_size) = text(self.variables);
        (raw.autosave_name, raw.autosave_name_size) = word(self.autosave_name);
        raw.autosave_turn = self.autosave_turn.into();
        raw.autosave_tokens = self.autosave_tokens;
        raw.autosave_idle_ms = self.autosave_idle_ms;
        raw.foreign_kv = self.foreign_kv.number();
        raw
    }
}

/// Options of `Session::begin` and `Session::generate`.
///
/// Speculation (draft, prediction, lookup; off by default) makes an answer faster and changes nothing of it. A step reads the model's
/// weights once, whether it computes one row of a session or several. So tokens are proposed that are likely to follow, one step computes
/// the rows of all of them, and the answer takes those that it would have had without: tokens, text and logprobs are the same to the bit,
/// also with a temperature, a grammar, penalties or a stop string. What was proposed in vain leaves no KV and no event; `drafted` and the
/// metric of steps' rows count it, and its rows may have taken the place of KV that no session held. How many are proposed follows from
/// measured times and from how many were right, down to none where it does not pay, and while prompts of other sessions are computed.
///
/// A step may give several tokens: those that it gave before a cancel, or before a callback stopped, are in the session, though nobody
/// took their events. Without speculation that is so if another thread computes.
///
/// Where the grammar leaves one token it is proposed with any of the three. No token is proposed with sampler HOST, emit_logits or
/// prefill, for or by models with recurrent layers, and on CUDA where more rows would be computed by another kernel
/// (`Determinism::STRICT` has one for all). A draft that fails, or gets no memory in its pool, costs speed alone. The steps of a draft
/// come on top of the session's, for a step's time (step_ms_max) at most.
///
/// The sampler applies, in this order: the grammar; logit_bias; repetition, frequency and presence penalties; temperature; top_k; top_p;
/// min_p. Ties go to the lowest token id. Bounds begin at 0 unless a field says otherwise. A value outside its bounds is INVALID.
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
    /// A draw depends only on seed and position. 0: the seed is drawn if temperature is not 0; the report has it.
    pub seed: u64,
    /// Tokens that end the generation. The one that came stays in the session.
    pub stop_tokens: &'a [i32],
    /// Texts that end the generation: up to 16 of 1 to 256 bytes. Text that may be the beginning of one is held back until that is known;
    /// then it comes with a later TOKEN, or with DONE. A text that matched is not given, nor is anything after it.
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
    /// With prefill: which logits a prefill gives.
    pub logits: Logits,
    /// How an answer is split into content, reasoning and tool calls.
    pub reply: Reply,
    /// Constrained output. INVALID with ignore_eos and with prefill. With sampler HOST, LOGITS has -INFINITY for tokens that do not fit.
    pub grammar: Grammar<'a>,
    /// Ends the generation when it is fired, or was; kept until DONE. `None`: none.
    pub cancel: Option<&'a Cancel>,
    /// Which calls of the session's tools the answer has. Not Required or Named with a grammar. These three fields are INVALID with
    /// `Grammar::Continue` (the answer goes on with those that it began with), ignore_eos and prefill.
    pub tool_choice: ToolChoice<'a>,
    /// Calls of one answer at most; 0: no limit.
    pub parallel_calls_max: u32,
    /// Tokens of reasoning at most; then its end is the only text that may come, and content or calls follow. 0: no limit.
    pub reasoning_tokens_max: u32,
    /// A smaller model that proposes tokens (see Speculation), of the session's runtime. Each id that both vocabularies have is the same
    /// token in both, else INCOMPATIBLE; ids that a file marks as unused do not count. INVALID: it is the session's own model, or of
    /// another runtime. UNSUPPORTED: a file with only a vocabulary. The session keeps it until it begins a generation without it, or is
    /// closed. It computes in a session of its own, in its own pool, on the thread that computes this session; that one gives its units
    /// to the host's sessions first and is never saved, and `ModelProps` does not count it. Where the draft would take more time for the
    /// whole text than it saves, it reads only the text's last part. `None`: none.
    pub draft: Option<&'a Model>,
    /// Text that the answer is likely to repeat, as a file that it edits, UTF-8, at most 1 MiB (else LIMIT): lookup proposes from it,
    /// too. Not `None` sets lookup. `None`: none.
    pub prediction: Option<&'a str>,
    /// Propose tokens that followed the last ones where these came before (see Speculation).
    pub lookup: bool,
    /// Tokens proposed for a step at most, up to 32; 0: 16.
    pub draft_tokens_max: u32,
    /// Propose that many where they are known, though they cost more time than they save; for tests and measurements. Up to
    /// draft_tokens_max. 0: as it pays.
    pub draft_tokens_min: u32,
}

impl GenerateOptions<'_> {
    /// The header's struct, which points into the options: it is for a call that ends while they live. raw_options.rs has the rest of it.
    pub(crate) fn plain(&self) -> sys::kvrt_generate_options {
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
        raw.seed = self.seed;
        raw.ignore_eos = self.ignore_eos.into();
        raw.top_logprobs = self.top_logprobs;
        raw.sampler = self.sampler.number();
        raw.emit_logits = self.emit_logits.into();
        raw.no_generation_prompt = self.no_generation_prompt.into();
        raw.all_or_nothing = self.all_or_nothing.into();
        raw.prefill = self.prefill.into();
        raw.logits = self.logits.number();
        raw.reply = self.reply.number();
        raw.cancel = self.cancel.map_or(std::ptr::null_mut(), Cancel::raw);
        raw.parallel_calls_max = self.parallel_calls_max;
        raw.reasoning_tokens_max = self.reasoning_tokens_max;
        raw.draft = self.draft.map_or(std::ptr::null_mut(), Model::raw);
        (raw.prediction, raw.prediction_size) = text(self.prediction);
        raw.lookup = self.lookup.into();
        raw.draft_tokens_max = self.draft_tokens_max;
        raw.draft_tokens_min = self.draft_tokens_min;
        raw
    }
}

/// Options of `Session::checkpoint` and `Session::suspend`.
#[derive(Clone, Copy, Debug, Default)]
pub struct SaveOptions {
    /// Which part of a save is safely on the disk when it returns.
    pub durability: Durability,
    /// Replace another session of this name, or a newer save of this one, instead of CONFLICT.
    pub overwrite: bool,
    /// 1 to 255: pin the saved session with this priority (see `Store::pin`); 0: leave it as it is.
    pub pin: u32,
    /// It expires this number of seconds after this save, at most 100 years; 0: leave it as it is (a new session never expires).
    /// `Store::set_ttl` with 0 takes it away.
    pub ttl_seconds: u64,
    /// How a save stores the KV chunks that it writes.
    pub codec: Codec,
}

impl SaveOptions {
    /// The header's struct, which points into the options: it is for a call that ends while they live.
    pub(crate) fn raw(&self) -> sys::kvrt_save_options {
        let mut raw = init!(kvrt_save_options);
        raw.durability = self.durability.number();
        raw.overwrite = self.overwrite.into();
        raw.pin = self.pin;
        raw.ttl_seconds = self.ttl_seconds;
        raw.codec = self.codec.number();
        raw
    }
}
