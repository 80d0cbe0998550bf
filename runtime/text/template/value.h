// The values of a template's rendering. All live in one Arena until the rendering ends: values are small, trivially copied and
// immutable (but for namespaces), so nothing is counted or freed one by one. One thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace kvrt::jinja {

// Bump allocation up to a limit. Past it every request gives null and full() stays true; the interpreter looks there at each step.
class Arena {
 public:
  explicit Arena(size_t limit) : limit_(limit) {}
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;
  void* allocate(size_t bytes, size_t align);
  // The bytes of `left` + `right`; where `left` is the latest thing allocated it grows in place, so that building a text piece by
  // piece stays linear.
  std::string_view concat(std::string_view left, std::string_view right);
  std::string_view copy(std::string_view text) { return concat({}, text); }
  bool full() const { return full_; }
  bool holds(const char* p) const;
  // Values nested too deep: reported the same way.
  void mark_deep() { deep_ = full_ = true; }
  bool deep() const { return deep_; }

 private:
  size_t limit_, used_ = 0;
  struct Chunk {
    std::unique_ptr<char[]> bytes;
    size_t size;
  };
  std::vector<Chunk> chunks_;
  char* at_ = nullptr;
  char* end_ = nullptr;
  bool full_ = false, deep_ = false;
};

struct List;
struct Dict;
struct Namespace;
struct Loop;
struct Function;

// kBig: an integer beyond 64 bits, which is only its digits.
enum class Kind : uint8_t { kUndefined, kNone, kBool, kInt, kBig, kFloat, kString, kList, kTuple, kDict, kNamespace, kLoop, kFunction };

struct Value {
  Kind kind = Kind::kUndefined;
  bool markup = false;  // string: a result of |safe or |escape, MarkupSafe's Markup; some operations refuse it by name
  uint32_t size = 0;    // the text's bytes
  union {
    const char* text = nullptr;  // string; of a big integer its digits; for undefined the name that was not found
    bool boolean;
    int64_t integer;
    double real;
    List* list;  // list and tuple
    Dict* dict;
    Namespace* space;
    Loop* loop;
    Function* function;
  };

  static Value none() { return make(Kind::kNone); }
  static Value undefined(std::string_view name) { return text_of(Kind::kUndefined, name); }
  static Value of(bool b);
  static Value of(int64_t i);
  static Value of(double d);
  static Value big(std::string_view digits) { return text_of(Kind::kBig, digits); }
  static Value of(std::string_view s) { return text_of(Kind::kString, s); }
  static Value of(const char*) = delete;  // would be a bool
  static Value of(List* list, Kind kind = Kind::kList);
  static Value generator(List* list);  // null, as of: none
  static Value of(Dict* dict);
  static Value of(Namespace* space);
  static Value of(Loop* loop);
  static Value of(Function* function);

  bool is(Kind k) const { return kind == k; }
  bool is_sequence() const { return kind == Kind::kList || kind == Kind::kTuple; }
  bool is_integral() const { return kind == Kind::kInt || kind == Kind::kBool; }
  bool is_plain() const;           // a list or tuple of its own items
  bool is_range_or_plain() const;  // a sequence that can be indexed and measured
  bool is_number() const { return is_integral() || kind == Kind::kFloat || kind == Kind::kBig; }
  std::string_view str() const { return {text, size}; }
  int64_t as_int() const { return kind == Kind::kBool ? boolean : integer; }
  double as_real() const;  // of a big integer perhaps infinite

 private:
  static Value make(Kind kind);
  static Value text_of(Kind kind, std::string_view s);
};

// The kind of list in Python; it shows in truth, length, index and print. A generator's items are gone once they were taken.
enum class ListForm : uint8_t { kPlain, kRange, kView, kGenerator };

// Containers carry the depth of their contents, so that one check bounds every recursion over values.
struct List {
  Value* data = nullptr;
  uint32_t size = 0, capacity = 0, depth = 1;
  ListForm form = ListForm::kPlain;
  void push(Arena* arena, Value value);
};

struct Pair {
  Value key, value;
};

// Insertion-ordered; keys are strings, numbers, booleans or none. Hashed from a handful of keys on.
struct Dict {
  Pair* data = nullptr;
  uint32_t size = 0, capacity = 0, depth = 1;
  uint32_t* slots = nullptr;  // index + 1, 0: free
  uint32_t slot_count = 0;
  bool spelled = false;  // the arguments of a call: as a text it is JSON, not Python
  void set(Arena* arena, Value key, Value value);
  const Value* find(Value key) const;
  const Value* find(std::string_view key) const { return find(Value::of(key)); }

 private:
  uint32_t locate(Value key) const;  // size: absent
  void index(Arena* arena);
};

struct Namespace {
  Dict values;
};

struct Node;
struct Scope;
struct Loop {
  const List* items = nullptr;
  uint32_t index = 0, depth = 1;
  const Node* node = nullptr;  // in a recursive loop: the node to run again,
  Scope* scope = nullptr;      // and the scope around it
  const List* seen = nullptr;  // the last arguments of loop.changed
};

struct Builtin;
// Something that can be called: a macro or the body of a call block with the scope it was written in, a method with its object, or a
// function of the environment.
struct Function {
  std::string_view name;
  const Node* macro = nullptr;
  Scope* scope = nullptr;
  const Builtin* builtin = nullptr;
  Value self;
};

template <typename T>
T* create(Arena* arena) {
  void* place = arena->allocate(sizeof(T), alignof(T));
  return place == nullptr ? nullptr : new (place) T();
}

uint32_t depth_of(Value value);
// The cost of looking for a key in a dict, in steps.
inline uint64_t key_steps(Value key) { return key.is(Kind::kString) || key.is(Kind::kBig) ? key.size / 64 : 0; }
bool truth(Value value);
// Python's ==. Takes its cost from `fuel`; false when that is used up.
bool equal(Value a, Value b, uint64_t* fuel);
int order_numbers(Value a, Value b);                           // below, equal, above: -1, 0, 1; exact, of big integers too; no NaN
const char* type_name(Value value);                            // Python's, for messages
bool is_space(char32_t c);                                     // Python's str.isspace
inline bool is_digit(char c) { return c >= '0' && c <= '9'; }  // of ASCII

}  // namespace kvrt::jinja
