#include "runtime/base/hash.h"

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include "runtime/base/block_items.h"

namespace kvrt {
namespace {

std::span<const uint8_t> bytes_of(std::string_view s) { return {reinterpret_cast<const uint8_t*>(s.data()), s.size()}; }

Hash256 counting_key() {
  Hash256 key;
  std::iota(key.bytes.begin(), key.bytes.end(), uint8_t{0});
  return key;
}

std::vector<uint8_t> cycle(size_t n) {
  std::vector<uint8_t> v(n);
  for (size_t i = 0; i < n; i++) v[i] = static_cast<uint8_t>(i % 251);
  return v;
}

// The hex values below: python3 hashlib.blake2b(data, digest_size=32, key=...).
TEST(Hash, Blake2b256) {
  EXPECT_EQ(Hasher().finish().hex(), "0e5751c026e543b2e8ab2eb06099daa1d1e5df47778f7787faab45cdf12fe3a8");
  EXPECT_EQ(Hasher().add(bytes_of("abc")).finish().hex(), "bddd813c634239723171ef3fee98579b94964e3bb1cb3e427262c8c068d52319");
}

TEST(Hash, Blake2b256Keyed) {
  EXPECT_EQ(Hasher(counting_key()).add(bytes_of("abc")).finish().hex(), "d63a32d3e44738d7907f964316c241adaba0abfeabc32349677578a15a203f7f");
  EXPECT_EQ(Hasher(counting_key()).add(cycle(1000)).finish().hex(), "bf9c0d3a2590251349ad634ad07f03958d0be63d5f9533daf62752de734b2c76");
}

TEST(Hash, AnySplitOfTheInputGivesTheSameHash) {
  auto data = cycle(1000);
  for (size_t cut : {0u, 1u, 127u, 128u, 129u, 999u, 1000u}) {
    Hasher h(counting_key());
    h.add(std::span<const uint8_t>(data).first(cut)).add(std::span<const uint8_t>(data).subspan(cut));
    EXPECT_EQ(h.finish().hex(), "bf9c0d3a2590251349ad634ad07f03958d0be63d5f9533daf62752de734b2c76") << cut;
  }
}

TEST(Hash, FieldsAreLittleEndianAndLengthPrefixed) {
  // blake2b(pack('<Q', 5) + pack('<Q', 3) + b'abc')
  EXPECT_EQ(Hasher(counting_key()).add_u64(5).add_string("abc").finish().hex(),
            "fd5d0f849de7b1b9087b921cc43873200518e06145db6f4ab5cf79a9d05308ba");
}

TEST(Hash, ChainKeyIsTagAndIdPerToken) {
  // blake2b(b''.join(b'\0' + pack('<i', t) for t in tokens)), 101 tokens: more than one inner run
  std::vector<int32_t> tokens;
  for (int32_t t = 0; t < 100000; t += 997) tokens.push_back(t);
  EXPECT_EQ(chain_key(counting_key(), tokens).hex(), "01c34a46b5b1f044484b75955a33916e6a42ba7ee59578ee6a677aaf4f8d5c12");
  EXPECT_EQ(chain_key(counting_key(), std::vector<int32_t>{7}).hex(), "3f4d53a09e77de91075a04c95a281e5b9462bc416d70fdefcce15b86ad95d5d6");
  EXPECT_EQ(chain_key(counting_key(), {}).hex(), "4e51e7a913fc80137da52880fecca175bf81e117d5c68126dc2774033517ea0d");
}

TEST(Hash, ChainKeyHasItemsBeforeTheTokenOfTheirRow) {
  // The same, with bytes([tag, len(item)]) + item before the tokens 0 (two items), 64 and 100.
  std::vector<int32_t> tokens;
  for (int32_t t = 0; t < 100000; t += 997) tokens.push_back(t);
  std::vector<uint8_t> items, empty;
  append_item({0, 1, {}}, &items);
  append_item({0, 2, bytes_of("abc")}, &items);
  append_item({64, 9, cycle(255)}, &items);
  append_item({100, 255, std::vector<uint8_t>{0}}, &items);
  EXPECT_EQ(chain_key(counting_key(), tokens, items).hex(), "8d01595174ac44d8c7f000f81df64d762d71842744d45c02e8db6faf20bcfa48");
  append_item({0, 1, {}}, &empty);
  EXPECT_EQ(chain_key(counting_key(), std::vector<int32_t>{7}, empty).hex(),
            "362b24b18b4c047cd598422220eb8a302fa0d8da5e356a39751b9f28bfde4675");
}

// Values of PyPI xxhash's xxh3_128; the first is the published one of the empty input.
TEST(Hash, Xxh3) {
  auto sum = [](std::span<const uint8_t> b) { return checksum128(b); };
  EXPECT_EQ(sum({}), (Checksum128{0x6001c324468d497f, 0x99aa06d3014798d8}));
  EXPECT_EQ(sum(bytes_of("abc")), (Checksum128{0x78af5f94892f3950, 0x06b05ab6733a6185}));
  EXPECT_EQ(sum(cycle(100)), (Checksum128{0x29b20ba5f03ec01e, 0xda95ef16fd9566f3}));
  EXPECT_EQ(sum(cycle(100000)), (Checksum128{0x42c23aeead96750d, 0x54182c58bbb1337c}));
}

}  // namespace
}  // namespace kvrt
