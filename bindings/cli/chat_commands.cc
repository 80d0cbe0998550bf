// The commands of a chat: lines that begin with /.
#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>

#include "bindings/cli/chat.h"
#include "bindings/cli/wrap.h"

namespace cli {

bool Chat::last_question(Message& out) const {
  const auto all = messages();
  const auto last = std::find_if(all.rbegin(), all.rend(), [](const Message& m) { return m.role == "user"; });
  if (last == all.rend()) return false;
  out = *last;
  return true;
}

// "ann-fork", or the first of "ann-fork-2", "ann-fork-3"... that the store does not have.
std::string Chat::fork_name() const {
  std::string name = name_ + "-fork";
  for (int n = 2; store_.stat(name, flags_.domain).ok(); ++n) name = fmt::format("{}-fork-{}", name_, n);
  return name;
}

// The conversation so far keeps its name; the chat goes on in a fork, under another name.
kvrt_status Chat::fork(const std::string& name) {
  if (name.starts_with("--")) {
    return complain(KVRT_INVALID, "/fork: unknown option " + name.substr(0, name.find(' ')));
  }
  Result<Session> copy = session_.fork();
  if (kvrt_status s = checked(copy.status(), "cannot fork")) return s;
  if (saves_) {
    const std::string to = name.empty() ? fork_name() : name;
    if (kvrt_status s = checked(copy->checkpoint(to).status(), "cannot save the fork as " + in_quotes(to))) return s;
    name_ = to;
    saved_ = KVRT_OK;
  }
  session_ = std::move(*copy);
  say("the chat goes on in {}\n", saves_ ? in_quotes(name_) : "the fork");
  return KVRT_OK;
}

// /rewind removes the last turn; /rewind N keeps the first N tokens.
kvrt_status Chat::rewind(const std::string& argument) {
  uint64_t to = 0;
  Message question;
  if (!argument.empty()) {
    char* end = nullptr;
    to = std::strtoull(argument.c_str(), &end, 10);
    if (*end || argument[0] == '-') return complain(KVRT_INVALID, "/rewind takes a count of tokens, not " + argument);
  } else if (!last_question(question)) {
    return complain(KVRT_INVALID, "no turn is left; /rewind N keeps the first N tokens");
  } else {
    to = question.begin;
  }
  const std::vector<Message> before = messages();
  if (kvrt_status s = checked(session_.truncate(to), "cannot rewind")) return s;
  at_stop_ = false;
  say("left: {}\n", counted(tokens(), "token"));
  for (const Message& m : before) {
    if (to <= m.begin || m.end <= to) continue;
    if (m.generated) {
      say("(the answer is cut here: /continue goes on from here)\n");
    } else {
      say("(this cuts the {} message in two: the next message drops the rest of it, too)\n", m.role);
    }
  }
  return saves_ ? save(name_, true) : KVRT_OK;
}

// Answers the last question again, with the given seed, or a random one.
kvrt_status Chat::retry(const std::string& argument) {
  uint64_t seed = 0;
  const auto [end, error] = std::from_chars(argument.data(), argument.data() + argument.size(), seed);
  if (!argument.empty() && (error != std::errc() || end != argument.data() + argument.size())) {
    return complain(KVRT_INVALID, "/retry takes a seed, a whole number from 0, not " + in_quotes(argument));
  }
  Message question;
  if (!last_question(question)) {
    return complain(KVRT_INVALID, "there is no question to answer again");
  }
  if (kvrt_status s = checked(session_.truncate(question.end), "cannot take the answer back")) return s;
  if (sampling_.temperature == 0.0f) say("(the temperature is 0: the answer will be the same; see --temp)\n");
  kvrt_generate_options options = options_;
  options.seed = seed;
  return answer(options);
}

// Tells the user of a chat that goes on what a kill, Ctrl-C or -n left undone.
void Chat::say_unfinished() const {
  const auto all = messages();
  if (all.empty()) return;
  if (all.back().role == "user") say("(not answered yet; /continue answers)\n");
  if (all.back().generated && !all.back().ended) say("(cut; /continue goes on)\n");
}

// Goes on with an answer that Ctrl-C, -n or a kill cut short, or gives one that never began.
kvrt_status Chat::go_on(const std::string&) {
  const auto all = messages();
  if (all.empty() || (all.back().role == "assistant" && (at_stop_ || all.back().ended))) {
    return complain(KVRT_INVALID, "no answer was cut short; /retry answers again");
  }
  kvrt_generate_options options = options_;
  const bool cut = all.back().generated;
  const bool bound = cut && options.grammar_kind != KVRT_GRAMMAR_DEFAULT;
  if (bound) {  // by the grammar from where the answer stands, and with the limits that it began with
    options.grammar_kind = KVRT_GRAMMAR_CONTINUE;
    options.grammar = nullptr;
    options.grammar_size = 0;
    options.reasoning_tokens_max = 0;
  }
  const kvrt_status s = answer(options, cut ? all.back().content : "");
  if (bound && s == KVRT_INVALID) say("(/retry answers again, by the grammar from the beginning)\n");
  return s;
}

bool Chat::oldest_turn(uint64_t& begin, uint64_t& end) const {
  const auto all = messages();
  const size_t first = !all.empty() && all[0].role == "system" ? 1 : 0;
  size_t next = first + 1;
  while (next < all.size() && all[next].role != "user") ++next;
  if (next >= all.size()) return false;
  begin = all[first].begin;
  end = all[next].begin;
  return true;
}

std::string Chat::why_no_more() const {
  const uint64_t context = model_.info()->context_length;
  if (most_tokens() == context) return "the model's context";
  const std::string limit = flags_.model.context    ? fmt::format("--context {} in whole blocks", flags_.model.context)
                            : flags_.model.kv_bytes ? "the room in --kv-bytes"
                                                    : "the memory that is kept for KV";
  return fmt::format("{}; the model's context is {}", limit, context);
}

// Tells the user how to make room in the context.
void Chat::advise_room() const {
  uint64_t begin = 0, end = 0;
  Message question;
  const bool too_long = tokens() > most_tokens();  // a larger pool computed it
  if (oldest_turn(begin, end) && !too_long) {
    say("(/forget drops the oldest turn)\n");
    return;
  }
  const uint64_t context = model_.info()->context_length;
  const char* option = flags_.model.kv_bytes ? "--kv-bytes" : "--context";  // the two exclude each other
  std::string removes = last_question(question) ? "/rewind removes the turn" : "";
  if (too_long) removes = oldest_turn(begin, end) ? "/forget drops the oldest turn, /rewind the last one" : removes;
  const std::string more = most_tokens() < context
                               ? fmt::format("a larger {} gives more room, up to the model's {} tokens", option, context)
                               : fmt::format("the model's context has no more than {} tokens", context);
  say("({}{}{})\n", removes, removes.empty() ? "" : "; ", more);
}

// Drops the oldest turn; a system message stays.
kvrt_status Chat::forget(const std::string&) {
  uint64_t begin = 0, end = 0;
  if (!oldest_turn(begin, end)) {
    return complain(KVRT_INVALID, "there is no turn before the last one");
  }
  if (kvrt_status s = checked(session_.erase(begin, end), "cannot forget")) return s;
  say("left: {}; the next answer first computes the tokens after the gap again\n", counted(tokens(), "token"));
  return saves_ ? save(name_, true) : KVRT_OK;
}

kvrt_status Chat::history(const std::string&) {
  for (const Message& m : messages()) {
    const std::string role = printable(m.role);
    Wrap wrap(STDERR_FILENO, columns_of(role) + 2);
    std::string content = wrap.add(printable(m.content, true));
    content += wrap.end();
    draw("{}{}{}: {}\n", colour(stderr) ? "\x1b[1m" : "", role, colour(stderr) ? "\x1b[0m" : "", content);
  }
  return KVRT_OK;
}

kvrt_status Chat::stats(const std::string&) {
  const kvrt_session_props session = *session_.info();
  say("{} tokens of {} ({})\n", session.tokens, most_tokens(), why_no_more());
  say("KV of {} in {} ({}); revision {}\n", counted(session.kv_tokens, "token"), counted(session.kv_units, "unit"),
      human_bytes(session.kv_bytes), session.revision);
  say("temperature {:.2g}, top_k {}, top_p {:.2g}, min_p {:.2g}, repetition penalty {:.2g}\n", sampling_.temperature.value_or(0),
      sampling_.top_k.value_or(0), sampling_.top_p.value_or(0), sampling_.min_p.value_or(0), sampling_.repetition_penalty.value_or(0));
  if (!last_.prompt_tokens) return KVRT_OK;
  say("last answer: {} prompt tokens ({} memory, {} disk, {} computed), first token after {:.0f} ms, {} tokens at {:.1f} tok/s{}\n",
      last_.prompt_tokens, last_.reused_memory, last_.reused_disk, last_.prefilled, last_.ttft_ms, last_.generated,
      last_.decode_tokens_per_s, speculated(flags_.speculation, last_));
  if (last_.reuse_stopped) say("reuse stopped at token {}: {}\n", last_.reuse_stopped_at, reuse_words(last_.reuse_stopped));
  return KVRT_OK;
}

kvrt_status Chat::command(const std::string& line) {
  const std::string verb = line.substr(0, line.find_first_of(" \t"));
  const size_t begin = line.find_first_not_of(" \t", verb.size());
  const std::string argument = begin == std::string::npos ? "" : line.substr(begin);
  std::vector<std::string> verbs;
  for (const Command& command : kCommands) {
    verbs.push_back(command.verb());
    if (verb != verbs.back()) continue;
    if (!argument.empty() && command.usage == verb) return complain(KVRT_INVALID, verb + " takes no argument " + in_quotes(argument));
    return (this->*command.run)(argument);
  }
  say("no command {}{} (/help lists the commands)\n", verb, suggestion(verb, verbs));
  return KVRT_INVALID;
}

const std::vector<Chat::Command> Chat::kCommands = {
    {"/help", "list these commands", &Chat::help},
    {"/continue", "go on with an answer that was cut short", &Chat::go_on},
    {"/retry [SEED]", "answer the last question again", &Chat::retry},
    {"/rewind [N]", "remove the last turn, or all but the first N tokens", &Chat::rewind},
    {"/fork [NAME]", "go on in a copy; the conversation so far stays as it is", &Chat::fork},
    {"/forget", "drop the oldest turn, to make room", &Chat::forget},
    {"/history", "show all messages", &Chat::history},
    {"/save [NAME]", "save, and go on as NAME; /save --overwrite [NAME] replaces one", &Chat::save_as},
    {"/stats", "show tokens, memory, sampling and times", &Chat::stats},
    {"/quit", "leave, as Ctrl-D does; Ctrl-C stops an answer or drops a line", &Chat::quit},
};

std::vector<Entry> Chat::lines() {
  std::vector<Entry> all;
  for (const Command& command : kCommands) all.push_back({{command.usage}, {}, {}, command.text});
  return all;
}
std::vector<Entry> chat_lines() { return Chat::lines(); }

kvrt_status Chat::quit(const std::string&) {
  over_ = true;
  return KVRT_OK;
}

kvrt_status Chat::help(const std::string&) {
  for (const Command& command : kCommands) say("{:<15}{}\n", command.usage, command.text);
  return KVRT_OK;
}

kvrt_status Chat::save_as(const std::string& argument) {
  constexpr const char* kOverwrite = "--overwrite";
  const std::string word = argument.substr(0, argument.find(' '));
  if (word.starts_with("--") && word != kOverwrite) {
    return complain(KVRT_INVALID, "/save: unknown option " + word + suggestion(word, {kOverwrite}));
  }
  const bool overwrite = word == kOverwrite;
  const size_t begin = overwrite ? argument.find_first_not_of(' ', word.size()) : 0;
  const std::string name = begin == std::string::npos ? "" : argument.substr(begin);
  const std::string before = name_;
  const kvrt_status s = save(name.empty() ? name_ : name, false, overwrite);
  if (name_ != before) say("the chat goes on in {}\n", in_quotes(name_));
  return s;
}

}  // namespace cli
