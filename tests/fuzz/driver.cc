// Runs a fuzz target without libFuzzer: every file of the given folders, whole and in seeded random mutations of it.
// usage: fuzz_NAME [-runs=MUTATIONS_PER_FILE] [-seed=N] PATH...
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace {

using Bytes = std::vector<uint8_t>;

// A copy of exactly its size on the heap, so that a sanitizer sees the first byte read past the end.
void run(const Bytes& bytes) {
  const Bytes exact(bytes.begin(), bytes.end());
  LLVMFuzzerTestOneInput(exact.data(), exact.size());
}

// Numbers that sizes and counts go wrong at.
constexpr uint64_t kExtremes[] = {
    0, 1, 0x7f, 0xff, 0xffff, 0x7fffffff, 0xffffffff, uint64_t{1} << 32, uint64_t{1} << 62, INT64_MAX, UINT64_MAX - 31, UINT64_MAX};

Bytes mutate(const Bytes& from, std::mt19937_64& random) {
  Bytes bytes = from;
  const auto below = [&](size_t n) { return static_cast<size_t>(random() % n); };
  // Half of the time near the start, where headers are.
  const auto place = [&] { return below(random() % 2 ? bytes.size() : std::min<size_t>(bytes.size(), 4096)); };
  for (size_t n = 1 + below(4); n > 0 && !bytes.empty(); --n) {
    const size_t at = place();
    switch (below(6)) {
      case 0:
        bytes[at] ^= static_cast<uint8_t>(1u << below(8));
        break;
      case 1:
        bytes[at] = static_cast<uint8_t>(random());
        break;
      case 2: {
        const uint64_t value = kExtremes[below(std::size(kExtremes))];
        std::memcpy(bytes.data() + at, &value, std::min<size_t>(bytes.size() - at, random() % 2 ? 8 : 4));
        break;
      }
      case 3:
        bytes.resize(at);
        break;
      case 4: {  // a piece again somewhere else
        const size_t length = std::min(bytes.size() - at, 1 + below(64));
        const Bytes piece(bytes.begin() + static_cast<ptrdiff_t>(at), bytes.begin() + static_cast<ptrdiff_t>(at + length));
        bytes.insert(bytes.begin() + static_cast<ptrdiff_t>(place()), piece.begin(), piece.end());
        break;
      }
      default:
        bytes.erase(bytes.begin() + static_cast<ptrdiff_t>(at),
                    bytes.begin() + static_cast<ptrdiff_t>(std::min(bytes.size(), at + 1 + below(64))));
    }
  }
  return bytes;
}

void add_files(const std::filesystem::path& path, std::vector<std::filesystem::path>* out) {
  if (!std::filesystem::is_directory(path)) return out->push_back(path);
  for (const auto& entry : std::filesystem::directory_iterator(path)) {
    if (entry.is_regular_file()) out->push_back(entry.path());
  }
}

}  // namespace

int main(int argc, char** argv) {
  uint64_t runs = 0, seed = std::random_device{}();
  std::vector<std::filesystem::path> files;
  for (int i = 1; i < argc; ++i) {
    const std::string arg = argv[i];
    if (arg.rfind("-runs=", 0) == 0) {
      runs = std::strtoull(arg.c_str() + 6, nullptr, 10);
    } else if (arg.rfind("-seed=", 0) == 0) {
      seed = std::strtoull(arg.c_str() + 6, nullptr, 10);
    } else {
      add_files(arg, &files);
    }
  }
  std::sort(files.begin(), files.end());
  std::printf("%zu files, %llu mutations of each, -seed=%llu\n", files.size(), static_cast<unsigned long long>(runs),
              static_cast<unsigned long long>(seed));
  std::fflush(stdout);
  if (files.empty()) return 1;  // a corpus that went missing must not pass
  std::mt19937_64 random(seed);
  for (const auto& path : files) {
    std::ifstream in(path, std::ios::binary);
    const Bytes bytes{std::istreambuf_iterator<char>(in), {}};
    run(bytes);
    for (uint64_t i = 0; i < runs; ++i) run(mutate(bytes, random));
  }
  return 0;
}
