// The segment that the saves of a process append to.
#include <algorithm>
#include <thread>

#include "storage/segment/segment.h"
#include "tests/support/open_segment_rig.h"

namespace kvrt {
namespace {

using namespace test;

TEST_F(OpenSegment, TakesAllSavesAndIsSealedAtTheClose) {
  std::vector<std::unique_ptr<Chain>> chains;
  for (int32_t i = 0; i < 40; i++) {
    chains.push_back(std::make_unique<Chain>(token_run(40, i)));
    save("s" + std::to_string(i), *chains.back());
  }
  const std::string path = file();
  EXPECT_EQ(rows("sealed, synced, bytes - live"), "0|0|32|\n");
  EXPECT_EQ(rows("bytes"), std::to_string(fs::file_size(path)) + "|\n");
  expect_clean();
  open();
  EXPECT_EQ(file(), path);
  EXPECT_EQ(rows("sealed, bytes - live"), "1|" + std::to_string(32 + 40 + 120 * 48) + "|\n");
  expect_lengths();
  SegmentId id;
  ASSERT_TRUE(parse_segment_name(fs::path(path).filename(), &id));
  StoreId store;  // the header has its first half
  auto segment = std::move(posix_env()->open_read(path)).value();
  ASSERT_OK(segment->pread(24, std::span(store.bytes).first(8)));
  auto index = read_segment_index(*segment, id, store);
  ASSERT_OK(index.status());
  EXPECT_EQ(index->size(), 120u);
  for (auto& chain : chains) EXPECT_EQ(readable_chunks(store_.get(), *chain), 3u);
  expect_clean();
  save("later", Chain(token_run(40, 99)));
  EXPECT_EQ(segment_files(root()).size(), 2u);
}

// Saves side by side lie between each other. One that is given up leaves nothing at the end, and dead bytes in the middle, which gc frees.
TEST_F(OpenSegment, SavesSideBySide) {
  const Chain a(token_run(64, 1)), b(token_run(64, 2)), c(token_run(64, 3));
  auto first = begin(), second = begin(), third = begin();
  for (size_t i = 0; i < 4; i++) {
    ASSERT_OK(put_chunk(first.get(), a, i, 0));
    ASSERT_OK(put_chunk(second.get(), b, i, 0));
    ASSERT_OK(put_chunk(third.get(), c, i, 0));
  }
  ASSERT_OK(second->commit(session("b", b, 2)).status());
  second.reset();
  third.reset();  // its last frame lies at the end
  const std::string path = file();
  EXPECT_EQ(rows("bytes"), std::to_string(fs::file_size(path)) + "|\n");
  ASSERT_OK(first->commit(session("a", a, 1)).status());
  first.reset();
  EXPECT_EQ(readable_chunks(store_.get(), a) + readable_chunks(store_.get(), b), 8u);
  EXPECT_EQ(readable_chunks(store_.get(), c), 0u);
  expect_clean();
  EXPECT_GT(gc().bytes_punched, 0u);
  EXPECT_EQ(rows("sealed"), "1|\n");
  EXPECT_EQ(readable_chunks(store_.get(), a) + readable_chunks(store_.get(), b), 8u);
  expect_clean();
  expect_no_stray_files();
}

TEST_F(OpenSegment, AFrameThatFailsIsCutOff) {
  const Chain a(token_run(64, 1)), b(token_run(64, 2));
  save("a", a);
  const uint64_t bytes = fs::file_size(file());
  auto second = begin();
  ASSERT_OK(put_chunk(second.get(), b, 0, 0));
  plan_.arm(Fault::kShort, 1);
  EXPECT_EQ(put_chunk(second.get(), b, 1, 0).code(), Code::kNoSpace);
  EXPECT_EQ(plan_.fired(), 1u);
  plan_.disarm();
  EXPECT_EQ(fs::file_size(file()), bytes) << "its other frames are dropped";
  ASSERT_OK(put_chunk(second.get(), b, 2, 0));
  ASSERT_OK(second->commit(session("b", b, 2)).status());
  second.reset();
  EXPECT_EQ(readable_chunks(store_.get(), b), 1u);
  EXPECT_EQ(readable_chunks(store_.get(), a), 4u);
  expect_clean();
  open();
  expect_lengths();
  expect_clean();
}

// What cannot be cut off stays out of the index, and nothing is appended behind it.
TEST_F(OpenSegment, AFrameThatCannotBeCutOff) {
  const Chain a(token_run(64, 1)), b(token_run(64, 2)), c(token_run(64, 3));
  save("a", a);
  const std::string path = file();
  auto second = begin(), beside = begin();
  ASSERT_OK(put_chunk(beside.get(), c, 0, 0));
  ASSERT_OK(put_chunk(second.get(), b, 0, 0));
  plan_.arm(Fault::kNone, 1);
  ASSERT_OK(put_chunk(second.get(), b, 2, 0));
  plan_.arm(Fault::kIo, plan_.count(), true);  // the write, and the cut behind it
  EXPECT_EQ(put_chunk(second.get(), b, 1, 0).code(), Code::kIo);
  EXPECT_GE(plan_.fired(), 2u);
  plan_.disarm();
  EXPECT_EQ(put_chunk(beside.get(), c, 1, 0).code(), Code::kIo);
  second.reset();
  beside.reset();
  save("b", b);
  EXPECT_EQ(segment_files(root()).size(), 2u);
  EXPECT_EQ(readable_chunks(store_.get(), a) + readable_chunks(store_.get(), b), 8u);
  open();
  expect_lengths();
  expect_clean();
}

// Under a quota the same session is saved again and again: nothing is lost of the room, and no KV has to go.
TEST_F(OpenSegment, ManySavesLeakNothing) {
  const Chain kept(token_run(32, 7), 256);
  save("kept", kept);
  store_.reset();
  StoreOptions options;
  options.disk_bytes_max = 400'000;
  auto store = open_store(root(), options, &env_);
  ASSERT_OK(store.status());
  store_ = std::move(*store);
  for (int32_t i = 0; i < 300; i++) {
    SaveOptions o;
    o.id = 9;
    o.overwrite = true;
    o.durability = i % 3 == 0 ? Durability::kTokens : i % 3 == 1 ? Durability::kKv : Durability::kNone;
    const Chain chain(token_run(64, 10 + i), 512);
    ASSERT_OK(save_chain(store_.get(), "ann", chain, o).status());
    ASSERT_EQ(readable_chunks(store_.get(), chain), 4u) << "save " << i;
    if (i % 10 == 5) begin();  // given up
    auto info = store_->info();
    ASSERT_LE(info->segments, 4u);
    ASSERT_LE(info->disk_bytes, 400'000u + (64u << 10)) << "but for a commit's log";
    ASSERT_EQ(info->chunks_evicted, 0u) << "save " << i;
  }
  EXPECT_EQ(readable_chunks(store_.get(), kept), 2u);
  gc();
  expect_clean();
  expect_no_stray_files();
  open();
  expect_lengths();
  EXPECT_LE(segment_files(root()).size(), 2u);
}

TEST_F(OpenSegment, IsLeftAtItsLimit) {
  const Chain large(token_run(16 * 66, 1), 64 << 10), small(token_run(32, 2));
  SaveOptions o;
  o.id = 1;
  auto running = begin();
  ASSERT_OK(put_chunk(running.get(), small, 0, 0));
  auto big = begin();
  for (size_t i = 0; i < large.nodes.size(); i++) {
    const NodeIn& node = large.nodes[i];
    ASSERT_OK(big->put({node.key, node.parent, node.tokens, 1, 2, large.payloads[i], ChunkCodec::kNone}));
  }
  ASSERT_OK(big->commit(session("large", large, 1)).status());
  big.reset();
  EXPECT_EQ(rows("sealed"), "0|\n") << "a save goes on in it";
  save("other", Chain(token_run(32, 3)));
  EXPECT_EQ(segment_files(root()).size(), 2u);
  ASSERT_OK(put_chunk(running.get(), small, 1, 0));
  ASSERT_OK(running->commit(session("small", small, 3)).status());
  running.reset();
  EXPECT_EQ(sql_rows(root() + "/catalog.db", "SELECT sealed FROM segments ORDER BY id"), "1|\n0|\n");
  EXPECT_EQ(readable_chunks(store_.get(), small), 2u);
  EXPECT_EQ(readable_chunks(store_.get(), large), large.nodes.size());
  expect_clean();
}

// A reader elsewhere has the file open while it grows, with frames that are read past the page cache.
TEST_F(OpenSegment, AReaderSeesItGrow) {
  StoreOptions options;
  options.read_only = true;
  std::unique_ptr<Store> reader;
  for (int32_t i = 0; i < 4; i++) {
    const Chain chain(token_run(64, i), 32 << 10);
    save("s" + std::to_string(i), chain);
    if (reader == nullptr) {
      auto opened = open_store(root(), options);
      ASSERT_OK(opened.status());
      reader = std::move(*opened);
    }
    EXPECT_EQ(readable_chunks(reader.get(), chain), 4u) << i;
    EXPECT_EQ(readable_chunks(store_.get(), chain), 4u) << i;
    auto faults = reader->verify(nullptr);
    ASSERT_OK(faults.status());
    EXPECT_TRUE(faults->empty());
  }
}

// Each handle, as each process, has its own. Nobody else seals it, rewrites it or removes it, whatever became of its chunks.
TEST_F(OpenSegment, OfAnotherProcessIsLeftAlone) {
  const Chain a(token_run(64, 1)), b(token_run(64, 2)), c(token_run(64, 3));
  save("a", a);
  const std::string path = file();
  auto other = open_store(root());
  ASSERT_OK(other.status());
  SaveOptions o;
  o.id = 50;
  ASSERT_OK(save_chain(other->get(), "b", b, o).status());
  EXPECT_EQ(rows("sealed"), "0|\n0|\n");
  ASSERT_OK((*other)->remove("", "a"));
  ASSERT_OK((*other)->gc(nullptr).status());
  EXPECT_TRUE(fs::exists(path));
  EXPECT_EQ(rows("live = 0, sealed"), "1|0|\n0|0|\n");
  save("c", c);
  EXPECT_EQ(segment_files(root()).size(), 2u);
  EXPECT_EQ(readable_chunks(other->get(), c), 4u);
  EXPECT_TRUE((*other)->verify(nullptr)->empty());
  gc();
  EXPECT_EQ(readable_chunks(other->get(), b) + readable_chunks(other->get(), c), 8u);
  expect_clean();
  other->reset();
  EXPECT_EQ(rows("sum(sealed)"), "2|\n");
}

TEST_F(OpenSegment, WithoutALiveChunkGoesAtOnce) {
  SaveOptions o;
  o.durability = Durability::kTokens;
  save("a", Chain(token_run(64, 1)), o);
  ASSERT_OK(store_->remove("", "a"));
  EXPECT_TRUE(segment_files(root()).empty());
  save("b", Chain(token_run(64, 2)), o);
  EXPECT_EQ(segment_files(root()).size(), 1u);
  expect_clean();
}

// Threads save, give up, collect and read on one handle.
TEST_F(OpenSegment, ManyThreads) {
  constexpr int kThreads = 4, kSaves = 12;
  std::vector<std::unique_ptr<Chain>> chains(kThreads * kSaves);
  for (size_t i = 0; i < chains.size(); i++) chains[i] = std::make_unique<Chain>(token_run(40, static_cast<int32_t>(i)));
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; t++) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < kSaves; i++) {
        const Chain& chain = *chains[static_cast<size_t>(t * kSaves + i)];
        {
          auto given_up = store_->begin_save();
          EXPECT_OK(given_up.status());
          EXPECT_OK(put_chunk(given_up->get(), chain, 0, 0));
        }
        SaveOptions o;
        o.id = static_cast<uint8_t>(1 + t * kSaves + i);
        o.durability = i % 3 == 0 ? Durability::kKv : i % 3 == 1 ? Durability::kTokens : Durability::kNone;
        EXPECT_OK(save_chain(store_.get(), "s" + std::to_string(t) + "-" + std::to_string(i), chain, o).status());
        EXPECT_EQ(readable_chunks(store_.get(), chain), 3u);
        if (i % 5 == 4) {
          EXPECT_OK(store_->gc(nullptr).status());
        }
      }
    });
  }
  for (auto& thread : threads) thread.join();
  expect_clean();
  open();
  for (auto& chain : chains) EXPECT_EQ(readable_chunks(store_.get(), *chain), 3u);
  expect_lengths();
  expect_clean();
  expect_no_stray_files();
}

}  // namespace
}  // namespace kvrt
