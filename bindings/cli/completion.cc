// Completions of the shells. Each finds the command that the line has reached, and offers its commands, its options and their values.
#include <fmt/core.h>

#include "bindings/cli/tables.h"

namespace cli {

namespace {

enum class Value { kNone, kChoice, kFile, kDirectory, kOther };

Value value_of(const Entry& entry) {
  if (entry.word.empty()) return Value::kNone;
  if (!entry.choices.empty()) return Value::kChoice;
  if (entry.word == "FILE" || entry.word == "MODEL" || entry.word == "IDS|@FILE") return Value::kFile;
  return entry.word == "DIR" ? Value::kDirectory : Value::kOther;
}

// The text in single quotes; `quote` takes the place of one inside it.
std::string quoted(const std::string& text, const char* quote) {
  std::string out;
  for (const char c : text) out += c == '\'' ? std::string(quote) : std::string(1, c);
  return "'" + out + "'";
}

std::string spaced(const std::vector<std::string>& words) {
  std::string out;
  for (const std::string& word : words) out += (out.empty() ? "" : " ") + word;
  return out;
}

template <typename Visit>
void each_command(const Command& command, const Visit& visit) {
  visit(command);
  for (const Command& sub : command.commands) each_command(sub, visit);
}

template <typename Visit>
void each_option(const Command& command, const Visit& visit) {
  for (const Section& section : command.sections) {
    for (const Entry& entry : section.entries) visit(entry);
  }
}

// The pattern of a case that takes all paths but the root's.
std::string paths(const Command& root, const char* between) {
  std::string out;
  each_command(root, [&](const Command& command) {
    if (command.path != root.path) out += (out.empty() ? "" : between) + ("\"" + command.path + "\"");
  });
  return out;
}

// ---- bash -----------------------------------------------------------------------------------------------------------------------

// True: the argument is a session of the store that the argument before it names.
bool is_session(const Entry& argument) { return argument.word == "NAME"; }

// The program's names of sessions in a store, a line each, by sed of `store ls --json`; without those that JSON escapes.
constexpr const char* kSessionNames = R"sed(sed -n 's/^{"name": "\([^"\\]*\)", .*/\1/p')sed";

std::string bash_values(const Command& command) {
  std::string out;
  each_option(command, [&](const Entry& entry) {
    std::string pattern;
    for (const std::string& name : entry.names) pattern += (pattern.empty() ? "" : " | ") + fmt::format("\"{} {}\"", command.path, name);
    const Value value = value_of(entry);
    if (value == Value::kNone) return;
    const std::string kind = value == Value::kChoice      ? fmt::format("words words=\"{}\"", spaced(entry.choices))
                             : value == Value::kFile      ? "files"
                             : value == Value::kDirectory ? "folders"
                                                          : "other";
    out += fmt::format("    {}) kind={} ;;\n", pattern, kind);
  });
  return out;
}

std::string bash_words(const Command& command) {
  std::vector<std::string> options, words;
  each_option(command, [&](const Entry& entry) { options.insert(options.end(), entry.names.begin(), entry.names.end()); });
  for (const Command& sub : command.commands) words.push_back(sub.name);
  const char* kind = "words";
  for (const Entry& argument : command.arguments) {
    words.insert(words.end(), argument.choices.begin(), argument.choices.end());
    if (value_of(argument) == Value::kFile || value_of(argument) == Value::kDirectory) kind = "files";
    if (is_session(argument)) kind = "sessions";
  }
  return fmt::format("    \"{}\") options=\"{}\" words=\"{}\" kind={} ;;\n", command.path, spaced(options), spaced(words), kind);
}

// What its function _kvrt calls: of options with their values, and of a store's sessions.
std::string bash_helpers(const std::string& values) {
  return R"(# _kvrt_value OPTION: sets kind to that of its value, with words to choose from; to nothing: it takes none
_kvrt_value() {
  kind="" words=""
  case "$1" in
)" + values +
         R"(  esac
}
# _kvrt_sessions DIR: as it is typed, with a tilde, quotes or backslashes; without one, of the default store
_kvrt_sessions() {
  local store=${1/#\~\//$HOME/}
  case $store in
  \"*\" | \'*\') store=${store:1:-1} ;;
  *) IFS= read store <<<"$store" ;;
  esac
  "${COMP_WORDS[0]}" store ls ${store:+"$store"} --json 2>/dev/null </dev/null | )" +
         kSessionNames + R"(
}
)";
}

std::string bash(const Command& root) {
  std::string values, words;
  each_command(root, [&](const Command& command) {
    values += bash_values(command);
    words += bash_words(command);
  });
  return "# bash completion of kvrt, made by `kvrt completion bash`\n" + bash_helpers(values) + R"(_kvrt() {
  local cur=${COMP_WORDS[COMP_CWORD]} path=kvrt options="" words="" kind="" store="" option="" word quoted
  COMPREPLY=()
  for word in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
    if [ -n "$kind" ]; then
      [[ $word != = ]] || continue
      [[ $option != --store ]] || store=$word
      kind=""
      continue
    fi
    option=$word
    case "$path $word" in
    )" + paths(root, " | ") +
         R"() path="$path $word" ;;
    *)
      _kvrt_value "$path $word"
      [[ -n $kind || -n $store || $word == -* ]] || store=$word
      ;;
    esac
  done
  if [ -z "$kind" ]; then
    case "$path" in
)" + words +
         R"(    esac
    if [[ $cur == -* ]]; then
      kind=words words=$options
    fi
  fi
  case $kind in
  words) mapfile -t COMPREPLY < <(compgen -W "$words" -- "$cur") ;;
  folders) mapfile -t COMPREPLY < <(compgen -d -- "$cur") ;;
  files) mapfile -t COMPREPLY < <(compgen -f -- "$cur") ;;
  sessions)
    while IFS= read -r word; do
      printf -v quoted %q "$word"
      [[ $word != "$cur"* && $quoted != "$cur"* ]] || COMPREPLY+=("$quoted")
    done < <(_kvrt_sessions "$store")
    if [[ -z $store && -z ${COMPREPLY[*]} ]]; then
      kind=folders
      mapfile -t COMPREPLY < <(compgen -d -- "$cur")
    elif [ -z "$store" ]; then # without -o filenames, which would quote the names of sessions again
      while IFS= read -r word; do
        printf -v quoted %q "$word"
        COMPREPLY+=("$quoted")
      done < <(compgen -d -- "$cur")
    fi
    ;;
  esac
  [[ $kind != f* ]] || compopt -o filenames 2>/dev/null
}
complete -F _kvrt kvrt
)";
}

