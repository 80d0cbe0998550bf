#include "runtime/base/numbers.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <random>

namespace kvrt {
namespace {

// Doubles of every size, and those where a digit more or less makes the difference.
std::vector<double> some_doubles() {
  constexpr double kInf = std::numeric_limits<double>::infinity();
  std::vector<double> all = {0.0,
                             -0.0,
                             1.0,
                             -1.0,
                             0.1,
                             9.5,
                             99999.5,
                             999999.5,
                             1e-4,
                             1e-5,
                             0.000099999999,
                             1e15,
                             1e16,
                             1e22,
                             123456,
                             1.5e-3,
                             1234567.,
                             1e300,
                             2.5,
                             3.5,
                             0.5,
                             -kInf,
                             kInf,
                             5e-324,
                             1e-310,
                             std::numeric_limits<double>::max(),
                             std::numeric_limits<double>::min(),
                             NAN};
  std::mt19937_64 random(7);
  for (int i = 0; i < 2000; ++i) {
    const uint64_t bits = random();
    double any;
    std::memcpy(&any, &bits, sizeof any);
    all.push_back(any);
    all.push_back(std::ldexp(static_cast<double>(static_cast<int64_t>(random())), -60 + static_cast<int>(random() % 20)));
  }
  return all;
}

// The tests run in the C locale, where printf and strtod are right.
TEST(Numbers, PrintsAsPrintf) {
  for (const double number : some_doubles()) {
    for (const char type : {'e', 'f', 'g', 'E', 'F', 'G'}) {
      for (const int precision : {0, 1, 2, 6, 17, 100}) {
        const char plain[] = {'%', '.', '*', type, 0}, alternate[] = {'%', '#', '.', '*', type, 0};
        char want[512];
        std::snprintf(want, sizeof want, plain, precision, number);
        EXPECT_EQ(print_real(number, type, precision), want) << plain << ' ' << precision;
        std::snprintf(want, sizeof want, alternate, precision, number);
        // glibc forgets zeros where rounding gives a digit more: %#.2g of 99.9 is "1.e+02". C and Python have "1.0e+02".
        if (std::strstr(want, "1.e+") && precision > 1) continue;
        if (std::strstr(want, "1.E+") && precision > 1) continue;
        EXPECT_EQ(print_real(number, type, precision, true), want) << alternate << ' ' << precision;
      }
    }
  }
  EXPECT_EQ(print_real(99999.5, 'g', 5, true), "1.0000e+05");
  EXPECT_EQ(shown(0.1f), "0.1");
  EXPECT_EQ(shown(1e6), "1e+06");
}

TEST(Numbers, ReadsAsStrtod) {
  const auto same = [](const std::string& text) {
    double got = 7;
    ASSERT_TRUE(read_real(text, &got)) << text;
    const double want = std::strtod(text.c_str(), nullptr);
    EXPECT_TRUE(std::memcmp(&got, &want, sizeof want) == 0 || (std::isnan(got) && std::isnan(want))) << text << ": " << got;
  };
  for (const double number : some_doubles()) {
    char text[64];
    std::snprintf(text, sizeof text, "%.17g", number);
    same(text);
  }
  for (const char* text : {"1e400", "-1e400", "1e-400", "-1e-400", "0.00001e400", "0.0000e99999", "1e99999999999999999999",
                           "1e-99999999999999999999", "0.0000000000000000000000000001e-310", "123456789012345678901234567890e300", "2e-324",
                           "4.9e-324", "1.7976931348623159e308", "1.7976931348623158e308", "00012", "1.", ".5", "inf", "-inf"}) {
    same(text);
  }
  double untouched = 7;
  for (const char* text : {"", "-", "--1", "+1", "1x", "x", "0x10", "1e", "1e+", " 1", "1 ", "1,5", "nan(1)"}) {
    EXPECT_FALSE(read_real(text, &untouched)) << text;
  }
  EXPECT_EQ(untouched, 7);
}

TEST(Numbers, Digits) {
  EXPECT_EQ(read_digits("0123 kB"), 123u);
  EXPECT_EQ(read_digits("ff-1", 16), 255u);
  EXPECT_EQ(read_digits("max"), 0u);
  EXPECT_EQ(read_digits("-1"), 0u);
  EXPECT_EQ(read_digits(""), 0u);
  EXPECT_EQ(read_digits("18446744073709551615"), UINT64_MAX);
  EXPECT_EQ(read_digits("18446744073709551616"), UINT64_MAX);
}

}  // namespace
}  // namespace kvrt
