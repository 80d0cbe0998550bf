// The arguments of the target `api`, and the rules for every call: a status of the list, the thread's last error, and outputs that a
// failure leaves untouched. Buffers are of exactly their size on the heap, so that a sanitizer sees the first byte past them.
#pragma once

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "include/kvrt.h"
#include "tests/fuzz/require.h"

namespace api_fuzz {

// A word in every prompt, and never in an error or a line of the log.
inline constexpr char kSecret[] = "Secr3tPr0mpt";

class Input {
 public:
  Input(const uint8_t* data, size_t size) : at_(data), end_(data + size) {}
  bool empty() const { return at_ == end_; }
  uint8_t byte() { return empty() ? 0 : *at_++; }
  uint32_t below(uint32_t n) { return byte() % n; }
  bool rarely() { return byte() >= 240; }
  uint32_t word() { return byte() | static_cast<uint32_t>(byte()) << 8; }
  std::string bytes(size_t n) {
    n = std::min(n, static_cast<size_t>(end_ - at_));
    std::string out(reinterpret_cast<const char*>(at_), n);
    at_ += n;
    return out;
  }

 private:
  const uint8_t* at_;
  const uint8_t* end_;
};

// (pointer, size) as a caller gives them; `wrong`: no call may take it.
struct Text {
  std::unique_ptr<char[]> own;
  const char* data = nullptr;
  size_t size = 0;
  bool wrong = false;

  explicit Text(const std::string& text) : own(new char[text.size()]), data(own.get()), size(text.size()) {
    std::copy(text.begin(), text.end(), own.get());
  }
  std::string string() const { return data ? std::string(data, size) : std::string(); }
};

// A session's name, or a domain: mostly one of a few, so that calls meet.
inline Text name_of(Input& in, bool domain) {
  static const std::string kNames[] = {"a", "b", "c\xc3\xa9\n", "d"}, kDomains[] = {"", "", "", "team"};
  const uint8_t kind = in.byte();
  if (kind < 224) return Text(domain ? kDomains[kind % 4] : kNames[kind % 4]);
  static const std::string kWrong[] = {"\xff", std::string("a\0b", 3), std::string(256, 'n'), "\xed\xa0\x80", ""};
  const uint32_t which = kind % 7;
  Text text(which < 4 ? kWrong[which] : kWrong[4]);
  text.wrong = which < 4 || !domain;
  if (which < 5) return text;
  text.data = nullptr;
  if (which == 6) text.size = 1 + in.word(), text.wrong = true;
  return text;
}

inline kvrt_error last_error() {
  kvrt_error error;
  std::memset(&error, 0x5a, sizeof error);
  error.struct_size = sizeof error;
  require(kvrt_last_error(&error) == KVRT_OK, "last_error gives the last error");
  return error;
}

inline bool same_error(const kvrt_error& a, const kvrt_error& b) {
  return a.status == b.status && a.detail == b.detail && a.os_code == b.os_code && std::strcmp(a.message, b.message) == 0;
}

inline bool is_utf8(const char* text) {
  for (auto at = reinterpret_cast<const unsigned char*>(text); *at;) {
    const int more = *at < 0x80 ? 0 : *at >= 0xc2 && *at < 0xe0 ? 1 : *at >= 0xe0 && *at < 0xf0 ? 2 : *at >= 0xf0 && *at < 0xf5 ? 3 : -1;
    if (more < 0) return false;
    ++at;
    for (int i = 0; i < more; ++i) {
      if ((*at++ & 0xc0) != 0x80) return false;
    }
  }
  return true;
}

// One call, with the rules for all of them. A callback's calls come in between: then only a failure is looked at.
template <typename F>
kvrt_status call(const char* name, F f, bool with_callback = false) {
  const kvrt_error before = last_error();
  const kvrt_status status = f();
  const kvrt_error after = last_error();
  const std::string what = name;
  require(status >= KVRT_OK && status <= KVRT_INTERNAL, what + ": a status of the list");
  require(status != KVRT_INTERNAL && status != KVRT_DEVICE && status != KVRT_NO_MEMORY, what + ": " + after.message);
  if (status == KVRT_OK) {
    require(with_callback || same_error(before, after), what + ": success leaves the last error alone");
    return status;
  }
  require(after.status == status, what + ": the last error is of this call");
  require(std::memchr(after.message, 0, sizeof after.message) != nullptr && after.message[0], what + ": a message that ends");
  require(is_utf8(after.message), what + ": a message of whole code points");
  require(std::strstr(after.message, kSecret) == nullptr, what + ": no prompt in " + after.message);
  return status;
}

// An output struct of T, claimed to have some size.
template <typename T>
class Out {
 public:
  Out(Input& in, bool may_be_null) {
    const uint8_t kind = in.byte();
    claimed_ = sizeof(T);
    if (kind >= 224) {
      const uint32_t sizes[] = {0, 3, 4, 8 + in.below(sizeof(T)), sizeof(T) + 32, 65537, UINT32_MAX};
      claimed_ = sizes[kind % 7];
    }
    null_ = kind >= 216 && kind < 224;
    wrong_ = null_ ? !may_be_null : claimed_ < 4 || claimed_ > 65536;
    room_ = std::max<size_t>(4, std::min<size_t>(claimed_, sizeof(T) + 32));
    bytes_.reset(new uint8_t[room_]);
    std::memset(bytes_.get(), 0x5a, room_);
    std::memcpy(bytes_.get(), &claimed_, 4);
    before_.assign(bytes_.get(), bytes_.get() + room_);
  }
  T* get() { return null_ ? nullptr : reinterpret_cast<T*>(bytes_.get()); }
  bool wrong() const { return wrong_; }
  bool whole() const { return !null_ && room_ >= sizeof(T); }
  bool untouched() const { return std::equal(before_.begin(), before_.end(), bytes_.get()); }
  // The struct as it was written, zeros where it is shorter.
  T value() const {
    T out{};
    std::memcpy(&out, bytes_.get(), std::min(room_, sizeof(T)));
    return out;
  }
  void check(const char* name, kvrt_status status) const {
    const std::string what = name;
    require(!wrong_ || status != KVRT_OK, what + ": a wrong output struct is refused");
    require(status == KVRT_OK || untouched(), what + ": a failure leaves its output alone");
    require(std::memcmp(bytes_.get(), &claimed_, 4) == 0, what + ": struct_size stays");
    for (size_t i = sizeof(T); i < room_; ++i) require(bytes_[i] == 0x5a, what + ": nothing past the struct is written");
  }