// ---- zsh ------------------------------------------------------------------------------------------------------------------------

// The text, escaped for an _arguments or a _describe specification.
std::string zsh_text(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '[' || c == ']' || c == ':' || c == '\\') out += '\\';
    out += c;
  }
  return out;
}

std::string zsh_action(const Entry& entry) {
  const Value value = value_of(entry);
  return value == Value::kChoice      ? "(" + spaced(entry.choices) + ")"
         : value == Value::kFile      ? "_files"
         : value == Value::kDirectory ? "_files -/"
                                      : " ";
}

std::string zsh_arguments(const Command& command) {
  std::string out;
  each_option(command, [&](const Entry& entry) {
    const std::string spec = fmt::format("[{}]{}", zsh_text(entry.text),
                                         entry.word.empty() ? "" : fmt::format(":{}:{}", zsh_text(entry.word), zsh_action(entry)));
    for (const std::string& name : entry.names) {
      const std::string others = entry.many ? "*" : "(" + spaced(entry.names) + ")";
      out += " \\\n    " + quoted(others + name + spec, "'\\''");
    }
  });
  for (const Entry& argument : command.arguments) {
    const std::string action = is_session(argument) ? "_kvrt_sessions" : zsh_action(argument);
    out += " \\\n    " + quoted(fmt::format("{}:{}:{}", argument.many ? "*" : "", zsh_text(argument.word), action), "'\\''");
  }
  return out;
}

