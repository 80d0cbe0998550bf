// kvrt run: one append and one generation, in a session that may come from the store and go back to it.
#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "bindings/cli/commands.h"

namespace cli {

namespace {

constexpr uint64_t kSaveBytesLeast = 64u << 10;  // for a few tokens, and the catalog's writes with them

struct Output {
  bool stream = false;  // text is printed as it comes
  Progress bar{"prefill"};
  std::string text;
  std::vector<int32_t> tokens;
  LogitsDigest digest;
};

int32_t on_event(void* user, const kvrt_event* event) {
  auto& out = *static_cast<Output*>(user);
  switch (event->type) {
    case KVRT_EVENT_PROGRESS:
      out.bar.update(event->done, event->total);
      break;
    case KVRT_EVENT_LOGITS:
      out.digest.add(event->logits, event->logits_count);
      break;
    case KVRT_EVENT_TOKEN:
      out.tokens.push_back(event->token);
      [[fallthrough]];
    case KVRT_EVENT_DONE:  // with the text that a stop string held back
      out.bar.clear();
      out.text.append(event->text, event->text_size);
      if (!out.stream) break;
      show({event->text, event->text_size});
      flush_out();
      break;
    default:
      break;
  }
  return Interrupt::came();
}

struct Run {
  explicit Run(const RunFlags& f) : flags(f) { out.stream = !f.json; }
  const RunFlags& flags;
  Runtime runtime;
  Model model;
  Store store;
  Session session;
  bool goes_on = false;  // the session is one of the store
  kvrt_report resumed = sized<kvrt_report>(), report = sized<kvrt_report>();
  Output out;

