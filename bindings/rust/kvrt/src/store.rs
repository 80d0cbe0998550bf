//! Stores.
use crate::buffer::{fill_text, path, text};
use crate::error::{call, Result};
use crate::event::{watched, watched_raw, Event};
use crate::options::StoreOptions;
use crate::runtime::Runtime;
use crate::sys;
use crate::value::init;
use crate::values::StoreProps;
use crate::values::{GcReport, RepairReport, StoreEntry};
use std::ops::ControlFlow;
use std::path::Path;
use std::ptr::null_mut;

shared! {
    /// A directory of saved sessions. Any number of processes may have one open; sessions keep it.
    ///
    /// In its calls `domain` is the sharing scope ("": the default one), and `name` has 1 to 255 bytes. A session that has expired and is not pinned is
    /// NOT_FOUND. A call that writes waits at most 5 seconds for the store's other writers, then it is BUSY (STORE_LOCKED); on a store that is open
    /// read-only it is IO (READ_ONLY). When remove, rename, pin or set_ttl has succeeded, its change survives a power cut.
    Store, kvrt_store, kvrt_store_retain, kvrt_store_release
}

impl Store {
    /// Opens a store, and makes it where there is none. A directory that is open in this runtime already gives the same store. It must be on a local file
    /// system, and as private as the conversations in it: open only directories that you trust as your own process.
    ///
    /// Statuses: NOT_FOUND: the parent directory is missing; or there is no store, with must_exist or read_only. BUSY: another process makes, migrates or
    /// repairs it. CORRUPT: see [`Store::repair`]. INCOMPATIBLE: of a later kvrt, or of another program. UNSUPPORTED: a network file system. INVALID: others
    /// may write it (UNSAFE_DIRECTORY). IO. NO_SPACE.
    pub fn open(runtime: &Runtime, directory: impl AsRef<Path>, options: &StoreOptions) -> Result<Store> {
        let (raw, (data, size)) = (options.raw(), path(Some(directory.as_ref())));
        let mut out = null_mut();
        // SAFETY: the path and the options live as long as the call.
        call(|err| unsafe { sys::kvrt_store_open(runtime.raw(), data, size, &raw, &mut out, err) })?;
        Ok(Store::take(out))
    }

    /// Describes its contents and its size on disk. Statuses: IO, CORRUPT.
    pub fn info(&self) -> Result<StoreProps> {
        let mut out = init!(kvrt_store_props);
        // SAFETY: `out` has its struct_size.
        call(|err| unsafe { sys::kvrt_store_info(self.raw(), &mut out, err) })?;
        Ok(StoreProps::of(&out))
    }

    /// The saved sessions as they are now, ordered by domain and name; `None`: of all domains. Statuses: IO, CORRUPT.
    pub fn list(&self, domain: Option<&str>) -> Result<Vec<StoreEntry>> {
        let (data, size) = text(domain);
        let mut entries = Vec::new();
        let note = |event: &sys::kvrt_event| {
            // SAFETY: an entry holds until the callback returns.
            entries.extend(unsafe { event.entry.as_ref() }.map(StoreEntry::of));
            ControlFlow::Continue(())
        };
        // SAFETY: the domain lives as long as the call.
        watched_raw(note, |function, user, err| unsafe { sys::kvrt_store_list(self.raw(), data, size, function, user, err) })?;
        Ok(entries)
    }

    /// The entry of one session. Statuses: NOT_FOUND, IO, CORRUPT.
    pub fn stat(&self, domain: &str, name: &str) -> Result<StoreEntry> {
        let ((domain, domain_size), (name, name_size)) = (text(Some(domain)), text(Some(name)));
        let mut out = init!(kvrt_store_entry);
        // SAFETY: the names live as long as the call.
        call(|err| unsafe { sys::kvrt_store_stat(self.raw(), domain, domain_size, name, name_size, &mut out, err) })?;
        Ok(StoreEntry::of(&out))
    }

    /// Everything that the store keeps of a session, as JSON; its model is not needed. Statuses: NOT_FOUND, CORRUPT, INCOMPATIBLE, IO.
    pub fn show(&self, domain: &str, name: &str) -> Result<String> {
        let ((domain, domain_size), (name, name_size)) = (text(Some(domain)), text(Some(name)));
        fill_text(|data, capacity, needed, err| {
            // SAFETY: the names live as long as the call.
            unsafe { sys::kvrt_store_show(self.raw(), domain, domain_size, name, name_size, data, capacity, needed, err) }
        })
    }

    /// Removes a saved session, and the chunks that no other needs. Open sessions go on, and may save it again. Statuses: NOT_FOUND, BUSY, NO_SPACE, IO,
    /// CORRUPT.
    pub fn remove(&self, domain: &str, name: &str) -> Result<()> {
        let ((domain, domain_size), (name, name_size)) = (text(Some(domain)), text(Some(name)));
        // SAFETY: the names live as long as the call.
        call(|err| unsafe { sys::kvrt_store_remove(self.raw(), domain, domain_size, name, name_size, err) })
    }

