//! Options of the calls that open, plan, render and save. `Default` is what the library does by itself.
use crate::buffer::{path, text, word};
use crate::kept::{self, Log, User, Wake};
use crate::numbers::*;
use crate::store::Store;
use crate::sys;
use crate::value::init;
use std::os::unix::io::{AsRawFd, BorrowedFd};
use std::path::Path;

/// Options of `Runtime::open`.
#[derive(Clone, Debug, Default)]
pub struct RuntimeOptions<'a> {
    /// Compute threads, the caller's included, at most 256; 0: one for each CPU that affinity and cgroup leave.
    pub threads: u32,
    /// Which instructions the CPU uses. UNSUPPORTED: the machine lacks them. INVALID with CUDA.
    pub isa: Isa,
    /// This level and those before it are logged.
    pub log_level: LogLevel,
    /// `None`: nothing is logged.
    pub log: Option<Log>,
    /// What computes.
    pub device: Device,
    /// Which of the driver's CUDA devices, from 0. UNSUPPORTED: there is no such device (with AUTO the CPU computes then). INVALID with
    /// the CPU, but for 0.
    pub device_index: u32,
    /// Path of libkvrt_cuda.so; `None`: the one beside libkvrt, else as the dynamic linker finds it.
    pub cuda_library: Option<&'a Path>,
    /// Which bits CUDA promises. The CPU ignores it.
    pub determinism: Determinism,
    /// The precision in which CUDA multiplies a prompt. INVALID with `Device::CPU`, but for DEFAULT. With AUTO the CPU ignores it.
    pub prompt_gemm: Gemm,
}

/// Options of `Model::open`.
#[derive(Clone, Copy, Debug, Default)]
pub struct ModelOptions<'a> {
    /// The format of K, and of V where `kv_format_v` is DEFAULT.
    pub kv_format: KvFormat,
    /// Tokens of a KV block: 16, 32, 64, 128 or 256; 0: 32.
    pub block_tokens: u32,
    /// Prompt tokens of a step at most, 1 to 512; 0: 512. It holds whatever step_ms_max allows. A smaller number makes cancel take
    /// effect sooner.
    pub prefill_chunk: u32,
    /// Bytes of the pool of KV blocks. They are reserved at open; they hold the KV of two times block_tokens tokens at least (and a
    /// block of zeros where layers have windows), and at most the memory of the machine (CUDA: of the device). 0: four contexts, and at
    /// most a quarter of the free memory.
    pub kv_bytes_max: u64,
    /// Milliseconds that a step may take, 1 to 60000; 0: 50. A step takes on as many prompt tokens as fit this time by measured speed:
    /// the CPU time of a token, and the share of CPU time that the machine gave lately. It takes one token at least. Where the step
    /// without any prompt fills the time already (many sessions decode, the weights are large), the prompt has half of that step's
    /// time. With 0, and only then, two exceptions hold for prompts. First, a prompt that nobody waits behind may have longer steps.
    /// Nobody waits when no other session of the model generates and no step of another model is due. A step then takes up to 500 ms,
    /// or the time that its caller waits where that is less (the timeout of next, the ms of model_step; 50 at least). A cancel, a close
    /// or a begin that comes meanwhile waits for that step. Second, a step in which no session decodes has at least 32 prompt tokens,
    /// or 64 where it may take 500 ms, as far as 500 ms of CPU time compute them. The time that the system needs to hand out memory on
    /// its first use comes on top: see kv_populate.
    pub step_ms_max: u32,
    /// Read the file from this descriptor, which is open for reading and seekable. The path then only names it in messages, and may be empty. It
    /// may be closed when the model is open.
    pub fd: Option<BorrowedFd<'a>>,
    /// The whole pool gets its memory at open, or NO_MEMORY where less is free. False: a page gets its memory on its first use, which can
    /// double the time of a step on a virtual machine.
    pub kv_populate: bool,
    /// With `fd`: the byte of it where the GGUF begins.
    pub fd_offset: u64,
    /// With `fd`: its bytes; 0: to the end of the file.
    pub fd_size: u64,
    /// Path of a directory that keeps the weights as the CPU has them in memory; `None`: see `cache`. It is made if it is missing. The
    /// first open of a model writes a file of about its size there. Later opens map that file, which is faster, and processes share its
    /// pages. When several processes open at once, one writes and the others wait for it: at most half a minute, and a second more for
    /// each 50 MB. Checksums guard every byte at open. The file is matched to its model by the model file's inode, size, times and
    /// header and a sample of its tensors, not by reading it all: a copy of the model has a file of its own. Only its owner may be able
    /// to write the directory. While a model uses a file of it, the file may be removed, but not changed. Whatever is wrong with the
    /// directory is logged (WARN) and costs time alone. It is not used for a part of a file (fd_size), nor on CUDA.
    pub cache_dir: Option<&'a Path>,
    /// Which directory keeps weights from one open to the next, where `cache_dir` names none.
    pub cache: Cache,
    /// The format of V; DEFAULT: as K's.
    pub kv_format_v: KvFormat,
    /// Bytes of all files in the weight cache together; 0: a tenth of the file system, at most 20 GiB. To make room for a new file,
    /// files that no process maps are removed, the least recently used first. A file that finds no room, or that would leave less than
    /// a twentieth of the file system free (at most 1 GiB), is not written.
    pub cache_bytes_max: u64,
}

