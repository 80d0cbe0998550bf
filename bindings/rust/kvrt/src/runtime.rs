//! Runtimes.
use crate::error::{call, Result};
use crate::kept::User;
use crate::options::RuntimeOptions;
use crate::sys;
use crate::value::init;
use crate::values::RuntimeProps;
use std::ptr::null_mut;

shared! {
    /// A device with its threads, and the log. Models and stores keep it.
    Runtime, kvrt_runtime, kvrt_runtime_retain, kvrt_runtime_release
}

impl Runtime {
    /// Opens a runtime. The CPU's kernels check themselves first, which takes milliseconds; with CUDA the driver starts.
    ///
    /// Statuses: LIMIT: more than 256 threads. UNSUPPORTED: the machine or the build lacks the isa or the device, or the process has an SQLite, zstd,
    /// PCRE2 or libsodium of its own in the place of the one that libkvrt was linked with. INCOMPATIBLE: libkvrt_cuda.so is of another version, or
    /// libkvrt itself is none for this crate. DEVICE.
    pub fn open(options: &RuntimeOptions<'_>) -> Result<Runtime> {
        let log = User::new(&options.log);
        let raw = options.raw(&log);
        let mut out = null_mut();
        // SAFETY: `raw` and what it points to live as long as the call.
        call(|err| unsafe { sys::kvrt_runtime_open(&raw, &mut out, err) })?;
        log.taken();
        Ok(Runtime::take(out))
    }

    /// Describes the device, its threads and the libraries in use.
    pub fn info(&self) -> Result<RuntimeProps> {
        let mut out = init!(kvrt_runtime_props);
        // SAFETY: `out` has its struct_size.
        call(|err| unsafe { sys::kvrt_runtime_info(self.raw(), &mut out, err) })?;
        Ok(RuntimeProps::of(&out))
    }

    /// Sets the number of compute threads from the next step on: 1 to 256; 0: one for each CPU that affinity and cgroup leave.
    ///
    /// Statuses: LIMIT: more than 256.
    pub fn set_threads(&self, threads: u32) -> Result<()> {
        // SAFETY: the handle has an owner, this one.
        call(|err| unsafe { sys::kvrt_runtime_set_threads(self.raw(), threads, err) })
    }
}
