#include "runtime/text/template_json.h"

#include <nlohmann/json.hpp>

#include "runtime/base/limits.h"

namespace kvrt::jinja {

namespace {

// nlohmann's SAX interface: a callback that returns false ends the parse.
class Builder {
 public:
  Builder(const char* what, Arena* arena) : what_(what), arena_(arena) {}

  bool null() { return put(Value::none()); }
  bool boolean(bool b) { return put(Value::of(b)); }
  bool number_integer(int64_t i) { return put(Value::of(i)); }
  bool number_unsigned(uint64_t u) {
    if (u > INT64_MAX) return refuse(error(Code::kUnsupported, Detail::kNone, "%s: an integer beyond 64 bits is not supported", what_));
    return put(Value::of(static_cast<int64_t>(u)));
  }
  bool number_float(double d, const std::string& spelling) {
    if (spelling.find_first_of(".eE") == std::string::npos) {
      return refuse(error(Code::kUnsupported, Detail::kNone, "%s: an integer beyond 64 bits is not supported", what_));
    }
    return put(Value::of(d));
  }
  bool string(std::string& s) { return put(Value::of(arena_->copy(s))); }
  bool binary(nlohmann::json::binary_t&) { return false; }
  bool start_object(size_t) { return open(Value::of(create<Dict>(arena_))); }
  bool start_array(size_t) { return open(Value::of(create<List>(arena_))); }
  bool key(std::string& s) {
    open_.back().key = Value::of(arena_->copy(s));
    return check();
  }
  bool end_object() { return close(); }
  bool end_array() { return close(); }
  bool parse_error(size_t at, const std::string&, const nlohmann::json::exception&) {
    return refuse(error(Code::kInvalid, Detail::kFormat, "%s: not valid JSON at byte %zu", what_, at));
  }

  Status take_status() { return std::move(status_); }
  Value root() const { return root_; }

 private:
  struct Open {
    Value container, key;
  };
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
  Builder builder(what, arena);
  if (!nlohmann::json::sax_parse(text.begin(), text.end(), &builder)) return builder.take_status();
  return builder.root();
}

}  // namespace kvrt::jinja
