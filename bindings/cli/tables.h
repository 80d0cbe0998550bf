// The commands as data, from which --help, the man pages and the shells' completions are made.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace cli {

// An option, or an argument, which has no names.
struct Entry {
  std::vector<std::string> names;  // "-m", "--model"
  std::string word;                // its value: FILE, N, f16|fp8; empty: a flag
  std::vector<std::string> choices;
  std::string text;  // its description, with its range and default
  bool required = false, many = false;
};

// Entries under one title, which says whether all of them may be given or only one.
struct Section {
  std::string title;
  std::vector<Entry> entries;
};

struct Command {
  std::string name, path;  // "gc", "kvrt store gc"
  std::string text;
  std::vector<Entry> arguments;
  std::vector<Section> sections;
  std::vector<Command> commands;
};

std::string usage_line(const Command& command);
std::string help_text(const Command& command);
// The remarks that follow the options in --help and in a man page.
std::vector<std::string> remarks();

// What a man page says of a command: paragraphs, and what to do with the lines that do it.
struct ManualText {
  std::vector<std::string> paragraphs;
  std::vector<std::pair<std::string, std::string>> examples;
};
const ManualText& manual_text(const std::string& path);  // of "kvrt store gc"
// What is typed in a chat: "/fork [NAME]", and what it does.
std::vector<Entry> chat_lines();

// The completions of bash, zsh or fish.
std::string completion(const Command& root, const std::string& shell);
// The man page of the program, or of one of its commands.
std::string man_page(const Command& command, const std::string& version);
// The page's name without the section: kvrt-store-gc.
std::string page_name(const Command& command);

// Writes the pages and the completions as they lie below share/. Returns the exit code.
int write_share(const Command& root, const std::string& directory);

}  // namespace cli
