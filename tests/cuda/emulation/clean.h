// Checks for tests of the whole backend: the machine as new, and nothing of it left over.
#pragma once

#include <gtest/gtest.h>

#include "cuda/emulation/emulator.h"

namespace kvrt::test {

class CleanEmulation : public testing::Test {
 protected:
  void SetUp() override { emulation::reset(); }
  void TearDown() override {
    emulation::reset();
    EXPECT_EQ(emulation::live(), before_);
  }
  const emulation::Live before_ = emulation::live();
};

}  // namespace kvrt::test
