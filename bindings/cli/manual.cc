// The man pages, a page for each command.
#include <fmt/core.h>

#include <algorithm>
#include <cctype>

#include "bindings/cli/tables.h"

namespace cli {

namespace {

// Text as roff reads it.
std::string roff(const std::string& text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '\\':
        out += "\\e";
        break;
      case '-':
        out += "\\-";
        break;
      case '~':
        out += "\\(ti";
        break;
      case '^':
        out += "\\(ha";
        break;
      case '`':
        out += "\\(ga";
        break;
      case '\'':
        out += "\\(aq";
        break;
      default:
        out += c;
    }
  }
  return out.empty() || out[0] != '.' ? out : "\\&" + out;
}

std::string bold(const std::string& text) { return "\\fB" + roff(text) + "\\fR"; }

// A paragraph with a head of its own.
std::string item(const std::string& head, const std::string& text) { return ".TP\n" + head + "\n" + roff(text) + "\n"; }

std::string head_of(const Entry& entry) {
  std::string out;
  for (const std::string& name : entry.names) out += (out.empty() ? "" : ", ") + bold(name);
  if (!entry.word.empty()) out += (out.empty() ? "" : " ") + ("\\fI" + roff(entry.word) + "\\fR");
  return out;
}

std::string paragraphs(const std::vector<std::string>& texts) {
  std::string out;
  for (const std::string& text : texts) out += (out.empty() ? "" : ".PP\n") + roff(text) + "\n";
  return out;
}

// Lines as they are typed, below what they do.
std::string example(const std::string& what, const std::string& lines) {
  std::string out = ".PP\n" + roff(what) + ":\n.PP\n.RS 4\n.nf\n";
  for (size_t at = 0; at < lines.size();) {
    const size_t end = std::min(lines.find('\n', at), lines.size());
    out += roff(lines.substr(at, end - at)) + "\n";
    at = end + 1;
  }
  return out + ".fi\n.RE\n";
}

// True: some option or argument says this of itself.
bool mentions(const Command& command, const std::string& text) {
  const auto says = [&](const Entry& entry) { return entry.text.find(text) != std::string::npos; };
  return std::any_of(command.arguments.begin(), command.arguments.end(), says) ||
         std::any_of(command.sections.begin(), command.sections.end(),
                     [&](const Section& section) { return std::any_of(section.entries.begin(), section.entries.end(), says); }) ||
         std::any_of(command.commands.begin(), command.commands.end(), [&](const Command& sub) { return mentions(sub, text); });
}

std::string files_and_environment(const Command& command) {
  const bool model = mentions(command, "KVRT_MODEL"), store = mentions(command, "KVRT_STORE"), cache = mentions(command, "KVRT_CACHE");
  std::string files, variables;
  if (model || store) {
    files += item(roff("~/.config/kvrt/config.toml"), "The defaults of -m and --store. It lies in $XDG_CONFIG_HOME/kvrt if that is set.");
  }
  if (store) files += item("\\fIDIR\\fR", "A store. Its files are for kvrt only: no other program may change them.");
  if (cache) {
    files += item(roff("~/.cache/kvrt/weights"),
                  "The weight cache, which speeds up the next start. It lies in $XDG_CACHE_HOME/kvrt if that is "
                  "set. Any of its files may be deleted at any time.");
  }
  if (model) variables += item(bold("KVRT_MODEL"), "The model, for a line without -m.");
  if (store) variables += item(bold("KVRT_STORE"), "The store, for a line without --store.");
  if (cache) variables += item(bold("KVRT_CACHE"), "The directory of the weight cache; if it is empty, there is none.");
  variables += item(bold("NO_COLOR"), "If it is set and not empty, the output has no colours.");
  return (files.empty() ? "" : ".SH FILES\n" + files) + ".SH ENVIRONMENT\n" + variables;
}

std::string upper(std::string text) {
  for (char& c : text) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return text;
}

}  // namespace

std::string page_name(const Command& command) {
  std::string name = command.path;
  for (char& c : name) c = c == ' ' ? '-' : c;
  return name;
}

std::string man_page(const Command& command, const std::string& version) {
  const std::string name = page_name(command);
  std::string out =
      fmt::format(".TH {} 1 \"\" \"kvrt {}\" \"kvrt\"\n.SH NAME\n{} \\- {}\n", roff(upper(name)), version, roff(name), roff(command.text));
  out += ".SH SYNOPSIS\n" + bold(command.path) + roff(usage_line(command).substr(command.path.size())) + "\n";
  const ManualText& said = manual_text(command.path);
  out += ".SH DESCRIPTION\n" + paragraphs(said.paragraphs);
  if (!command.arguments.empty()) out += ".SH ARGUMENTS\n";
  for (const Entry& argument : command.arguments) out += item(head_of(argument), argument.text);
  for (const Section& section : command.sections) {
    out += ".SH " + roff(upper(section.title)) + "\n";
    for (const Entry& entry : section.entries) out += item(head_of(entry), entry.text);
  }
  if (!command.commands.empty()) out += ".SH COMMANDS\n";
  for (const Command& sub : command.commands) out += item(bold(page_name(sub)) + "(1)", sub.text);
  if (command.path == "kvrt chat") {
    out += ".SH LINES OF A CHAT\n";
    for (const Entry& line : chat_lines()) out += item(head_of(line), line.text);
  }
  out += ".SH EXAMPLES\n";
  for (const auto& [what, lines] : said.examples) out += example(what, lines);
  out += files_and_environment(command) + ".SH NOTES\n";
  for (const std::string& remark : remarks()) out += roff(remark) + "\n.PP\n";
  const std::string parent = name.substr(0, name.rfind('-'));
  if (parent != name) out += ".SH SEE ALSO\n" + bold(parent) + "(1)\n";
  return out;
}

}  // namespace cli
