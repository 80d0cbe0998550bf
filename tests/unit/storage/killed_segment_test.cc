// Open segments whose writer was killed, whose file lost bytes or went, or whose sync failed.
#include <algorithm>

#include "tests/support/open_segment_rig.h"
#include "tests/support/repair_rig.h"

namespace kvrt {
namespace {

using namespace test;

class KilledSegment : public OpenSegment {};

// The frames behind the last commit are cut off when the next process seals it.
TEST_F(KilledSegment, OfAKilledProcessIsSealedByTheNext) {
  const Chain a(token_run(64, 1)), b(token_run(64, 2)), c(token_run(64, 3));
  in_a_killed_process([&](Store* store) {
    auto begun = store->begin_save();
    Store::Save* running = begun.is_ok() ? begun->release() : nullptr;
    if (running == nullptr || !put_chunk(running, c, 0, 0).is_ok()) return false;
    SaveOptions o;
    if (!save_chain(store, "a", a, o).is_ok()) return false;
    if (!put_chunk(running, c, 1, 0).is_ok()) return false;
    o.id = 2;
    if (!save_chain(store, "b", b, o).is_ok()) return false;
    return put_chunk(running, c, 2, 0).is_ok();
  });
  EXPECT_EQ(rows("sealed, bytes < " + std::to_string(fs::file_size(file()))), "0|1|\n");
  StoreOptions options;
  options.read_only = true;
  auto reader = open_store(root(), options);
  ASSERT_OK(reader.status());
  EXPECT_EQ(readable_chunks(reader->get(), a) + readable_chunks(reader->get(), b), 8u);
  EXPECT_TRUE((*reader)->verify(nullptr)->empty());
  reader->reset();
  open();
  EXPECT_EQ(rows("sealed"), "1|\n");
  expect_lengths();
  EXPECT_EQ(readable_chunks(store_.get(), a) + readable_chunks(store_.get(), b), 8u);
  expect_clean();
  gc();
  EXPECT_EQ(readable_chunks(store_.get(), a) + readable_chunks(store_.get(), b), 8u);
  expect_clean();
}

// Before its first commit it is garbage.
TEST_F(KilledSegment, WithoutARowIsRemoved) {
  const Chain a(token_run(64, 1));
  in_a_killed_process([&](Store* store) {
    auto save = store->begin_save();
    return save.is_ok() && put_chunk(save->get(), a, 0, 0).is_ok() && (save->release(), true);
  });
  EXPECT_FALSE(fs::is_empty(root() + "/tmp"));
  open();
  EXPECT_TRUE(fs::is_empty(root() + "/tmp"));
  expect_no_stray_files();
}

// A power cut takes what was not synced: of the file's end, of frames in the middle, or all of it.
TEST_F(KilledSegment, WithTornFramesIsSealed) {
  const Chain a(token_run(64, 1)), b(token_run(64, 2));
  store_.reset();
  fs::copy(root(), tmp_.path() + "/empty", fs::copy_options::recursive);
  for (const int lost : {1, 700, 1500, 3900, 100000}) {
    for (const bool zeros : {false, true}) {
      SCOPED_TRACE(std::to_string(lost) + (zeros ? " zeros" : " bytes less"));
      fs::remove_all(root());
      fs::copy(tmp_.path() + "/empty", root(), fs::copy_options::recursive);
      fs::permissions(root(), fs::perms::owner_all);
      in_a_killed_process([&](Store* store) {
        SaveOptions o;
        if (!save_chain(store, "a", a, o).is_ok()) return false;
        o.id = 2;
        return save_chain(store, "b", b, o).is_ok();
      });
      auto bytes = read_file(file());
      const size_t left = bytes.size() - std::min<size_t>(bytes.size(), static_cast<size_t>(lost));
      bytes.resize(left);
      if (zeros) bytes.resize(fs::file_size(file()));
      write_file(file(), bytes);
      open();
      const size_t readable = readable_chunks(store_.get(), a) + readable_chunks(store_.get(), b);
      EXPECT_EQ(store_->info()->chunks_damaged, 8 - readable);
      EXPECT_LT(readable, 8u);
      EXPECT_EQ(readable > 0, lost < 4000);
      if (readable > 0 && left > 32) {
        EXPECT_EQ(rows("sealed"), "1|\n");
      }
      if (left > 32) expect_clean();
      save("b", b);
      EXPECT_EQ(readable_chunks(store_.get(), b), 4u);
      gc();
      expect_clean();
      expect_no_stray_files();
    }
  }
}

TEST_F(KilledSegment, OfAKilledProcessIsMissing) {
  const Chain a(token_run(64, 1));
  in_a_killed_process([&](Store* store) { return save_chain(store, "a", a).is_ok(); });
  fs::remove(file());
  open();
  EXPECT_EQ(rows("count(*)"), "0|\n");
  EXPECT_EQ(store_->info()->chunks_damaged, 4u);
  EXPECT_EQ(store_->load("", "a")->tokens, a.tokens);
  expect_clean();
}

// Somebody removes the file. A save that appended to it starts over, elsewhere.
TEST_F(KilledSegment, RemovedWhileItIsWritten) {
  const Chain a(token_run(64, 1)), b(token_run(64, 2));
  save("a", a);
  fs::remove(file());
  EXPECT_EQ(readable_chunks(store_.get(), a), 0u);
  EXPECT_EQ(rows("count(*)"), "0|\n");
  save("b", b);
  EXPECT_EQ(readable_chunks(store_.get(), b), 4u);
  expect_clean();
}

// A repair before the next open finds it sound, or forgets the frames that are not.
TEST_F(KilledSegment, OfAKilledProcessIsRepaired) {
  const Chain a(token_run(64, 1)), b(token_run(64, 2));
  in_a_killed_process([&](Store* store) {
    SaveOptions o;
    if (!save_chain(store, "a", a, o).is_ok()) return false;
    o.id = 2;
    return save_chain(store, "b", b, o).is_ok();
  });
  Repaired r = repair(root());
  ASSERT_OK(r.status);
  EXPECT_EQ(r.report.outcome, RepairReport::Outcome::kSound);
  auto bytes = read_file(file());
  bytes[32 + 300] ^= 1;
  write_file(file(), bytes);
  r = repair(root());
  ASSERT_OK(r.status);
  EXPECT_EQ(r.report.outcome, RepairReport::Outcome::kMended);
  EXPECT_EQ(r.report.chunks_lost, 1u);
  open();
  EXPECT_EQ(readable_chunks(store_.get(), a), 3u);
  EXPECT_EQ(readable_chunks(store_.get(), b), 4u);
  expect_clean();
}

TEST_F(KilledSegment, OfAKilledProcessIsReadWithoutItsCatalog) {
  const Chain a(token_run(64, 1)), b(token_run(64, 2));
  in_a_killed_process([&](Store* store) { return save_chain(store, "a", a).is_ok() && store->remove("", "nobody").is_ok() == false; });
  fs::resize_file(root() + "/catalog.db", 0);
  Repaired r = repair(root());
  ASSERT_OK(r.status);
  EXPECT_EQ(r.report.outcome, RepairReport::Outcome::kRebuilt);
  open();
  EXPECT_EQ(readable_chunks(store_.get(), a), 4u);
  EXPECT_EQ(rows("sealed"), "1|\n");
  gc();
  expect_clean();
  expect_no_stray_files();
}

// A sync that fails makes all that was not on the disk before suspect; what was stays.
TEST_F(KilledSegment, AfterAFailedSyncOnlyWhatWasSyncedStays) {
  const Chain a(token_run(64, 1)), b(token_run(64, 2)), c(token_run(64, 3));
  SaveOptions kv;
  kv.durability = Durability::kKv;
  save("a", a, kv);
  save("b", b);
  plan_.arm(Fault::kSyncLost, 1);
  kv.id = 70;
  EXPECT_EQ(save_chain(store_.get(), "c", c, kv).status().code(), Code::kIo);
  EXPECT_EQ(plan_.fired(), 1u);
  plan_.disarm();
  EXPECT_EQ(readable_chunks(store_.get(), a), 4u);
  EXPECT_EQ(readable_chunks(store_.get(), b), 0u);
  ASSERT_OK(save_chain(store_.get(), "c", c, kv).status());
  EXPECT_EQ(segment_files(root()).size(), 2u) << "not in the same one";
  EXPECT_EQ(readable_chunks(store_.get(), c), 4u);
  expect_clean();
  open();
  expect_lengths();
  expect_clean();
}

TEST_F(KilledSegment, ASyncThatFailsAtTheClose) {
  const Chain a(token_run(64, 1)), b(token_run(64, 2));
  SaveOptions kv;
  kv.durability = Durability::kKv;
  save("a", a, kv);
  save("b", b);
  plan_.arm(Fault::kSyncLost, 1);
  store_.reset();
  EXPECT_EQ(plan_.fired(), 1u);
  plan_.disarm();
  EXPECT_EQ(rows("sealed, bytes = synced"), "0|1|\n");
  open();
  EXPECT_EQ(rows("sealed"), "1|\n");
  EXPECT_EQ(readable_chunks(store_.get(), a), 4u);
  EXPECT_EQ(readable_chunks(store_.get(), b), 0u);
  expect_lengths();
  expect_clean();
}

}  // namespace
}  // namespace kvrt
