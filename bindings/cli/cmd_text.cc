// tokenize, detokenize, template and logits.
#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdio>
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
  if (kvrt_status s = open_model(flags.model, runtime, model)) return s;
  std::vector<int32_t> tokens;
  const uint32_t how = (flags.special ? KVRT_TEXT_SPECIAL : 0) | (flags.bos ? KVRT_TEXT_BOS : 0);
  if (kvrt_status s = tokenize(model, text, how, tokens)) return s;
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
  if (kvrt_status s = open_model(flags.model, runtime, model)) return s;
  std::string text;
  if (kvrt_status s = checked(model.detokenize(tokens, flags.special ? KVRT_TEXT_SPECIAL : 0, text), "cannot detokenize")) return s;
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
    if (kvrt_status s = open_model(flags.model, runtime, model)) return s;
  }
  auto options = init<kvrt_template_options>();
  options.no_generation_prompt = flags.no_generation_prompt;
  if (!flags.source_file.empty()) kvrt::assign(options.source, options.source_size, source);
  if (!flags.tools_file.empty()) kvrt::assign(options.tools, options.tools_size, tools);
  kvrt::assign(options.documents, options.documents_size, documents);
  kvrt::assign(options.variables, options.variables_size, variables);
  std::string text(16384, '\0');  // enough for most: rendered once
  if (kvrt_status s = checked(model.apply_template(messages, options, text), "cannot render the template")) return s;
  put_text(text);
  return finish(KVRT_OK);
}

// ---- logits ---------------------------------------------------------------------------------------------------------------------

namespace {

struct RowWriter {
  const std::string& path;
  FILE* file = nullptr;  // opened for the first row: a failure before it leaves an old file alone
  Progress bar{"computing"};
  uint64_t rows = 0, rows_wrong = 0;  // wrong: with a NaN or an infinity
  int error = 0;

  Flow operator()(const Event& event) {
    bar.update(event);
    if (event.type != KVRT_EVENT_LOGITS) return Flow::go_on;
    if (!file) file = path == "-" ? stdout : std::fopen(path.c_str(), "wb");
    if (!file || std::fwrite(event.logits, sizeof(float), event.logits_count, file) != event.logits_count) {
      error = errno;
      return Flow::stop;
    }
    ++rows;
    if (!std::all_of(event.logits, event.logits + event.logits_count, [](float x) { return std::isfinite(x); })) ++rows_wrong;
    return Flow::go_on;
  }
};

kvrt_status write_rows(const Model& model, const std::vector<int32_t>& tokens, bool all, RowWriter& writer) {
  auto options = init<kvrt_session_options>();
  options.no_prefix_cache = 1;
  Result<Session> session = Session::open(model, options);
  if (kvrt_status s = checked(session.status(), "cannot open a session")) return s;
  if (kvrt_status s = checked(session->append(tokens), "cannot append the tokens")) return s;
  const kvrt::Status computed = session->prefill(all ? KVRT_LOGITS_ALL : KVRT_LOGITS_LAST, writer).status();
  writer.bar.clear();
  if (writer.rows_wrong) say("kvrt: warning: {} with a NaN or an infinity\n", counted(writer.rows_wrong, "row"));
  return writer.error ? KVRT_OK : checked(computed, "cannot compute");
}

}  // namespace

int cmd_logits(const LogitsFlags& flags) {
  Runtime runtime;
  Model model;
  std::vector<int32_t> tokens;
  if (kvrt_status s = parse_tokens(flags.tokens, tokens)) return s;
  if (tokens.empty()) return complain(KVRT_INVALID, "--tokens: at least one token id expected");
  if (kvrt_status s = open_runtime(flags.model, runtime)) return s;
  if (kvrt_status s = open_model(flags.model, runtime, model)) return s;
  RowWriter writer{.path = flags.output};
  kvrt_status s = write_rows(model, tokens, flags.all, writer);
  if (writer.file == stdout) return finish(s);
  struct stat info {};
  const bool regular = writer.file && fstat(fileno(writer.file), &info) == 0 && S_ISREG(info.st_mode);
  if (writer.file && std::fclose(writer.file) != 0 && !writer.error) writer.error = errno;
  if (writer.error && regular) std::remove(flags.output.c_str());  // part of the rows would pass for all
  if (writer.error) s = complain(KVRT_IO, fmt::format("cannot write {}: {}", flags.output, std::strerror(writer.error)));
  if (!s) say("{} of f32\n", counted(writer.rows, "row"));
  return s;
}

}  // namespace cli
