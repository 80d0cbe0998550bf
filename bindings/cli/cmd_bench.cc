// kvrt bench: the speed that an application gets from the library, as medians over runs.
#include <fmt/core.h>
#include <stdlib.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "bindings/cli/commands.h"
#include "bindings/cli/machine.h"

namespace cli {

namespace {

constexpr uint32_t kBatchDepth = 128;

// Where states are saved: TMPDIR, else /tmp.
std::string temporary() {
  const char* named = std::getenv("TMPDIR");
  return named && *named ? named : "/tmp";
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const size_t n = values.size();
  return n % 2 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

// Ctrl-C ends the call that runs; the program goes on, and removes the directory of a state.
Flow stop(const Event&) { return stop_if(Interrupt::came()); }
kvrt_status stopped() { return complain(KVRT_CANCELLED, "stopped"); }
kvrt_status checked_run(kvrt::Status status, const std::string& what) {
  return status == KVRT_CANCELLED ? stopped() : checked(status, what);
}

kvrt_generate_options fixed_length(uint32_t count) {
  auto options = init<kvrt_generate_options>();
  options.max_tokens = count;
  options.ignore_eos = 1;
  return options;
}

struct Bench {
  const BenchFlags& flags;
  Runtime runtime = {};
  Model model = {}, draft = {};
  std::string text = {};  // that the tokens are taken from
  std::vector<int32_t> tokens = {};
  Json json = {};
  Progress bar{"measuring"};
  uint64_t done = 0, total = 0;

  kvrt_generate_options decoding() const {
    kvrt_generate_options options = fixed_length(flags.decode);
    speculate(flags.speculation, draft, options);
    return options;
  }
  kvrt_status open_draft();
  void tick() { bar.update(++done, total); }
  kvrt_status load_tokens();
  kvrt_status open_empty(const Store& store, Session& out);
  kvrt_status open(const Store& store, uint64_t prefill, Session& out);
  kvrt_status prefill(uint32_t count);
  kvrt_status decode(uint32_t depth);
  kvrt_status append(Session& session, uint32_t depth, uint32_t count);
  kvrt_status fork_of(Session& session, Session& out);
  kvrt_status batch(uint32_t sessions);
  kvrt_status state(uint32_t count);
  struct State {
    std::vector<double> bytes, save, load, first, append_bytes, append;
  };
  kvrt_status state_run(uint32_t count, const std::string& directory, State& out);
  void result(const std::string& key, double value, const char* unit);
  void speculated(uint32_t depth, uint64_t drafted, uint64_t accepted);
};

void Bench::result(const std::string& key, double value, const char* unit) {
  json.add(key, value);
  bar.clear();
  if (!flags.json) put("{:<28} {:>10.1f} {}\n", key, value, unit);
}

kvrt_status Bench::open_draft() {
  const auto most = [](const std::vector<uint32_t>& of, uint32_t least) {
    return of.empty() ? least : std::max(least, *std::max_element(of.begin(), of.end()));
  };
  const uint64_t each = uint64_t{most(flags.depth, kBatchDepth)} + flags.decode + 1;
  return cli::open_draft(flags.model, flags.speculation, runtime, model, most(flags.batch, 1), each, draft);
}

// Of all runs at this depth.
void Bench::speculated(uint32_t depth, uint64_t drafted, uint64_t accepted) {
  const std::string key = fmt::format("decode_at_{}_", depth);
  json.add(key + "drafted", drafted).add(key + "accepted", accepted);
  if (!flags.json) put("{:<28} {:>10} of {} drafted tokens\n", key + "accepted", accepted, drafted);
}

kvrt_status Bench::load_tokens() {
  uint64_t need = 256;
  for (uint32_t n : flags.prompt) need = std::max<uint64_t>(need, n);
  for (uint32_t n : flags.depth) {
    need = std::max<uint64_t>(need, n);
    for (uint32_t more : flags.append) need = std::max<uint64_t>(need, n != 0 ? uint64_t{n} + more : 0);
  }
  for (uint32_t n : flags.state) need = std::max<uint64_t>(need, n + 64);
  const Result<kvrt_model_props> props = model.info();
  if (kvrt_status s = checked(props.status(), "cannot read the model's properties")) return s;
  if (need > props->context_length + uint64_t{64}) {  // checked before so much text is made
    return complain(KVRT_LIMIT, fmt::format("the measurements need {} tokens, the model's context is {}", need, props->context_length));
  }
  if (flags.file.empty()) {
    for (uint64_t i = 0; i < need; ++i) {  // a page of a station's log: plain text of any length
      text += fmt::format("Day {}: wind {} knots, {} birds on the north beach, lamp oil {} litres.\n", i + 1, i * 7 % 31, i * 13 % 97,
                          i * 5 % 53);
    }
  }
  if (kvrt_status s = tokenize(model, text, 0, tokens)) return s;
  if (tokens.size() < need)
    return complain(KVRT_INVALID, fmt::format("the text has {}, the measurements need {}", counted(tokens.size(), "token"), need));
  return KVRT_OK;
}

// A session that neither shares nor finds KV.
kvrt_status Bench::open_empty(const Store& store, Session& out) {
  auto options = init<kvrt_session_options>();
  options.no_prefix_cache = 1;
  options.store = store.get();
  return take(Session::open(model, options), out, "cannot open a session");
}

// The same, with `count` tokens computed.
kvrt_status Bench::open(const Store& store, uint64_t count, Session& out) {
  if (kvrt_status s = open_empty(store, out)) return s;
  if (kvrt_status s = checked(out.append({tokens.data(), count}), "cannot append")) return s;
  return checked_run(out.prefill(KVRT_LOGITS_NONE, stop).status(), "cannot prefill");
}

// A run on its own, so that the next one begins where it did: recurrent layers cannot go back.
kvrt_status Bench::fork_of(Session& session, Session& out) {
  auto fork = session.fork();
  if (!fork.ok()) return checked(fork.status(), "cannot fork");
  out = std::move(*fork);
  return KVRT_OK;
}

kvrt_status Bench::prefill(uint32_t count) {
  std::vector<double> speed;
  for (uint32_t i = 0; i < flags.runs; ++i) {
    Session session;
    if (kvrt_status s = open_empty({}, session)) return s;
    if (kvrt_status s = checked(session.append({tokens.data(), count}), "cannot append")) return s;
    const auto start = now();
    if (kvrt_status s = checked_run(session.prefill(KVRT_LOGITS_LAST, stop).status(), "cannot prefill")) return s;
    speed.push_back(count * 1e3 / ms_since(start));
    tick();
  }
  result(fmt::format("prefill_{}_tok_s", count), median(speed), "tok/s");
  return KVRT_OK;
}

kvrt_status Bench::decode(uint32_t depth) {
  Session session;
  const uint32_t start_tokens = std::max(depth, 1u);  // the first token needs one before it
  if (kvrt_status s = open({}, start_tokens, session)) return s;
  std::vector<double> speed;
  uint64_t drafted = 0, accepted = 0;
  for (uint32_t i = 0; i < flags.runs; ++i) {
    Session fork;
    if (kvrt_status s = fork_of(session, fork)) return s;
    const auto start = now();
    const Result<kvrt_report> report = fork.generate(decoding(), stop);
    if (kvrt_status s = checked_run(report.status(), "cannot generate")) return s;
    speed.push_back(flags.decode * 1e3 / ms_since(start));
    drafted += report->drafted;
    accepted += report->accepted;
    tick();
  }
  result(fmt::format("decode_at_{}_tok_s", depth), median(speed), "tok/s");
  if (flags.speculation.on()) speculated(depth, drafted, accepted);
  for (uint32_t n : flags.append) {
    if (depth == 0) break;  // tokens appended to nothing are a prompt
    if (kvrt_status s = append(session, depth, n)) return s;
  }
  return KVRT_OK;
}

// Times the next message of a conversation, until the logits of its last token are there.
kvrt_status Bench::append(Session& session, uint32_t depth, uint32_t count) {
  std::vector<double> ms;
  for (uint32_t i = 0; i < flags.runs; ++i) {
    Session fork;
    if (kvrt_status s = fork_of(session, fork)) return s;
    if (kvrt_status s = checked(fork.append({tokens.data() + depth, count}), "cannot append")) return s;
    const auto start = now();
    if (kvrt_status s = checked_run(fork.prefill(KVRT_LOGITS_LAST, stop).status(), "cannot prefill")) return s;
    ms.push_back(ms_since(start));
    tick();
  }
  result(fmt::format("append_{}_at_{}_ms", count, depth), median(ms), "ms");
  return KVRT_OK;
}

// Sessions of kBatchDepth tokens that generate together; one caller takes the events of all in turn.
kvrt_status Bench::batch(uint32_t count) {
  std::vector<Session> sessions(count);
  for (Session& session : sessions) {
    if (kvrt_status s = open({}, kBatchDepth, session)) return s;
  }
  std::vector<double> speed;
  for (uint32_t i = 0; i < flags.runs; ++i) {
    const auto start = now();
    for (Session& session : sessions) {
      if (kvrt_status s = checked(session.begin(decoding()), "cannot begin")) return s;
    }
    std::vector<bool> ended(count);
    for (uint32_t left = count; left;) {
      for (uint32_t k = 0; k < count; ++k) {
        if (ended[k]) continue;
        const Result<Event> event = sessions[k].next();
        if (kvrt_status s = checked(event.status(), "cannot generate")) return s;
        if (Interrupt::came()) return stopped();
        if (event->type == KVRT_EVENT_DONE) ended[k] = true, --left;
      }
    }
    speed.push_back(count * flags.decode * 1e3 / ms_since(start));
    for (Session& session : sessions) {
      if (kvrt_status s = checked(session.truncate(kBatchDepth), "cannot truncate")) return s;
    }
    tick();
  }
  result(fmt::format("decode_batch_{}_tok_s", count), median(speed), "tok/s");
  return KVRT_OK;
}

kvrt_status Bench::state_run(uint32_t count, const std::string& directory, State& out) {
  constexpr std::string_view kName = "bench";
  auto options = init<kvrt_save_options>();
  options.codec = flags.codec;
  const auto suspend = [&](Session& session, std::vector<double>& ms, std::vector<double>& bytes) {
    const auto start = now();
    const Result<kvrt_save_report> saved = session.suspend(kName, options);
    ms.push_back(ms_since(start));
    bytes.push_back(static_cast<double>(saved->bytes_written));
    return checked(saved.status(), "cannot suspend");
  };
  {
    Store store;
    Session session;
    if (kvrt_status s = open_store(runtime, directory, false, false, store)) return s;
    if (kvrt_status s = open(store, count, session)) return s;
    if (kvrt_status s = suspend(session, out.save, out.bytes)) return s;
  }
  Model other;  // a model of its own, whose pool has none of these blocks: everything comes from the store
  Store store;
  if (kvrt_status s = open_model(flags.model, runtime, other)) return s;
  if (kvrt_status s = open_store(runtime, directory, false, true, store)) return s;
  auto resumed = init<kvrt_report>();
  auto start = now();
  Result<Session> session = Session::resume(other, store, kName, init<kvrt_session_options>(), &resumed);
  if (kvrt_status s = checked(session.status(), "cannot resume")) return s;
  out.load.push_back(ms_since(start));
  if (resumed.reused_disk + 1 < count) {
    return complain(KVRT_INTERNAL, fmt::format("only {} of {} tokens came back from the store", resumed.reused_disk, count));
  }
  start = now();
  if (kvrt_status s = checked_run(session->generate(fixed_length(1), stop).status(), "cannot generate")) return s;
  out.first.push_back(ms_since(start));
  if (kvrt_status s = checked(session->truncate(count), "cannot truncate")) return s;
  if (kvrt_status s = checked(session->append({tokens.data() + count, 64}), "cannot append")) return s;
  if (kvrt_status s = checked_run(session->prefill(KVRT_LOGITS_NONE, stop).status(), "cannot prefill")) return s;
  return suspend(*session, out.append, out.append_bytes);
}

kvrt_status Bench::state(uint32_t count) {
  State state;
  for (uint32_t i = 0; i < flags.runs; ++i) {
    const std::string parent = temporary();
    std::string directory = parent + "/kvrt-bench-XXXXXX";
    if (!mkdtemp(directory.data()))
      return complain(KVRT_IO, fmt::format("cannot make a directory in {}: {}", in_quotes(parent), std::strerror(errno)));
    kvrt_status s = state_run(count, directory, state);
    if (!s && Interrupt::came()) s = stopped();
    std::error_code ignored;
    std::filesystem::remove_all(directory, ignored);
    if (s) return s;
    tick();
  }
  bar.clear();
  Json object;
  object.add("bytes", static_cast<uint64_t>(median(state.bytes))).add("save_ms", median(state.save)).add("load_ms", median(state.load));
  object.add("first_decode_ms", median(state.first)).add("append_bytes", static_cast<uint64_t>(median(state.append_bytes)));
  object.add("append_ms", median(state.append));
  json.add(fmt::format("state_{}", count), object);
  if (!flags.json) {
    put("state of {}: {}, save {:.1f} ms, load {:.1f} ms, first token {:.1f} ms; 64 more: {}, {:.1f} ms\n", counted(count, "token"),
        human_bytes(static_cast<uint64_t>(median(state.bytes))), median(state.save), median(state.load), median(state.first),
        human_bytes(static_cast<uint64_t>(median(state.append_bytes))), median(state.append));
  }
  return KVRT_OK;
}

}  // namespace

int cmd_bench(const BenchFlags& flags) {
  Bench bench{.flags = flags};
  if (kvrt_status s = check_speculation(flags.speculation)) return s;
  if (!flags.file.empty()) {  // before signals are taken: a pipe may be silent
    if (kvrt_status s = read_file(flags.file, bench.text)) return s;
  }
  Interrupt interrupt;
  if (kvrt_status s = open_runtime(flags.model, bench.runtime)) return s;
  if (kvrt_status s = open_model(flags.model, bench.runtime, bench.model)) return s;
  if (kvrt_status s = bench.open_draft()) return s;
  if (kvrt_status s = bench.load_tokens()) return s;
  const Result<kvrt_runtime_props> runtime = bench.runtime.info();
  if (kvrt_status s = checked(runtime.status(), "cannot read the runtime's properties")) return s;
  const auto deep = static_cast<size_t>(std::count_if(flags.depth.begin(), flags.depth.end(), [](uint32_t n) { return n != 0; }));
  bench.total =
      flags.runs * (flags.prompt.size() + flags.depth.size() + deep * flags.append.size() + flags.batch.size() + flags.state.size());
  const Result<kvrt_model_props> model = bench.model.info();
  if (kvrt_status s = checked(model.status(), "cannot read the model's properties")) return s;
  const bool cpu = std::string_view(runtime->device) == "cpu";
  const std::string device = cpu ? cpu_name() : runtime->device_name;
  bench.json.add("cpu", cpu_name())
      .add("device", runtime->device)
      .add("device_name", device)
      .add("isa", runtime->isa)
      .add("threads", uint64_t{runtime->threads});
  bench.json.add("version", version_text());
  bench.json.add("numerics", runtime->numerics).add("isa_tables", runtime->isa_tables);
  bench.json.add("kv_format", k_format(flags.model)).add("kv_format_v", v_format(flags.model));
  bench.json.add("kv_bytes_per_token", model->kv_bytes_per_token).add("weight_bytes", model->weight_bytes);
  bench.json.add("block_tokens", uint64_t{model->block_tokens}).add("step_ms_max", uint64_t{model->step_ms_max});
  const char* alone = flags.model.step_ms ? "" : ", 500 ms for a prompt alone";
  if (!flags.json)
    put("{}, {}, {}, steps of at most {} ms{}\n", device, runtime->isa, counted(runtime->threads, "thread"), model->step_ms_max, alone);
  const double read_before = cpu ? read_gb_s(runtime->threads) : 0;
  {
    Session warm;  // the first touch of weights and scratch is not part of any figure
    if (kvrt_status s = bench.open({}, 64, warm)) return s;
  }
  for (uint32_t n : flags.prompt) {
    if (kvrt_status s = bench.prefill(n)) return s;
  }
  for (uint32_t n : flags.depth) {
    if (kvrt_status s = bench.decode(n)) return s;
  }
  for (uint32_t n : flags.batch) {
    if (kvrt_status s = bench.batch(n)) return s;
  }
  for (uint32_t n : flags.state) {
    if (kvrt_status s = bench.state(n)) return s;
  }
  // After the figures as well: another process may have slowed one of the two.
  if (cpu) bench.result("read_gib_s", std::max(read_before, read_gb_s(runtime->threads)) * 1e9 / 0x1p30, "GiB/s");
  if (flags.json) bench.json.print();
  return finish(KVRT_OK);
}

}  // namespace cli
