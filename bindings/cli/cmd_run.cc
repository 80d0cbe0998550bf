// kvrt run: one append and one generation, in a session that may come from the store and go back to it.
#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "bindings/cli/commands.h"
#include "bindings/cli/wrap.h"

namespace cli {

namespace {

constexpr uint64_t kSaveBytesLeast = 64u << 10;  // for a few tokens, and the catalog's writes with them

struct Output {
  bool stream = false;  // text is printed as it comes
  Progress bar{"prefill"};
  std::string text;
  std::vector<int32_t> tokens;
  LogitsDigest digest;
  ShownAnswer answer;

  Flow operator()(const Event& event) {
    switch (event.type) {
      case KVRT_EVENT_PROGRESS:
        bar.update(event);
        break;
      case KVRT_EVENT_LOGITS:
        digest.add(event.logits, event.logits_count);
        break;
      case KVRT_EVENT_TOKEN:
        tokens.push_back(event.token);
        [[fallthrough]];
      case KVRT_EVENT_DONE:  // with the text that a stop string held back
        bar.clear();
        text.append(event.text_view());
        if (!stream) break;
        answer.add(event.text_view());
        flush_out();
        break;
      default:
        break;
    }
    return stop_if(Interrupt::came());
  }
};

struct Run {
  Run(const RunFlags& f, std::vector<int32_t> prompt) : flags(f), prompt_tokens(std::move(prompt)) { out.stream = !f.json; }
  const RunFlags& flags;
  const std::vector<int32_t> prompt_tokens;  // of --tokens
  Runtime runtime;
  Model model, draft;
  Store store;
  Session session;
  bool goes_on = false;  // the session is one of the store
  kvrt_report resumed = init<kvrt_report>(), report = init<kvrt_report>();
  Output out;

