#include "storage/store/format_file.h"

#include <bit>
#include <charconv>
#include <cstdio>
#include <span>

#include "runtime/base/hash.h"
#include "storage/segment/segment.h"

namespace kvrt {

namespace {

constexpr std::string_view kMagic = "kvrt-store ", kFirstLine = "kvrt-store 1\n", kUuid = "uuid ", kCheck = "check ";
constexpr size_t kCheckLineBytes = kCheck.size() + 16 + 1, kUuidLineBytes = kUuid.size() + 32 + 1;
static_assert(kStoreLayout == 1);  // kFirstLine

std::string check_line(std::string_view text) {
  const Checksum128 sum = checksum128({reinterpret_cast<const uint8_t*>(text.data()), text.size()});
  char line[kCheckLineBytes + 1];
  std::snprintf(line, sizeof line, "check %016llx\n", static_cast<unsigned long long>(sum.low));
  return line;
}

// The number of the text's first line, if that is "kvrt-store <number>\n".
std::optional<uint64_t> layout_of(std::string_view text) {
  const size_t end = text.find('\n');
  if (end == std::string_view::npos || !text.starts_with(kMagic) || end == kMagic.size() || end > kMagic.size() + 9) return std::nullopt;
  uint64_t layout = 0;
  auto [rest, bad] = std::from_chars(text.data() + kMagic.size(), text.data() + end, layout);
  if (bad != std::errc() || rest != text.data() + end) return std::nullopt;
  return layout;
}

std::optional<StoreId> id_of(std::string_view line) {
  if (line.size() < kUuidLineBytes || !line.starts_with(kUuid) || line[kUuidLineBytes - 1] != '\n') return std::nullopt;
  StoreId id;
  for (size_t i = 0; i < id.bytes.size(); i++) {
    const char* digits = line.data() + kUuid.size() + 2 * i;
    auto [rest, bad] = std::from_chars(digits, digits + 2, id.bytes[i], 16);
    if (bad != std::errc() || rest != digits + 2) return std::nullopt;
  }
  return id;
}

int bits_apart(std::string_view a, std::string_view b) {
  int bits = 0;
  for (size_t i = 0; i < a.size(); i++) bits += std::popcount(static_cast<uint8_t>(a[i] ^ b[i]));
  return bits;
}

}  // namespace

std::string format_text(const StoreId& id) {
  const std::string text = std::string(kFirstLine) + std::string(kUuid) + id.hex() + "\n";
  return text + check_line(text);
}

FormatFile parse_format(std::string_view text) {
  using Kind = FormatFile::Kind;
  const auto layout = layout_of(text);
  const size_t body = text.size() - std::min(text.size(), kCheckLineBytes);
  if (layout && text.substr(body) == check_line(text.substr(0, body))) {
    if (*layout > kStoreLayout) return {Kind::kNewer, *layout, std::nullopt};
    const auto id = id_of(text.substr(text.find('\n') + 1));
    return {id ? Kind::kSound : Kind::kDamaged, *layout, id};
  }
  if (text == kFirstLine) return {Kind::kOld, kStoreLayout, std::nullopt};
  // Every later layout has a checksum, too. So a first line one bit away from ours, without a right checksum, is damage, though its number
  // may be a higher one.
  if (text.size() >= kFirstLine.size() && bits_apart(kFirstLine, text) <= 1) return {Kind::kDamaged, 0, std::nullopt};
  if (layout && *layout > kStoreLayout) return {Kind::kNewer, *layout, std::nullopt};
  return {Kind::kStrange, 0, std::nullopt};
}

Result<FormatFile> read_format(Env* env, const std::string& root) {
  const std::string path = root + "/FORMAT";
  auto file = env->open_read(path);
  if (!file.is_ok()) {
    if (file.status().code() == Code::kNotFound) return FormatFile();
    return file.take_status();
  }
  KVRT_ASSIGN(uint64_t size, (*file)->size());
  std::string text(static_cast<size_t>(std::min<uint64_t>(size, kFormatBytesMax)), '\0');
  KVRT_TRY((*file)->pread(0, {reinterpret_cast<uint8_t*>(text.data()), text.size()}));
  const FormatFile format = parse_format(text);
  if (format.kind != FormatFile::Kind::kNewer) return format;
  return error(Code::kIncompatible, Detail::kStoreTooNew, "%s: store layout %llu, this kvrt knows up to %u; left untouched", path.c_str(),
               static_cast<unsigned long long>(format.layout), kStoreLayout);
}

Status write_format(Env* env, const std::string& root, const StoreId& id) {
  SegmentId unique;
  env->random(unique.bytes);
  const std::string tmp = root + "/tmp/" + unique.hex() + ".format", text = format_text(id);
  {
    KVRT_ASSIGN(auto file, env->create_new(tmp));
    KVRT_TRY(file->append({reinterpret_cast<const uint8_t*>(text.data()), text.size()}));
    KVRT_TRY(file->sync());
  }
  Status removed = env->remove_file(root + "/FORMAT");  // if the process is killed here, the next open makes FORMAT anew
  if (!removed.is_ok() && removed.code() != Code::kNotFound) return removed;
  KVRT_TRY(env->rename_new(tmp, root + "/FORMAT"));
  return env->sync_dir(root);
}

}  // namespace kvrt
