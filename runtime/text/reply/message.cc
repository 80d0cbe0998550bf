#include "runtime/text/reply/message.h"

#include <algorithm>

#include "runtime/base/json.h"

namespace kvrt {
namespace {

// The members of one JSON object, their values as JSON without white space.
class Members {
 public:
  // False where `text` is no object; it is empty then.
  bool read(std::string_view text) {
    using Json = JsonReader::Part;
    JsonReader reader(text);
    Json part = reader.next();
    const bool is_object = part == Json::kObject;
    while (is_object && (part = reader.next()) == Json::kKey) {
      std::string* value = &at(reader.text());  // of equal names the last one counts
      value->clear();
      append_json_value(&reader, reader.next(), value);
    }
    if (is_object && part == Json::kObjectEnd && reader.next() == Json::kEnd) return true;
    list_.clear();
    return false;
  }
  // The value of the name; "" where it is new.
  std::string& at(std::string_view name) {
    auto had = std::find_if(list_.begin(), list_.end(), [&](const auto& member) { return member.first == name; });
    if (had == list_.end()) had = list_.insert(had, {std::string(name), std::string()});
    return had->second;
  }
  void add_text(std::string_view name, std::string_view text) {
    if (text.empty()) return;
    std::string& value = at(name);
    std::string more;
    append_json_string(text, &more);
    if (value.starts_with('"')) {
      value.replace(value.size() - 1, 1, more, 1);
    } else {
      value = std::move(more);
    }
  }
  void add_call(std::string_view part) {
    Members function;
    function.read(part);
    std::string call = "{\"type\":\"function\"";
    const auto id = std::find_if(function.list_.begin(), function.list_.end(), [](const auto& member) { return member.first == "id"; });
    if (id != function.list_.end()) {
      call += ",\"id\":" + id->second;
      function.list_.erase(id);
    }
    call += ",\"function\":" + function.json() + "}";
    std::string& calls = at("tool_calls");
    if (!calls.starts_with('[')) calls = "[]";
    calls.replace(calls.size() - 1, 1, (calls == "[]" ? "" : ",") + call + "]");
  }
  std::string json() const {
    std::string out = "{";
    for (const auto& [name, value] : list_) {
      if (out.size() > 1) out += ',';
      append_json_string(name, &out);
      out += ':' + value;
    }
    return out + "}";
  }

 private:
  std::vector<std::pair<std::string, std::string>> list_;
};

}  // namespace

std::string assistant_message(std::string_view shown, const std::vector<ReplyPart>& parts) {
  Members members;
  members.add_text("role", "assistant");
  members.at("content") = "\"\"";
  if (parts.empty()) members.add_text("content", shown);
  for (const ReplyPart& part : parts) {
    if (part.kind == ReplyPart::Kind::kToolCall) {
      members.add_call(part.text);
    } else {
      members.add_text(part.kind == ReplyPart::Kind::kReasoning ? "reasoning_content" : "content", part.text);
    }
  }
  return members.json();
}

}  // namespace kvrt
