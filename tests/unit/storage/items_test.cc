// Nodes whose bits depend on more than their tokens: what is saved, found, read, copied and repaired has the items that it was saved with.
#include "tests/support/damage_rig.h"
#include "tests/support/old_schema.h"
#include "tests/support/repair_rig.h"

namespace kvrt {
namespace {

using namespace test;

// The table as catalogs of this schema had it before it had items.
constexpr char kEarlyNodes[] =
    "CREATE TABLE nodes(\n  id INTEGER PRIMARY KEY,\n  key BLOB NOT NULL UNIQUE CHECK(length(key) = 32),\n"
    "  parent INTEGER REFERENCES nodes(id),\n  n INTEGER NOT NULL CHECK(n > 0 AND length(tokens) = 4 * n),\n"
    "  tokens BLOB NOT NULL,\n  refs INTEGER NOT NULL CHECK(refs >= 0)) STRICT|\n";
constexpr char kNodesText[] = "SELECT sql FROM sqlite_master WHERE name = 'nodes'";

class Items : public testing::Test {
 protected:
  std::string root() const { return tmp_.path() + "/store"; }
  std::string catalog() const { return root() + "/catalog.db"; }
  std::string sql(const std::string& text) const { return sql_rows(catalog(), text); }

  std::unique_ptr<Store> open(uint8_t item_tag_max = kItemTag, bool read_only = false) {
    StoreOptions options;
    options.item_tag_max = item_tag_max;
    options.read_only = read_only;
    auto store = open_store(root(), options);
    EXPECT_OK(store.status());
    return store.is_ok() ? std::move(*store) : nullptr;
  }
  void save(const std::string& name, const Chain& chain, uint8_t id, SaveOptions o = {}) {
    o.id = id;
    ASSERT_OK(save_chain(open().get(), name, chain, o).status());
  }
  static void save_tokens(Store* store, const std::string& name, const Chain& chain, uint8_t id) {
    auto save = store->begin_save();
    ASSERT_OK(save.status());
    SessionIn in;
    in.name = name;
    in.id = session_id(id);
    in.root = chain.root;
    in.nodes = chain.nodes;
    in.token_count = chain.tokens.size();
    ASSERT_OK((*save)->commit(in).status());
  }
  // The session is as it was saved.
  static void expect_loads(Store* store, const std::string& name, const Chain& chain) {
    auto session = store->load("", name);
    ASSERT_OK(session.status());
    EXPECT_EQ(session->tokens, chain.tokens);
    ASSERT_EQ(session->node_items.size(), chain.nodes.size());
    for (size_t i = 0; i < chain.nodes.size(); i++) {
      EXPECT_EQ(session->keys[i], chain.nodes[i].key);
      EXPECT_TRUE(std::ranges::equal(session->node_items[i], chain.nodes[i].items)) << i;
    }
  }
  void expect_whole(const std::string& name, const Chain& chain, bool kv = true) {
    auto store = open();
    ASSERT_NE(store, nullptr);
    auto faults = store->verify(nullptr);
    ASSERT_OK(faults.status());
    for (const VerifyFault& f : *faults) ADD_FAILURE() << f.where << ": " << f.what;
    expect_loads(store.get(), name, chain);
    EXPECT_EQ(readable_chunks(store.get(), chain), kv ? chain.nodes.size() : 0);
    EXPECT_EQ(store->info()->chunks_damaged, 0u);
  }

