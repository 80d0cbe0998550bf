// Several chunks per node, one per group of layers: each comes, goes, breaks and is mended by itself, but for eviction and removal.
#include <algorithm>

#include "tests/support/gc_rig.h"
#include "tests/support/repair_rig.h"
#include "tests/support/sql.h"

namespace kvrt {
namespace {

using namespace test;

class Groups : public Gc {
 protected:
  std::string catalog() const { return root() + "/catalog.db"; }
  static SaveOptions of(std::vector<uint32_t> groups) {
    SaveOptions o;
    o.groups = std::move(groups);
    return o;
  }
  void save_groups(const std::string& name, const Chain& chain, std::vector<uint32_t> groups) { save(name, chain, of(std::move(groups))); }
  SessionIn session(const Chain& chain) {
    SessionIn in;
    in.name = "new";
    in.id = session_id(99);
    in.root = chain.root;
    in.nodes = chain.nodes;
    in.token_count = chain.tokens.size();
    in.overwrite = true;
    return in;
  }
  void expect_readable(const Chain& chain, const std::vector<uint32_t>& groups) {
    uint32_t mask = 0;
    for (const uint32_t group : groups) {
      EXPECT_EQ(readable_chunks(store_.get(), chain, group), chain.nodes.size()) << "group " << group;
      mask |= uint32_t{1} << group;
    }
    EXPECT_EQ(store_->find(chain.nodes), std::vector<uint32_t>(chain.nodes.size(), mask));
  }
  ChunkState read(const Chain& chain, size_t block, uint32_t group, std::string* why) {
    std::vector<uint8_t> out(chain.payloads[block].size());
    return store_->read(chain.nodes[block], group, 1, out, why);
  }
  // "WHERE" of the row of a chunk.
  static std::string row(const Chain& chain, size_t block, uint32_t group) {
    return " WHERE grp = " + std::to_string(group) + " AND node = (SELECT id FROM nodes WHERE hex(key) = upper('" +
           chain.nodes[block].key.hex() + "'))";
  }
  // Flips a bit in the frame of one chunk, where it lies.
  void flip(const Chain& chain, size_t block, uint32_t group) {
    const std::string at = sql_rows(catalog(), "SELECT lower(hex(s.name)), c.offset FROM segments s JOIN (SELECT * FROM chunks" +
                                                   row(chain, block, group) + ") c ON c.segment = s.id");
    const size_t bar = at.find('|');
    ASSERT_NE(bar, std::string::npos);
    std::fstream file(root() + "/segs/" + at.substr(0, 2) + "/" + at.substr(0, bar) + ".seg",
                      std::ios::in | std::ios::out | std::ios::binary);
    const auto offset = static_cast<std::streamoff>(std::stoull(at.substr(bar + 1)) + 150);
    file.seekg(offset);
    const int byte = file.get();
    file.seekp(offset);
    file.put(static_cast<char>(byte ^ 1));
    ASSERT_TRUE(file.good());
  }

