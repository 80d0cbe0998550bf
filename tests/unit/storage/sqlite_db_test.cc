// Databases of SQLite as the catalog uses them: want of a descriptor, queries for once, pages in a loop.
#include "storage/catalog/sqlite_db.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sqlite3.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>

#include "storage/catalog/sqlite_pages.h"
#include "tests/support/fault_env.h"
#include "tests/support/store_rig.h"

namespace kvrt {
namespace {

TEST(SqliteDb, NamesTheWantOfDescriptors) {
  const int first_free = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  ::close(first_free);
  struct rlimit before;
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  struct rlimit none = before;
  none.rlim_cur = static_cast<rlim_t>(first_free);
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  const std::string path = testing::TempDir() + "kvrt-no-descriptor.db";
  Db db;
  const Status opened = db.open(path, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE);
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_EQ(opened.code(), Code::kIo);
  EXPECT_EQ(opened.os_code(), EMFILE);
  EXPECT_NE(opened.message().find("Too many open files"), std::string::npos) << opened.message();
}

// A text that is made at run time may lie where another one did.
TEST(SqliteDb, NothingIsKeptOfAQueryForOnce) {
  Db db;
  ASSERT_TRUE(db.open(":memory:", SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE).is_ok());
  std::string text;
  for (int i = 0; i < 3; i++) {
    text = "SELECT " + std::to_string(i);
    Query q = db.query_once(text);
    auto row = q.next();
    ASSERT_TRUE(row.is_ok() && *row);
    EXPECT_EQ(q.integer(0), i);
  }
  EXPECT_EQ(db.query_once("SELECT nothing").next().status().code(), Code::kCorrupt);
  EXPECT_TRUE(db.close().is_ok()) << "a statement is open still";
}

// A page that is its own child: the walk ends at the depth that SQLite allows, not at the count of the file's pages.
TEST(SqlitePages, ALoopOfPagesIsNotFollowed) {
  const test::TempDir tmp;
  const std::string path = tmp.path() + "/pages.db";
  Db db;
  ASSERT_OK(db.open(path, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE));
  ASSERT_OK(
      db.exec("PRAGMA page_size=4096; CREATE TABLE t(a);"
              "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 4000) INSERT INTO t SELECT zeroblob(200) FROM n"));
  const auto root = static_cast<uint32_t>(*db.number("SELECT rootpage FROM sqlite_schema"));
  const auto pages = static_cast<uint64_t>(*db.number("PRAGMA page_count"));
  ASSERT_GT(pages, 200u);
  ASSERT_OK(db.close());
  test::FaultPlan plan;
  test::FaultEnv env(posix_env(), &plan);
  const auto is_whole = [&] {
    auto file = env.open_read(path);
    EXPECT_OK(file.status());
    auto all = SqlitePages::open(std::move(*file), nullptr);
    EXPECT_OK(all.status());
    plan.arm(test::Fault::kNone, 0);
    return (*all)->is_whole("t", 1);
  };
  EXPECT_TRUE(is_whole());
  EXPECT_EQ(plan.count(), 2 * pages - 1) << "each page is read for its rows, then those of the table";
  auto bytes = test::read_file(path);
  uint8_t* page = &bytes[(root - 1) * size_t{4096}];
  ASSERT_EQ(page[0], 5) << "an interior page of a table";
  const size_t first_cell = size_t{page[12]} << 8 | page[13];
  for (uint8_t* child : {page + 8, page + first_cell}) {
    for (int i = 0; i < 4; i++) child[i] = static_cast<uint8_t>(root >> (24 - 8 * i));
  }
  test::write_file(path, bytes);
  EXPECT_FALSE(is_whole());
  EXPECT_LE(plan.count(), pages + 20);
}

}  // namespace
}  // namespace kvrt
