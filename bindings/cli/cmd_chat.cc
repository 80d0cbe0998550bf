// kvrt chat: a terminal chat. Ctrl-C stops the answer, not the program.
#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>

#include "bindings/cli/chat.h"
#include "bindings/cli/wrap.h"

namespace cli {

namespace {

constexpr uint32_t kAutosaveTokens = 64;  // a killed chat loses at most so many of an answer

// The tokens that the template adds after the first `end` to open an answer. None where it cannot: then no message can be appended either.
// Where there is no room for so many tokens, nobody can tell: `there`.
std::vector<int32_t> opened_turn(Session& session, uint64_t end, const std::vector<int32_t>& there) {
  Result<Session> copy = session.fork();
  auto options = init<kvrt_generate_options>();
  options.max_tokens = 1;
  std::vector<int32_t> ids;
  if (!copy.ok() || !copy->truncate(end).ok()) return {};
  const kvrt_status begun = copy->begin(options).code();
  if (begun == KVRT_LIMIT) return there;
  if (begun || session_tokens(*copy, ids)) return {};
  ids.erase(ids.begin(), ids.begin() + static_cast<ptrdiff_t>(std::min<uint64_t>(end, ids.size())));
  return ids;
}

}  // namespace

uint64_t Chat::tokens() const { return session_.info()->tokens; }

std::vector<Message> Chat::messages() const {
  std::vector<Message> all;
  session_messages(session_, all);
  return all;
}

// Refuses text that kvrt run or an application appended: the next message would drop it, as it keeps only the tokens of messages.
kvrt_status Chat::check_text() {
  std::vector<int32_t> ids, opened;
  std::vector<Message> all;
  if (kvrt_status s = session_tokens(session_, ids)) return s;
  if (kvrt_status s = session_messages(session_, all)) return s;
  const int32_t bos = model_.info()->bos_token;
  all.push_back({{}, {}, ids.size(), ids.size()});
  uint64_t at = 0;
  for (const Message& m : all) {
    const std::vector<int32_t> between(ids.begin() + static_cast<ptrdiff_t>(at), ids.begin() + static_cast<ptrdiff_t>(m.begin));
    const bool begins = at == 0 && between == std::vector{bos};
    if (!between.empty() && !begins && between != opened && between != (opened = opened_turn(session_, at, between))) {
      return complain(
          KVRT_CONFLICT,
          fmt::format("{} holds text that is in no message{}: kvrt run can go on with it; --session with another name starts a chat",
                      in_quotes(name_), at ? fmt::format(", from token {} on", at) : ""));
    }
    at = m.end;
  }
  return KVRT_OK;
}

kvrt_status Chat::open() {
  if (kvrt_status s = open_runtime(flags_.model, runtime_)) return s;
  if (kvrt_status s = open_model(flags_.model, runtime_, model_, &interrupts_.stop())) return s;
  if (kvrt_status s = check_template(model_, flags_.model.model)) return s;
  if (kvrt_status s = open_draft(flags_.model, flags_.speculation, runtime_, model_, 1, most_tokens(), draft_, &interrupts_.stop()))
    return s;
  suggest_sampling(runtime_, flags_.model.model, sampling_);
  options_ = generate_options(sampling_, flags_.max_tokens, stop_);
  if (options_.grammar_kind != KVRT_GRAMMAR_DEFAULT) {
    const std::string& file = sampling_.grammar_file.empty() ? sampling_.schema_file : sampling_.grammar_file;
    if (kvrt_status s = try_options(model_, options_, "cannot follow " + in_quotes(file))) return s;
  }
  speculate(flags_.speculation, draft_, options_);
  if (!flags_.store.empty()) {
    if (kvrt_status s = open_store(runtime_, flags_.store, false, false, store_)) return s;
    saves_ = store_.info()->read_only != 1;  // 2: until there is room
    if (!saves_) say("({} is read-only: nothing of this chat will be saved)\n", in_quotes(flags_.store));
  }
  if (kvrt_status s = resume_or_open()) return s;
  if (interrupts_.stop()) {  // a Ctrl-C that came meanwhile is for the chat: there is no answer yet
    say("interrupted\n");
    return KVRT_CANCELLED;
  }
  if (saves_) say_open_elsewhere(session_, name_, "/fork NAME goes on under another name");
  for (const Message& m : messages()) {
    if (m.role == "user") editor_.remember(m.content);
  }
  return KVRT_OK;
}

kvrt_status Chat::resume_or_open() {
  auto options = init<kvrt_session_options>();
  options.store = store_.get();
  kvrt::assign(options.autosave_name, options.autosave_name_size, name_);
  kvrt::assign(options.domain, options.domain_size, flags_.domain);
  options.foreign_kv = flags_.accept_foreign_kv ? KVRT_FOREIGN_KV_ACCEPT : KVRT_FOREIGN_KV_RECOMPUTE;
  if (saves_) options.autosave_tokens = kAutosaveTokens;  // within an answer; after it save() reports
  if (store_) {
    auto report = init<kvrt_report>();
    const auto start = now();
    Result<Session> saved = resume_session(model_, store_, name_, options, report, &interrupts_.stop());
    const kvrt_status s = saved.status().code();
    if (s && s != KVRT_NOT_FOUND) return complain("cannot resume " + in_quotes(name_), s);
    if (!s) {
      session_ = std::move(*saved);
      if (kvrt_status text = check_text()) return text;
      const double ms = ms_since(start);
      const std::string other = other_kv(store_, name_, flags_.domain, report, *model_.info());
      if (tokens() > most_tokens()) {
        say("({} has {}, there is room for {}: it can be read and made shorter)\n", in_quotes(name_), counted(tokens(), "token"),
            most_tokens());
        advise_room();
      } else {
        say("{} goes on: {}, {} from disk, in {:.0f} ms{}{}\n", in_quotes(name_), counted(tokens(), "token"), report.reused_disk, ms,
            other.empty() ? "" : "; ", other);
      }
      if (!flags_.system.empty() && !messages().empty()) {
        say("(--system is for a new session, this one goes on as it began; --session NAME begins another, kvrt store rm removes this "
            "one)\n");
      }
      if (isatty(STDIN_FILENO)) history({});
      say_unfinished();
      return KVRT_OK;
    }
  }
  return new_session(model_, options, session_);
}

kvrt_status Chat::ask(const std::string& text) {
  auto before = messages();
  if (before.empty() && !flags_.system.empty()) {  // not sooner: a chat that asks nothing is to take no name
    const kvrt::Status added = session_.append_message(message_json("system", flags_.system)).status();
    if (kvrt_status s = checked(added, "cannot append the system message")) return s;
    before = messages();
  }
  const Result<kvrt_append_info> info = session_.append_message(message_json("user", text));
  if (kvrt_status s = checked(info.status(), "cannot append the message")) {
    if (s == KVRT_LIMIT) advise_room();
    return s;
  }
  if (info->rewritten) {
    const bool loose = info->rewritten_at >= (before.empty() ? 0 : before.back().end);  // of half a message, say
    say("({} from token {} on {}: {})\n", counted(info->rewritten, "token"), info->rewritten_at,
        info->rewritten == 1 ? "is dropped" : "are dropped",
        loose ? "no message has them" : "the template now renders the conversation differently");
  }
  return answer(options_);
}

kvrt_status Chat::answer(const kvrt_generate_options& options, const std::string& said) {
  at_stop_ = false;
  kvrt_status s;
  {
    const HeldLog held;
    ShownAnswer shown;
    shown.go_on_from(said);
    const Result<kvrt_report> answered = session_.generate(options, [&](const Event& event) {
      if (editor_.collect() || interrupts_.stop()) (void)session_.cancel();  // DONE brings the text held back
      if (event.type == KVRT_EVENT_TOKEN || event.type == KVRT_EVENT_DONE) {
        shown.add(event.text_view());
        flush_out();
      }
      return stop_if(std::ferror(stdout));
    });
    s = answered.status().code();
    if (!s || s == KVRT_CANCELLED) last_ = *answered;  // a failure has no report: /stats shows the one before
    at_stop_ = !s && last_.reason == KVRT_REASON_STOP;
    shown.end();
    put("\n");
    flush_out();
  }
  if (s == KVRT_CANCELLED) {
    if (!leaves()) say("(stopped; /continue goes on, /retry answers again, /rewind removes the turn)\n");
  } else if (s) {
    complain("cannot answer", s);
    if (s == KVRT_LIMIT && tokens() > most_tokens()) advise_room();
    return s;
  } else if (last_.reason == KVRT_REASON_MAX_TOKENS) {
    if (isatty(STDIN_FILENO)) say("(cut at -n {}; /continue goes on)\n", flags_.max_tokens);
  } else if (last_.reason == KVRT_REASON_CONTEXT_FULL) {
    say("(the context is full: {})\n", counted(tokens(), "token"));
    advise_room();
  }
  return saves_ ? save(name_, true) : KVRT_OK;
}

kvrt_status Chat::save(const std::string& name, bool quiet, bool overwrite) {
  if (!store_) return complain(KVRT_INVALID, "there is no store: start with --store DIR");
  auto options = init<kvrt_save_options>();
  options.overwrite = overwrite;
  const Result<kvrt_save_report> saved = session_.checkpoint(name, options);
  const kvrt_status s = checked(saved.status(), "cannot save " + in_quotes(name));
  if (!s || name == name_) saved_ = s;  // what another name refused is still saved under its own
  if (s) {
    if (s == KVRT_CONFLICT) say("(/save NAME keeps this conversation under another name, /save --overwrite replaces the saved one)\n");
    return s;
  }
  name_ = name;
  if (!quiet) {
    say("saved {}: {}, {} written in {:.1f} ms\n", in_quotes(name), counted(saved->tokens, "token"), human_bytes(saved->bytes_written),
        saved->ms);
  }
  say_missing(*saved, store_);
  return KVRT_OK;
}

LineEditor::Read Chat::read_line(std::string& line, bool& pasted) {
  interrupts_.reading(true);
  const LineEditor::Read read = leaves() ? LineEditor::Read::kEnd : editor_.read(line, pasted);
  interrupts_.reading(false);
  return interrupts_.ended() ? LineEditor::Read::kEnd : read;
}

// Returns the exit code. Lines through a pipe end with the first that fails. At a terminal the user saw each failure and went on: only a
// conversation that is not saved counts.
int Chat::loop() {
  const bool terminal = isatty(STDIN_FILENO);
  kvrt_status worst = KVRT_OK;
  while (!over_) {
    std::string line;
    bool pasted = false;
    const LineEditor::Read read = read_line(line, pasted);
    if (read == LineEditor::Read::kTooLong) {
      worst = complain(KVRT_LIMIT, fmt::format("a line has more than the {} MiB that a text may have", kTextBytesMax >> 20));
      if (!terminal) break;
      continue;
    }
    if (read == LineEditor::Read::kEnd) break;
    const size_t end = line.find_last_not_of(" \t\r\n") + 1;
    if (end == 0) continue;
    if (line[0] == '/' && !pasted) {
      line.resize(end);
      if (line == "/exit") break;
      worst = command(line);
    } else {
      worst = ask(line);
    }
    if (worst && !terminal) break;
  }
  if (interrupts_.ended()) {
    say("interrupted{}\n", saves_ && !saved_ ? "; what was computed is saved" : "");
    return finish(saved_ ? saved_ : KVRT_CANCELLED);
  }
  return finish(terminal ? saved_ : worst);
}

int cmd_chat(const ChatFlags& given) {
  ChatFlags flags = given;
  if (kvrt_status s = read_grammar(flags.sampling)) return s;
  if (kvrt_status s = read_prediction(flags.speculation)) return s;
  Chat chat(flags);
  if (kvrt_status s = chat.open()) return s;
  if (isatty(STDIN_FILENO)) say("/help lists the commands{}\n", flags.store.empty() ? "; nothing is saved without --store DIR" : "");
  return chat.loop();
}

}  // namespace cli
