// A mutex that is held only to keep books: who uses a file under it is caught, and a watch hears of each hold.
#include "runtime/base/books_only.h"

#include <gtest/gtest.h>

#include <chrono>

#include "runtime/base/env.h"

namespace kvrt {
namespace {

class CountsHolds final : public HoldWatch {
 public:
  void begin() override { ++begun; }
  void end() override { ++ended; }
  int begun = 0, ended = 0;
};

TEST(BooksOnly, AWatchHearsOfEachHold) {
  CountsHolds holds;
  Mutex mu(&holds);
  Condition never;
  {
    Lock lock(mu);
    EXPECT_EQ(holds.begun - holds.ended, 1);
    {
      Unlocked unlocked(mu);
      EXPECT_EQ(holds.begun - holds.ended, 0);
    }
    EXPECT_EQ(holds.begun, 2);
    EXPECT_FALSE(never.wait_until(mu, std::chrono::steady_clock::now()));
    EXPECT_EQ(holds.begun, 3);  // a wait is no hold
  }
  EXPECT_EQ(holds.ended, 3);
  ASSERT_TRUE(mu.try_lock());
  EXPECT_EQ(holds.begun, 4);
  mu.unlock();
  EXPECT_EQ(holds.ended, 4);
}

TEST(BooksOnlyDeathTest, AFileIsUsedUnderNone) {
#ifndef KVRT_ASSERTS
  GTEST_SKIP() << "a build without assertions";
#else
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  Mutex mu(BooksOnly::watch());
  EXPECT_FALSE(BooksOnly::held());
  EXPECT_DEATH(
      {
        Lock lock(mu);
        (void)posix_env()->exists("/tmp");
      },
      "BooksOnly::held");
  {
    Lock lock(mu);
    Unlocked unlocked(mu);
    EXPECT_TRUE(posix_env()->exists("/tmp").is_ok());
  }
#endif
}

}  // namespace
}  // namespace kvrt