/// Options of `Model::apply_template`.
#[derive(Clone, Copy, Debug, Default)]
pub struct TemplateOptions<'a> {
    /// Do not open the assistant's turn.
    pub no_generation_prompt: bool,
    /// A Jinja template to use instead of the model's; `None`: the model's.
    pub source: Option<&'a str>,
    /// A JSON array, the template's variable `tools`; `None`: none.
    pub tools: Option<&'a str>,
    /// A JSON array, the template's variable `documents`; `None`: none.
    pub documents: Option<&'a str>,
    /// A JSON object with more variables by name: `{"enable_thinking": false}`; `None`: none. They may replace bos_token and eos_token.
    pub variables: Option<&'a str>,
}

/// The sessions that `Model::plan` plans for.
#[derive(Clone, Copy, Debug, Default)]
pub struct PlanOptions {
    /// The format of K, and of V where `kv_format_v` is DEFAULT.
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
    /// Without a path: the layers of the geometry that takes the file's place (weights and scratch are 0 then); else 0.
    pub layers: u32,
    /// Without a path: its KV heads.
    pub kv_heads: u32,
    /// Without a path: the elements of a head.
    pub head_dim: u32,
    /// The format of V; DEFAULT: as K's.
    pub kv_format_v: KvFormat,
}

/// Options of `Store::open`.
#[derive(Clone, Copy, Debug, Default)]
pub struct StoreOptions {
    /// Never write. A directory that cannot be written is opened so by itself.
    pub read_only: bool,
    /// NOT_FOUND instead of making a new store.
    pub must_exist: bool,
    /// Bytes that catalog and segments may take on the disk, as `StoreProps::disk_bytes` counts them; 0: no cap. Where KV would pass
    /// the cap, other saved sessions lose KV (see `Store::pin`); where that is not enough, the save leaves KV out. A save whose tokens
    /// would pass it is NO_SPACE. The catalog's log may pass it by some 100 KiB until the next save or gc.
    pub disk_bytes_max: u64,
    /// Bytes that KV leaves free on the file system, for tokens and for others; 0: a twentieth of the file system, at most 1 GiB. It is
    /// 64 KiB at least. A save makes room as for disk_bytes_max.
    pub free_bytes_min: u64,
}

/// Options of `Session::open` and `Session::resume`.
#[derive(Clone, Debug, Default)]
pub struct SessionOptions<'a> {
    /// In memory, the session uses no KV of other sessions and offers them none. Its own KV comes back from the store, whether it was
    /// saved with this option or without. The store is the same as without: it keeps a chunk of the same tokens once in a domain, and
    /// sessions without this option find it there, whichever session saved it. To share nothing at all, give the session a domain of
    /// its own.
    pub no_prefix_cache: bool,
    /// Where the session is saved, and finds stored prefixes; `None`: nowhere. resume ignores it: its store is a parameter.
    pub store: Option<&'a Store>,
    /// Sharing scope, up to 255 bytes of UTF-8. Nothing is shared between domains. "": the default one. Nor is anything shared
    /// between sessions with a store and those without: the KV of the latter is not named by the model's contents, which are hashed for
    /// a store alone.
    pub domain: &'a str,
    /// A JSON array, the template's variable `tools`; `None`: none. It is saved with the session; in resume `None` keeps the saved
    /// ones.
    pub tools: Option<&'a str>,
    /// Called when next has something to give (an event or a failure) and had nothing before; `None`: none. It runs on the thread that
    /// computes, cancels, accepts or begins, with no lock held.
    pub wake: Option<Wake>,
    /// A JSON array, the template's variable `documents`. Saved as tools are.
    pub documents: Option<&'a str>,
    /// A JSON object with more variables of the template, as in `TemplateOptions`. Saved as tools are. strftime_now gives the template
    /// the time when the session was opened, also after a resume.
    pub variables: Option<&'a str>,
    /// Autosave: the library saves the session by itself, each time that one of the three options below says so. It needs a store. The
    /// save has the tokens, the messages and the KV of full blocks. Its options are checkpoint's defaults. Its name is that of the
    /// session's last save or resume; before there is one, autosave_name; with neither, nothing is saved. close saves the rest that is
    /// not saved yet, with the KV of the last block. A failure is logged and stands in `SessionProps::last_error_status` (that of close
    /// is logged alone); the next occasion tries again. The saves run on a thread of the store's, which computes nothing, sleeps when
    /// nothing is due, and works in small portions where others generate.
    pub autosave_name: &'a str,
    /// Save when a generation is over and its DONE was taken; a prefill is one.
    pub autosave_turn: bool,
    /// Save each time that the session has grown by this number of tokens, or of tokens whose KV is computed; 0: not.
    pub autosave_tokens: u32,
    /// Save when nothing has happened to the session for this number of milliseconds, at most a day; 0: not.
    pub autosave_idle_ms: u32,
    /// What resume does with saved KV of another arithmetic.
    pub foreign_kv: ForeignKv,
}