    /// Renames a saved session, never over another. Statuses: NOT_FOUND, CONFLICT (NAME_TAKEN), BUSY, NO_SPACE, IO, CORRUPT.
    pub fn rename(&self, domain: &str, from: &str, to: &str) -> Result<()> {
        let ((domain, domain_size), (from, from_size), (to, to_size)) = (text(Some(domain)), text(Some(from)), text(Some(to)));
        // SAFETY: the names live as long as the call.
        call(|err| unsafe { sys::kvrt_store_rename(self.raw(), domain, domain_size, from, from_size, to, to_size, err) })
    }

    /// Pins a saved session: it does not expire, and it loses its KV later than others. `pinned` is its priority, 1 to 255; 0: not pinned. Statuses:
    /// NOT_FOUND, INVALID: above 255. BUSY, NO_SPACE, IO, CORRUPT.
    pub fn pin(&self, domain: &str, name: &str, pinned: u32) -> Result<()> {
        let ((domain, domain_size), (name, name_size)) = (text(Some(domain)), text(Some(name)));
        // SAFETY: the names live as long as the call.
        call(|err| unsafe { sys::kvrt_store_pin(self.raw(), domain, domain_size, name, name_size, pinned, err) })
    }

    /// Sets when a saved session expires: so many seconds from now, at most 100 years; 0: never. Statuses: NOT_FOUND, INVALID: more than 100 years. BUSY,
    /// NO_SPACE, IO, CORRUPT.
    pub fn set_ttl(&self, domain: &str, name: &str, seconds: u64) -> Result<()> {
        let ((domain, domain_size), (name, name_size)) = (text(Some(domain)), text(Some(name)));
        // SAFETY: the names live as long as the call.
        call(|err| unsafe { sys::kvrt_store_set_ttl(self.raw(), domain, domain_size, name, name_size, seconds, err) })
    }

    /// Collects garbage: expired sessions, and chunks and files that nothing needs. `progress` gets [`Event::Progress`]; wherever it stops it, the store is
    /// whole. It blocks as long as the work takes. Statuses: CANCELLED: by `progress`. BUSY, NO_SPACE, IO, CORRUPT.
    pub fn gc(&self, progress: impl FnMut(&Event<'_>) -> ControlFlow<()>) -> Result<GcReport> {
        let mut out = init!(kvrt_gc_report);
        // SAFETY: `out` has its struct_size.
        watched(progress, |function, user, err| unsafe { sys::kvrt_store_gc(self.raw(), function, user, &mut out, err) })?;
        Ok(GcReport::of(&out))
    }

    /// Removes the backups of migrations and repairs, and gives their bytes. Statuses: BUSY, IO.
    pub fn remove_old(&self) -> Result<u64> {
        let mut bytes = 0;
        // SAFETY: `bytes` lives as long as the call.
        call(|err| unsafe { sys::kvrt_store_remove_old(self.raw(), &mut bytes, err) })?;
        Ok(bytes)
    }

    /// Reads and checks the whole store. `callback` gets [`Event::Progress`], then an [`Event::Fault`] for each fault. It blocks until all is read.
    /// Statuses: CORRUPT: there are faults. CANCELLED: by the callback. IO.
    pub fn verify(&self, callback: impl FnMut(&Event<'_>) -> ControlFlow<()>) -> Result<()> {
        // SAFETY: the handle has an owner, this one.
        watched(callback, |function, user, err| unsafe { sys::kvrt_store_verify(self.raw(), function, user, err) })
    }

    /// Repairs a directory that does not open, or in which verify finds faults. Nobody may have it open. `callback` gets [`Event::Fault`]: a fault and its
    /// treatment, and [`Event::Progress`]; a repair that it stops has changed nothing. It blocks until all is read, and written anew where it must be.
    /// Statuses: NOT_FOUND: no store is there. BUSY: somebody has it open. CANCELLED, INCOMPATIBLE, NO_SPACE, IO.
    pub fn repair(
        runtime: &Runtime,
        directory: impl AsRef<Path>,
        callback: impl FnMut(&Event<'_>) -> ControlFlow<()>,
    ) -> Result<RepairReport> {
        let (data, size) = path(Some(directory.as_ref()));
        let mut out = init!(kvrt_repair_report);
        // SAFETY: the path lives as long as the call.
        watched(callback, |function, user, err| unsafe {
            sys::kvrt_store_repair(runtime.raw(), data, size, function, user, &mut out, err)
        })?;
        Ok(RepairReport::of(&out))
    }
}
