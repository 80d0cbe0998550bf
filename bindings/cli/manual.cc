// The man pages, a page for each command.
#include <fmt/core.h>

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
  if (!command.arguments.empty()) out += ".SH ARGUMENTS\n";
  for (const Entry& argument : command.arguments) out += item(head_of(argument), argument.text);
  for (const Section& section : command.sections) {
    out += ".SH " + roff(upper(section.title)) + "\n";
    for (const Entry& entry : section.entries) out += item(head_of(entry), entry.text);
  }
  if (!command.commands.empty()) out += ".SH COMMANDS\n";
  for (const Command& sub : command.commands) out += item(bold(page_name(sub)) + "(1)", sub.text);
  out += ".SH NOTES\n";
  for (const std::string& remark : remarks()) out += roff(remark) + "\n.PP\n";
  const std::string parent = name.substr(0, name.rfind('-'));
  if (parent != name) out += ".SH SEE ALSO\n" + bold(parent) + "(1)\n";
  return out;
}

}  // namespace cli
