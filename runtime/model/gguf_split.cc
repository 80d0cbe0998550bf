#include "runtime/model/gguf_split.h"

#include <algorithm>
#include <cstdio>

#include "runtime/base/limits.h"

namespace kvrt {
namespace {

using Ull = unsigned long long;

// An integer of the metadata, or `missing`.
Result<uint64_t> counter(const GgufDirectory& directory, const char* key, uint64_t missing, const std::string& name) {
  const GgufPair* pair = find_pair(directory, key);
  if (!pair) return missing;
  if (const auto value = gguf_uint(*pair)) return *value;
  return error(Code::kCorrupt, Detail::kFormat, "%s: metadata key %s: expected a non-negative integer", name.c_str(), key);
}

std::string suffix(uint32_t no, uint32_t count) {
  char text[40];
  std::snprintf(text, sizeof text, "-%05u-of-%05u.gguf", no + 1, count);
  return text;
}

}  // namespace

Result<uint32_t> split_count(const GgufDirectory& directory, const std::string& name) {
  KVRT_ASSIGN(const uint64_t count, counter(directory, "split.count", 1, name));
  if (count <= kGgufFilesMax) return static_cast<uint32_t>(std::max<uint64_t>(count, 1));
  return error(Code::kLimit, Detail::kNone, "%s: split.count is %llu, the limit is %u", name.c_str(), Ull{count}, kGgufFilesMax);
}

Result<std::string> split_path(const std::string& first, uint32_t no, uint32_t count) {
  const std::string end = suffix(0, count);
  if (first.ends_with(end)) return first.substr(0, first.size() - end.size()) + suffix(no, count);
  return error(Code::kInvalid, Detail::kNone,
               "%s: one of %u files of a split model: expected the first, whose name ends with %s, in one directory with the others",
               first.c_str(), count, end.c_str());
}

Status check_split(const GgufDirectory& directory, uint32_t no, uint32_t count, const std::string& name) {
  KVRT_ASSIGN(const uint64_t found_no, counter(directory, "split.no", 0, name));
  KVRT_ASSIGN(const uint64_t found_count, counter(directory, "split.count", 1, name));
  if (found_no == no && found_count == count) return {};
  return error(Code::kCorrupt, Detail::kFormat,
               "%s: expected split.no %u and split.count %u, found %llu and %llu: it is another model's, or was renamed", name.c_str(), no,
               count, Ull{found_no}, Ull{found_count});
}

Status check_same_model(const GgufDirectory& part, const GgufDirectory& first, const std::string& name) {
  for (const GgufPair& pair : part.pairs) {
    const GgufPair* other = pair.key == "split.no" ? nullptr : find_pair(first, pair.key);
    if (!other) continue;
    const bool same = pair.key.starts_with("split.")
                          ? gguf_uint(pair) == gguf_uint(*other)
                          : pair.type == other->type && pair.elem_type == other->elem_type && std::ranges::equal(pair.value, other->value);
    if (same) continue;
    return error(Code::kCorrupt, Detail::kFormat,
                 "%s: metadata key %.200s: expected the value of the first file, found another: it is a file of another model",
                 name.c_str(), std::string(pair.key).c_str());
  }
  return {};
}

Status add_split(GgufDirectory part, const std::string& name, GgufDirectory* all) {
  if (part.tensors.size() > kGgufTensorsMax - std::min<uint64_t>(kGgufTensorsMax, all->tensors.size())) {
    return error(Code::kLimit, Detail::kNone, "%s: with its %zu tensors the model has more than the limit of %llu", name.c_str(),
                 part.tensors.size(), Ull{kGgufTensorsMax});
  }
  const auto by_name = [&](uint32_t a, uint32_t b) { return all->tensors[a].name < all->tensors[b].name; };
  for (GgufTensor& tensor : part.tensors) {
    all->tensors_by_name.push_back(static_cast<uint32_t>(all->tensors.size()));
    all->tensors.push_back(std::move(tensor));
  }
  std::sort(all->tensors_by_name.begin(), all->tensors_by_name.end(), by_name);
  const auto twice = std::adjacent_find(all->tensors_by_name.begin(), all->tensors_by_name.end(),
                                        [&](uint32_t a, uint32_t b) { return all->tensors[a].name == all->tensors[b].name; });
  if (twice == all->tensors_by_name.end()) return {};
  return error(Code::kCorrupt, Detail::kFormat, "%s: tensor %.200s is in an earlier file, too", name.c_str(),
               all->tensors[*twice].name.c_str());
}

Status check_split_tensors(const GgufDirectory& all, const std::string& name) {
  KVRT_ASSIGN(const uint64_t expected, counter(all, "split.tensors.count", all.tensors.size(), name));
  if (expected == all.tensors.size()) return {};
  return error(Code::kCorrupt, Detail::kFormat, "%s: split.tensors.count is %llu, its files have %zu tensors", name.c_str(), Ull{expected},
               all.tensors.size());
}

}  // namespace kvrt
