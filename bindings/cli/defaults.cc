// The file with the user's defaults: model = "FILE" and store = "DIR". Its values become KVRT_MODEL and KVRT_STORE where the environment
// has none, so that a command looks in one place.
#include <fmt/core.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "bindings/cli/commands.h"

namespace cli {

namespace {

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

std::string trimmed(const std::string& text) {
  const size_t begin = text.find_first_not_of(" \t\r"), end = text.find_last_not_of(" \t\r");
  return begin == std::string::npos ? "" : text.substr(begin, end - begin + 1);
}

// Reads all of a file. Returns 0 or errno.
int read_small(const std::string& path, std::string& out) {
  constexpr size_t kBytesMax = 1 << 20;
  FILE* file = std::fopen(path.c_str(), "rb");
  if (!file) return errno;
  out.resize(kBytesMax + 1);
  out.resize(std::fread(out.data(), 1, out.size(), file));
  const int error = std::ferror(file) ? errno : out.size() > kBytesMax ? EFBIG : 0;
  std::fclose(file);
  return error;
}

// Parses a TOML string on one line, with nothing but a comment behind it.
bool parse_string(const std::string& text, std::string& value) {
  if (text.empty() || (text[0] != '"' && text[0] != '\'')) return false;
  value.clear();
  size_t at = 1;
  for (; at < text.size() && text[at] != text[0]; ++at) {
    if (text[0] == '"' && text[at] == '\\') {
      ++at;
      if (at == text.size() || (text[at] != '"' && text[at] != '\\')) return false;
    }
    value += text[at];
  }
  if (at == text.size()) return false;
  const std::string rest = trimmed(text.substr(at + 1));
  return rest.empty() || rest[0] == '#';
}

// Takes one line. Returns its fault, or "" where there is none.
std::string take_line(const std::string& line) {
  if (line.empty() || line[0] == '#') return "";
  const size_t equals = line.find('=');
  const std::string key = trimmed(line.substr(0, equals));
  std::string value;
  if (key != "model" && key != "store") return fmt::format("unknown key {}; expected model = \"FILE\" or store = \"DIR\"", key);
  if (equals == std::string::npos || !parse_string(trimmed(line.substr(equals + 1)), value)) {
    return key + ": expected a text in quotes, on one line";
  }
  if (value.rfind("~/", 0) == 0) value = environment("HOME") + value.substr(1);
  if (value.empty() || value[0] != '/') return key + ": expected a path that begins with / or ~/";
  const char* name = key == "model" ? "KVRT_MODEL" : "KVRT_STORE";
  setenv(name, value.c_str(), environment(name).empty());
  return "";
}

}  // namespace

std::string config_file() {
  const std::string config = environment("XDG_CONFIG_HOME"), home = environment("HOME");
  if (!config.empty() && config[0] == '/') return config + "/kvrt/config.toml";
  return home.empty() ? "" : home + "/.config/kvrt/config.toml";
}

std::string load_defaults(std::string& warning) {
  const std::string path = config_file();
  std::string text;
  const int error = path.empty() ? ENOENT : read_small(path, text);
  if (error == ENOENT || error == ENOTDIR) return "";
  if (error) {  // a HOME that is another user's is no fault of the command; a named directory is
    const std::string wrong = fmt::format("cannot read {}: {}", path, std::strerror(error));
    if (!environment("XDG_CONFIG_HOME").empty()) return wrong;
    warning = wrong;
    return "";
  }
  size_t number = 0;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    ++number;
    const std::string wrong = take_line(trimmed(text.substr(at, end - at)));
    at = end + 1;
    if (!wrong.empty()) return fmt::format("{}:{}: {}", path, number, wrong);
  }
  return "";
}

}  // namespace cli
