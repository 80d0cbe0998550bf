#include "runtime/compute/weight_file.h"

#include <algorithm>
#include <cinttypes>
#include <cstring>
#include <vector>

#include "runtime/compute/weight_dir.h"

namespace kvrt {
namespace {

constexpr char kMagic[8] = {'K', 'V', 'R', 'T', 'W', 'G', 'T', '1'};
constexpr uint64_t kPage = 4096, kPieceBytes = 4u << 20;

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

// The header must be the one that this image would get: compared as a whole, once its size is right.
Status check_file(const std::string& path, std::span<const uint8_t> file, const Hash256& key, uint64_t bytes, const ParallelFor& parallel) {
  const uint64_t header = header_bytes(bytes);
  if (file.size() != header + bytes) {
    return error(Code::kCorrupt, Detail::kFormat, "%s: expected %llu bytes, found %llu", path.c_str(), Ull{header + bytes},
                 Ull{file.size()});
  }
  const std::vector<uint8_t> want = make_header(key, bytes, checksums(file.subspan(header), parallel));
  const auto at = std::mismatch(want.begin(), want.end(), file.begin()).first - want.begin();
  if (static_cast<uint64_t>(at) == header) return {};
  return error(Code::kCorrupt, Detail::kFormat, "%s: the header differs at byte %llu from the one of these weights", path.c_str(),
               static_cast<Ull>(at));
}

std::string path_of(const WeightCache& cache, const Hash256& key) { return cache.dir + "/" + key.hex() + std::string(kWeightSuffix); }

// `<key>.<unix time in ms, hexadecimal>-<random>.kvrtw.tmp`
std::string temp_path(const WeightCache& cache, const Hash256& key) {
  uint64_t random = 0;
  cache.env->random({reinterpret_cast<uint8_t*>(&random), sizeof random});
  char text[64];
  std::snprintf(text, sizeof text, ".%" PRIx64 "-%" PRIx64, static_cast<uint64_t>(cache.env->unix_ms()), random);
  return cache.dir + "/" + key.hex() + text + std::string(kWeightTempSuffix);
}

}  // namespace

Result<std::shared_ptr<const uint8_t>> map_weights(const WeightCache& cache, const Hash256& key, uint64_t bytes,
                                                   const ParallelFor& parallel) {
  KVRT_TRY(check_cache_dir(cache));
  const std::string path = path_of(cache, key);
  KVRT_ASSIGN(std::shared_ptr<File> file, cache.env->open_read(path));
  KVRT_ASSIGN(const std::span<const uint8_t> mapped, file->map());
  Status status = check_file(path, mapped, key, bytes, parallel);
  (void)cache.env->set_modified(path, cache.env->unix_ms());  // a use; a directory that is read-only has no order
  if (status.is_ok()) return std::shared_ptr<const uint8_t>(std::move(file), mapped.data() + header_bytes(bytes));
  (void)cache.env->remove_file(path);
  return status;
}

Result<FoundWeights> find_weights(const WeightCache& cache, const Hash256& key, uint64_t bytes, const ParallelFor& parallel,
                                  const std::function<Status()>& poll) {
  auto mapped = map_weights(cache, key, bytes, parallel);
  if (mapped.is_ok()) return FoundWeights{std::move(mapped).value(), nullptr};
  if (mapped.status().code() != Code::kNotFound) log_cache(cache, "weights are packed", mapped.status());
  const uint64_t file_bytes = header_bytes(bytes) + bytes;
  KVRT_ASSIGN(auto turn, begin_writing(cache, path_of(cache, key), file_bytes, poll));
  if (turn) {
    KVRT_TRY(make_room(cache, file_bytes));
    return FoundWeights{nullptr, std::move(turn)};
  }
  KVRT_ASSIGN(auto written, map_weights(cache, key, bytes, parallel));
  return FoundWeights{std::move(written), nullptr};
}

Status write_weights(const WeightCache& cache, const Hash256& key, std::span<const uint8_t> image, const ParallelFor& parallel,
                     const std::function<Status()>& poll) {
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
      KVRT_ASSIGN(const bool faster, cache.env->exists(path_of(cache, key)));  // another process was faster
      if (!faster) return renamed;
      (void)cache.env->remove_file(temp);
      return {};
    }
    return cache.env->sync_dir(cache.dir);
  };
  Status status = write();
  if (!status.is_ok()) (void)cache.env->remove_file(temp);
  return status;
}

}  // namespace kvrt
