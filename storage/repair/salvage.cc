#include "storage/repair/salvage.h"

#include <sqlite3.h>

#include "runtime/base/block_items.h"
#include "storage/catalog/catalog.h"
#include "storage/catalog/sqlite_bytes.h"
#include "storage/catalog/sqlite_pages.h"

namespace kvrt {

namespace {

using Kind = RawValue::Kind;

// The count of columns, with the size of the first, tells a row's table (FORMAT.md). A node of 0.1 had its chunk's columns behind its own,
// and one that was made between 0.1 and the next release may lack items: then a segment has as many. An entry of the sessions' index has
// its two columns, and the row's number.
constexpr size_t kSessionColumns = 22, kSessionColumnsOf3 = 21, kNodeColumns = 7, kNodeColumnsWithoutItems = 6, kNodeColumnsOf3 = 10;
constexpr size_t kChunkColumns = 6, kNameColumns = 3;
constexpr int64_t kLostHead = -1;  // no row has it

bool wanted(size_t columns, bool in_table) {
  if (in_table) {
    return columns == kSessionColumns || columns == kSessionColumnsOf3 || columns == kNodeColumns || columns == kNodeColumnsOf3 ||
           columns == kNodeColumnsWithoutItems;
  }
  return columns == 1 || columns == 2 || columns == kNameColumns || columns == kChunkColumns;
}

// Reads columns one after the other. After the first of a wrong kind or size it is not ok().
class Columns {
 public:
  explicit Columns(std::span<const RawValue> values) : values_(values) {}
  bool ok() const { return ok_; }
  void skip() { at_++; }
  bool is(Kind kind) const { return values_[at_].kind == kind; }
  std::span<const uint8_t> bytes(Kind kind) {
    const RawValue& v = values_[at_++];
    ok_ = ok_ && v.kind == kind;
    return v.bytes;
  }
  // Of a text or a blob: one bit of the column's type makes one of the other.
  std::span<const uint8_t> either() {
    const RawValue& v = values_[at_];
    return bytes(v.kind == Kind::kText ? Kind::kText : Kind::kBlob);
  }
  std::string text() {
    auto b = either();
    return std::string(b.begin(), b.end());
  }
  template <size_t N>
  void exact(std::span<uint8_t, N> out) {
    ok_ = copy_exact(either(), out) && ok_;
  }
  int64_t integer(int64_t min = INT64_MIN, int64_t max = INT64_MAX) {
    const RawValue& v = values_[at_++];
    ok_ = ok_ && v.kind == Kind::kInteger && v.integer >= min && v.integer <= max;
    return v.integer;
  }
  int64_t integer_or_null() { return values_[at_].kind == Kind::kNull ? (at_++, 0) : integer(); }

