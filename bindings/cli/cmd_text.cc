// tokenize, detokenize, template and logits.
#include <fmt/core.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "bindings/cli/commands.h"

namespace cli {

namespace {

// Exact bytes on a pipe; a line end more on a terminal, where the prompt would stick to them.
void put_text(const std::string& text) {
  show(text);
  if (isatty(STDOUT_FILENO) && (text.empty() || text.back() != '\n')) std::fputc('\n', stdout);
}

}  // namespace

int cmd_tokenize(const TextFlags& flags) {
  Runtime runtime;
  Model model;
  std::string text = flags.prompt.text;
  if (!flags.prompt.file.empty()) {
    if (kvrt_status s = read_file(flags.prompt.file, text)) return s;
  }
  if (kvrt_status s = open_runtime(flags.model, runtime)) return s;
  if (kvrt_status s = open_model(flags.model, runtime.get(), model)) return s;
  std::vector<int32_t> tokens;
  const uint32_t how = (flags.special ? KVRT_TEXT_SPECIAL : 0) | (flags.bos ? KVRT_TEXT_BOS : 0);
  if (kvrt_status s = tokenize(model.get(), text, how, tokens)) return s;
  if (flags.json) {
    Json().add("tokens", tokens).print();
  } else {
    put("{}\n", join(tokens));
  }
  return finish(KVRT_OK);
}

int cmd_detokenize(const TextFlags& flags) {
  Runtime runtime;
  Model model;
  std::vector<int32_t> tokens;
  if (kvrt_status s = parse_tokens(flags.prompt.tokens, tokens)) return s;
  if (kvrt_status s = open_runtime(flags.model, runtime)) return s;
  if (kvrt_status s = open_model(flags.model, runtime.get(), model)) return s;
  std::string text;
  if (kvrt_status s = detokenize(model.get(), tokens, flags.special ? KVRT_TEXT_SPECIAL : 0, text)) return s;
  if (flags.json) {
    Json().add("text", text).print();
  } else {
    put_text(text);
  }
  return finish(KVRT_OK);
}

namespace {

// NAME=JSON ... as one JSON object.
kvrt_status join_variables(const std::vector<std::string>& flags, std::string& object) {
  for (const std::string& flag : flags) {
    const size_t equals = flag.find('=');
    const bool name = equals != std::string::npos && equals > 0 && flag.find_first_of("\"\\") > equals;
    if (!name) return complain(KVRT_INVALID, fmt::format("--var {}: expected NAME=JSON", flag));
    object += (object.empty() ? "{\"" : ",\"") + flag.substr(0, equals) + "\":" + flag.substr(equals + 1);
  }
  if (!object.empty()) object += '}';
  return KVRT_OK;
}

}  // namespace

int cmd_template(const TemplateFlags& flags) {
  Runtime runtime;
  Model model;
  std::string source, messages, tools, documents, variables;
  if (kvrt_status s = read_file(flags.messages_file, messages)) return s;
  if (!flags.source_file.empty()) {
    if (kvrt_status s = read_file(flags.source_file, source)) return s;
  }
  if (!flags.tools_file.empty()) {
    if (kvrt_status s = read_file(flags.tools_file, tools)) return s;
  }
  if (!flags.documents_file.empty()) {
    if (kvrt_status s = read_file(flags.documents_file, documents)) return s;
  }
  if (kvrt_status s = join_variables(flags.variables, variables)) return s;
  if (!flags.model.model.empty()) {
    if (kvrt_status s = open_runtime(flags.model, runtime)) return s;
    if (kvrt_status s = open_model(flags.model, runtime.get(), model)) return s;
  }
  auto options = sized<kvrt_template_options>();
  options.no_generation_prompt = flags.no_generation_prompt;
  if (!flags.source_file.empty()) {
    options.source = source.data();
    options.source_size = source.size();
  }
  if (!flags.tools_file.empty()) {
    options.tools = tools.data();
    options.tools_size = tools.size();
  }
  options.documents = documents.data();
  options.documents_size = documents.size();
  options.variables = variables.data();
  options.variables_size = variables.size();
  std::string text(16384, '\0');
  size_t needed = 0;
  kvrt_status s =
      kvrt_model_apply_template(model.get(), messages.data(), messages.size(), &options, text.data(), text.size(), &needed, nullptr);
  if (s == KVRT_TOO_SMALL) {
    text.resize(needed);
    s = kvrt_model_apply_template(model.get(), messages.data(), messages.size(), &options, text.data(), text.size(), &needed, nullptr);
  }
  if (s) return complain("cannot render the template", s);
  text.resize(needed);
  put_text(text);
  return finish(KVRT_OK);
}

// ---- logits ---------------------------------------------------------------------------------------------------------------------

namespace {

struct RowWriter {
  const std::string& path;
  FILE* file = nullptr;  // opened for the first row: a failure before it leaves an old file alone
  Progress bar{"computing"};
  uint64_t rows = 0;
  int error = 0;
};

int32_t on_row(void* user, const kvrt_event* event) {
  auto& writer = *static_cast<RowWriter*>(user);
  if (event->type == KVRT_EVENT_PROGRESS) writer.bar.update(event->done, event->total);
  if (event->type != KVRT_EVENT_LOGITS) return 0;
  if (!writer.file) writer.file = writer.path == "-" ? stdout : std::fopen(writer.path.c_str(), "wb");
  if (!writer.file || std::fwrite(event->logits, sizeof(float), event->logits_count, writer.file) != event->logits_count) {
    writer.error = errno;
    return 1;
  }
  ++writer.rows;
  return 0;
}

kvrt_status write_rows(kvrt_model* model, const std::vector<int32_t>& tokens, bool all, RowWriter& writer) {
  auto options = sized<kvrt_session_options>();
  options.no_prefix_cache = 1;
  kvrt_session* raw = nullptr;
  if (kvrt_status s = kvrt_session_open(model, &options, &raw, nullptr)) return complain("cannot open a session", s);
  Session session(raw);
  if (kvrt_status s = kvrt_session_append(raw, tokens.data(), tokens.size(), nullptr)) return complain("cannot append the tokens", s);
  const kvrt_status s = kvrt_session_prefill(raw, all ? KVRT_LOGITS_ALL : KVRT_LOGITS_LAST, on_row, &writer, nullptr, nullptr);
  writer.bar.clear();
  if (s && !writer.error) return complain("cannot compute", s);
  return KVRT_OK;
}

}  // namespace

int cmd_logits(const LogitsFlags& flags) {
  Runtime runtime;
  Model model;
  std::vector<int32_t> tokens;
  if (kvrt_status s = parse_tokens(flags.tokens, tokens)) return s;
  if (tokens.empty()) return complain(KVRT_INVALID, "--tokens: at least one token id expected");
  if (kvrt_status s = open_runtime(flags.model, runtime)) return s;
  if (kvrt_status s = open_model(flags.model, runtime.get(), model)) return s;
  RowWriter writer{.path = flags.output};
  kvrt_status s = write_rows(model.get(), tokens, flags.all, writer);
  if (writer.file == stdout) return finish(s);
  if (writer.file && std::fclose(writer.file) != 0 && !writer.error) writer.error = errno;
  if (writer.error) s = complain(KVRT_IO, fmt::format("cannot write {}: {}", flags.output, std::strerror(writer.error)));
  if (!s) say("{} of f32\n", counted(writer.rows, "row"));
  return s;
}

}  // namespace cli