  TempDir tmp_;
  Chain plain_{token_run(60)};  // 3 blocks and a tail
  Chain chain_{token_run(60), 64, 1, {one_item(0), {}, one_item(15), one_item(11)}};
};

TEST_F(Items, AreSavedFoundAndRead) {
  save("plain", plain_, 1);
  save("ann", chain_, 2);
  expect_whole("plain", plain_);
  expect_whole("ann", chain_);
  EXPECT_EQ(sql("SELECT count(*), count(items) FROM nodes"), "8|3|\n") << "no node is shared: the first one has an item";
  auto store = open();
  SaveOptions o;
  o.id = 2;
  o.revision_seen = 1;
  ASSERT_OK(save_chain(store.get(), "ann", chain_, &o).status());
  EXPECT_EQ(o.chunks_written, 0u);
}

TEST_F(Items, OthersAreAnotherNode) {
  save("ann", chain_, 2);
  auto store = open();
  auto nodes = chain_.nodes;
  const auto other = one_item(14);
  nodes[2].items = other;
  EXPECT_EQ(store->find(nodes), (std::vector<uint32_t>{1, 1, 0, 0})) << "under the same key";
  std::vector<uint8_t> out(chain_.payloads[2].size());
  auto save = store->begin_save();
  SessionIn in;
  in.name = "bob";
  in.id = session_id(3);
  in.root = chain_.root;
  in.nodes = nodes;
  in.token_count = chain_.tokens.size();
  EXPECT_EQ((*save)->commit(in).status().code(), Code::kCorrupt) << "its key is another node's";
  EXPECT_EQ(store->read(nodes[2], 0, 1, out, nullptr), ChunkState::kDamaged);
  const Chain fresh(token_run(20, 5), 64, 1, {one_item(16 - 1)});
  in.nodes = fresh.nodes;
  const auto broken = one_item(16);
  in.nodes[0].items = broken;
  EXPECT_EQ((*store->begin_save())->commit(in).status().code(), Code::kInvalid);
  in.nodes[0].items = {};
  EXPECT_EQ((*store->begin_save())->commit(in).status().code(), Code::kInvalid);
}

TEST_F(Items, AnUnknownOneIsAHole) {
  const Chain chain(token_run(60), 64, 1, {{}, one_item(3, 1), one_item(3, kItemTag)});
  save("ann", chain, 1);
  {
    auto store = open(kItemTag - 1);
    EXPECT_EQ(readable_chunks(store.get(), chain), 3u);
    std::vector<uint8_t> out(chain.payloads[2].size());
    std::string why;
    EXPECT_EQ(store->read(chain.nodes[2], 0, 1, out, &why), ChunkState::kAbsent);
    EXPECT_NE(why.find("of a newer kvrt"), std::string::npos) << why;
    EXPECT_EQ(store->info()->chunks_damaged, 0u);
    EXPECT_EQ(store->stat("", "ann")->chunks_missing, 0u) << "it is there, for who can read it";
    EXPECT_TRUE(store->verify(nullptr)->empty());
    expect_loads(store.get(), "ann", chain);
    SaveOptions o;
    o.revision_seen = 1;
    ASSERT_OK(save_chain(store.get(), "ann", chain, &o).status());
    EXPECT_EQ(o.chunks_written, 0u);
    ASSERT_OK(store->gc(nullptr).status());
  }
  {
    Repaired r = repair(root());
    ASSERT_OK(r.status);
    EXPECT_EQ(r.report.outcome, RepairReport::Outcome::kSound);
  }
  expect_whole("ann", chain);
}

// A kvrt that does not know the tags copies the frames all the same.
TEST_F(Items, AreCopiedOutOfSparseSegments) {
  const Chain large(token_run(600, 4), 64), small(token_run(32), 64, 1, {one_item(1)});
  {
    auto store = open(0);
    SaveOptions o;
    ASSERT_OK(save_chain(store.get(), "large", large, o).status());
    o.id = 2;
    ASSERT_OK(save_chain(store.get(), "small", small, o).status());
  }
  const auto before = segment_files(root());
  ASSERT_EQ(before.size(), 1u);
  {
    auto store = open(0);
    ASSERT_OK(store->remove("", "large"));
    ASSERT_OK(store->gc(nullptr).status());
  }
  EXPECT_NE(segment_files(root()), before);
  expect_whole("small", small);
}

TEST_F(Items, ChangedOnesAreDamage) {
  save("ann", chain_, 1);
  sql("UPDATE nodes SET items = x'0f00030469746d6d' WHERE id = 3");
  EXPECT_EQ(open()->load("", "ann").status().code(), Code::kCorrupt);
  EXPECT_FALSE(open()->verify(nullptr)->empty());
  sql("UPDATE nodes SET items = x'0f0003' WHERE id = 3");
  EXPECT_EQ(open()->load("", "ann").status().code(), Code::kCorrupt);
  sql("UPDATE nodes SET items = NULL WHERE id = 3");
  EXPECT_EQ(open()->load("", "ann").status().code(), Code::kCorrupt);
  Repaired r = repair(root());
  ASSERT_OK(r.status);
  EXPECT_EQ(r.report.sessions_kept, 1u) << "its frame tells what the row said";
  expect_whole("ann", chain_);
}

// Rows and frames tell the same; each is enough.
TEST_F(Items, ARepairKeepsThem) {
  const Chain bare(token_run(40, 3), 64, 1, {one_item(2), one_item(2, 200), one_item(7)});
  save("ann", chain_, 1);
  save("plain", plain_, 2);
  save_tokens(open().get(), "bare", bare, 3);
  for (const char* damage : {"UPDATE totals SET chunks = 77", "PRAGMA foreign_keys=OFF; DELETE FROM nodes WHERE n = 16 AND id <= 3"}) {
    SCOPED_TRACE(damage);
    sql(damage);
    Repaired r = repair(root());
    ASSERT_OK(r.status);
    EXPECT_EQ(r.report.outcome, RepairReport::Outcome::kRebuilt);
    EXPECT_EQ(r.report.sessions_kept, 3u);
    EXPECT_EQ(r.report.chunks_lost, 0u);
    expect_whole("ann", chain_);
    expect_whole("plain", plain_);
    expect_whole("bare", bare, false);
  }
}

// A store of a kvrt between 0.1 and the column: as before, and it gets the column with the first item.
TEST_F(Items, ACatalogMayLackTheColumn) {
  save("plain", plain_, 1);
  const std::string now = sql(kNodesText);
  sql("ALTER TABLE nodes DROP COLUMN items");
  ASSERT_EQ(sql(kNodesText), kEarlyNodes);
  expect_whole("plain", plain_);
  {
    auto reader = open(kItemTag, true);
    expect_loads(reader.get(), "plain", plain_);
    EXPECT_EQ(readable_chunks(reader.get(), plain_), plain_.nodes.size());
  }
  const Chain second(token_run(40, 7));
  save("second", second, 2);
  expect_whole("second", second);
  EXPECT_EQ(sql(kNodesText), kEarlyNodes) << "nothing needs it";
  {
    auto reader = open(kItemTag, true);
    expect_loads(reader.get(), "plain", plain_);
    save("ann", chain_, 3);
    expect_loads(reader.get(), "ann", chain_);
    EXPECT_EQ(readable_chunks(reader.get(), chain_), chain_.nodes.size());
  }
  EXPECT_EQ(sql(kNodesText), now);
  EXPECT_EQ(sql("SELECT count(items) FROM nodes"), "3|\n");
  for (const auto& [name, chain] : {std::pair<const char*, const Chain*>{"plain", &plain_}, {"second", &second}, {"ann", &chain_}}) {
    expect_whole(name, *chain);
  }
}

// Rows with and without the column are nodes.
TEST_F(Items, ACatalogWithoutTheColumnIsRepaired) {
  const Chain bare(token_run(40, 3));
  save("plain", plain_, 1);
  save_tokens(open().get(), "bare", bare, 2);
  sql("ALTER TABLE nodes DROP COLUMN items");
  for (const bool with : {false, true}) {
    if (with) save("ann", chain_, 3);
    sql("UPDATE totals SET chunks = 77");
    Repaired r = repair(root());
    ASSERT_OK(r.status);
    EXPECT_EQ(r.report.outcome, RepairReport::Outcome::kRebuilt);
    EXPECT_EQ(r.report.sessions_kept, with ? 3u : 2u);
    EXPECT_EQ(r.report.sessions_recovered, 0u);
    expect_whole("plain", plain_);
    expect_whole("bare", bare, false);
    if (with) expect_whole("ann", chain_);
    if (!with) sql("ALTER TABLE nodes DROP COLUMN items");
  }
}

}  // namespace
}  // namespace kvrt
