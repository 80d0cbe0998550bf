// StoreImpl: the calls of StoreCare, but for verify.
#include "storage/store/old_files.h"
#include "storage/store/store_impl.h"

namespace kvrt {

Result<StoreInfo> StoreImpl::info() {
  Catalog::Totals totals;
  StoreInfo info;
  {
    Lock lock(reader_.mutex);
    KVRT_ASSIGN(totals, reader_.catalog.totals(store_.env->unix_ms()));
    info.disk_bytes = totals.segment_bytes + reader_.catalog.db.disk_bytes();  // it knows of no log
    info.read_only = store_.dir.read_only;
    info.waits_for_room = !store_.dir.no_log.is_ok();
  }
  info.disk_bytes += writer_.log_bytes();
  info.path = store_.dir.root;
  info.format = kStoreLayout;
  info.sessions = totals.sessions;
  info.chunks = totals.chunks;
  info.segments = totals.segments;
  info.chunk_bytes = totals.chunk_bytes;
  info.chunk_raw_bytes = totals.chunk_raw_bytes;
  KVRT_ASSIGN(info.bytes_free, space_.bytes_free(info.disk_bytes + space_.uncounted_bytes()));
  info.chunks_damaged = store_.damaged;
  info.chunks_evicted = saves_.evicted();
  info.loads_evicted = totals.loads_evicted;
  auto old = find_old_files(store_.env, store_.dir.root);
  if (old.is_ok()) info.old_bytes = old->bytes;
  return info;
}

Store::Place StoreImpl::place() {
  Lock lock(reader_.mutex);
  if (reader_.catalog.db.in_place()) return Place::kThere;
  return reader_.catalog.db.log_in_place() ? Place::kLogLeft : Place::kGone;
}

void StoreImpl::retry_writing() {
  {
    Lock lock(reader_.mutex);  // it waits for no writer
    if (store_.dir.no_log.is_ok()) return;
  }
  Lock lock(writer_.mutex);
  (void)writer_.take_up_writing().is_ok();
}

Result<uint64_t> StoreImpl::remove_old() {
  Lock lock(writer_.mutex);
  KVRT_TRY(writer_.check_writable());
  return remove_old_files(store_.env, store_.dir.root);
}

}  // namespace kvrt
