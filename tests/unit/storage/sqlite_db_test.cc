// A file that SQLite could not open for want of a descriptor is named so.
#include "storage/catalog/sqlite_db.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sqlite3.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>

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
  const Status opened = db.open("file:" + path, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, path);
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_EQ(opened.code(), Code::kIo);
  EXPECT_EQ(opened.os_code(), EMFILE);
  EXPECT_NE(opened.message().find("Too many open files"), std::string::npos) << opened.message();
}

// A text that is made at run time may lie where another one did.
TEST(SqliteDb, NothingIsKeptOfAQueryForOnce) {
  Db db;
  ASSERT_TRUE(db.open("file::memory:", SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, "memory").is_ok());
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

}  // namespace
}  // namespace kvrt