std::string zsh_function(const Command& command) {
  std::string name = page_name(command);
  for (char& c : name) c = c == '-' ? '_' : c;
  std::string out = "_" + name + "() {\n";
  if (command.commands.empty()) return out + "  _arguments" + zsh_arguments(command) + "\n}\n";
  std::string described, cases;
  for (const Command& sub : command.commands) {
    described += "\n      " + quoted(sub.name + ":" + zsh_text(sub.text), "'\\''");
    cases += fmt::format("      {}) _{}_{} ;;\n", sub.name, name, sub.name);
  }
  out += "  local curcontext=\"$curcontext\" state line\n  _arguments -C" + zsh_arguments(command) +
         " \\\n    '1: :->command' '*:: :->rest'\n";
  out += "  case $state in\n    command)\n      local -a commands=(" + described + ")\n      _describe command commands ;;\n";
  return out + "    rest)\n      case $line[1] in\n" + cases + "      esac ;;\n  esac\n}\n";
}

std::string zsh(const Command& root) {
  std::string out = "#compdef kvrt\n# zsh completion of kvrt, made by `kvrt completion zsh`\n";
  out += "_kvrt_sessions() {\n  local -a names=(${(f)\"$(kvrt store ls \"${${(Q)line[1]}/#\\~\\//$HOME/}\" --json 2>/dev/null | ";
  out += std::string(kSessionNames) + ")\"})\n  compadd -a names\n}\n";
  each_command(root, [&](const Command& command) { out += zsh_function(command); });
  return out + "if [ \"$funcstack[1]\" = _kvrt ]; then _kvrt \"$@\"; else compdef _kvrt kvrt; fi\n";
}

// ---- fish -----------------------------------------------------------------------------------------------------------------------

std::string fish_value(const Entry& entry) {
  const Value value = value_of(entry);
  return value == Value::kNone        ? ""
         : value == Value::kChoice    ? " -x -a '" + spaced(entry.choices) + "'"
         : value == Value::kFile      ? " -r -F"
         : value == Value::kDirectory ? " -x -a '(__fish_complete_directories)'"
                                      : " -x";
}

std::string fish_command(const Command& command) {
  const std::string at = fmt::format("complete -c kvrt -n '__kvrt_at \"{}\"'", command.path);
  std::string out;
  for (const Command& sub : command.commands) out += fmt::format("{} -a {} -d {}\n", at, sub.name, quoted(sub.text, "\\'"));
  for (const Entry& argument : command.arguments) {
    if (is_session(argument)) out += at + " -a '(__kvrt_sessions)'\n";
    const std::string value = fish_value(argument);
    if (value != " -x") out += at + (value == " -r -F" ? " -F" : value) + "\n";
  }
  each_option(command, [&](const Entry& entry) {
    out += at;
    for (const std::string& name : entry.names) out += name[1] == '-' ? " -l " + name.substr(2) : " -s " + name.substr(1);
    out += fish_value(entry) + " -d " + quoted(entry.text, "\\'") + "\n";
  });
  return out;
}

std::string fish(const Command& root) {
  std::string out = "# fish completion of kvrt, made by `kvrt completion fish`\nfunction __kvrt_at\n    set -l path kvrt\n";
  out += "    for word in (commandline -opc)[2..-1]\n        switch \"$path $word\"\n            case " + paths(root, " ") + "\n";
  out += "                set path \"$path $word\"\n        end\n    end\n    test \"$path\" = \"$argv[1]\"\nend\n";
  out +=
      "function __kvrt_sessions\n    set -l words (commandline -opc | string match -v -- '-*')\n"
      "    set -q words[4]; and set words[4] (string replace -r '^~/' \"$HOME/\" -- $words[4])\n    kvrt store ls $words[4] --json "
      "2>/dev/null | ";
  out += std::string(kSessionNames) + "\nend\ncomplete -c kvrt -f\n";
  each_command(root, [&](const Command& command) { out += fish_command(command); });
  return out;
}

}  // namespace

std::string completion(const Command& root, const std::string& shell) {
  return shell == "bash" ? bash(root) : shell == "zsh" ? zsh(root) : fish(root);
}

}  // namespace cli
