// Bounded little-endian reading and writing, and overflow-checked sizes. Leaves: no I/O, no allocation but ByteWriter's vector.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <type_traits>
#include <vector>

namespace kvrt {

static_assert(std::endian::native == std::endian::little, "kvrt's formats are little-endian and are read in place");

template <typename T>
requires std::is_arithmetic_v<T>
inline T load(const uint8_t* p) {
  T value;
  std::memcpy(&value, p, sizeof value);
  return value;
}

// A size that remembers whether any step of its arithmetic overflowed: read it only through get().
class CheckedSize {
 public:
  constexpr CheckedSize(uint64_t value = 0) : value_(value) {}  // NOLINT: implicit on purpose
  constexpr CheckedSize operator+(CheckedSize o) const {
    CheckedSize r;
    r.bad_ = __builtin_add_overflow(value_, o.value_, &r.value_) || bad_ || o.bad_;
    return r;
  }
  constexpr CheckedSize operator*(CheckedSize o) const {
    CheckedSize r;
    r.bad_ = __builtin_mul_overflow(value_, o.value_, &r.value_) || bad_ || o.bad_;
    return r;
  }
  // Rounds up to a multiple of a power of two.
  constexpr CheckedSize align(uint64_t power_of_two) const {
    CheckedSize r = *this + CheckedSize(power_of_two - 1);
    r.value_ &= ~(power_of_two - 1);
    return r;
  }
  constexpr bool ok() const { return !bad_; }
  // True and the value if nothing overflowed and it is at most `max`.
  constexpr bool get(uint64_t max, uint64_t* out) const {
    if (bad_ || value_ > max) return false;
    *out = value_;
    return true;
  }

 private:
  uint64_t value_ = 0;
  bool bad_ = false;
};

// Reads forward over borrowed bytes. Every read says whether it fitted; nothing is read past the end.
class ByteReader {
 public:
  explicit ByteReader(std::span<const uint8_t> bytes) : bytes_(bytes) {}
  template <typename T>
  requires std::is_arithmetic_v<T>
  bool read(T* out) {
    if (remaining() < sizeof(T)) return false;
    std::memcpy(out, bytes_.data() + at_, sizeof(T));
    at_ += sizeof(T);
    return true;
  }
  bool read_bytes(uint64_t n, std::span<const uint8_t>* out) {
    if (n > remaining()) return false;
    *out = bytes_.subspan(at_, static_cast<size_t>(n));
    at_ += static_cast<size_t>(n);
    return true;
  }
  bool skip(uint64_t n) {
    if (n > remaining()) return false;
    at_ += static_cast<size_t>(n);
    return true;
  }
  size_t position() const { return at_; }
  size_t remaining() const { return bytes_.size() - at_; }

 private:
  std::span<const uint8_t> bytes_;
  size_t at_ = 0;
};

class ByteWriter {
 public:
  template <typename T>
  requires std::is_arithmetic_v<T>
  void write(T value) { write_bytes(&value, sizeof value); }
  void write_bytes(const void* data, size_t n) {
    auto p = static_cast<const uint8_t*>(data);
    bytes_.insert(bytes_.end(), p, p + n);
  }
  void write_string(std::string_view s) {  // u32 length, then the bytes
    write(static_cast<uint32_t>(s.size()));
    write_bytes(s.data(), s.size());
  }
  std::vector<uint8_t>& bytes() { return bytes_; }

 private:
  std::vector<uint8_t> bytes_;
};

}  // namespace kvrt
