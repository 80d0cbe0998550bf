// kvrt chat: a terminal chat. Ctrl-C stops the answer, not the program.
#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>

#include "bindings/cli/chat_interrupts.h"
#include "bindings/cli/commands.h"
#include "bindings/cli/line_editor.h"

namespace cli {

namespace {

constexpr uint32_t kAutosaveTokens = 64;  // what a killed chat may lose of an answer

class Chat {
 public:
  explicit Chat(const ChatFlags& flags) : flags_(flags), sampling_(flags.sampling), name_(flags.session) {}
  kvrt_status open();
  int loop();

 private:
  kvrt_status resume_or_open();
  kvrt_status ask(const std::string& text);
  kvrt_status answer(uint64_t seed);
  kvrt_status save(const std::string& name, bool quiet, bool overwrite = false);
  LineEditor::Read read_line(std::string& line, bool& pasted);
  void command(const std::string& line);
  bool leaves() const { return interrupts_.ended() || std::ferror(stdout); }
  uint64_t tokens() const;
  std::vector<Message> messages() const;
  bool last_question(Message& out) const;

  struct Command {
    std::string usage;  // "/fork [NAME]"
    const char* text;
    void (Chat::*run)(const std::string& argument);
    std::string verb() const { return usage.substr(0, usage.find(' ')); }
  };
  static const std::vector<Command> kCommands;
  void help(const std::string&);
  void go_on(const std::string&);
  void retry(const std::string& seed);
  void rewind(const std::string& to);
  void fork(const std::string& name);
  void forget(const std::string&);
  void history(const std::string&);
  void save_as(const std::string& name);
  void stats(const std::string&);

