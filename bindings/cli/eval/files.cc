#include "bindings/cli/eval/files.h"

#include <sodium.h>

#include <cerrno>
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

}  // namespace

std::string sha256(std::string_view text) {
  unsigned char digest[crypto_hash_sha256_BYTES];
  crypto_hash_sha256(digest, reinterpret_cast<const unsigned char*>(text.data()), text.size());
  return hex_of(digest, sizeof digest);
}

kvrt_status sha256_of_file(const std::string& path, std::string* out, uint64_t* bytes) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "rb"), std::fclose);
  if (!file) return complain(KVRT_IO, fmt::format("cannot read {}: {}", in_quotes(path), std::strerror(errno)));
  crypto_hash_sha256_state state;
  crypto_hash_sha256_init(&state);
  std::vector<unsigned char> piece(1 << 20);
  for (size_t n; (n = std::fread(piece.data(), 1, piece.size(), file.get())) > 0; *bytes += n) {
    crypto_hash_sha256_update(&state, piece.data(), n);
    if (Interrupt::came()) return KVRT_CANCELLED;
  }
  if (std::ferror(file.get())) return complain(KVRT_IO, fmt::format("cannot read {}: {}", in_quotes(path), std::strerror(errno)));
  unsigned char digest[crypto_hash_sha256_BYTES];
  crypto_hash_sha256_final(&state, digest);
  *out = hex_of(digest, sizeof digest);
  return KVRT_OK;
}

kvrt_status write_file(const std::string& path, const std::string& text) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "wb"), std::fclose);
  if (file && std::fwrite(text.data(), 1, text.size(), file.get()) == text.size() && std::fflush(file.get()) == 0) return KVRT_OK;
  return complain(KVRT_IO, fmt::format("cannot write {}: {}", in_quotes(path), std::strerror(errno)));
}

}  // namespace cli::eval
