#include "runtime/text/template/json_values.h"

#include <charconv>
#include <cmath>

#include "runtime/base/json.h"
#include "runtime/base/limits.h"
#include "runtime/base/numbers.h"

namespace kvrt::jinja {

namespace {

// A step is false where it refuses the text; take_status then says why.
class Builder {
 public:
  using Part = JsonReader::Part;
  Builder(std::string_view text, const char* what, Arena* arena) : reader_(text), what_(what), arena_(arena) {}

  bool read() {
    for (;;) {
      const Part part = reader_.next();
      if (part == Part::kEnd) return true;
      if (!add(part)) return false;
    }
  }
  Status take_status() { return std::move(status_); }
  Value root() const { return root_; }

 private:
  struct Open {
    Value container, key;
  };
  bool add(Part part) {
    switch (part) {
      case Part::kNull:
        return put(Value::none());
      case Part::kTrue:
      case Part::kFalse:
        return put(Value::of(part == Part::kTrue));
      case Part::kNumber:
        return number(reader_.text());
      case Part::kString:
        return put(Value::of(arena_->copy(reader_.text())));
      case Part::kKey:
        open_.back().key = Value::of(arena_->copy(reader_.text()));
        return check();
      case Part::kArray:
        return open(Value::of(create<List>(arena_)));
      case Part::kObject:
        return open(Value::of(create<Dict>(arena_)));
      case Part::kArrayEnd:
      case Part::kObjectEnd:
        return close();
      case Part::kEnd:
      case Part::kWrong:
        break;
    }
    return refuse(error(Code::kInvalid, Detail::kFormat, "%s: not valid JSON at byte %zu", what_, reader_.at()));
  }
  bool number(std::string_view spelling) {
    int64_t whole = 0;
    double real = 0;
    if (spelling.find_first_of(".eE") == std::string_view::npos) {
      if (std::from_chars(spelling.data(), spelling.data() + spelling.size(), whole).ec == std::errc()) return put(Value::of(whole));
      return put(Value::big(arena_->copy(spelling)));
    }
    if (read_real(spelling, &real) && std::isfinite(real)) return put(Value::of(real));
    return refuse(error(Code::kInvalid, Detail::kFormat, "%s: a number past the range of a double at byte %zu", what_, reader_.at()));
  }
  bool refuse(Status status) {
    status_ = std::move(status);
    return false;
  }
  bool check() {
    return !arena_->full() || refuse(error(Code::kLimit, Detail::kTemplateLimit, "%s: needs more than the heap limit of %zu bytes", what_,
                                           kTemplateHeapBytesMax));
  }
  bool open(Value container) {
    if (open_.size() >= kJsonDepthMax) return refuse(error(Code::kLimit, Detail::kNone, "%s: nested deeper than %u", what_, kJsonDepthMax));
    if (!check()) return false;
    open_.push_back({container, {}});
    return true;
  }
  bool close() {
    Value done = open_.back().container;
    open_.pop_back();
    return put(done);
  }
  bool put(Value value) {
    if (open_.empty()) {
      root_ = value;
    } else if (open_.back().container.is(Kind::kDict)) {
      open_.back().container.dict->set(arena_, open_.back().key, value);
    } else {
      open_.back().container.list->push(arena_, value);
    }
    return check();
  }

  JsonReader reader_;
  const char* what_;
  Arena* arena_;
  std::vector<Open> open_;
  Value root_;
  Status status_;
};

}  // namespace

Result<Value> parse_json(std::string_view text, const char* what, Arena* arena) {
  if (text.size() > kJsonBytesMax)
    return error(Code::kLimit, Detail::kNone, "%s: %zu bytes, the limit is %zu", what, text.size(), kJsonBytesMax);
  Builder builder(text, what, arena);
  if (!builder.read()) return builder.take_status();
  return builder.root();
}

}  // namespace kvrt::jinja