  Chain chain_{token_run(70)};  // 4 blocks and a tail
  const size_t nodes_ = chain_.nodes.size();
};

TEST_F(Groups, AreSavedReadAndCounted) {
  SaveOptions o = of({0, 3, 31});
  ASSERT_OK(save_chain(store_.get(), "ann", chain_, &o).status());
  EXPECT_EQ(o.chunks_written, 3 * nodes_);
  open();
  expect_readable(chain_, {0, 3, 31});
  std::string why;
  EXPECT_EQ(read(chain_, 0, 1, &why), ChunkState::kAbsent);
  EXPECT_EQ(read(chain_, 0, 32, &why), ChunkState::kAbsent);
  EXPECT_EQ(why, "");
  auto stat = store_->stat("", "ann");
  ASSERT_OK(stat.status());
  EXPECT_EQ(stat->chunks, 3 * nodes_);
  EXPECT_EQ(stat->chunks_missing, 0u);
  auto info = store_->info();
  ASSERT_OK(info.status());
  EXPECT_EQ(info->chunks, 3 * nodes_);
  EXPECT_EQ(info->chunk_bytes, stat->bytes);
  EXPECT_EQ(info->chunk_raw_bytes, 3 * 64 * chain_.tokens.size());
  uint64_t bytes = 0;
  for (const NodeIn& node : chain_.nodes) bytes += test::chunk_bytes(store_.get(), node.key);
  EXPECT_EQ(bytes, stat->bytes);
  expect_clean();
}

TEST_F(Groups, ANodeWithAnyIsNotMissing) {
  save_groups("ann", chain_, {7});
  expect_readable(chain_, {7});
  EXPECT_EQ(readable_chunks(store_.get(), chain_, 0), 0u);
  EXPECT_EQ(store_->stat("", "ann")->chunks, nodes_);
  EXPECT_EQ(store_->stat("", "ann")->chunks_missing, 0u);
  expect_clean();
}

TEST_F(Groups, OnlyThoseThatAreNotThereAreWritten) {
  save_groups("ann", chain_, {0, 3});
  SaveOptions o = of({3, 4, 4});
  o.id = 50;
  ASSERT_OK(save_chain(store_.get(), "bob", chain_, &o).status());
  EXPECT_EQ(o.chunks_written, nodes_);
  expect_readable(chain_, {0, 3, 4});
  EXPECT_EQ(store_->list("", true)->at(0).chunks, 3 * nodes_) << "of ann, whose nodes have one more now";
  EXPECT_EQ(store_->stat("", "bob")->bytes_shared, store_->info()->chunk_bytes);
  ASSERT_OK(store_->remove("", "ann"));
  gc();
  expect_readable(chain_, {0, 3, 4});
  ASSERT_OK(store_->remove("", "bob"));
  gc();
  EXPECT_EQ(store_->info()->chunks, 0u);
  expect_no_stray_files();
  expect_clean();
}

TEST_F(Groups, AGroupThatThereIsNotIsRefused) {
  auto save = store_->begin_save();
  ASSERT_OK(save.status());
  EXPECT_EQ(put_chunk(save->get(), chain_, 0, 32).code(), Code::kInvalid);
  ASSERT_OK(put_chunk(save->get(), chain_, 0, 31));
  ASSERT_OK((*save)->commit(session(chain_)).status());
  EXPECT_EQ(store_->find(chain_.nodes)[0], uint32_t{1} << 31);
}

// A save counts on the chunks that it found, by group.
TEST_F(Groups, AChunkThatASaveCountsOnMustStillBeThere) {
  save_groups("ann", chain_, {0, 4});
  std::string why;
  const auto save_without = [&](uint32_t lost) {
    auto save = store_->begin_save();
    for (size_t i = 0; i < nodes_; i++) EXPECT_OK(put_chunk(save->get(), chain_, i, 4));
    EXPECT_EQ((*save)->chunks_written(), 0u);
    flip(chain_, 2, lost);
    EXPECT_EQ(read(chain_, 2, lost, &why), ChunkState::kDamaged) << why;
    return (*save)->commit(session(chain_)).take_status();
  };
  EXPECT_EQ(save_without(4).detail(), Detail::kConcurrent);
  save_groups("ann", chain_, {0, 4});
  EXPECT_OK(save_without(0)) << "it did not count on that";

  auto save = store_->begin_save();
  EXPECT_EQ((*save)->has(chain_.nodes)[1], 0b10001u);
  flip(chain_, 1, 0);
  EXPECT_EQ(read(chain_, 1, 0, &why), ChunkState::kDamaged) << why;
  EXPECT_EQ((*save)->has(chain_.nodes)[1], 0b10000u);
  EXPECT_EQ((*save)->commit(session(chain_)).status().detail(), Detail::kConcurrent);
}

TEST_F(Groups, ADamagedOneIsForgottenAlone) {
  save_groups("ann", chain_, {0, 3, 5});
  flip(chain_, 1, 3);
  auto faults = store_->verify(nullptr);
  ASSERT_OK(faults.status());
  ASSERT_EQ(faults->size(), 1u);
  EXPECT_NE(faults->at(0).what.find(" of number 3: checksum differs"), std::string::npos) << faults->at(0).what;
  std::string why;
  EXPECT_EQ(read(chain_, 1, 3, &why), ChunkState::kDamaged);
  EXPECT_NE(why.find(" of number 3 in segs/"), std::string::npos) << why;
  EXPECT_EQ(read(chain_, 1, 3, &why), ChunkState::kAbsent);
  for (const uint32_t group : {0u, 5u}) EXPECT_EQ(readable_chunks(store_.get(), chain_, group), nodes_) << group;
  const std::vector<uint32_t> groups = store_->find(chain_.nodes);
  for (size_t i = 0; i < nodes_; i++) EXPECT_EQ(groups[i], i == 1 ? 0b100001u : 0b101001u) << i;
  EXPECT_EQ(store_->info()->chunks_damaged, 1u);
  EXPECT_EQ(store_->stat("", "ann")->chunks, 3 * nodes_ - 1);
  EXPECT_EQ(store_->stat("", "ann")->chunks_missing, 0u);
  expect_clean();
  SaveOptions o = of({0, 3, 5});
  o.id = 50;
  ASSERT_OK(save_chain(store_.get(), "bob", chain_, &o).status());
  EXPECT_EQ(o.chunks_written, 1u);
  expect_readable(chain_, {0, 3, 5});
}

// Where the catalog cannot be written, a damaged chunk is remembered.
TEST_F(Groups, ADamagedOneIsRememberedAlone) {
  save_groups("ann", chain_, {0, 3});
  const uint64_t bytes = test::chunk_bytes(store_.get(), chain_.nodes[1].key);
  flip(chain_, 1, 3);
  store_.reset();
  StoreOptions reading;
  reading.read_only = true;
  auto store = open_store(root(), reading);
  ASSERT_OK(store.status());
  store_ = std::move(*store);
  std::string why;
  EXPECT_EQ(read(chain_, 1, 3, &why), ChunkState::kDamaged);
  EXPECT_EQ(read(chain_, 1, 0, &why), ChunkState::kOk);
  EXPECT_EQ(store_->find(chain_.nodes)[1], 1u);
  EXPECT_EQ(store_->find(chain_.nodes)[2], 0b1001u);
  EXPECT_LT(test::chunk_bytes(store_.get(), chain_.nodes[1].key), bytes);
  EXPECT_GT(test::chunk_bytes(store_.get(), chain_.nodes[1].key), 0u);
}

TEST_F(Groups, AFrameIsNotReadForAnother) {
  save_groups("ann", chain_, {3});
  sql_rows(catalog(), "UPDATE chunks SET grp = 9" + row(chain_, 1, 3));
  auto faults = store_->verify(nullptr);
  ASSERT_OK(faults.status());
  ASSERT_EQ(faults->size(), 1u);
  EXPECT_NE(faults->at(0).what.find("of number 9: holds number 3, number 9 in the catalog"), std::string::npos) << faults->at(0).what;
  std::string why;
  EXPECT_EQ(read(chain_, 1, 9, &why), ChunkState::kDamaged);
  EXPECT_NE(why.find("holds number 3, expected number 9"), std::string::npos) << why;
  EXPECT_EQ(store_->find(chain_.nodes)[1], 0u);
  EXPECT_EQ(store_->stat("", "ann")->chunks_missing, 1u);
}

// A segment is not written anew with a frame under another's name.
TEST_F(Groups, AFrameIsNotCopiedForAnother) {
  const Chain longer(token_run(200));
  save_apart("ann", longer, of({0, 3}));
  save_apart("ann", chain_);
  sql_rows(catalog(), "UPDATE chunks SET grp = 9" + row(chain_, 1, 3));
  EXPECT_GT(gc().bytes_rewritten, 0u);
  EXPECT_EQ(store_->info()->segments, 3u) << "the frame stays where it was";
  std::string why;
  EXPECT_EQ(read(chain_, 1, 9, &why), ChunkState::kDamaged);
  EXPECT_EQ(readable_chunks(store_.get(), chain_), nodes_);
  EXPECT_EQ(readable_chunks(store_.get(), chain_, 3), 3u);
}

// SQLite's own check passes over such rows.
TEST_F(Groups, ARowWithoutItsNodeOrSegmentIsNamed) {
  save_groups("ann", chain_, {0, 3});
  for (const auto& [change, table] : {std::pair{"segment = 1000", "segments"}, {"segment = 1, node = 1000", "nodes"}}) {
    sql_rows(catalog(), std::string("UPDATE chunks SET ") + change + row(chain_, 1, 3));
    auto faults = store_->verify(nullptr);
    ASSERT_OK(faults.status());
    ASSERT_EQ(faults->size(), 1u);
    EXPECT_EQ(faults->at(0).what, std::string("a row of chunks names a row of ") + table + " that is not there");
  }
}

// Past the table's own rule: such a row is a fault, and nobody's chunk.
TEST_F(Groups, ARowOfAGroupThatThereIsNot) {
  save_groups("ann", chain_, {0, 3});
  for (const char* group : {"32", "63", "64", "-1"}) {
    SCOPED_TRACE(group);
    sql_rows(catalog(), std::string("PRAGMA ignore_check_constraints=ON; UPDATE chunks SET grp = ") + group + " WHERE grp NOT IN (0)");
    EXPECT_EQ(store_->find(chain_.nodes), std::vector<uint32_t>(nodes_, 1));
    EXPECT_EQ(readable_chunks(store_.get(), chain_), nodes_);
    auto faults = store_->verify(nullptr);
    ASSERT_OK(faults.status());
    ASSERT_FALSE(faults->empty());
    EXPECT_NE(faults->at(0).what.find("chunks"), std::string::npos) << faults->at(0).what;
  }
}

TEST_F(Groups, DiscardTakesThemAll) {
  save_groups("ann", chain_, {0, 3, 5});
  EXPECT_EQ(store_->discard(std::span(chain_.nodes).first(2), "of no use"), 6u);
  const std::vector<uint32_t> groups = store_->find(chain_.nodes);
  for (size_t i = 0; i < nodes_; i++) EXPECT_EQ(groups[i], i < 2 ? 0u : 0b101001u) << i;
  EXPECT_EQ(store_->stat("", "ann")->chunks_missing, 2u);
  expect_clean();
}

TEST_F(Groups, ASparseSegmentIsWrittenAnewWithAllOfThem) {
  const Chain longer(token_run(200));
  save_apart("ann", longer, of({0, 2, 30}));
  save("ann", chain_);  // of 13 nodes 4 are left, and a tail in a segment of its own
  const GcReport report = gc();
  EXPECT_GT(report.bytes_rewritten, 0u);
  EXPECT_EQ(report.chunks_removed, 0u) << "the save removed them";
  EXPECT_EQ(store_->info()->segments, 2u);
  EXPECT_EQ(store_->info()->chunks, 3 * 4 + 1u);
  const std::vector<uint32_t> groups = store_->find(chain_.nodes);
  for (size_t i = 0; i < nodes_; i++) EXPECT_EQ(groups[i], i < 4 ? 0x40000005u : 1u) << i;
  for (const uint32_t group : {0u, 2u, 30u}) EXPECT_EQ(readable_chunks(store_.get(), chain_, group), group == 0 ? 5u : 4u);
  expect_clean();
  expect_no_stray_files();
}

TEST_F(Groups, ADeadFrameBetweenLiveOnesIsPunched) {
  save_groups("ann", chain_, {0, 2});
  flip(chain_, 2, 2);
  std::string why;
  EXPECT_EQ(read(chain_, 2, 2, &why), ChunkState::kDamaged);
  const GcReport report = gc();
  EXPECT_GT(report.bytes_punched, 0u);
  EXPECT_EQ(report.bytes_rewritten, 0u);
  EXPECT_EQ(readable_chunks(store_.get(), chain_, 0), nodes_);
  EXPECT_EQ(readable_chunks(store_.get(), chain_, 2), nodes_ - 1);
  expect_clean();
  EXPECT_EQ(gc().bytes_punched, 0u);
}

TEST_F(Groups, KvSavesSyncTheSegmentsOfAll) {
  const Chain one(token_run(10));
  save_apart("ann", one, of({0}));
  save_groups("bob", one, {6});
  EXPECT_EQ(sql_rows(catalog(), "SELECT sum(synced), count(*) FROM segments"), "0|2|\n");
  SaveOptions o = of({0, 6});
  o.id = 50;
  o.durability = Durability::kKv;
  ASSERT_OK(save_chain(store_.get(), "eve", one, &o).status());
  EXPECT_EQ(sql_rows(catalog(), "SELECT sum(synced = bytes), count(*) FROM segments"), "2|2|\n");
}

TEST_F(Groups, GiveWayTogether) {
  constexpr size_t kLong = 160, kWide = 2048;
  const Chain old(token_run(kLong, 1), kWide), other(token_run(kLong, 2), kWide), next(token_run(kLong, 3), kWide);
  save_groups("measured", old, {0, 1, 2});
  const uint64_t bytes = store_->info()->chunk_bytes;
  store_.reset();
  StoreOptions options;
  options.disk_bytes_max = bytes * 5 / 2 + (200 << 10);
  auto store = open_store(root(), options, &env_);
  ASSERT_OK(store.status());
  store_ = std::move(*store);
  save_groups("other", other, {0, 1, 2});

  // It counts on a chunk of one group of the oldest session, which keeps the others' of that node too, and of those above it.
  auto save = store_->begin_save(true, {"", "new"});
  ASSERT_OK(save.status());
  ASSERT_OK(put_chunk(save->get(), old, 1, 1));
  for (size_t i = 0; i < next.nodes.size(); i++) {
    for (const uint32_t group : {0u, 1u, 2u}) ASSERT_OK(put_chunk(save->get(), next, i, group));
  }
  EXPECT_EQ((*save)->chunks_written(), 3 * next.nodes.size());
  ASSERT_OK((*save)->commit(session(next)).status());
  save->reset();
  expect_readable(next, {0, 1, 2});
  const std::vector<uint32_t> groups = store_->find(old.nodes);
  for (size_t i = 0; i < groups.size(); i++) EXPECT_EQ(groups[i], i < 2 ? 7u : 0u) << i;
  EXPECT_EQ(store_->info()->chunks_evicted, 3 * (old.nodes.size() - 2));
  EXPECT_EQ(store_->stat("", "measured")->chunks_missing, old.nodes.size() - 2);
  expect_readable(other, {0, 1, 2});
  expect_clean();
}

TEST_F(Groups, ABadFrameIsMendedAlone) {
  save_groups("ann", chain_, {0, 3, 5});
  flip(chain_, 1, 3);
  store_.reset();
  const Repaired r = repair(root());
  ASSERT_OK(r.status);
  EXPECT_EQ(r.report.outcome, RepairReport::Outcome::kMended);
  EXPECT_EQ(r.report.chunks_lost, 1u);
  EXPECT_EQ(r.report.chunks_kept, 3 * nodes_ - 1);
  EXPECT_EQ(r.report.sessions_with_holes, 1u);
  EXPECT_TRUE(std::any_of(r.lines.begin(), r.lines.end(), [](auto& l) { return l.find(" of number 3: lost") != std::string::npos; }));
  open();
  EXPECT_EQ(readable_chunks(store_.get(), chain_, 0), nodes_);
  EXPECT_EQ(readable_chunks(store_.get(), chain_, 3), nodes_ - 1);
  EXPECT_EQ(readable_chunks(store_.get(), chain_, 5), nodes_);
  expect_clean();
}

TEST_F(Groups, AreFoundAgainByTheirFramesAlone) {
  save_groups("ann", chain_, {0, 3, 31});
  flip(chain_, 1, 3);  // so that its segment is copied, too
  store_.reset();
  sql_rows(catalog(), "DELETE FROM chunks; DELETE FROM nodes");
  const Repaired r = repair(root());
  ASSERT_OK(r.status);
  EXPECT_EQ(r.report.outcome, RepairReport::Outcome::kRebuilt);
  EXPECT_EQ(r.report.sessions_kept, 1u);
  EXPECT_EQ(r.report.chunks_kept, 3 * nodes_ - 1);
  open();
  EXPECT_EQ(readable_chunks(store_.get(), chain_, 0), nodes_);
  EXPECT_EQ(readable_chunks(store_.get(), chain_, 3), nodes_ - 1);
  EXPECT_EQ(readable_chunks(store_.get(), chain_, 31), nodes_);
  EXPECT_EQ(store_->stat("", "ann")->chunks, 3 * nodes_ - 1);
  expect_clean();
}

TEST_F(Groups, RowsInDamagedPagesTellWhatIsLost) {
  const Chain other(token_run(40, 5));
  save_apart("ann", chain_, of({0, 3, 31}));
  const std::string segment = segment_files(root()).at(0);
  save_groups("bob", other, {0, 2});
  store_.reset();
  auto bytes = test::read_file(catalog());
  std::fill_n(bytes.begin(), 100, uint8_t{0x11});
  write_file(catalog(), bytes);
  fs::remove(segment);
  const Repaired r = repair(root());
  ASSERT_OK(r.status);
  EXPECT_EQ(r.report.outcome, RepairReport::Outcome::kRebuilt);
  EXPECT_EQ(r.report.sessions_kept, 2u);
  EXPECT_EQ(r.report.sessions_with_holes, 1u);
  EXPECT_EQ(r.report.chunks_lost, 3 * nodes_);
  EXPECT_EQ(r.report.chunks_kept, 2 * other.nodes.size());
  const std::string line = "session ann: its tokens are all there; 15 of 15 chunks are lost, and will be computed again";
  EXPECT_NE(std::find(r.lines.begin(), r.lines.end(), line), r.lines.end());
  open();
  EXPECT_EQ(store_->stat("", "ann")->chunks_missing, nodes_);
  expect_readable(other, {0, 2});
  expect_clean();
}

}  // namespace
}  // namespace kvrt
