#include "runtime/engine/describe/show.h"

#include <algorithm>

#include "runtime/base/json.h"
#include "runtime/base/limits.h"
#include "runtime/compute/kv_layout.h"
#include "runtime/engine/snapshot/manifest.h"

namespace kvrt {

namespace {

constexpr size_t kShownDepthMax = kJsonDepthMax + 4;  // a call's arguments, within the message that an answer became

std::string json_string(std::string_view text) {
  std::string json;
  append_json_string(text, &json);
  return json;
}

std::string hex_of(const SessionId& id) {
  std::string hex;
  for (uint8_t byte : id.bytes) hex.append({"0123456789abcdef"[byte >> 4], "0123456789abcdef"[byte & 15]});
  return hex;
}

// The given JSON without the white space between its parts, which may hold line ends. "" becomes null.
Result<std::string> compact(std::string_view json, const char* what) {
  if (json.empty()) return std::string("null");
  JsonReader reader(json);
  for (auto part = reader.next(); part != JsonReader::Part::kEnd; part = reader.next()) {
    if (part == JsonReader::Part::kWrong) return error(Code::kCorrupt, Detail::kFormat, "manifest: %s: not JSON", what);
    if (reader.depth() > kShownDepthMax)
      return error(Code::kCorrupt, Detail::kFormat, "manifest: %s: nested deeper than %zu", what, kShownDepthMax);
  }
  std::string out;
  bool in_string = false;
  for (size_t i = 0; i < json.size(); ++i) {
    const char c = json[i];
    if (!in_string && (c == ' ' || c == '\t' || c == '\r' || c == '\n')) continue;
    out += c;
    if (c == '"') in_string = !in_string;
    if (in_string && c == '\\') out += json[++i];
  }
  return out;
}

Status add_messages(const std::vector<Message>& list, std::string* out) {
  std::string messages, spans;
  for (const Message& m : list) {
    KVRT_ASSIGN(std::string json, compact(m.json, "a message"));
    const char* comma = messages.empty() ? "" : ", ";
    messages += comma + json;
    spans += comma + ("{\"begin\": " + std::to_string(m.begin)) + ", \"end\": " + std::to_string(m.end) +
             ", \"generated\": " + (m.generated ? "true}" : "false}");
  }
  *out += ", \"messages\": [" + messages + "], \"spans\": [" + spans + "]";
  return {};
}

void add_chunks(const SessionOut& saved, const std::vector<std::vector<ChunkSize>>& sizes, std::string* out) {
  *out += ", \"chunks\": [";
  uint64_t at = 0;
  for (size_t i = 0; i < saved.keys.size(); ++i) {
    uint64_t bytes = 0;
    std::string numbers;
    for (const ChunkSize& chunk : sizes[i]) {
      bytes += chunk.bytes;
      numbers += (numbers.empty() ? "\"" : ", \"") + std::to_string(chunk.group) + "\": " + std::to_string(chunk.bytes);
    }
    *out += (i ? ", {\"key\": \"" : "{\"key\": \"") + saved.keys[i].hex() + "\", \"begin\": " + std::to_string(at) +
            ", \"end\": " + std::to_string(at + saved.node_tokens[i]) + ", \"bytes\": " + std::to_string(bytes) + ", \"by_number\": {" +
            numbers + "}}";
    at += saved.node_tokens[i];
  }
  *out += "]";
}

// The formats of its KV, each once, as its chunks' frames name them.
void add_formats(const SessionOut& saved, const std::vector<std::vector<ChunkSize>>& sizes, Store* store, std::string* out) {
  std::vector<std::string> names;
  for (size_t i = 0; i < saved.keys.size(); ++i) {
    for (const ChunkSize& chunk : sizes[i]) {
      NodeIn node;
      node.key = saved.keys[i];
      const std::string name = layout_name(store->layout_of(node, chunk.group));
      if (!name.empty() && std::ranges::find(names, name) == names.end()) names.push_back(name);
    }
  }
  *out += ", \"kv_formats\": [";
  for (size_t i = 0; i < names.size(); ++i) *out += (i ? ", " : "") + json_string(names[i]);
  *out += "]";
}

Status add_options(const Manifest& m, std::string* out) {
  KVRT_ASSIGN(std::string tools, compact(m.arguments.tools, "the tools"));
  KVRT_ASSIGN(std::string documents, compact(m.arguments.documents, "the documents"));
  KVRT_ASSIGN(std::string variables, compact(m.arguments.variables, "the variables"));
  *out += std::string(", \"options\": {\"no_prefix_cache\": ") + (m.share ? "false" : "true") + ", \"tools\": " + tools +
          ", \"documents\": " + documents + ", \"variables\": " + variables + ", \"template_time\": " + std::to_string(m.arguments.now) +
          ", \"grammar\": ";
  if (!m.grammar.bound) {
    *out += "null}";
  } else {
    static const char* const kKinds[] = {"none", "gbnf", "json_schema", "", "json_schema_open"};
    static const char* const kChoices[] = {"default", "none", "auto", "required", "named"};
    *out += std::string("{\"kind\": \"") + kKinds[static_cast<size_t>(m.grammar.kind)] +
            "\", \"begin\": " + std::to_string(m.grammar.begin) + ", \"source\": " + json_string(m.grammar.source) +
            ", \"tool_choice\": \"" + kChoices[static_cast<size_t>(m.grammar.choice)] +
            "\", \"tool_name\": " + json_string(m.grammar.tool_name) + ", \"parallel_calls_max\": " + std::to_string(m.grammar.calls_max) +
            ", \"reasoning_tokens_max\": " + std::to_string(m.grammar.reasoning_tokens_max) + "}}";
  }
  return {};
}

}  // namespace

Result<std::string> show_session(Store* store, std::string_view domain, std::string_view name) {
  KVRT_ASSIGN(SessionOut saved, store->load(domain, name, false));
  KVRT_ASSIGN(Manifest manifest, read_manifest(saved, kVocabMax));
  std::string out = "{\"name\": " + json_string(saved.name) + ", \"domain\": " + json_string(saved.domain) + ", \"id\": \"" +
                    hex_of(saved.id) + "\", \"revision\": " + std::to_string(saved.revision) + ", \"model_id\": \"" + saved.model_id.hex() +
                    "\", \"root\": \"" + saved.root.hex() + "\", \"block_tokens\": " + std::to_string(manifest.block_tokens) +
                    ", \"tokens\": [";
  for (const auto* tokens : {&saved.tokens, &manifest.pending}) {
    for (const int32_t token : *tokens) out += std::to_string(token) + ", ";
  }
  if (saved.token_count) out.resize(out.size() - 2);
  out += "]";
  KVRT_TRY(add_messages(manifest.messages, &out).annotate("session " + saved.name));
  const std::vector<std::vector<ChunkSize>> sizes = store->chunk_sizes(saved.keys);
  add_formats(saved, sizes, store, &out);
  add_chunks(saved, sizes, &out);
  KVRT_TRY(add_options(manifest, &out).annotate("session " + saved.name));
  return out + "}";
}

}  // namespace kvrt
