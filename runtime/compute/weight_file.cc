#include "runtime/compute/weight_file.h"
#include "runtime/base/numbers.h"

#include <algorithm>
#include <atomic>
#include <cinttypes>
#include <cstdlib>
#include <cstring>
#include <vector>

namespace kvrt {
namespace {

constexpr char kMagic[8] = {'K', 'V', 'R', 'T', 'W', 'G', 'T', '1'};
constexpr uint64_t kPage = 4096, kPieceBytes = 4u << 20;
constexpr int64_t kStaleMs = 3'600'000;  // a file that is still being written is younger
constexpr std::string_view kTempSuffix = ".kvrtw.tmp";

using Ull = unsigned long long;

uint64_t pieces_of(uint64_t image_bytes) { return (image_bytes + kPieceBytes - 1) / kPieceBytes; }

uint64_t header_bytes(uint64_t image_bytes) {
  const uint64_t used = sizeof kMagic + sizeof(Hash256) + 2 * sizeof(uint64_t) + (pieces_of(image_bytes) + 1) * sizeof(Checksum128);
  return (used + kPage - 1) / kPage * kPage;
}

std::vector<Checksum128> checksums(std::span<const uint8_t> image, const ParallelFor& parallel) {
  std::vector<Checksum128> sums(pieces_of(image.size()));
  parallel(static_cast<uint32_t>(sums.size()), [&](uint32_t i, uint32_t) {
    const uint64_t at = i * kPieceBytes;
    sums[i] = checksum128(image.subspan(at, std::min<uint64_t>(kPieceBytes, image.size() - at)));
  });
  return sums;
}

std::vector<uint8_t> make_header(const Hash256& key, uint64_t image_bytes, const std::vector<Checksum128>& sums) {
  std::vector<uint8_t> header(header_bytes(image_bytes));
  uint8_t* at = header.data();
  const auto put = [&at](const void* data, size_t bytes) {
    std::memcpy(at, data, bytes);
    at += bytes;
  };
  put(kMagic, sizeof kMagic);
  put(key.bytes.data(), key.bytes.size());
  put(&image_bytes, sizeof image_bytes);
  put(&kPieceBytes, sizeof kPieceBytes);
  put(sums.data(), sums.size() * sizeof(Checksum128));
  const Checksum128 sum = checksum128(std::span(header).first(header.size() - sizeof(Checksum128)));
  std::memcpy(header.data() + header.size() - sizeof sum, &sum, sizeof sum);
  return header;
}

std::string path_of(const WeightCache& cache, const Hash256& key) { return cache.dir + "/" + key.hex() + ".kvrtw"; }

// Others could plant weights in a directory that they can write.
Status check_dir(const WeightCache& cache) {
  KVRT_ASSIGN(const DirInfo dir, cache.env->dir_info(cache.dir));
  if (dir.owned && !dir.others_can_write) return {};
  return error(Code::kInvalid, Detail::kUnsafeDirectory, "%s: %s; a cache directory is its owner's alone (chmod 700)", cache.dir.c_str(),
               dir.owned ? "group or others can write it" : "belongs to another user");
}

// The header is what this image's would be: compared as a whole, once its size is right.
Status check_file(const std::string& path, std::span<const uint8_t> file, const Hash256& key, uint64_t bytes, const ParallelFor& parallel) {
  const uint64_t header = header_bytes(bytes);
  if (file.size() != header + bytes) {
    return error(Code::kCorrupt, Detail::kFormat, "%s: expected %llu bytes, found %llu", path.c_str(), Ull{header + bytes},
                 Ull{file.size()});
  }
  const std::vector<uint8_t> want = make_header(key, bytes, checksums(file.subspan(header), parallel));
  const auto at = std::mismatch(want.begin(), want.end(), file.begin()).first - want.begin();
  if (static_cast<uint64_t>(at) == header) return {};
  return error(Code::kCorrupt, Detail::kFormat, "%s: the header differs at byte %llu from what its weights' would be", path.c_str(),
               static_cast<Ull>(at));
}

// `<key>.<unix time in ms, hexadecimal>-<random>.kvrtw.tmp`
std::string temp_path(const WeightCache& cache, const Hash256& key) {
  uint64_t random = 0;
  cache.env->random({reinterpret_cast<uint8_t*>(&random), sizeof random});
  char text[64];
  std::snprintf(text, sizeof text, ".%" PRIx64 "-%" PRIx64, static_cast<uint64_t>(cache.env->unix_ms()), random);
  return cache.dir + "/" + key.hex() + text + std::string(kTempSuffix);
}

// What writers that died have left.
void remove_stale(const WeightCache& cache) {
  auto names = cache.env->list_dir(cache.dir);
  if (!names.is_ok()) return;
  for (const std::string& name : *names) {
    const size_t dot = name.find('.');
    if (!name.ends_with(kTempSuffix) || dot != 2 * sizeof(Hash256)) continue;
    const auto written = static_cast<int64_t>(read_digits(std::string_view(name).substr(dot + 1), 16));
    if (std::abs(cache.env->unix_ms() - written) > kStaleMs) (void)cache.env->remove_file(cache.dir + "/" + name);
  }
}

}  // namespace

Result<std::shared_ptr<const uint8_t>> map_weights(const WeightCache& cache, const Hash256& key, uint64_t bytes,
                                                   const ParallelFor& parallel) {
  KVRT_TRY(check_dir(cache));
  const std::string path = path_of(cache, key);
  KVRT_ASSIGN(std::shared_ptr<File> file, cache.env->open_read(path));
  KVRT_ASSIGN(const std::span<const uint8_t> mapped, file->map());
  Status status = check_file(path, mapped, key, bytes, parallel);
  if (status.is_ok()) return std::shared_ptr<const uint8_t>(std::move(file), mapped.data() + header_bytes(bytes));
  (void)cache.env->remove_file(path);
  return status;
}

Status write_weights(const WeightCache& cache, const Hash256& key, std::span<const uint8_t> image, const ParallelFor& parallel,
                     const std::function<Status()>& poll) {
  KVRT_TRY(cache.env->make_dir(cache.dir));
  KVRT_TRY(check_dir(cache));
  remove_stale(cache);
  const std::string temp = temp_path(cache, key);
  const auto write = [&]() -> Status {
    KVRT_ASSIGN(const auto file, cache.env->create_new(temp));
    KVRT_TRY(file->append(make_header(key, image.size(), checksums(image, parallel))));
    for (uint64_t at = 0; at < image.size(); at += kPieceBytes) {
      KVRT_TRY(poll());
      KVRT_TRY(file->append(image.subspan(at, std::min<uint64_t>(kPieceBytes, image.size() - at))));
    }
    KVRT_TRY(file->sync());
    Status renamed = cache.env->rename_new(temp, path_of(cache, key));
    if (!renamed.is_ok()) {
      KVRT_ASSIGN(const bool faster, cache.env->exists(path_of(cache, key)));  // another process was
      if (faster) return cache.env->remove_file(temp);
      return renamed;
    }
    return cache.env->sync_dir(cache.dir);
  };
  Status status = write();
  if (!status.is_ok()) (void)cache.env->remove_file(temp);
  return status;
}

}  // namespace kvrt
