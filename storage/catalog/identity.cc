// Catalog: which store and which schema it is of. The header of the file has the schema's number once, and says nothing of the store: meta
// has both, with a checksum.
#include <sqlite3.h>

#include <bit>

#include "storage/catalog/catalog.h"
#include "storage/catalog/rows.h"

namespace kvrt {

namespace {

constexpr size_t kIdentityBytes = 4 + 16;  // u32 schema, the store's id; then the checksum of salt and these

std::array<uint8_t, 16> identity_checksum(const Hash256& salt, std::span<const uint8_t> identity) {
  ByteWriter w;
  w.write_bytes(salt.bytes.data(), salt.bytes.size());
  w.write_bytes(identity.data(), identity.size());
  return checksum_bytes(w.bytes());
}

// At most one bit has flipped.
bool near(int32_t a, int32_t b) { return std::popcount(static_cast<uint32_t>(a) ^ static_cast<uint32_t>(b)) <= 1; }

}  // namespace

Status put_identity(Db* db, const Hash256& salt, const StoreId& id) {
  ByteWriter w;
  w.write(static_cast<uint32_t>(kCatalogSchema));
  w.write_bytes(id.bytes.data(), id.bytes.size());
  const auto sum = identity_checksum(salt, w.bytes());
  w.write_bytes(sum.data(), sum.size());
  return db->query("INSERT OR REPLACE INTO meta(name, value) VALUES('identity', ?)").bind_blob(w.bytes()).run();
}

bool parse_identity(std::span<const uint8_t> value, const Hash256& salt, int32_t* schema, StoreId* id) {
  if (value.size() != kIdentityBytes + 16) return false;
  *schema = static_cast<int32_t>(load<uint32_t>(value.data()));
  std::copy_n(value.data() + 4, 16, id->bytes.begin());
  return same_bytes(value.subspan(kIdentityBytes), identity_checksum(salt, value.first(kIdentityBytes)));
}

// Schemas without an identity are told by their tables; then identity_schema_ is 0.
Status Catalog::read_meta() {
  std::vector<uint8_t> identity;
  bool salted = false;
  {
    Query q = db_.query("SELECT name, value FROM meta");
    for (;;) {
      KVRT_ASSIGN(bool row, q.next());
      if (!row) break;
      if (q.text(0) == "salt") salted = copy_exact(q.blob(1), salt_.bytes);
      if (q.text(0) == "identity") identity.assign(q.blob(1).begin(), q.blob(1).end());
    }
  }
  if (!salted) return broken_row("meta: salt");
  if (!identity.empty() && !parse_identity(identity, salt_, &identity_schema_, &id_)) return broken_row("meta: identity");
  return {};
}

Result<int32_t> Catalog::true_schema() {
  KVRT_TRY(read_meta());
  if (identity_schema_ != 0) return identity_schema_;
  Query q = db_.query("SELECT (SELECT count(*) FROM pragma_table_info('sessions')), (SELECT count(*) FROM pragma_table_info('totals'))");
  KVRT_ASSIGN(bool row, q.next());
  if (row && q.integer(0) == 15 && q.integer(1) == 0) return 2;
  if (row && q.integer(0) == 21 && q.integer(1) == 9) return 3;
  return broken_row("meta: identity");
}

Status Catalog::recognize(const std::string& path, Probe* probe) {
  const bool strange = probe->kind == Kind::kTooNew || probe->kind == Kind::kTooOld || probe->kind == Kind::kForeign ||
                       (probe->kind == Kind::kCorrupt && probe->whole);
  if (!strange || !near(probe->application_id, kCatalogApplicationId)) return {};
  Catalog catalog;
  catalog.read_only_ = true;
  Status opened = catalog.db_.open(file_uri(path) + "?immutable=1", SQLITE_OPEN_READONLY, path);
  if (opened.is_ok()) opened = catalog.configure();
  auto schema = opened.is_ok() ? catalog.true_schema() : Result<int32_t>(std::move(opened));
  if (schema.status().code() == Code::kNoMemory) return schema.take_status();
  if (!schema.is_ok() || *schema < kCatalogSchemaOldest || *schema > kCatalogSchema || !near(probe->schema, *schema)) return {};
  probe->kind = Kind::kFlipped;
  return {};
}

Status Catalog::mend_numbers(const std::string& path) {
  Catalog catalog;
  KVRT_TRY(catalog.db_.open(file_uri(path), SQLITE_OPEN_READWRITE, path));
  KVRT_TRY(catalog.configure());
  KVRT_TRY(catalog.set_durability(Durability::kTokens));
  {
    Transaction txn(&catalog.db_);
    KVRT_TRY(txn.begin());
    KVRT_ASSIGN(const int32_t schema, catalog.true_schema());
    const std::string numbers =
        "PRAGMA application_id=" + std::to_string(kCatalogApplicationId) + "; PRAGMA user_version=" + std::to_string(schema) + ";";
    KVRT_TRY(catalog.db_.exec(numbers.c_str()));
    KVRT_TRY(txn.commit());
  }
  KVRT_TRY(catalog.checkpoint(true));
  return catalog.close(true);
}

}  // namespace kvrt
