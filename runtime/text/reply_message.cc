#include "runtime/text/reply_message.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace kvrt {
namespace {

using Json = nlohmann::ordered_json;

void add_text(Json* message, const char* key, std::string_view text) {
  if (text.empty()) return;
  auto had = message->find(key);
  const bool more = had != message->end() && had->is_string();
  (*message)[key] = (more ? had->get<std::string>() : std::string()) + std::string(text);
}

void add_call(Json* message, const std::string& part) {
  Json function = Json::parse(part, nullptr, false), call = {{"type", "function"}};
  if (auto id = function.find("id"); id != function.end()) {
    call["id"] = *id;
    function.erase(id);
  }
  call["function"] = std::move(function);
  (*message)["tool_calls"].push_back(std::move(call));
}

}  // namespace

std::string extended_message(const std::string& message, std::string_view shown, const std::vector<ReplyPart>& parts) {
  Json json = Json::parse(message, nullptr, false);
  if (!json.is_object()) json = {{"role", "assistant"}};  // a store can say anything
  const auto is_call = [](const ReplyPart& part) { return part.kind == ReplyPart::Kind::kToolCall; };
  if (std::none_of(parts.begin(), parts.end(), is_call)) {
    add_text(&json, "content", shown);
  } else {
    for (const ReplyPart& part : parts) {
      if (is_call(part)) {
        add_call(&json, part.text);
      } else {
        add_text(&json, part.kind == ReplyPart::Kind::kReasoning ? "reasoning_content" : "content", part.text);
      }
    }
  }
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string assistant_message(std::string_view shown, const std::vector<ReplyPart>& parts) {
  return extended_message(R"({"role":"assistant","content":""})", shown, parts);
}

}  // namespace kvrt
