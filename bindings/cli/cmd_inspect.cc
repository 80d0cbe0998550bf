// kvrt inspect: the contents of a GGUF file, and the parts that kvrt cannot run. Exits 0 when it can run all,
// else with the class of the first reason.
#include <fmt/core.h>

#include <nlohmann/json.hpp>

#include "bindings/cli/commands.h"

namespace cli {

namespace {

using Parsed = nlohmann::ordered_json;
constexpr size_t kValueBytes = 100;  // of a value that are shown; --all shows all

std::string shown(const Parsed& value, bool all) {
  std::string text = value.is_object() ? fmt::format("{}[{}] {}{}", value["array"].get<std::string>(), value["length"].get<uint64_t>(),
                                                     value[all ? "elements" : "first"].dump(), all ? "" : " ...")
                                       : value.dump();
  if (all || text.size() <= kValueBytes) return text;
  size_t end = kValueBytes;
  while (end > 0 && (text[end] & 0xc0) == 0x80) --end;  // whole code points
  return text.substr(0, end) + "...";
}

void print(const Parsed& json, bool all) {
  tell("{}: {}", json["file"].get<std::string>(), human_bytes(json["file_bytes"].get<uint64_t>()));
  put("\nmetadata\n");
  for (const auto& [key, value] : json["metadata"].items()) tell("  {} = {}", key, shown(value, all));
  put("\ntensors: {}\n", json["tensors"].size());
  for (const auto& [type, sum] : json["types"].items()) {
    const auto tensors = sum["tensors"].get<uint64_t>();
    put("  {:<8} {:>5} tensor{}, {}\n", type, tensors, tensors == 1 ? "" : "s", human_bytes(sum["bytes"].get<uint64_t>()));
  }
  if (all) {
    for (const Parsed& t : json["tensors"]) {
      tell("  {:<40} {:<8} {}", t["name"].get<std::string>(), t["type"].get<std::string>(), t["shape"].dump());
    }
  }
  put("\n");
  if (json["refused"].empty()) {
    put("{}\n", json["tensors"].empty() ? "a vocabulary without weights: kvrt can tokenize with it, but not run it" : "kvrt runs it");
    if (!json["tensors"].empty() && !json["metadata"].contains("tokenizer.chat_template"))
      put("it has no chat template: kvrt run -p TEXT takes it, kvrt chat does not\n");
  }
  for (const Parsed& r : json["refused"]) {
    tell("{}: {}: {}", r["what"].get<std::string>(), r["status"].get<std::string>(), r["message"].get<std::string>());
  }
}

kvrt_status status_of(const std::string& name) {
  int s = KVRT_OK;
  while (s < KVRT_INTERNAL && name != kvrt_status_name(static_cast<kvrt_status>(s))) ++s;
  return static_cast<kvrt_status>(s);
}

}  // namespace

int cmd_inspect(const InspectFlags& flags) {
  Runtime runtime;
  if (kvrt_status s = open_runtime({}, runtime)) return s;
  std::string text(kJsonBytes, '\0');
  const kvrt::Status inspected = runtime.inspect(flags.model, flags.all ? KVRT_INSPECT_ALL : 0, text);
  if (kvrt_status s = checked(inspected, "cannot inspect " + in_quotes(flags.model))) return s;
  const Parsed json = Parsed::parse(text);
  if (flags.json) {
    show(text + "\n");
  } else {
    print(json, flags.all);
  }
  return finish(json["refused"].empty() ? KVRT_OK : status_of(json["refused"][0]["status"].get<std::string>()));
}

}  // namespace cli
