#include "bindings/cli/eval/files.h"

#include <sodium.h>

#include <cerrno>
#include <charconv>
#include <cstring>
#include <memory>

namespace cli::eval {

namespace {

std::string hex_of(const unsigned char* bytes, size_t size) {
  std::string text(2 * size + 1, '\0');
  sodium_bin2hex(text.data(), text.size(), bytes, size);
  text.pop_back();
  return text;
}

// The files of a model, in order: of a split one NAME-00001-of-00003.gguf and so on, else the file.
std::vector<std::string> parts_of(const std::string& path) {
  constexpr std::string_view kFirst = "-00001-of-", kEnd = ".gguf";
  constexpr size_t kDigits = 5;
  const size_t tail = kFirst.size() + kDigits + kEnd.size();
  uint32_t count = 0;
  if (path.size() > tail && path.ends_with(kEnd) && path.compare(path.size() - tail, kFirst.size(), kFirst) == 0)
    std::from_chars(path.data() + path.size() - kEnd.size() - kDigits, path.data() + path.size() - kEnd.size(), count);
  if (count < 2) return {path};
  std::vector<std::string> parts;
  const std::string name = path.substr(0, path.size() - tail);
  for (uint32_t i = 1; i <= count; ++i) parts.push_back(fmt::format("{}-{:05}-of-{:05}{}", name, i, count, kEnd));
  return parts;
}

}  // namespace

std::string sha256(std::string_view text) {
  unsigned char digest[crypto_hash_sha256_BYTES];
  crypto_hash_sha256(digest, reinterpret_cast<const unsigned char*>(text.data()), text.size());
  return hex_of(digest, sizeof digest);
}

kvrt_status sha256_of_model(const std::string& path, std::string* out, uint64_t* bytes) {
  crypto_hash_sha256_state state;
  crypto_hash_sha256_init(&state);
  std::vector<unsigned char> piece(1 << 20);
  for (const std::string& part : parts_of(path)) {
    const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(part.c_str(), "rbe"), std::fclose);
    if (!file) return complain(KVRT_IO, fmt::format("cannot read {}: {}", in_quotes(part), std::strerror(errno)));
    for (size_t n; (n = std::fread(piece.data(), 1, piece.size(), file.get())) > 0; *bytes += n) {
      crypto_hash_sha256_update(&state, piece.data(), n);
      if (Interrupt::came()) return KVRT_CANCELLED;
    }
    if (std::ferror(file.get())) return complain(KVRT_IO, fmt::format("cannot read {}: {}", in_quotes(part), std::strerror(errno)));
  }
  unsigned char digest[crypto_hash_sha256_BYTES];
  crypto_hash_sha256_final(&state, digest);
  *out = hex_of(digest, sizeof digest);
  return KVRT_OK;
}

kvrt_status write_file(const std::string& path, const std::string& text) {
  const std::string beside = path + ".new";  // an earlier file stays until this one is whole
  bool whole = false;
  if (std::FILE* const file = std::fopen(beside.c_str(), "wbe")) {
    whole = std::fwrite(text.data(), 1, text.size(), file) == text.size();
    whole = std::fclose(file) == 0 && whole && std::rename(beside.c_str(), path.c_str()) == 0;
  }
  if (whole) return KVRT_OK;
  const std::string why = std::strerror(errno);
  std::remove(beside.c_str());
  return complain(KVRT_IO, fmt::format("cannot write {}: {}", in_quotes(path), why));
}

}  // namespace cli::eval
