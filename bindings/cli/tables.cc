// The commands as data, and their --help.
#include "bindings/cli/tables.h"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>

#include "bindings/cli/app.h"
#include "bindings/cli/wrap.h"

namespace cli {

namespace {

constexpr size_t kTextColumn = 30;

// Of a line: the terminal's, where it is one.
size_t width() {
  constexpr size_t kMost = 120, kLeast = 60;
  const size_t window = window_columns(STDOUT_FILENO);
  return window ? std::clamp<size_t>(window, kLeast, kMost) : kMost;
}

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  for (size_t at = 0; at <= text.size();) {
    const size_t end = std::min(text.find(separator, at), text.size());
    parts.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return parts;
}

// CLI11 writes a type and the texts of its validators as one: UINT:1 to 4096, TEXT:f16|fp8.
Entry describe_option(const CLI::Option& option, bool as_argument) {
  Entry entry;
  entry.text = option.get_description();
  entry.required = option.get_required();
  entry.many = option.get_expected_max() > 1;
  if (!as_argument) {
    for (const std::string& name : option.get_snames()) entry.names.push_back("-" + name);
    for (const std::string& name : option.get_lnames()) entry.names.push_back("--" + name);
  }
  std::string notes;
  const auto note = [&](const std::string& text) { notes += (notes.empty() ? "" : "; ") + text; };
  if (option.get_expected_min() > 0) {
    const std::string type = option.get_type_name();
    const size_t colon = std::min(type.find(':'), type.size());
    const std::string base = type.substr(0, colon), rule = type.substr(std::min(colon + 1, type.size()));
    entry.word = base == "UINT" || base == "INT" ? "N" : base == "FLOAT" ? "X" : base;
    if (rule.find('|') != std::string::npos) {
      entry.choices = split(rule, '|');
      entry.word = rule;
    } else if (!rule.empty()) {
      note(rule);
    }
  }
  if (as_argument) entry.word = option.get_name(true);
  if (!option.get_default_str().empty()) note("default " + option.get_default_str());
  if (!option.get_envname().empty()) note("or set " + option.get_envname());
  if (entry.required) note("required");
  if (!notes.empty()) entry.text += " (" + notes + ")";
  return entry;
}

// The options by the titles of their groups, in the order in which a command's options begin these. --help ends the first.
std::vector<Section> describe_options(const CLI::App& app) {
  std::vector<Section> sections{{"Options", {}}};
  for (const CLI::Option* option : app.get_options()) {
    const std::string& group = option->get_group();
    if (!option->nonpositional() || group.empty() || option == app.get_help_ptr()) continue;
    const std::string title = group == CLI::OptionDefaults().get_group() ? "Options" : group;
    auto at = std::find_if(sections.begin(), sections.end(), [&](const Section& section) { return section.title == title; });
    if (at == sections.end()) at = sections.insert(at, {title, {}});
    at->entries.push_back(describe_option(*option, false));
  }
  const bool repeats = app.get_name().empty();  // a group of options has the program's --help
  if (app.get_help_ptr() && !repeats) sections.front().entries.push_back(describe_option(*app.get_help_ptr(), false));
  return sections;
}

// A line of two columns; the second is wrapped.
std::string row(const std::string& left, const std::string& right) {
  const size_t most = width();
  std::string line = "  " + left, out;
  if (line.size() + 2 > kTextColumn) {
    out = line + "\n";
    line.clear();
  }
  line.resize(kTextColumn, ' ');
  for (const std::string& word : split(right, ' ')) {
    if (line.size() > kTextColumn && line.size() + word.size() >= most) {
      out += line.substr(0, line.size() - 1) + "\n";
      line.assign(kTextColumn, ' ');
    }
    line += word + " ";
  }
  return out + line.substr(0, line.size() - 1) + "\n";
}

// A paragraph of its own.
std::string wrapped(const std::string& text) {
  const size_t most = width();
  std::string line, out;
  for (const std::string& word : split(text, ' ')) {
    if (!line.empty() && line.size() + word.size() >= most) {
      out += line.substr(0, line.size() - 1) + "\n";
      line.clear();
    }
    line += word + " ";
  }
  return out + line.substr(0, line.size() - 1) + "\n";
}

std::string left_of(const Entry& entry) {
  std::string out;
  for (const std::string& name : entry.names) out += (out.empty() ? "" : ", ") + name;
  if (!entry.word.empty()) out += (out.empty() ? "" : " ") + entry.word;
  return out;
}

}  // namespace

std::string path_of(const CLI::App& app) {
  std::string path = app.get_name();
  for (const CLI::App* up = app.get_parent(); up; up = up->get_parent()) {
    if (!up->get_name().empty()) path = up->get_name() + " " + path;
  }
  return path;
}

Command describe(const CLI::App& app) {
  Command command;
  command.name = app.get_name();
  command.path = path_of(app);
  command.text = app.get_description();
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_positional()) command.arguments.push_back(describe_option(*option, true));
  }
  std::vector<Section> own = describe_options(app);
  command.sections.push_back(own.front());
  for (const CLI::App* sub : app.get_subcommands({})) {
    if (sub->get_group().empty()) continue;  // it is hidden
    if (!sub->get_name().empty()) {
      command.commands.push_back(describe(*sub));
    } else {
      command.sections.push_back({sub->get_require_option_min() ? "One of" : "At most one of", describe_options(*sub).front().entries});
    }
  }
  command.sections.insert(command.sections.end(), own.begin() + 1, own.end());
  return command;
}

std::string usage_line(const Command& command) {
  std::string out = command.path;
  if (!command.commands.empty()) return out + " COMMAND";
  out += " [OPTIONS]";
  for (const Entry& argument : command.arguments) {
    const std::string word = argument.word + (argument.many ? "..." : "");
    out += argument.required ? " " + word : " [" + word + "]";
  }
  return out;
}

std::vector<std::string> remarks() {
  return {
      "Without -m or --store, kvrt takes KVRT_MODEL and KVRT_STORE from the environment, else model = \"FILE\" and store = \"DIR\" from "
      "$XDG_CONFIG_HOME/kvrt/config.toml or ~/.config/kvrt/config.toml.",
      "Sizes are in powers of 1024: 8G is 8 GiB.",
      "The exit code is 0, or the class of the error: 1 INVALID, 2 NOT_FOUND, 3 CONFLICT, 4 BUSY, ... (all are in kvrt.h).",
  };
}

std::string help_text(const Command& command) {
  std::string out = command.text + "\nUsage: " + usage_line(command) + "\n";
  if (!command.arguments.empty()) out += "\nArguments:\n";
  for (const Entry& argument : command.arguments) out += row(argument.word, argument.text);
  for (const Section& section : command.sections) {
    out += "\n" + section.title + ":\n";
    for (const Entry& entry : section.entries) out += row(left_of(entry), entry.text);
  }
  if (!command.commands.empty()) out += "\nCommands:\n";
  for (const Command& sub : command.commands) out += row(sub.name, sub.text);
  out += "\n";
  for (const std::string& remark : remarks()) out += wrapped(remark);
  return out;
}

}  // namespace cli
