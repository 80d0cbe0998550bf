// A whole catalog with bytes or values changed: the store names the fault, or it shows sessions and chunks exactly as they were saved.
//
// Input: records. A byte below 128: so many bytes, plus one, are written at the offset that the next four name. From 128 on: a column of a
// row takes another value, the number after it (8 bytes) or as many bytes as it says.
#include <sqlite3.h>

#include <algorithm>
#include <cstring>
#include <map>

#include "storage/repair/repair.h"
#include "tests/fuzz/require.h"
#include "tests/support/store_rig.h"

namespace kvrt::test {
namespace {

// Three sessions that share blocks, made once; each input works on a copy.
struct Base {
  TempDir tmp{"/dev/shm"};
  std::map<std::string, std::unique_ptr<Chain>> chains;
  std::vector<uint8_t> catalog;

  Base() {
    auto store = open_store(path());
    require(store.is_ok(), "the base store opens");
    uint8_t id = 0;
    for (auto [name, length, kind] : {std::tuple{"ann", 40, 0}, std::tuple{"bob", 75, 0}, std::tuple{"eve", 20, 3}}) {
      auto& chain = chains[name] = std::make_unique<Chain>(token_run(static_cast<size_t>(length), kind));
      SaveOptions o;
      o.id = ++id;
      if (id == 2) o.groups = {0, 3};
      require(save_chain(store->get(), name, *chain, o).is_ok(), "the base is saved");
    }
    require((*store)->remove("", "eve").is_ok(), "the base has a tombstone");
    SaveOptions o;
    o.id = 9;
    require(save_chain(store->get(), "eve", *chains["eve"], o).is_ok(), "the base is saved");
    store->reset();
    catalog = read_file(path() + "/catalog.db");
  }
  std::string path() const { return tmp.path() + "/base"; }
};

struct Reader {
  std::span<const uint8_t> rest;
  uint64_t number(size_t bytes) {
    uint64_t value = 0;
    const size_t n = std::min(bytes, rest.size());
    std::memcpy(&value, rest.data(), n);
    rest = rest.subspan(n);
    return value;
  }
  std::span<const uint8_t> take(size_t n) {
    n = std::min(n, rest.size());
    auto part = rest.first(n);
    rest = rest.subspan(n);
    return part;
  }
};

constexpr const char* kColumns[][2] = {{"nodes", "key"},         {"nodes", "parent"},        {"nodes", "n"},
                                       {"nodes", "tokens"},      {"nodes", "refs"},          {"chunks", "segment"},
                                       {"chunks", "offset"},     {"chunks", "bytes"},        {"chunks", "raw_bytes"},
                                       {"segments", "name"},     {"segments", "bytes"},      {"segments", "live"},
                                       {"segments", "synced"},   {"segments", "sealed"},     {"sessions", "domain"},
                                       {"sessions", "name"},     {"sessions", "id"},         {"sessions", "gen"},
                                       {"sessions", "root"},     {"sessions", "head"},       {"sessions", "tokens"},
                                       {"sessions", "pinned"},   {"sessions", "expires_ms"}, {"sessions", "checksum"},
                                       {"sessions", "model_id"}, {"sessions", "manifest"},   {"sessions", "block_tokens"},
                                       {"tombstones", "gen"},    {"trash", "name"},          {"meta", "value"},
                                       {"chunks", "node"},       {"chunks", "grp"},          {"sessions", "needs"}};

// One value of one row, past the table's own rules.
void change_value(sqlite3* db, Reader* in) {
  const auto& column = kColumns[in->number(1) % std::size(kColumns)];
  const auto row = static_cast<sqlite3_int64>(in->number(1) % 8);
  const auto kind = in->number(1);
  const std::string id = column[0] == std::string("chunks") ? "(node, grp)" : "(rowid)", ids = id.substr(1, id.size() - 2);
  const std::string sql = std::string("UPDATE OR IGNORE ") + column[0] + " SET " + column[1] + " = ? WHERE " + id + " = (SELECT " + ids +
                          " FROM " + column[0] + " LIMIT 1 OFFSET " + std::to_string(row) + ")";
  sqlite3_stmt* statement = nullptr;
  if (sqlite3_prepare_v2(db, sql.c_str(), -1, &statement, nullptr) != SQLITE_OK) return;
  if (kind % 4 == 0) {
    sqlite3_bind_null(statement, 1);
  } else if (kind % 4 == 1) {
    auto bytes = in->take(kind / 4);
    sqlite3_bind_blob(statement, 1, bytes.data() != nullptr ? static_cast<const void*>(bytes.data()) : "", static_cast<int>(bytes.size()),
                      SQLITE_TRANSIENT);
  } else {
    sqlite3_bind_int64(statement, 1, static_cast<sqlite3_int64>(in->number(kind % 4 == 2 ? 1 : 8)));
  }
  sqlite3_step(statement);
  sqlite3_finalize(statement);
}

void damage(const std::string& root, const Base& base, std::span<const uint8_t> input) {
  std::vector<uint8_t> catalog = base.catalog;
  std::vector<std::span<const uint8_t>> values;
  Reader in{input};
  while (!in.rest.empty()) {
    const uint64_t kind = in.number(1);
    if (kind >= 128) {
      values.push_back(in.rest);
      in.take(8);
      continue;
    }
    const size_t at = in.number(4) % catalog.size();
    auto bytes = in.take(kind % 32 + 1);
    bytes = bytes.first(std::min(bytes.size(), catalog.size() - at));
    std::copy(bytes.begin(), bytes.end(), catalog.begin() + static_cast<ptrdiff_t>(at));
  }
  write_file(root + "/catalog.db", catalog);
  sqlite3* db = nullptr;
  if (!values.empty() && sqlite3_open_v2((root + "/catalog.db").c_str(), &db, SQLITE_OPEN_READWRITE, nullptr) == SQLITE_OK) {
    sqlite3_exec(db, "PRAGMA ignore_check_constraints=ON; PRAGMA foreign_keys=OFF; PRAGMA journal_mode=MEMORY", nullptr, nullptr, nullptr);
    for (auto at : values) {
      Reader value{at};
      change_value(db, &value);
    }
    sqlite3_exec(db, "PRAGMA journal_mode=WAL", nullptr, nullptr, nullptr);
  }
  sqlite3_close(db);
}

void look(Store* store, const Base& base) {
  for (auto& [name, chain] : base.chains) {
    auto session = store->load("", name);
    if (session.is_ok()) require(session->tokens == chain->tokens, name + " has the tokens that were saved");
    for (size_t i = 0; i < chain->nodes.size(); ++i) {
      for (const uint32_t group : {0u, 3u}) {
        std::vector<uint8_t> out(chain->payloads[i].size());
        std::string why;
        if (store->read(chain->nodes[i], group, 1, out, &why) == ChunkState::kOk) {
          require(out == group_payload(*chain, i, group), "a chunk comes back as it was or not at all");
        }
      }
    }
  }
}

void use(Store* store, const Base& base) {
  look(store, base);
  (void)store->list("", true).is_ok();
  (void)store->info().is_ok();
  (void)store->verify(nullptr).is_ok();
  (void)store->remove("", "bob").is_ok();
  (void)store->rename("", "ann", "zoe").is_ok();
  (void)store->rename("", "zoe", "ann").is_ok();
  (void)store->set_ttl("", "eve", 1000).is_ok();
  static const Chain more(token_run(90));
  SaveOptions o;
  o.overwrite = true;
  (void)save_chain(store, "new", more, o).is_ok();
  (void)store->gc(nullptr).is_ok();
  look(store, base);
}

}  // namespace
}  // namespace kvrt::test

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace kvrt::test;
  static const Base base;
  const std::string root = base.tmp.path() + "/store";
  std::filesystem::remove_all(root);
  std::filesystem::copy(base.path(), root, std::filesystem::copy_options::recursive);
  std::filesystem::permissions(root, std::filesystem::perms::owner_all);
  damage(root, base, {data, size});
  auto store = open_store(root);
  if (store.is_ok()) use(store->get(), base);
  require(store.is_ok() || !store.status().message().empty(), "a failure says why");
  if (store.is_ok()) return 0;
  auto report = kvrt::repair_store(kvrt::posix_env(), nullptr, root, {});
  require(report.is_ok() || report.status().code() == kvrt::Code::kIncompatible, "what does not open can be repaired");
  if (!report.is_ok()) return 0;
  store = open_store(root);
  require(store.is_ok(), "a repaired store opens");
  require((*store)->verify(nullptr)->empty(), "a repaired store is sound");
  use(store->get(), base);
  return 0;
}
