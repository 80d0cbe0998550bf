// A resume believes this cache, so a checksum proves each row.
#include "storage/catalog/model_id_table.h"

#include <array>
#include <string>
#include <utility>

#include "storage/catalog/rows.h"

namespace kvrt {

namespace {

std::array<uint8_t, 16> row_checksum(const Hash256& salt, uint64_t device, uint64_t inode, std::span<const uint8_t> file,
                                     std::span<const uint8_t> model_id) {
  ByteWriter w;
  w.write_bytes(salt.bytes.data(), salt.bytes.size());
  w.write(device);
  w.write(inode);
  w.write_bytes(file.data(), file.size());
  w.write_bytes(model_id.data(), model_id.size());
  return checksum_bytes(w.bytes());
}

// Takes the columns device, inode, file, model_id, checksum.
bool proves_itself(const Hash256& salt, const Query& q) {
  return q.blob(2).size() == 32 && q.blob(3).size() == 32 &&
         same_bytes(q.blob(4), row_checksum(salt, q.u64(0), q.u64(1), q.blob(2), q.blob(3)));
}

}  // namespace

bool ModelIdTable::find(const ModelFile& file, Hash256* out) {
  Query q = db_->query("SELECT device, inode, file, model_id, checksum FROM model_ids WHERE device = ? AND inode = ?");
  auto row = q.bind_u64(file.device).bind_u64(file.inode).next();
  if (!row.is_ok() || !*row || !proves_itself(catalog_->salt(), q) || !same_bytes(q.blob(2), file.id.bytes)) return false;
  return copy_exact(q.blob(3), out->bytes);
}

Status ModelIdTable::put(const ModelFile& file, const Hash256& id) {
  WriteTurn turn(db_);
  KVRT_TRY(turn.take());
  const auto checksum = row_checksum(catalog_->salt(), file.device, file.inode, file.id.bytes, id.bytes);
  Query q = db_->query("INSERT OR REPLACE INTO model_ids(device, inode, file, model_id, checksum) VALUES(?, ?, ?, ?, ?)");
  return q.bind_u64(file.device).bind_u64(file.inode).bind_blob(file.id.bytes).bind_blob(id.bytes).bind_blob(checksum).run();
}

Status ModelIdTable::check(std::vector<VerifyFault>* faults) {
  Query q = db_->query("SELECT device, inode, file, model_id, checksum FROM model_ids");
  for (;;) {
    KVRT_ASSIGN(bool row, q.next());
    if (!row) return {};
    if (proves_itself(catalog_->salt(), q)) continue;
    faults->push_back({"catalog", "the cached id of the model at inode " + std::to_string(q.u64(1)) + ": checksum differs", ""});
  }
}

Result<uint64_t> ModelIdTable::forget_wrong() {
  std::vector<std::pair<uint64_t, uint64_t>> wrong;
  {
    Query q = db_->query("SELECT device, inode, file, model_id, checksum FROM model_ids");
    for (;;) {
      KVRT_ASSIGN(bool row, q.next());
      if (!row) break;
      if (!proves_itself(catalog_->salt(), q)) wrong.emplace_back(q.u64(0), q.u64(1));
    }
  }
  WriteTurn turn(db_);
  KVRT_TRY(turn.take());
  for (auto [device, inode] : wrong) {
    KVRT_TRY(db_->query("DELETE FROM model_ids WHERE device = ? AND inode = ?").bind_u64(device).bind_u64(inode).run());
  }
  return uint64_t{wrong.size()};
}

}  // namespace kvrt