  kvrt_status resume(const std::string& name, kvrt_session** raw);
  kvrt_status open_session();
  kvrt_status check_name();
  kvrt_status append();
  kvrt_status compute();
  kvrt_status save();
  void print();
  kvrt_save_options save_options() const;
};

kvrt_status Run::resume(const std::string& name, kvrt_session** raw) {
  auto options = sized<kvrt_session_options>();
  options.domain = flags.domain.empty() ? nullptr : flags.domain.data();
  options.domain_size = flags.domain.size();
  options.foreign_kv = flags.accept_foreign_kv ? KVRT_FOREIGN_KV_ACCEPT : KVRT_FOREIGN_KV_RECOMPUTE;
  Progress bar("resuming");
  auto draw = [](void* user, const kvrt_event* event) -> int32_t {
    if (event->type == KVRT_EVENT_PROGRESS) static_cast<Progress*>(user)->update(event->done, event->total);
    return Interrupt::came();
  };
  return kvrt_session_resume(model.get(), store.get(), name.data(), name.size(), &options, draw, &bar, &resumed, raw, nullptr);
}

kvrt_status Run::open_session() {
  kvrt_session* raw = nullptr;
  if (!flags.fork_from.empty()) {
    if (kvrt_status s = resume(flags.fork_from, &raw)) return complain("cannot resume " + in_quotes(flags.fork_from), s);
    Session origin(raw);
    if (kvrt_status s = kvrt_session_fork(origin.get(), NULL, &raw, nullptr))
      return complain("cannot fork " + in_quotes(flags.fork_from), s);
    session.reset(raw);
    return KVRT_OK;
  }
  if (!flags.session.empty()) {
    const kvrt_status s = resume(flags.session, &raw);
    const bool replaced = s == KVRT_INCOMPATIBLE && flags.overwrite;  // another model's
    if (s && s != KVRT_NOT_FOUND && !replaced) return complain("cannot resume " + in_quotes(flags.session), s);
    session.reset(s ? nullptr : raw);
    goes_on = !s;
  }
  if (session) return KVRT_OK;
  auto options = sized<kvrt_session_options>();
  options.store = store.get();
  options.domain = flags.domain.empty() ? nullptr : flags.domain.data();
  options.domain_size = flags.domain.size();
  if (kvrt_status s = kvrt_session_open(model.get(), &options, &raw, nullptr)) return complain("cannot open a session", s);
  session.reset(raw);
  return KVRT_OK;
}

kvrt_save_options Run::save_options() const {
  auto options = sized<kvrt_save_options>();
  options.durability = flags.durability;
  options.codec = flags.codec;
  options.overwrite = flags.overwrite;
  return options;
}

// Checks before the first token whether the save would be refused.
kvrt_status Run::check_name() {
  if (flags.session.empty() || flags.no_save) return KVRT_OK;
  const std::string &name = flags.session, &domain = flags.domain;
  auto props = sized<kvrt_store_props>();
  kvrt_store_info(store.get(), &props, nullptr);
  if (props.read_only) {
    return complain(KVRT_IO,
                    fmt::format("cannot save {}: {} is read-only; --no-save runs without saving", in_quotes(name), in_quotes(flags.store)));
  }
  std::error_code unknown;
  const auto space = std::filesystem::space(flags.store, unknown);
  if (!unknown && space.available < kSaveBytesLeast) {
    return complain(KVRT_NO_SPACE, fmt::format("cannot save {}: {} has room for {} more; --no-save runs without saving", in_quotes(name),
                                               in_quotes(flags.store), human_bytes(space.available)));
  }
  auto entry = sized<kvrt_store_entry>();
  if (goes_on || flags.overwrite ||
      kvrt_store_stat(store.get(), domain.data(), domain.size(), name.data(), name.size(), &entry, nullptr) != KVRT_OK) {
    return KVRT_OK;
  }
  return complain(KVRT_CONFLICT, fmt::format("cannot save {}: {} has a session of that name; --overwrite replaces it", in_quotes(name),
                                             in_quotes(flags.store)));
}

kvrt_status Run::append() {
  if (flags.truncate >= 0) {
    if (kvrt_status s = kvrt_session_truncate(session.get(), flags.truncate, nullptr)) return complain("cannot truncate", s);
  }
  if (!flags.prompt.given()) return KVRT_OK;
  if (!flags.prompt.tokens.empty()) {
    std::vector<int32_t> tokens;
    if (kvrt_status s = parse_tokens(flags.prompt.tokens, tokens)) return s;
    const kvrt_status s = kvrt_session_append(session.get(), tokens.data(), tokens.size(), nullptr);
    return s ? complain("cannot append the tokens", s) : KVRT_OK;
  }
  std::string text = flags.prompt.text;
  if (!flags.prompt.file.empty()) {
    if (kvrt_status s = read_file(flags.prompt.file, text)) return s;
  }
  if (flags.chat) {
    const std::string message = message_json("user", text);
    const kvrt_status s = kvrt_session_append_message(session.get(), message.data(), message.size(), nullptr, nullptr);
    return s ? complain("cannot append the message", s) : KVRT_OK;
  }
  const kvrt_status s = kvrt_session_append_text(session.get(), text.data(), text.size(), 0, nullptr);
  return s ? complain("cannot append the text", s) : KVRT_OK;
}

kvrt_status Run::compute() {
  auto props = sized<kvrt_session_props>();
  kvrt_session_info(session.get(), &props, nullptr);
  if (flags.prompt.given() && !props.tokens) return complain(KVRT_INVALID, "the prompt is empty");
  kvrt_status s;
  if (flags.max_tokens == 0) {
    s = kvrt_session_prefill(session.get(), KVRT_LOGITS_NONE, on_event, &out, &report, nullptr);
  } else {
    OptionBuffers buffers;
    kvrt_generate_options options;
    if (kvrt_status bad = generate_options(flags.sampling, flags.max_tokens, buffers, options)) return bad;
    options.emit_logits = flags.digest;
    s = kvrt_session_generate(session.get(), &options, on_event, &out, &report, nullptr);
  }
  out.bar.clear();
  if (out.stream) put("\n");
  flush_out();
  if (s == KVRT_CANCELLED && Interrupt::came()) {
    say("interrupted{}\n", !flags.session.empty() && !flags.no_save ? "; what was computed is saved" : "");
    return s;
  }
  return s ? complain("cannot generate", s) : KVRT_OK;
}

kvrt_status Run::save() {
  if (flags.session.empty() || flags.no_save) return KVRT_OK;
  auto saved = sized<kvrt_save_report>();
  const std::string& name = flags.session;
  const kvrt_save_options options = save_options();
  if (kvrt_status s = kvrt_session_suspend(session.get(), name.data(), name.size(), &options, &saved, nullptr)) {
    return complain("cannot save " + in_quotes(name), s);
  }
  if (!flags.json) {
    say("saved {} ({}, revision {}, {} written in {:.1f} ms)\n", in_quotes(name), counted(saved.tokens, "token"), saved.revision,
        human_bytes(saved.bytes_written), saved.ms);
  }
  say_missing(saved);
  return KVRT_OK;
}

void Run::print() {
  // The call after resume counts the tokens that resume loaded as memory; for this process they came from the disk.
  const uint64_t moved = std::min(resumed.reused_disk, report.reused_memory);
  const uint32_t stopped = resumed.reuse_stopped != KVRT_REUSE_ALL ? resumed.reuse_stopped : report.reuse_stopped;
  const double tpot = report.generated > 1 ? report.decode_ms / static_cast<double>(report.generated - 1) : 0;
  if (!flags.json) {
    say("{}: {} from memory, {} from disk, {} computed; {} generated ({}), first after {:.1f} ms, {:.1f} tok/s\n",
        counted(report.prompt_tokens, "prompt token"), report.reused_memory - moved, report.reused_disk + moved, report.prefilled,
        out.tokens.size(), reason_name(report.reason), report.ttft_ms, tpot > 0 ? 1e3 / tpot : 0.0);
    if (flags.digest) say("logits sha256 {}\n", out.digest.hex());
    return;
  }
  Json json;
  json.add("text", out.text).add("tokens", out.tokens).add("prompt_tokens", report.prompt_tokens);
  json.add("reused_memory", report.reused_memory - moved).add("reused_disk", report.reused_disk + moved);
  json.add("prefilled", report.prefilled).add("reuse_stopped", reuse_name(stopped));
  json.add("ttft_ms", report.ttft_ms).add("tpot_ms", tpot).add("finish_reason", reason_name(report.reason));
  json.add("seed", report.seed);
  if (flags.digest) json.add("logits_sha256", out.digest.hex());
  json.print();
}

kvrt_status check(const RunFlags& flags) {
  if ((!flags.session.empty() || !flags.fork_from.empty()) && flags.store.empty()) {
    return complain(KVRT_INVALID, "--session and --fork-from name a session in a store: give --store DIR");
  }
  if (!flags.prompt.given() && flags.session.empty() && flags.fork_from.empty()) {
    return complain(KVRT_INVALID, "give a prompt: -p TEXT, -f FILE or --tokens 1,2,3");
  }
  if (flags.store_named && flags.session.empty() && !flags.no_save) {
    return complain(KVRT_INVALID, "--store without --session would save nothing: give --session NAME, or --no-save");
  }
  if (flags.chat && !flags.prompt.tokens.empty()) return complain(KVRT_INVALID, "--chat takes a text (-p or -f), not --tokens");
  return KVRT_OK;
}

}  // namespace

int cmd_run(const RunFlags& flags) {
  if (kvrt_status s = check(flags)) return s;
  Interrupt interrupt;
  Run run(flags);
  if (kvrt_status s = open_runtime(flags.model, run.runtime)) return s;
  if (kvrt_status s = open_model(flags.model, run.runtime.get(), run.model)) return s;
  const bool uses_store = flags.store_named || !flags.session.empty() || !flags.fork_from.empty();  // a default store alone is not used
  if (uses_store) {
    if (kvrt_status s = open_store(run.runtime.get(), flags.store, false, false, run.store)) return s;
  }
  if (kvrt_status s = run.open_session()) return s;
  if (kvrt_status s = run.check_name()) return s;
  kvrt_status computed = run.append();
  if (!computed) computed = run.compute();
  if (computed && computed != KVRT_CANCELLED) return computed;
  const kvrt_status saved = run.save();
  run.print();
  return finish(saved ? saved : computed);
}

}  // namespace cli