  Result<Session> resume(const std::string& name);
  kvrt_status open_session();
  kvrt_status check_name();
  kvrt_status append();
  kvrt_status compute();
  bool saves() const { return !flags.session.empty() && !flags.no_save; }
  kvrt_status save();
  void print();
  kvrt_save_options save_options() const;
};

Result<Session> Run::resume(const std::string& name) {
  auto options = init<kvrt_session_options>();
  kvrt::assign(options.domain, options.domain_size, flags.domain);
  options.foreign_kv = flags.accept_foreign_kv ? KVRT_FOREIGN_KV_ACCEPT : KVRT_FOREIGN_KV_RECOMPUTE;
  Result<Session> saved = resume_session(model, store, name, options, resumed);
  const std::string other = saved.ok() ? other_kv(store, name, flags.domain, resumed, *model.info()) : "";
  if (!other.empty()) say("({} goes on; {})\n", in_quotes(name), other);
  if (saved.ok() && saved->info()->state == KVRT_STATE_SUSPENDED) resumed = init<kvrt_report>();  // it does not fit: nothing was loaded
  return saved;
}

kvrt_status Run::open_session() {
  if (!flags.fork_from.empty()) {
    Session origin;
    if (kvrt_status s = take(resume(flags.fork_from), origin, "cannot resume " + in_quotes(flags.fork_from))) return s;
    return take(origin.fork(), session, "cannot fork " + in_quotes(flags.fork_from));
  }
  if (!flags.session.empty()) {
    Result<Session> saved = resume(flags.session);
    const kvrt_status s = saved.status().code();
    const bool replaced = s == KVRT_INCOMPATIBLE && flags.overwrite;  // another model's
    if (s && s != KVRT_NOT_FOUND && !replaced) return complain("cannot resume " + in_quotes(flags.session), s);
    session = std::move(*saved);
    goes_on = !s;
  }
  if (session) return KVRT_OK;
  auto options = init<kvrt_session_options>();
  options.store = store.get();
  kvrt::assign(options.domain, options.domain_size, flags.domain);
  return new_session(model, options, session);
}

kvrt_save_options Run::save_options() const {
  auto options = init<kvrt_save_options>();
  options.durability = flags.durability;
  options.codec = flags.codec;
  options.overwrite = flags.overwrite;
  return options;
}

// Checks before the first token whether the save would be refused.
kvrt_status Run::check_name() {
  if (!saves()) return KVRT_OK;
  const std::string& name = flags.session;
  const kvrt_store_props props = *store.info();
  if (props.read_only == 1) {  // 2: there may be room by the time that it saves
    return complain(KVRT_IO,
                    fmt::format("cannot save {}: {} is read-only; --no-save runs without saving", in_quotes(name), in_quotes(flags.store)));
  }
  std::error_code unknown;
  const auto space = std::filesystem::space(flags.store, unknown);
  if (!unknown && space.available + props.chunk_bytes < kSaveBytesLeast) {  // a save takes the room of others' KV
    return complain(
        KVRT_NO_SPACE,
        fmt::format("cannot save {}: {} has room for {} more: free space there, or remove sessions (kvrt store rm); --no-save runs "
                    "without saving",
                    in_quotes(name), in_quotes(flags.store), human_bytes(space.available)));
  }
  if (goes_on) {
    say_open_elsewhere(session, name,
                       flags.overwrite ? "--overwrite replaces what that one saves meanwhile"
                                       : fmt::format("--fork-from {} --session NAME goes on under another name", in_quotes(name)));
  }
  if (goes_on || flags.overwrite || !store.stat(name, flags.domain).ok()) return KVRT_OK;
  return complain(KVRT_CONFLICT, fmt::format("cannot save {}: {} has a session of that name; --overwrite replaces it", in_quotes(name),
                                             in_quotes(flags.store)));
}

kvrt_status Run::append() {
  if (flags.truncate >= 0) {
    if (kvrt_status s = checked(session.truncate(flags.truncate), "cannot truncate")) return s;
  }
  if (!flags.prompt.given()) return KVRT_OK;
  if (!flags.prompt.tokens.empty()) return checked(session.append(prompt_tokens), "cannot append the tokens");
  const std::string& text = flags.prompt.text;
  if (flags.chat) return checked(session.append_message(message_json("user", text)).status(), "cannot append the message");
  return checked(session.append_text(text), "cannot append the text");
}

kvrt_status Run::compute() {
  if (flags.prompt.given() && !session.info()->tokens) return complain(KVRT_INVALID, "the prompt is empty");
  std::string stop;
  kvrt_generate_options options = generate_options(flags.sampling, flags.max_tokens, stop);
  options.emit_logits = flags.digest;
  speculate(flags.speculation, draft, options);
  const Result<kvrt_report> computed = flags.max_tokens ? session.generate(options, out) : session.prefill(KVRT_LOGITS_NONE, out);
  report = *computed;
  const kvrt_status s = computed.status().code();
  out.bar.clear();
  if (out.stream) {
    out.answer.end();
    put("\n");
  }
  flush_out();
  const bool ended_at_once = report.generated == 1 && report.reason == KVRT_REASON_EOS;
  if (ended_at_once && !flags.chat && model.info()->has_template)
    say("(the model ended the text at once; --chat asks it by its chat template)\n");
  return s == KVRT_CANCELLED && Interrupt::came() ? s : checked(s, "cannot generate");
}

kvrt_status Run::save() {
  if (!saves()) return KVRT_OK;
  const std::string name = in_quotes(flags.session);
  const Result<kvrt_save_report> saved = session.suspend(flags.session, save_options());
  if (kvrt_status s = checked(saved.status(), "cannot save " + name)) return s;
  if (!flags.json) {
    say("saved {} ({}, revision {}, {} written in {:.1f} ms)\n", name, counted(saved->tokens, "token"), saved->revision,
        human_bytes(saved->bytes_written), saved->ms);
  }
  say_missing(*saved, store);
  return KVRT_OK;
}

void Run::print() {
  // The call after resume counts the tokens that resume loaded as memory; for this process they came from the disk.
  const uint64_t moved = std::min(resumed.reused_disk, report.reused_memory);
  const uint32_t stopped = resumed.reuse_stopped != KVRT_REUSE_ALL ? resumed.reuse_stopped : report.reuse_stopped;
  const double tpot = report.generated > 1 ? report.decode_ms / static_cast<double>(report.generated - 1) : 0;
  if (!flags.json) {
    std::string times;  // there are none without a token
    if (!out.tokens.empty()) times = fmt::format(", first after {:.1f} ms", report.ttft_ms);
    if (tpot > 0) times += fmt::format(", {:.1f} tok/s", 1e3 / tpot);
    times += speculated(flags.speculation, report);
    say("{}: {} from memory, {} from disk, {} computed; {} generated ({}){}\n", counted(report.prompt_tokens, "prompt token"),
        report.reused_memory - moved, report.reused_disk + moved, report.prefilled, out.tokens.size(), reason_name(report.reason), times);
    if (flags.digest) say("logits sha256 {}\n", out.digest.hex());
    return;
  }
  Json json;
  json.add("text", out.text).add("tokens", out.tokens).add("prompt_tokens", report.prompt_tokens);
  json.add("reused_memory", report.reused_memory - moved).add("reused_disk", report.reused_disk + moved);
  json.add("prefilled", report.prefilled).add("reuse_stopped", reuse_name(stopped));
  json.add("ttft_ms", report.ttft_ms).add("tpot_ms", tpot).add("finish_reason", reason_name(report.reason));
  json.add("seed", report.seed).add("drafted", report.drafted).add("accepted", report.accepted);
  if (flags.digest) json.add("logits_sha256", out.digest.hex());
  json.print();
}

// A pipe, a socket or a file at standard input is the prompt of a command line that needs one and has none. Not of a session, which goes on
// without: there it may be the list that a shell's loop reads, or a pipe that nobody writes to.
kvrt_status read_piped(RunFlags& flags) {
  if (flags.prompt.given() || !flags.session.empty() || !flags.fork_from.empty()) return KVRT_OK;
  struct stat input {};
  const bool known = fstat(STDIN_FILENO, &input) == 0;
  if (known && (S_ISFIFO(input.st_mode) || S_ISSOCK(input.st_mode) || S_ISREG(input.st_mode))) {
    if (kvrt_status s = read_file("-", flags.prompt.text)) return s;
    flags.prompt.has_text = !flags.prompt.text.empty();
  }
  if (flags.prompt.given()) return KVRT_OK;
  return complain(KVRT_INVALID, "give a prompt: -p TEXT, -f FILE, --tokens 1,2,3, or a pipe");
}

// Reads all that the command line names: before signals are taken, as a pipe may be silent, and before a store is made.
kvrt_status read_inputs(RunFlags& flags, std::vector<int32_t>& tokens) {
  if (kvrt_status s = read_piped(flags)) return s;
  if (!flags.prompt.file.empty()) {
    if (kvrt_status s = read_file(flags.prompt.file, flags.prompt.text)) return s;
  }
  if (!flags.prompt.tokens.empty()) {
    if (kvrt_status s = parse_tokens(flags.prompt.tokens, tokens)) return s;
  }
  if (kvrt_status s = read_prediction(flags.speculation)) return s;
  return read_grammar(flags.sampling);
}

kvrt_status check(const RunFlags& flags) {
  if ((!flags.session.empty() || !flags.fork_from.empty()) && flags.store.empty()) {
    return complain(KVRT_INVALID, "--session and --fork-from name a session in a store: give --store DIR");
  }
  if (flags.store_named && flags.session.empty() && !flags.no_save) {
    return complain(KVRT_INVALID, "--store without --session would save nothing: give --session NAME, or --no-save");
  }
  if (flags.chat && !flags.prompt.tokens.empty()) return complain(KVRT_INVALID, "--chat takes a text (-p or -f), not --tokens");
  return KVRT_OK;
}

}  // namespace

int cmd_run(const RunFlags& given) {
  RunFlags flags = given;
  if (kvrt_status s = check(flags)) return s;
  std::vector<int32_t> tokens;
  if (kvrt_status s = read_inputs(flags, tokens)) return s;
  Interrupt interrupt;
  Run run(flags, std::move(tokens));
  if (kvrt_status s = open_runtime(flags.model, run.runtime)) return s;
  if (kvrt_status s = open_model(flags.model, run.runtime, run.model)) return s;
  const uint64_t tokens_most = tokens_held(*run.model.info());
  if (kvrt_status s = open_draft(flags.model, flags.speculation, run.runtime, run.model, 1, tokens_most, run.draft)) return s;
  const bool uses_store = flags.store_named || !flags.session.empty() || !flags.fork_from.empty();  // a default store alone is not used
  if (uses_store) {
    const bool must_exist = flags.no_save || !flags.fork_from.empty();
    if (kvrt_status s = open_store(run.runtime, flags.store, false, must_exist, run.store)) return s;
  }
  if (kvrt_status s = run.open_session()) return s;
  if (kvrt_status s = run.check_name()) return s;
  kvrt_status computed = run.append();
  if (!computed) computed = run.compute();
  if (computed && computed != KVRT_CANCELLED) return computed;
  const kvrt_status saved = run.save();
  if (computed == KVRT_CANCELLED) say("interrupted{}\n", run.saves() && !saved ? "; what was computed is saved" : "");
  run.print();
  return finish(saved ? saved : computed);
}

}  // namespace cli
