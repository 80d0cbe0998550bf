#include "runtime/text/template/value.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstring>
#include <functional>

#include "runtime/base/limits.h"
#include "runtime/base/numbers.h"

namespace kvrt::jinja {

namespace {
#ifdef KVRT_ASSERTS
constexpr size_t kChunkBytes = 0;  // each value a block of its own, so that a sanitizer sees a step past its end
#else
constexpr size_t kChunkBytes = 64 << 10;
#endif
constexpr uint32_t kIndexedFrom = 9;

// Seeded by where the program was loaded, so that nobody can write down keys that collide.
uint64_t hash_of(Value key) {
  static const char kAnchor = 0;
  uint64_t h = reinterpret_cast<uintptr_t>(&kAnchor) * 0x9E3779B97F4A7C15u;
  auto mix = [&h](uint64_t word) {
    h = (h ^ word) * 0xD6E8FEB86659FD93u;
    h ^= h >> 32;
  };
  if (key.is_number()) mix(std::bit_cast<uint64_t>(key.as_real() + 0.0));  // 1, 1.0 and true are one key, and so are 0.0 and -0.0
  if (key.is(Kind::kString)) {
    mix(key.size);
    for (size_t i = 0; i < key.size; i += 8) {
      uint64_t word = 0;
      std::memcpy(&word, key.text + i, std::min<size_t>(8, key.size - i));
      mix(word);
    }
  }
  return h;
}

// Keys are scalars: this never goes deep.
bool same_key(Value a, Value b) {
  uint64_t fuel = 2;
  return equal(a, b, &fuel);
}
}  // namespace

void* Arena::allocate(size_t bytes, size_t align) {
  size_t pad = (align - reinterpret_cast<uintptr_t>(at_) % align) % align;
  if (at_ == nullptr || static_cast<size_t>(end_ - at_) < pad + bytes) {
    size_t size = std::max(bytes, kChunkBytes);
    if (bytes > limit_ || used_ > limit_ - bytes) {
      full_ = true;
      return nullptr;
    }
    chunks_.push_back({std::unique_ptr<char[]>(new char[size]), size});
    used_ += size;
    at_ = chunks_.back().bytes.get();
    end_ = at_ + size;
    pad = 0;
  }
  void* place = at_ + pad;
  at_ += pad + bytes;
  return place;
}

bool Arena::holds(const char* p) const {
  const std::less<const char*> before;
  return std::any_of(chunks_.begin(), chunks_.end(),
                     [&](const Chunk& c) { return !before(p, c.bytes.get()) && before(p, c.bytes.get() + c.size); });
}

std::string_view Arena::concat(std::string_view left, std::string_view right) {
  if (right.empty()) return left;
  bool latest = !chunks_.empty() && left.data() >= chunks_.back().bytes.get() && left.data() + left.size() == at_;
  if (latest && static_cast<size_t>(end_ - at_) >= right.size()) {
    std::memcpy(at_, right.data(), right.size());
    at_ += right.size();
    return {left.data(), left.size() + right.size()};
  }
  // Room to grow, or else the next piece copies it all again.
  size_t size = left.size() + right.size();
  auto place = static_cast<char*>(allocate(left.empty() ? size : size + size / 2, 1));
  if (place == nullptr) return {};
  if (!left.empty()) std::memcpy(place, left.data(), left.size());
  std::memcpy(place + left.size(), right.data(), right.size());
  at_ = place + size;
  return {place, size};
}

Value Value::make(Kind kind) {
  Value v;
  v.kind = kind;
  return v;
}
Value Value::text_of(Kind kind, std::string_view s) {
  Value v = make(kind);
  v.text = s.data();
  v.size = static_cast<uint32_t>(s.size());  // the arena's limit is far below 4 GiB
  return v;
}
Value Value::of(bool b) {
  Value v = make(Kind::kBool);
  v.boolean = b;
  return v;
}
Value Value::of(int64_t i) {
  Value v = make(Kind::kInt);
  v.integer = i;
  return v;
}
Value Value::of(double d) {
  Value v = make(Kind::kFloat);
  v.real = d;
  return v;
}
Value Value::of(List* list, Kind kind) {
  Value v = make(list == nullptr ? Kind::kUndefined : kind);
  v.list = list;
  return v;
}

Value Value::generator(List* list) {
  if (list != nullptr) list->form = ListForm::kGenerator;
  return of(list);
}
Value Value::of(Dict* dict) {
  Value v = make(dict == nullptr ? Kind::kUndefined : Kind::kDict);
  v.dict = dict;
  return v;
}

Value Value::of(Namespace* space) {
  Value v = make(space == nullptr ? Kind::kUndefined : Kind::kNamespace);
  v.space = space;
  return v;
}
Value Value::of(Loop* loop) {
  Value v = make(loop == nullptr ? Kind::kUndefined : Kind::kLoop);
  v.loop = loop;
  return v;
}
Value Value::of(Function* function) {
  Value v = make(function == nullptr ? Kind::kUndefined : Kind::kFunction);
  v.function = function;
  return v;
}

double Value::as_real() const {
  double d = 0;
  if (kind == Kind::kBig) return (void)read_real(str(), &d), d;
  return kind == Kind::kFloat ? real : static_cast<double>(as_int());
}

bool Value::is_plain() const { return is_sequence() && list->form == ListForm::kPlain; }
bool Value::is_range_or_plain() const { return is_sequence() && list->form <= ListForm::kRange; }

void List::push(Arena* arena, Value value) {
  if (depth_of(value) >= kTemplateValueDepthMax) return arena->mark_deep();
  if (size == capacity) {
    uint32_t larger = capacity == 0 ? 4 : capacity * 2;
    auto fresh = static_cast<Value*>(arena->allocate(larger * sizeof(Value), alignof(Value)));
    if (fresh == nullptr) return;
    std::copy(data, data + size, fresh);
    data = fresh;
    capacity = larger;
  }
  data[size++] = value;
  depth = std::max(depth, depth_of(value) + 1);
}

uint32_t Dict::locate(Value key) const {
  if (slots != nullptr) {
    for (uint64_t at = hash_of(key);; ++at) {
      uint32_t slot = slots[at & (slot_count - 1)];
      if (slot == 0) return size;
      if (same_key(data[slot - 1].key, key)) return slot - 1;
    }
  }
  uint32_t i = 0;
  while (i < size && !same_key(data[i].key, key)) ++i;
  return i;
}

void Dict::index(Arena* arena) {
  slot_count = std::bit_ceil(size * 4);
  slots = static_cast<uint32_t*>(arena->allocate(slot_count * sizeof(uint32_t), alignof(uint32_t)));
  if (slots == nullptr) return;
  std::fill(slots, slots + slot_count, 0u);
  for (uint32_t i = 0; i < size; ++i) {
    uint64_t at = hash_of(data[i].key);
    while (slots[at & (slot_count - 1)] != 0) ++at;
    slots[at & (slot_count - 1)] = i + 1;
  }
}

void Dict::set(Arena* arena, Value key, Value value) {
  if (depth_of(value) >= kTemplateValueDepthMax) return arena->mark_deep();
  depth = std::max(depth, depth_of(value) + 1);
  uint32_t at = locate(key);
  if (at < size) {
    data[at].value = value;
    return;
  }
  if (size == capacity) {
    uint32_t larger = capacity == 0 ? 4 : capacity * 2;
    auto fresh = static_cast<Pair*>(arena->allocate(larger * sizeof(Pair), alignof(Pair)));
    if (fresh == nullptr) return;
    std::copy(data, data + size, fresh);
    data = fresh;
    capacity = larger;
  }
  data[size++] = {key, value};
  if (size >= kIndexedFrom && (slots == nullptr || size * 2 > slot_count)) {
    index(arena);
  } else if (slots != nullptr) {
    uint64_t slot = hash_of(key);
    while (slots[slot & (slot_count - 1)] != 0) ++slot;
    slots[slot & (slot_count - 1)] = size;
  }
}

const Value* Dict::find(Value key) const {
  uint32_t at = locate(key);
  return at < size ? &data[at].value : nullptr;
}

uint32_t depth_of(Value v) {
  if (v.is_sequence()) return v.list->depth;
  return v.is(Kind::kDict) ? v.dict->depth : 0;
}

bool truth(Value v) {
  switch (v.kind) {
    case Kind::kUndefined:
    case Kind::kNone:
      return false;
    case Kind::kBool:
      return v.boolean;
    case Kind::kInt:
      return v.integer != 0;
    case Kind::kFloat:
      return v.real != 0;
    case Kind::kString:
      return v.size != 0;
    case Kind::kList:
    case Kind::kTuple:
      return v.list->size != 0 || v.list->form == ListForm::kGenerator;
    case Kind::kDict:
      return v.dict->size != 0;
    default:
      return true;
  }
}

namespace {
bool equal_lists(const List& a, const List& b, uint64_t* fuel) {
  if (a.form != b.form || a.form == ListForm::kGenerator) return &a == &b;
  if (a.size != b.size) return false;
  for (uint32_t i = 0; i < a.size; ++i) {
    if (!equal(a.data[i], b.data[i], fuel)) return false;
  }
  return true;
}

bool equal_dicts(const Dict& a, const Dict& b, uint64_t* fuel) {
  if (a.size != b.size) return false;
  for (uint32_t i = 0; i < a.size; ++i) {
    *fuel -= std::min(*fuel, key_steps(a.data[i].key));
    const Value* other = b.find(a.data[i].key);
    if (other == nullptr || !equal(a.data[i].value, *other, fuel)) return false;
  }
  return true;
}

// A whole number and a float, without rounding the number.
bool equal_mixed(int64_t i, double d) {
  return d >= -9223372036854775808.0 && d < 9223372036854775808.0 && d == std::floor(d) && static_cast<int64_t>(d) == i;
}

// The digits of a number without a fraction.
std::string whole_digits(Value v) {
  if (v.is(Kind::kBig)) return std::string(v.str());
  return v.is(Kind::kFloat) ? print_real(v.real, 'f', 0) : std::to_string(v.as_int());
}
}  // namespace

int order_numbers(Value a, Value b) {
  if (a.is_integral() && b.is_integral()) return a.as_int() < b.as_int() ? -1 : a.as_int() > b.as_int();
  const double x = a.as_real(), y = b.as_real();
  if (x != y || (!a.is(Kind::kBig) && !b.is(Kind::kBig))) return x < y ? -1 : x > y;
  // One is big, and both are near: no float there has a fraction.
  for (Value v : {a, b}) {
    if (v.is(Kind::kFloat) && std::isinf(v.real)) return a.is(Kind::kFloat) == (v.real > 0) ? 1 : -1;
  }
  const std::string p = whole_digits(a), q = whole_digits(b);
  const int sign = p.size() != q.size() ? (p.size() < q.size() ? -1 : 1) : p.compare(q);
  return sign == 0 ? 0 : (x < 0) == (sign > 0) ? -1 : 1;
}

namespace {

bool equal_numbers(Value a, Value b, uint64_t* fuel) {
  if (a.is_integral() && b.is_integral()) return a.as_int() == b.as_int();
  if (a.is_integral() && b.is(Kind::kFloat)) return equal_mixed(a.as_int(), b.real);
  if (a.is(Kind::kFloat) && b.is_integral()) return equal_mixed(b.as_int(), a.real);
  if (a.kind != b.kind) {  // one of them is big
    *fuel -= std::min<uint64_t>(*fuel, (a.size + b.size) / 64);
    return a.as_real() == b.as_real() && order_numbers(a, b) == 0;
  }
  if (a.is(Kind::kFloat)) return a.real == b.real;
  *fuel -= std::min<uint64_t>(*fuel, a.size / 64);
  return a.str() == b.str();
}

}  // namespace

bool equal(Value a, Value b, uint64_t* fuel) {
  if (*fuel == 0) return false;
  --*fuel;
  if (a.is_number() && b.is_number()) return equal_numbers(a, b, fuel);
  if (a.kind != b.kind) return false;
  switch (a.kind) {
    case Kind::kUndefined:
    case Kind::kNone:
      return true;
    case Kind::kString:
      *fuel -= std::min<uint64_t>(*fuel, std::min(a.size, b.size) / 256);
      return a.str() == b.str();
    case Kind::kList:
    case Kind::kTuple:
      return equal_lists(*a.list, *b.list, fuel);
    case Kind::kDict:
      return equal_dicts(*a.dict, *b.dict, fuel);
    default:
      return a.space == b.space;
  }
}

const char* type_name(Value v) {
  static const char* const kNames[] = {"Undefined", "NoneType", "bool", "int",       "int",         "float",   "str",
                                       "list",      "tuple",    "dict", "Namespace", "LoopContext", "function"};
  return kNames[static_cast<size_t>(v.kind)];
}

bool is_space(char32_t c) {
  return (c >= 9 && c <= 13) || (c >= 0x1C && c <= 0x20) || c == 0x85 || c == 0xA0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200A) ||
         c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

}  // namespace kvrt::jinja