  const ChatFlags& flags_;
  SamplingFlags sampling_;
  std::string name_;
  Interrupts interrupts_;  // before the runtime
  Runtime runtime_;
  Model model_;
  Store store_;
  Session session_;
  kvrt_report last_ = sized<kvrt_report>();
  kvrt_status saved_ = KVRT_OK;  // how the last save went
  LineEditor editor_;
};

uint64_t Chat::tokens() const {
  auto props = sized<kvrt_session_props>();
  kvrt_session_info(session_.get(), &props, nullptr);
  return props.tokens;
}

std::vector<Message> Chat::messages() const {
  std::vector<Message> all;
  session_messages(session_.get(), all);
  return all;
}

bool Chat::last_question(Message& out) const {
  const auto all = messages();
  const auto last = std::find_if(all.rbegin(), all.rend(), [](const Message& m) { return m.role == "user"; });
  if (last == all.rend()) return false;
  out = *last;
  return true;
}

kvrt_status Chat::open() {
  if (kvrt_status s = open_runtime(flags_.model, runtime_)) return s;
  if (kvrt_status s = open_model(flags_.model, runtime_.get(), model_, interrupts_.stop_loading())) return s;
  if (!flags_.store.empty()) {
    if (kvrt_status s = open_store(runtime_.get(), flags_.store, false, false, store_)) return s;
  }
  suggest_sampling(runtime_.get(), flags_.model.model, sampling_);
  if (kvrt_status s = resume_or_open()) return s;
  interrupts_.ready();
  for (const Message& m : messages()) {
    if (m.role == "user") editor_.remember(m.content);
  }
  return KVRT_OK;
}

kvrt_status Chat::resume_or_open() {
  kvrt_session* raw = nullptr;
  auto options = sized<kvrt_session_options>();
  options.store = store_.get();
  options.autosave_name = name_.data();
  options.autosave_name_size = name_.size();
  options.domain = flags_.domain.empty() ? nullptr : flags_.domain.data();
  options.domain_size = flags_.domain.size();
  options.foreign_kv = flags_.accept_foreign_kv ? KVRT_FOREIGN_KV_ACCEPT : KVRT_FOREIGN_KV_RECOMPUTE;
  if (store_) options.autosave_tokens = kAutosaveTokens;  // within an answer; after it save() says how it went
  if (store_) {
    auto report = sized<kvrt_report>();
    const auto start = now();
    const kvrt_status s =
        kvrt_session_resume(model_.get(), store_.get(), name_.data(), name_.size(), &options, nullptr, nullptr, &report, &raw, nullptr);
    if (s && s != KVRT_NOT_FOUND) return complain("cannot resume " + in_quotes(name_), s);
    if (!s) {
      session_.reset(raw);
      say("{} goes on: {}, {} from disk, in {:.0f} ms\n", in_quotes(name_), counted(tokens(), "token"), report.reused_disk,
          ms_since(start));
      if (!flags_.system.empty()) say("(--system is for a new session: this one goes on as it began)\n");
      if (isatty(STDIN_FILENO)) history({});
      return KVRT_OK;
    }
  }
  if (kvrt_status s = kvrt_session_open(model_.get(), &options, &raw, nullptr)) return complain("cannot open a session", s);
  session_.reset(raw);
  if (flags_.system.empty()) return KVRT_OK;
  const std::string message = message_json("system", flags_.system);
  const kvrt_status s = kvrt_session_append_message(raw, message.data(), message.size(), nullptr, nullptr);
  return s ? complain("cannot append the system message", s) : KVRT_OK;
}

int32_t print_token(void* interrupts, const kvrt_event* event) {
  if (event->type == KVRT_EVENT_TOKEN || event->type == KVRT_EVENT_DONE) {
    show({event->text, event->text_size});
    std::fflush(stdout);
  }
  return static_cast<const Interrupts*>(interrupts)->ended() || std::ferror(stdout);
}

kvrt_status Chat::ask(const std::string& text) {
  const std::string message = message_json("user", text);
  auto info = sized<kvrt_append_info>();
  if (kvrt_status s = kvrt_session_append_message(session_.get(), message.data(), message.size(), &info, nullptr)) {
    complain("cannot append the message", s);
    if (s == KVRT_LIMIT) say("(/forget drops the oldest turn)\n");
    return s;
  }
  if (info.rewritten) {
    say("(the template renders the conversation otherwise now, from token {} on: {} are computed again)\n", info.rewritten_at,
        info.rewritten);
  }
  return answer(sampling_.seed);
}

kvrt_status Chat::answer(uint64_t seed) {
  OptionBuffers buffers;
  kvrt_generate_options options;
  if (kvrt_status bad = generate_options(sampling_, flags_.max_tokens, buffers, options)) return bad;
  options.seed = seed;
  kvrt_status s;
  {
    const HeldLog held;
    interrupts_.answering(session_.get());
    s = kvrt_session_generate(session_.get(), &options, print_token, &interrupts_, &last_, nullptr);
    interrupts_.answering(nullptr);
    put("\n");
    std::fflush(stdout);
  }
  if (s == KVRT_CANCELLED) {
    if (!leaves()) say("(stopped; /continue goes on, /retry answers anew, /rewind takes the turn back)\n");
  } else if (s) {
    return complain("cannot answer", s);
  } else if (last_.reason == KVRT_REASON_MAX_TOKENS) {
    if (isatty(STDIN_FILENO)) say("(cut at -n {}; /continue goes on)\n", flags_.max_tokens);
  } else if (last_.reason == KVRT_REASON_CONTEXT_FULL) {
    say("(the context is full; /forget drops the oldest turn)\n");
  }
  return store_ ? save(name_, true) : KVRT_OK;
}

kvrt_status Chat::save(const std::string& name, bool quiet, bool overwrite) {
  if (!store_) return complain(KVRT_INVALID, "there is no store: start with --store DIR");
  auto saved = sized<kvrt_save_report>();
  auto options = sized<kvrt_save_options>();
  options.overwrite = overwrite;
  saved_ = kvrt_session_checkpoint(session_.get(), name.data(), name.size(), &options, &saved, nullptr);
  if (kvrt_status s = saved_) {
    complain("cannot save " + in_quotes(name), s);
    if (s == KVRT_CONFLICT) say("(/save NAME keeps this conversation under another name, /save --overwrite replaces that one)\n");
    return s;
  }
  name_ = name;
  if (!quiet) {
    say("saved {}: {}, {} written in {:.1f} ms\n", in_quotes(name), counted(saved.tokens, "token"), human_bytes(saved.bytes_written),
        saved.ms);
  }
  say_left_out(saved);
  return KVRT_OK;
}

// The conversation so far keeps its name; what follows is the fork's, under another.
void Chat::fork(const std::string& name) {
  kvrt_session* raw = nullptr;
  if (kvrt_status s = kvrt_session_fork(session_.get(), NULL, &raw, nullptr)) {
    complain("cannot fork", s);
    return;
  }
  Session copy(raw);
  if (store_) {
    const std::string to = name.empty() ? name_ + "-fork" : name;
    if (kvrt_status s = kvrt_session_checkpoint(raw, to.data(), to.size(), nullptr, nullptr, nullptr)) {
      complain("cannot save the fork as " + in_quotes(to), s);
      return;
    }
    name_ = to;
    saved_ = KVRT_OK;
  }
  session_ = std::move(copy);
  say("this is {} now\n", store_ ? in_quotes(name_) : "the fork");
}

// /rewind: the last turn; /rewind N: to the first N tokens.
void Chat::rewind(const std::string& argument) {
  uint64_t to = 0;
  Message question;
  if (!argument.empty()) {
    char* end = nullptr;
    to = std::strtoull(argument.c_str(), &end, 10);
    if (*end || argument[0] == '-') {
      complain(KVRT_INVALID, "/rewind takes a count of tokens, not " + argument);
      return;
    }
  } else if (!last_question(question)) {
    complain(KVRT_INVALID, "no turn is left; /rewind N keeps the first N tokens");
    return;
  } else {
    to = question.begin;
  }
  if (kvrt_status s = kvrt_session_truncate(session_.get(), to, nullptr)) {
    complain("cannot rewind", s);
    return;
  }
  say("left: {}\n", counted(tokens(), "token"));
  if (store_) save(name_, true);
}

// The last question once more, with another seed.
void Chat::retry(const std::string& argument) {
  Message question;
  if (!last_question(question)) {
    complain(KVRT_INVALID, "there is no question to answer anew");
    return;
  }
  if (kvrt_status s = kvrt_session_truncate(session_.get(), question.end, nullptr)) {
    complain("cannot take the answer back", s);
    return;
  }
  if (sampling_.temperature == 0.0f) say("(the temperature is 0: the answer will be the same; see --temp)\n");
  answer(std::strtoull(argument.c_str(), nullptr, 10));
}

// The answer that was cut short, by Ctrl-C, -n or a kill; or the one that never began.
void Chat::go_on(const std::string&) {
  const auto all = messages();
  auto model = sized<kvrt_model_props>();
  kvrt_model_info(model_.get(), &model, nullptr);
  std::vector<int32_t> ids;
  const bool whole = last_.reason == KVRT_REASON_EOS || last_.reason == KVRT_REASON_STOP;
  if (all.empty() || session_tokens(session_.get(), ids) || (all.back().role == "assistant" && (whole || ids.back() == model.eos_token))) {
    complain(KVRT_INVALID, "there is no answer that was cut short; /retry answers anew");
    return;
  }
  answer(sampling_.seed);
}

// The oldest turn goes, a system message stays.
void Chat::forget(const std::string&) {
  const auto all = messages();
  const size_t first = !all.empty() && all[0].role == "system" ? 1 : 0;
  size_t next = first + 1;
  while (next < all.size() && all[next].role != "user") ++next;
  if (next >= all.size()) {
    complain(KVRT_INVALID, "there is no turn before the last one");
    return;
  }
  if (kvrt_status s = kvrt_session_erase(session_.get(), all[first].begin, all[next].begin, nullptr)) {
    complain("cannot forget", s);
    return;
  }
  say("left: {}; what follows the gap is computed again with the next answer\n", counted(tokens(), "token"));
  if (store_) save(name_, true);
}

void Chat::history(const std::string&) {
  for (const Message& m : messages())
    draw("{}{}{}: {}\n", colour(stderr) ? "\x1b[1m" : "", printable(m.role), colour(stderr) ? "\x1b[0m" : "", printable(m.content, true));
}

void Chat::stats(const std::string&) {
  auto session = sized<kvrt_session_props>();
  auto model = sized<kvrt_model_props>();
  kvrt_session_info(session_.get(), &session, nullptr);
  kvrt_model_info(model_.get(), &model, nullptr);
  say("{} tokens of {}, KV of {} in {} blocks ({}); generation {}\n", session.tokens, model.context_length, session.kv_tokens,
      session.kv_blocks, human_bytes(session.kv_bytes), session.generation);
  say("temperature {:.2g}, top_k {}, top_p {:.2g}, min_p {:.2g}, repetition penalty {:.2g}\n", sampling_.temperature.value_or(0),
      sampling_.top_k.value_or(0), sampling_.top_p.value_or(0), sampling_.min_p.value_or(0), sampling_.repetition_penalty.value_or(0));
  if (!last_.prompt_tokens) return;
  say("last answer: {} prompt tokens ({} memory, {} disk, {} computed), first token after {:.0f} ms, {} tokens at {:.1f} tok/s\n",
      last_.prompt_tokens, last_.reused_memory, last_.reused_disk, last_.prefilled, last_.ttft_ms, last_.generated,
      last_.decode_tokens_per_s);
  if (last_.reuse_stopped) say("reuse stopped at token {}: {}\n", last_.reuse_stopped_at, reuse_name(last_.reuse_stopped));
}

void Chat::command(const std::string& line) {
  const std::string verb = line.substr(0, line.find(' '));
  const size_t begin = line.find_first_not_of(' ', verb.size());
  const std::string argument = begin == std::string::npos ? "" : line.substr(begin);
  std::vector<std::string> verbs;
  for (const Command& command : kCommands) {
    verbs.push_back(command.verb());
    if (verb == verbs.back() && command.run) return (this->*command.run)(argument);
  }
  say("no command {}{} (/help lists the commands)\n", verb, suggestion(verb, verbs));
}

const std::vector<Chat::Command> Chat::kCommands = {
    {"/help", "this", &Chat::help},
    {"/continue", "go on with an answer that was cut short", &Chat::go_on},
    {"/retry [SEED]", "answer the last question anew", &Chat::retry},
    {"/rewind [N]", "take the last turn back, or keep the first N tokens", &Chat::rewind},
    {"/fork [NAME]", "go on in a copy; the conversation so far stays as it is", &Chat::fork},
    {"/forget", "drop the oldest turn, to make room", &Chat::forget},
    {"/history", "what was said", &Chat::history},
    {"/save [NAME]", "save now (after every turn it is done by itself); /save --overwrite [NAME] replaces what is there", &Chat::save_as},
    {"/stats", "tokens, memory, sampling and times", &Chat::stats},
    {"/quit", "leave (Ctrl-D too); Ctrl-C stops an answer, or takes a line back", nullptr},  // loop() knows it
};

void Chat::help(const std::string&) {
  for (const Command& command : kCommands) say("{:<15}{}\n", command.usage, command.text);
}

void Chat::save_as(const std::string& argument) {
  constexpr std::string_view kOverwrite = "--overwrite";
  const bool overwrite = argument.substr(0, argument.find(' ')) == kOverwrite;
  const size_t begin = overwrite ? argument.find_first_not_of(' ', kOverwrite.size()) : 0;
  const std::string name = begin == std::string::npos ? "" : argument.substr(begin);
  save(name.empty() ? name_ : name, false, overwrite);
}

LineEditor::Read Chat::read_line(std::string& line, bool& pasted) {
  interrupts_.reading(true);
  const LineEditor::Read read = leaves() ? LineEditor::Read::kEnd : editor_.read(line, pasted);
  interrupts_.reading(false);
  return interrupts_.ended() ? LineEditor::Read::kEnd : read;
}

// The exit code. Someone at a terminal saw what failed and went on; what counts is whether the conversation is saved.
int Chat::loop() {
  const bool terminal = isatty(STDIN_FILENO);
  kvrt_status worst = KVRT_OK;
  for (;;) {
    std::string line;
    bool pasted = false;
    const LineEditor::Read read = read_line(line, pasted);
    if (read == LineEditor::Read::kTooLong) {
      worst = complain(KVRT_LIMIT, fmt::format("a line has more than the {} MiB that a text may have", kTextBytesMax >> 20));
      if (!terminal) break;
      continue;
    }
    if (read == LineEditor::Read::kEnd || line == "/quit" || line == "/exit") break;
    if (line.find_first_not_of(" \t\r\n") == std::string::npos) continue;
    if (line[0] == '/' && !pasted) {
      command(line);
    } else if (kvrt_status s = ask(line)) {
      worst = s;
      if (!terminal) break;
    }
  }
  if (interrupts_.ended()) {
    say("interrupted{}\n", store_ && !saved_ ? "; what was computed is saved" : "");
    return finish(saved_ ? saved_ : KVRT_CANCELLED);
  }
  return finish(terminal ? saved_ : worst);
}

}  // namespace

int cmd_chat(const ChatFlags& flags) {
  Chat chat(flags);
  if (kvrt_status s = chat.open()) return s;
  if (isatty(STDIN_FILENO)) say("/help lists the commands{}\n", flags.store.empty() ? "; nothing is saved without --store DIR" : "");
  return chat.loop();
}

}  // namespace cli