 private:
  std::span<const RawValue> values_;
  size_t at_ = 0;
  bool ok_ = true;
};

void take_session(const RawRow& raw, Salvage* out) {
  Columns c(raw.values);
  SalvagedSession s;
  s.rowid = raw.rowid;
  s.row.domain = c.text();
  s.row.name = c.text();
  c.exact(std::span(s.row.id.bytes));
  s.row.revision = static_cast<uint64_t>(c.integer());
  c.exact(std::span(s.row.root.bytes));
  const bool headed = c.is(Kind::kInteger) || c.is(Kind::kNull);
  s.row.head = headed ? c.integer_or_null() : (c.skip(), kLostHead);
  s.row.tokens = static_cast<uint64_t>(c.integer());
  s.row.block_tokens = static_cast<uint64_t>(c.integer());
  s.row.pinned = static_cast<uint8_t>(c.integer(0, 255));
  s.row.expires_ms = c.integer();
  s.row.created_ms = c.integer();
  s.row.saved_ms = c.integer();
  c.exact(std::span(s.checksum));
  c.exact(std::span(s.row.model_id.bytes));
  auto manifest = c.either();
  s.row.manifest.assign(manifest.begin(), manifest.end());
  s.old = raw.values.size() == kSessionColumnsOf3;
  if (!s.old) {
    auto needs = c.either();
    s.needs.assign(needs.begin(), needs.end());
    s.row.needs = decode_needs(s.needs).value_or(std::vector<SessionGroup>());
  }
  s.row.used = c.is(Kind::kInteger) ? c.integer() : 1;  // the first to be evicted
  s.logged = raw.logged;
  out->sessions.push_back(std::move(s));
}

void take_segment(const RawRow& raw, Salvage* out) {
  Columns c(raw.values);
  SegmentId id;
  c.skip();  // the row's id
  c.exact(std::span(id.bytes));
  if (c.ok()) out->segments[raw.rowid] = id;
}

void take_node(const RawRow& raw, Salvage* out) {
  Columns c(raw.values);
  SalvagedNode node;
  c.skip();  // the id
  c.exact(std::span(node.key.bytes));
  node.parent = c.integer_or_null();
  const int64_t n = c.integer(1);
  auto tokens = c.bytes(Kind::kBlob);
  node.refs = c.integer();
  if (raw.values.size() == kNodeColumns && !c.is(Kind::kNull)) {
    const auto items = c.bytes(Kind::kBlob);
    node.items.assign(items.begin(), items.end());
  }
  node.logged = raw.logged;
  if (raw.values.size() == kNodeColumnsOf3) node.stored = c.integer_or_null() != 0 ? 1 : 0;  // of group 0
  if (!c.ok() || tokens.size() % 4 != 0 || tokens.size() / 4 != static_cast<uint64_t>(n)) return;
  node.tokens.resize(tokens.size() / 4);
  std::memcpy(node.tokens.data(), tokens.data(), tokens.size());
  if (find_wrong_item(node.items, node.tokens.size()) != nullptr) return;
  out->nodes[raw.rowid] = std::move(node);
}

void take_chunk(const RawRow& raw, Salvage* out) {
  Columns c(raw.values);
  SalvagedChunk chunk;
  chunk.node = c.integer();
  chunk.group = static_cast<uint32_t>(c.integer(0, kChunkGroups - 1));
  chunk.segment = c.integer();
  chunk.offset = static_cast<uint64_t>(c.integer());
  if (c.ok()) out->chunks.push_back(chunk);
}

void take_name(const RawRow& raw, Salvage* out) {
  Columns c(raw.values);
  if (!c.is(Kind::kText)) return;
  NamedSession named;
  named.domain = c.text();
  if (!c.is(Kind::kText)) return;
  named.name = c.text();
  named.rowid = c.integer();
  named.logged = raw.logged;
  if (c.ok()) out->named.push_back(std::move(named));
}

// Takes a row of a table without rowids. An entry of the nodes' index passes for a tombstone, of a name that no session can have.
void take_small(const RawRow& raw, Salvage* out) {
  if (raw.values.size() == kChunkColumns) return take_chunk(raw, out);
  if (raw.values.size() == kNameColumns) return take_name(raw, out);
  Columns c(raw.values);
  if (raw.values.size() == 1) {
    SegmentId id;
    c.exact(std::span(id.bytes));
    if (c.ok()) out->trash.insert(id);
  } else if (raw.values[0].kind == Kind::kText) {
    Hash256 salt;
    const std::string name = c.text();
    if (name == "identity") {
      const auto value = c.bytes(Kind::kBlob);
      if (c.ok()) out->identity.assign(value.begin(), value.end());
      return;
    }
    c.exact(std::span(salt.bytes));
    if (c.ok() && name == "salt") out->salt = salt;
  } else {
    Hash256 name;
    c.exact(std::span(name.bytes));
    const int64_t revision = c.integer(1);
    if (!c.ok()) return;
    uint64_t& known = out->tombstones[name];
    known = std::max(known, static_cast<uint64_t>(revision));
  }
}

void take_row(const RawRow& row, Salvage* out) {
  if (!row.in_table) return take_small(row, out);
  if (row.values.size() == kSessionColumns || row.values.size() == kSessionColumnsOf3) return take_session(row, out);
  if (row.values[1].bytes.size() == sizeof(SegmentId::bytes)) return take_segment(row, out);
  take_node(row, out);
}

Result<std::unique_ptr<File>> open_if_there(Env* env, const std::string& path) {
  auto file = env->open_read(path);
  if (file.status().code() == Code::kNotFound) return std::unique_ptr<File>();
  return file;
}

// True if SQLite may read the file, but SqlitePages cannot: its pages have another size, or its texts are not UTF-8.
Result<bool> has_other_pages(const File& database) {
  std::array<uint8_t, 100> head;
  KVRT_ASSIGN(const uint64_t bytes, database.size());
  if (bytes < head.size()) return false;
  KVRT_TRY(database.pread(0, head));
  if (std::memcmp(head.data(), "SQLite format 3", 16) != 0) return false;
  return be16(&head[16]) != 4096 || be32(&head[56]) > 1;
}

// Takes the rows of a table as SQLite reads them. False: it cannot, or not all.
Result<bool> take_table(Db* db, const char* sql, bool in_table, Salvage* out) {
  Query q = db->query(sql);
  std::vector<RawValue> values;
  for (;;) {
    auto row = q.next();
    if (row.status().code() == Code::kCorrupt) return false;
    KVRT_TRY(row.status().clone());
    if (!*row) return true;
    values.clear();
    for (int i = 1; i < q.columns(); i++) {
      const int type = q.type(i);
      RawValue v;
      v.kind = type == SQLITE_INTEGER ? Kind::kInteger
               : type == SQLITE_TEXT  ? Kind::kText
               : type == SQLITE_BLOB  ? Kind::kBlob
                                      : Kind::kNull;
      v.integer = v.kind == Kind::kInteger ? q.integer(i) : 0;
      if (v.kind == Kind::kText || v.kind == Kind::kBlob) v.bytes = v.kind == Kind::kText ? q.utf8(i) : q.blob(i);
      values.push_back(v);
    }
    if (wanted(values.size(), in_table)) take_row({in_table, q.integer(0), values, false}, out);
  }
}

// Reads a database that SQLite calls sound through SQLite. False: it does not, and nothing was taken.
Result<bool> read_through_sqlite(const std::string& catalog, bool with_log, Salvage* out) {
  CatalogDb reader;
  Status opened = reader.open_unchecked(catalog, true, with_log);
  if (opened.code() == Code::kCorrupt) return false;
  KVRT_TRY(std::move(opened));
  Db* db = reader.sql();
  {
    Query q = db->query("PRAGMA integrity_check(1)");
    auto row = q.next();
    if (row.status().code() == Code::kCorrupt) return false;
    KVRT_TRY(row.status().clone());
    const auto result = q.utf8(0);
    if (!*row || std::string(result.begin(), result.end()) != "ok") return false;
  }
  KVRT_ASSIGN(out->all_sessions, take_table(db, "SELECT rowid, * FROM sessions", true, out));
  KVRT_ASSIGN(out->all_nodes, take_table(db, "SELECT rowid, * FROM nodes", true, out));
  KVRT_TRY(take_table(db, "SELECT rowid, * FROM segments", true, out).status().clone());
  for (const char* sql : {"SELECT 0, * FROM meta", "SELECT 0, * FROM chunks", "SELECT 0, * FROM tombstones", "SELECT 0, * FROM trash"}) {
    KVRT_TRY(take_table(db, sql, false, out).status().clone());
  }
  return true;
}

Status read_pages(std::unique_ptr<File> database, std::unique_ptr<File> log, Salvage* out) {
  KVRT_ASSIGN(auto pages, SqlitePages::open(std::move(database), std::move(log)));
  KVRT_TRY(pages->each_row(wanted, [&](const RawRow& row) { take_row(row, out); }));
  out->all_sessions = pages->is_whole("sessions", kSessionColumns) || pages->is_whole("sessions", kSessionColumnsOf3);
  const auto nodes_have = [&](size_t columns) { return pages->is_whole("nodes", columns); };
  out->all_nodes = nodes_have(kNodeColumns) || nodes_have(kNodeColumnsWithoutItems) || nodes_have(kNodeColumnsOf3);
  return {};
}

}  // namespace

Result<Salvage> salvage_catalog(Env* env, const std::string& catalog, bool with_log) {
  Salvage out;
  KVRT_ASSIGN(auto database, open_if_there(env, catalog));
  std::unique_ptr<File> log;
  if (with_log) {
    KVRT_ASSIGN(log, open_if_there(env, catalog + "-wal"));
  }
  bool read = false;
  if (database != nullptr) {
    KVRT_ASSIGN(read, has_other_pages(*database));
  }
  if (read) {
    KVRT_ASSIGN(read, read_through_sqlite(catalog, log != nullptr, &out));
  }
  if (!read) KVRT_TRY(read_pages(std::move(database), std::move(log), &out));
  StoreId id;
  int32_t schema = 0;
  const bool proved = parse_identity(out.identity, out.salt.value_or(Hash256()), &schema, &id);
  if (proved) out.id = id;
  if (!proved && id != StoreId()) out.claimed = id;
  return out;
}

}  // namespace kvrt