 private:
  std::unique_ptr<uint8_t[]> bytes_;
  std::vector<uint8_t> before_;
  uint32_t claimed_ = 0;
  size_t room_ = 0;
  bool null_ = false, wrong_ = false;
};

// An option struct as the caller lays it out: cut short, with a tail, or not at all.
template <typename T>
class Options {
 public:
  Options(Input& in, T value) : seen_(value) {
    const uint8_t kind = in.byte();
    size_t room = sizeof(T);
    uint32_t claimed = sizeof(T);
    if (kind >= 232) {
      const uint32_t part = 4 + in.word() % (sizeof(T) - 3);
      const uint32_t sizes[] = {part, part, sizeof(T) + 24, sizeof(T) + 24, in.below(4), 65537};
      claimed = sizes[kind % 6];
      room = std::max<size_t>(4, std::min<size_t>(claimed, sizeof(T) + 24));
      wrong_ = claimed < 4 || claimed > 65536 || claimed % alignof(T) != 0 || kind % 6 == 3;
    }
    null_ = kind >= 224 && kind < 232;
    if (null_) seen_ = T{};
    bytes_.reset(new uint8_t[room]());
    std::memcpy(bytes_.get(), &seen_, std::min(room, sizeof(T)));
    std::memcpy(bytes_.get(), &claimed, 4);
    if (kind >= 232 && kind % 6 == 3) bytes_[room - 1 - in.below(24)] = 1;  // a tail that is not zero
    seen_ = T{};
    if (!null_) std::memcpy(&seen_, bytes_.get(), std::min(room, sizeof(T)));
  }
  const T* get() const { return null_ ? nullptr : reinterpret_cast<const T*>(bytes_.get()); }
  const T* operator->() const { return &seen_; }  // as the library reads it
  bool wrong() const { return wrong_; }

 private:
  std::unique_ptr<uint8_t[]> bytes_;
  T seen_;
  bool null_ = false, wrong_ = false;
};

// A (buffer, capacity, &needed) call: sizes first, then too small a buffer, an exact one or a roomy one.
template <typename T, typename F>
kvrt_status buffer_call(const char* name, Input& in, F f, std::vector<T>* out = nullptr) {
  const std::string what = name;
  size_t needed = SIZE_MAX;
  const kvrt_status asked = call(name, [&] { return f(static_cast<T*>(nullptr), 0, &needed); });
  if (asked != KVRT_OK && asked != KVRT_TOO_SMALL) {
    require(needed == SIZE_MAX, what + ": a failure leaves `needed` alone");
    return asked;
  }
  require((asked == KVRT_OK) == (needed == 0), what + ": TOO_SMALL where something is needed");
  const size_t size = needed;
  const size_t capacity = in.rarely() ? in.word() % (size + 1) : size + in.below(3);
  std::unique_ptr<T[]> buffer(new T[capacity + 1]);
  std::memset(static_cast<void*>(buffer.get()), 0x5a, (capacity + 1) * sizeof(T));
  const std::vector<T> before(buffer.get(), buffer.get() + capacity + 1);
  const kvrt_status got = call(name, [&] { return f(buffer.get(), capacity, &needed); });
  require(needed == size && got == (capacity < size ? KVRT_TOO_SMALL : KVRT_OK), what + ": the size it asked for is enough");
  const size_t written = got == KVRT_OK ? size : 0;
  require(std::equal(before.begin() + static_cast<ptrdiff_t>(written), before.end(), buffer.get() + written),
          what + ": nothing past what is needed is written");
  if (out != nullptr && got == KVRT_OK) out->assign(buffer.get(), buffer.get() + size);
  return got;
}

}  // namespace api_fuzz