/// Options of `Session::checkpoint` and `Session::suspend`.
#[derive(Clone, Copy, Debug, Default)]
pub struct SaveOptions {
    /// Which part of the save is safely on the disk when it returns.
    pub durability: Durability,
    /// Replace another session of this name, or a newer save of this one, instead of CONFLICT.
    pub overwrite: bool,
    /// 1 to 255: pin the saved session with this priority (see `Store::pin`); 0: leave it as it is.
    pub pin: u32,
    /// It expires this number of seconds after this save, at most 100 years; 0: leave it as it is (a new session never expires).
    /// `Store::set_ttl` with 0 takes it away.
    pub ttl_seconds: u64,
    /// How it stores the KV chunks that it writes.
    pub codec: Codec,
}

// Each `raw` gives the header's struct, which points into the options: it is for a call that ends while they live.

impl RuntimeOptions<'_> {
    pub(crate) fn raw(&self, log: &User<Log>) -> sys::kvrt_runtime_options {
        let mut raw = init!(kvrt_runtime_options);
        raw.threads = self.threads;
        raw.isa = self.isa.number();
        raw.log_level = self.log_level.number() as u32;
        raw.log = log.when(kept::log as sys::kvrt_log_fn);
        raw.log_user = log.pointer();
        raw.log_user_free = log.when(kept::free::<Log> as sys::kvrt_free_fn);
        raw.device = self.device.number();
        raw.device_index = self.device_index;
        (raw.cuda_library, raw.cuda_library_size) = path(self.cuda_library);
        raw.determinism = self.determinism.number();
        raw.prompt_gemm = self.prompt_gemm.number();
        raw
    }
}

impl ModelOptions<'_> {
    pub(crate) fn raw(&self) -> sys::kvrt_model_options {
        let mut raw = init!(kvrt_model_options);
        raw.kv_format = self.kv_format.number();
        raw.block_tokens = self.block_tokens;
        raw.prefill_chunk = self.prefill_chunk;
        raw.kv_bytes_max = self.kv_bytes_max;
        raw.step_ms_max = self.step_ms_max;
        raw.from_fd = self.fd.is_some().into();
        raw.fd = self.fd.map_or(0, |fd| fd.as_raw_fd());
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

impl TemplateOptions<'_> {
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

impl PlanOptions {
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

impl StoreOptions {
    pub(crate) fn raw(&self) -> sys::kvrt_store_options {
        let mut raw = init!(kvrt_store_options);
        raw.read_only = self.read_only.into();
        raw.must_exist = self.must_exist.into();
        raw.disk_bytes_max = self.disk_bytes_max;
        raw.free_bytes_min = self.free_bytes_min;
        raw
    }
}

impl SessionOptions<'_> {
    pub(crate) fn raw(&self, wake: &User<Wake>) -> sys::kvrt_session_options {
        let mut raw = wake_options(wake);
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

/// Session options with a wake alone.
pub(crate) fn wake_options(wake: &User<Wake>) -> sys::kvrt_session_options {
    let mut raw = init!(kvrt_session_options);
    raw.wake = wake.when(kept::wake as sys::kvrt_wake_fn);
    raw.wake_user = wake.pointer();
    raw.wake_user_free = wake.when(kept::free::<Wake> as sys::kvrt_free_fn);
    raw
}

impl SaveOptions {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kept::bytes;
    use std::os::unix::io::AsFd;

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
}
