// The faults of a command line, in words.
#include <fmt/core.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <numeric>
#include <sstream>

#include "bindings/cli/app.h"

namespace cli {

namespace {

constexpr char kMark = '\1';

// The number of letters left out, put in, mistaken or swapped between two words.
size_t distance(const std::string& a, const std::string& b) {
  std::vector<std::vector<size_t>> d(a.size() + 1, std::vector<size_t>(b.size() + 1));
  for (size_t i = 0; i <= a.size(); ++i) d[i][0] = i;
  std::iota(d[0].begin(), d[0].end(), 0);
  for (size_t i = 1; i <= a.size(); ++i) {
    for (size_t j = 1; j <= b.size(); ++j) {
      d[i][j] = std::min({d[i - 1][j] + 1, d[i][j - 1] + 1, d[i - 1][j - 1] + (a[i - 1] != b[j - 1])});
      const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) d[i][j] = std::min(d[i][j], d[i - 2][j - 2] + 1);
    }
  }
  return d[a.size()][b.size()];
}

std::string letters_of(const std::string& word) {
  std::string out;
  std::copy_if(word.begin(), word.end(), std::back_inserter(out), [](char c) { return c != '-'; });
  return out;
}

// The innermost command that the line names.
const CLI::App& deepest(const CLI::App& app) {
  const CLI::App* at = &app;
  while (!at->get_subcommands().empty()) at = at->get_subcommands().front();
  return *at;
}

const CLI::Option* find_option(const CLI::App& app, const std::string& name) {
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_name() == name || option->get_name(true) == name) return option;
  }
  for (const CLI::App* group : app.get_subcommands({})) {
    if (!group->get_name().empty()) continue;
    if (const CLI::Option* option = find_option(*group, name)) return option;
  }
  return nullptr;
}

void option_names(const CLI::App& app, std::vector<std::string>& names) {
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  for (const CLI::App* group : app.get_subcommands({})) {
    if (group->get_name().empty()) option_names(*group, names);
  }
}

// The fault of the first word that no command knows; "": each is known.
std::string unknown_word(const CLI::App& app, bool commands_alone) {
  for (const CLI::App* at = &app;;) {
    const auto left = at->remaining();
    std::vector<std::string> commands;
    for (const CLI::App* sub : at->get_subcommands({})) {
      if (!sub->get_name().empty() && !sub->get_group().empty()) commands.push_back(sub->get_name());
    }
    if (!left.empty()) {
      std::string word = unmarked(left.front());
      if (word.size() > 1 && word[0] == '-') {
        std::vector<std::string> names;
        word = word.substr(0, word.find('='));
        option_names(*at, names);
        return commands_alone ? "" : "unknown option " + word + suggestion(word, names);
      }
      if (!commands.empty()) return "unknown command " + in_quotes(word) + suggestion(word, commands);
      const std::string named = word.ends_with(".gguf") && find_option(*at, "--model") ? "; did you mean -m " + in_quotes(word) + "?" : "";
      return commands_alone ? "" : fmt::format("{} takes no argument {}{}", path_of(*at), in_quotes(word), named);
    }
    if (at->get_subcommands().empty()) return "";
    at = at->get_subcommands().front();
  }
}

std::string no_model() {
  const char* config = std::getenv("XDG_CONFIG_HOME");
  const std::string file = config && config[0] == '/' ? in_quotes(config_file()) : "~/.config/kvrt/config.toml";
  return "no model is named. Get a GGUF file from https://huggingface.co/models?library=gguf or by `./dev model` in a clone of kvrt.\n"
         "Name it with -m FILE, or for all commands with KVRT_MODEL=FILE in the environment\n"
         "or model = \"FILE\" in " +
         file + ".";
}

// The models of `./dev model`, each by the line that chats with it.
std::string chats_with_fetched() {
  const char *cache = std::getenv("XDG_CACHE_HOME"), *home = std::getenv("HOME");
  const std::string base = cache && *cache ? cache : std::string(home ? home : "") + "/.cache";
  std::vector<std::string> files;
  std::error_code none;
  for (std::filesystem::directory_iterator at(base + "/kvrt/models", none), end; !none && at != end; at.increment(none)) {
    if (at->path().extension() == ".gguf") files.push_back(at->path());
  }
  std::sort(files.begin(), files.end());
  std::string out;
  for (const std::string& file : files) out += fmt::format("  {} chat -m {}\n", in_quotes(program_invocation_name), in_quotes(file));
  return out.empty() ? "" : "Here are:\n" + out;
}

// "[-p,--prompt,-f,--file,--tokens]" of CLI11's message as "--prompt, --file, --tokens".
std::string listed_options(const std::string& text) {
  std::string out;
  size_t at = text.find('[');
  const size_t end = std::min(text.find(']'), text.size());
  while (at < end) {
    const size_t next = std::min(text.find(',', at + 1), end);
    const std::string word = text.substr(at + 1, next - at - 1);
    if (word.rfind("--", 0) == 0) out += (out.empty() ? "" : ", ") + word;
    at = next;
  }
  return out;
}

