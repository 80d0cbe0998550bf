// kvrt store show: the contents of a saved session, without its model.
#include <fmt/core.h>
#include <fmt/ranges.h>

#include <nlohmann/json.hpp>

#include "bindings/cli/commands.h"

namespace cli {

namespace {

using Parsed = nlohmann::ordered_json;

std::string text_of(const Parsed& json) { return json.is_string() ? json.get<std::string>() : json.dump(); }

// Prints each line indented.
void print_text(const std::string& text) {
  for (size_t at = 0; at <= text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    put("    {}\n", printable(text.substr(at, end - at), true));
    at = end + 1;
  }
}

void print_messages(const Parsed& json) {
  for (size_t i = 0; i < json["messages"].size(); ++i) {
    const Parsed &message = json["messages"][i], &span = json["spans"][i];
    const bool object = message.is_object();
    put("\n  {} [{}, {}){}\n", printable(object && message.contains("role") ? text_of(message["role"]) : "?"),
        span["begin"].get<uint64_t>(), span["end"].get<uint64_t>(), span["generated"].get<bool>() ? " generated" : "");
    if (!object) continue;
    for (const auto& [key, value] : message.items()) {
      if (key == "role") continue;
      if (key != "content") put("   {}:\n", printable(key));
      print_text(text_of(value));
    }
  }
}

void print_options(const Parsed& options) {
  if (options["no_prefix_cache"].get<bool>()) put("  shares  no KV with other sessions\n");
  for (const char* key : {"tools", "documents", "variables"}) {
    if (!options[key].is_null()) put("  {:<9} {}\n", key, printable(options[key].dump()));
  }
  const Parsed& grammar = options["grammar"];
  if (grammar.is_null()) return;
  put("  grammar {} from token {}\n", grammar["kind"].get<std::string>(), grammar["begin"].get<uint64_t>());
  print_text(grammar["source"].get<std::string>());
}

void print_chunks(const Parsed& json) {
  const Parsed& chunks = json["chunks"];
  if (chunks.empty()) return;
  put("\n  {:<64} {:>17} {:>10}\n", "CHUNK", "TOKENS", "BYTES");
  for (const Parsed& c : chunks) {
    const auto bytes = c["bytes"].get<uint64_t>();
    put("  {:<64} {:>17} {:>10}\n", c["key"].get<std::string>(),
        fmt::format("[{}, {})", c["begin"].get<uint64_t>(), c["end"].get<uint64_t>()), bytes ? human_bytes(bytes) : "missing");
  }
}

void print(const Parsed& json) {
  const size_t tokens = json["tokens"].size();
  const uint64_t in_chunks = json["chunks"].empty() ? 0 : json["chunks"].back()["end"].get<uint64_t>();
  put("{}: {}, {}, revision {}\n", printable(json["name"].get<std::string>()), counted(tokens, "token"),
      counted(json["messages"].size(), "message"), json["revision"].get<uint64_t>());
  if (!json["domain"].get<std::string>().empty()) put("  domain  {}\n", printable(json["domain"].get<std::string>()));
  put("  id      {}\n  model   {}\n  root    {}\n  blocks  of {} tokens\n", json["id"].get<std::string>(),
      json["model_id"].get<std::string>(), json["root"].get<std::string>(), json["block_tokens"].get<uint64_t>());
  if (!json["kv_formats"].empty()) put("  KV      in {}\n", fmt::join(json["kv_formats"].get<std::vector<std::string>>(), " and "));
  print_options(json["options"]);
  print_messages(json);
  std::vector<int32_t> ids;
  for (const Parsed& token : json["tokens"]) ids.push_back(token.get<int32_t>());
  put("\n  tokens {}\n", join(ids));
  print_chunks(json);
  if (in_chunks < tokens) put("  [{}, {}) have no KV yet\n", in_chunks, tokens);
}

}  // namespace

int cmd_store_show(const StoreFlags& flags) {
  Runtime runtime;
  Store store;
  if (kvrt_status s = open_runtime({}, runtime)) return s;
  if (kvrt_status s = open_store(runtime, flags.directory, true, true, store)) return s;
  for (const std::string& name : flags.names) {
    std::string json(kJsonBytes, '\0');
    if (kvrt_status s = checked(store.show(name, json, flags.domain), "cannot show " + name)) return finish(s);
    if (flags.json) {
      show(json + "\n");
    } else {
      print(Parsed::parse(json));
    }
  }
  return finish(KVRT_OK);
}

}  // namespace cli
