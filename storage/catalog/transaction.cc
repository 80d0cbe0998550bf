#include "storage/catalog/transaction.h"

#include <utility>

#include "storage/catalog/rows.h"

namespace kvrt {

Status CatalogTransaction::begin() { return txn_.begin(); }

Status CatalogTransaction::commit() {
  Totals& d = totals;
  std::vector<SegmentId> trash;
  if (catalog_->syncs()) {
    KVRT_ASSIGN(trash, read_trash(catalog_->sql()));  // within: names that others add later need not be on the disk
    d.used = d.used || !trash.empty();                // a transaction that writes nothing waits for nothing
  }
  if (d.chunks != 0 || d.chunk_bytes != 0 || d.segments != 0 || d.segment_bytes != 0 || d.used || d.shares || d.seen_ms != 0) {
    Query q = catalog_->sql()->query(
        "UPDATE totals SET chunks = chunks + ?1, chunk_bytes = chunk_bytes + ?2, chunk_raw_bytes = chunk_raw_bytes + ?3,"
        " segments = segments + ?4, segment_bytes = segment_bytes + ?5, clock = clock + ?6, shares = shares + ?7,"
        " seen_ms = iif(?8 = 0, seen_ms, ?8)");
    q.bind(d.chunks).bind(d.chunk_bytes).bind(d.chunk_raw_bytes).bind(d.segments).bind(d.segment_bytes);
    KVRT_TRY(q.bind(d.used).bind(d.shares).bind(d.seen_ms).run());
  }
  KVRT_TRY(txn_.commit());
  if (catalog_->syncs()) catalog_->settled_trash() = std::move(trash);
  return {};
}

Result<std::vector<SegmentId>> read_trash(Db* db) {
  std::vector<SegmentId> ids;
  Query q = db->query("SELECT name FROM trash LIMIT 256");
  for (;;) {
    KVRT_ASSIGN(bool row, q.next());
    if (!row) return ids;
    SegmentId id;
    if (!copy_exact(q.blob(0), id.bytes)) return broken_row("trash name");
    ids.push_back(id);
  }
}

}  // namespace kvrt