std::string in_words(const CLI::App& app, const CLI::ParseError& error) {
  const CLI::App& command = deepest(app);
  const std::string what = error.what(), type = error.get_name();
  const std::string name = what.substr(0, what.find(type == "RequiredError" ? ' ' : ':'));
  const CLI::Option* option = find_option(command, name);
  if (type == "RequiredError" && !command.get_subcommands({}).empty() && !option && command.get_require_subcommand_min()) {
    return "a command is expected after " + path_of(command);
  }
  if (type == "RequiredError" && option && option->check_lname("model")) return no_model();
  if (type == "RequiredError" && what.find('[') != std::string::npos) {
    const bool many = what.find("at most") != std::string::npos || what.find("were given") != std::string::npos;
    return fmt::format("{} of {} is expected{}", what.find("at most") != std::string::npos ? "at most one" : "one", listed_options(what),
                       many ? ", more are given" : "");
  }
  if (type == "ArgumentMismatch") {
    return name + (what.find("At Most") == std::string::npos ? ": a value is expected" : " is given more than once");
  }
  if (type == "ConversionError") {
    const size_t equals = what.find(" = ");
    if (equals == std::string::npos) return what;
    const size_t begin = what.find(": ") + 2;
    const std::string value = what.substr(equals + 3);
    const bool digits = value.find_first_not_of("0123456789") == std::string::npos;
    const std::string asked = what.substr(begin, equals - begin);
    const CLI::Option* const of = find_option(command, asked);
    const char* const fault = of && of->get_expected_min() == 0 ? "a flag takes no value, found " : "a number is expected, found ";
    return fmt::format("{}: {}", asked, digits ? value + " is too large" : fault + value);
  }
  if (option && option->get_positional() && option->nonpositional()) return option->get_name(true) + ", " + what;
  return what;
}

}  // namespace

// Two words are near where one begins with the other, or where few letters differ.
std::string suggestion(const std::string& given, const std::vector<std::string>& words) {
  constexpr size_t kLettersMax = 40;  // no option or command has so many
  std::string best;
  const size_t dashes = std::min(given.find_first_not_of('-'), given.size()), letters = given.size() - dashes;
  size_t nearest = std::max<size_t>(letters / 3, 1) + 1;
  for (const std::string& word : words) {
    const size_t common = std::min(given.size(), word.size());
    const bool begins = common >= dashes + 2 && given.compare(0, common, word, 0, common) == 0;
    const size_t far = letters_of(given) == letters_of(word) ? 0 : begins ? 1 : letters > kLettersMax ? nearest : distance(given, word);
    if (far >= nearest) continue;
    nearest = far;
    best = word;
  }
  return best.empty() ? "" : "; did you mean " + best + "?";
}

std::vector<std::string> reversed_words(int argc, char** argv) {
  std::vector<std::string> words(argv + std::min(argc, 1), argv + argc);
  if (!words.empty() && words[0] == "help" && (words.size() == 1 || words[1].rfind('-', 0) != 0)) {
    words.erase(words.begin());
    words.emplace_back("--help");
  }
  bool options = true;  // "--" ends them
  for (std::string& word : words) {
    options = options && word != "--";
    if (word.starts_with('[')) word.insert(0, 1, kMark);
    if (options && word.starts_with("--") && word.find('=') == word.size() - 1) word += kMark;
  }
  std::reverse(words.begin(), words.end());
  return words;
}

std::string unmarked(std::string word) {
  if (word.size() > 1 && word[0] == kMark && word[1] == '[') word.erase(0, 1);
  const bool empty = word.size() == 1 || word.ends_with(std::string("=") + kMark);
  if (empty && word.back() == kMark) word.pop_back();
  return word;
}

std::vector<std::string> with_store(const CLI::App& app, const CLI::ParseError& error, std::vector<std::string> words) {
  const CLI::App& command = deepest(app);
  const CLI::Option* directory = find_option(command, "--store");
  const char* store = std::getenv("KVRT_STORE");
  const bool said = std::any_of(words.begin(), words.end(), [](const std::string& word) { return word.starts_with("--store"); });
  const bool taken = directory && directory->get_positional() && is_named(&command, "store") && !said;
  if (!taken || !store || !*store || error.get_name() != "RequiredError") return words;
  const auto at = std::find(words.rbegin(), words.rend(), command.get_name());
  words.insert(at.base() - 1, {store, "--store"});  // before the arguments
  return words;
}

bool takes_defaults(const CLI::App& app) {
  const auto options = deepest(app).get_options();
  return std::any_of(options.begin(), options.end(), [](const CLI::Option* o) { return !o->get_envname().empty(); });
}

int explain(const CLI::App& app, const CLI::ParseError& error, const std::string& broken, bool helps) {
  const bool asked = error.get_exit_code() == static_cast<int>(CLI::ExitCodes::Success);
  std::string wrong = unknown_word(app, asked && !helps);
  if (wrong.empty() && asked) {
    std::ostringstream out;
    app.exit(error, out, out);
    write_out(out.str());
    return finish(KVRT_OK);
  }
  if (wrong.empty() && !broken.empty() && takes_defaults(app)) return complain(KVRT_INVALID, broken);
  if (wrong.empty()) wrong = in_words(app, error);
  if (wrong == no_model()) {  // on lines of its own
    say("kvrt: {} ({})\n", wrong, kvrt_status_name(KVRT_INVALID));
    if (deepest(app).get_name() == "chat") say("{}", chats_with_fetched());
    return KVRT_INVALID;
  }
  complain(KVRT_INVALID, wrong);
  const CLI::App& command = deepest(app);
  const bool alone = command.parse_order().empty() && command.remaining().empty();  // a command alone: its user may not know the options
  say("{}", alone ? "\n" + help_text(describe(command)) : path_of(command) + " --help shows the usage\n");
  return KVRT_INVALID;
}

}  // namespace cli
