// kvrt store shrink.
#include "bindings/cli/app.h"

namespace cli {

namespace {

struct ShrinkFlags {
  ModelFlags model;
  std::string directory, domain, to = "int4", older_than = "30d";
  bool all_domains = true, json = false;
};

void print_shrunk(const kvrt_shrink_report& r, uint64_t bytes_after, bool json) {
  if (json) {
    Json out;
    out.add("sessions", r.sessions).add("sessions_converted", r.sessions_converted).add("sessions_warm", r.sessions_warm);
    out.add("sessions_shared", r.sessions_shared).add("sessions_inexact", r.sessions_inexact).add("sessions_other", r.sessions_other);
    out.add("chunks_written", r.chunks_written).add("bytes_written", r.bytes_written).add("bytes_before", r.bytes_before);
    out.add("bytes_after", bytes_after).add("ms", r.ms).print();
    return;
  }
  put("converted {} of {}: {} of KV became {}\n", r.sessions_converted, counted(r.sessions, "session"), human_bytes(r.bytes_before),
      human_bytes(bytes_after));
  const auto left = [](uint64_t n, const char* why) {
    if (n) put("  left {}: {}\n", counted(n, "session"), why);
  };
  left(r.sessions_warm, "saved lately, pinned or open");
  left(r.sessions_shared, "most of their KV is also another's that is not cold");
  left(r.sessions_inexact, "converted before");
  left(r.sessions_other, "of another model, KV format or block size, without KV, or damaged");
}

int shrink(const ShrinkFlags& flags) {
  kvrt_shrink_options options = init<kvrt_shrink_options>();
  if (!parse_time(flags.older_than, options.older_than_seconds) || options.older_than_seconds == 0) {
    return complain(KVRT_INVALID, "--older-than: expected a time such as 90s, 12h or 30d; found \"" + flags.older_than + "\"");
  }
  const size_t slash = flags.to.find('/');
  options.kv_format = kv_format(flags.to.substr(0, slash));
  if (slash != std::string::npos) options.kv_format_v = kv_format(flags.to.substr(slash + 1));
  Interrupt interrupt;
  Runtime runtime;
  Store store;
  Model model;
  if (kvrt_status s = open_runtime(flags.model, runtime)) return s;
  if (kvrt_status s = open_store(runtime, flags.directory, false, true, store)) return s;
  if (kvrt_status s = open_model(flags.model, runtime, model)) return finish(s);
  Progress bar("converting");
  const auto tick = [&](const Event& event) {
    bar.update(event);
    return stop_if(Interrupt::came());
  };
  const std::string_view domain = flags.all_domains ? std::string_view() : std::string_view(flags.domain);
  const Result<kvrt_shrink_report> shrunk = store.shrink(model, domain, options, tick);
  bar.clear();
  const kvrt_status s = shrunk.status().code();
  if (s == KVRT_CANCELLED) return finish(complain(s, in_quotes(flags.directory) + ": stopped; what was converted so far stays so"));
  if (s) return finish(complain("cannot convert KV in " + in_quotes(flags.directory), s));
  if (kvrt_status e = checked(store.gc(tick).status(), "cannot collect in " + in_quotes(flags.directory))) return finish(e);
  const Result<kvrt_store_props> info = store.info();
  print_shrunk(*shrunk, info.ok() ? info->chunk_bytes : shrunk->bytes_after, flags.json);
  return finish(KVRT_OK);
}

}  // namespace

void define_shrink(CLI::App* store, int& code) {
  auto flags = std::make_shared<ShrinkFlags>();
  auto* c = store->add_subcommand("shrink", "round the KV of sessions that were not saved for long to few bits; cannot be undone");
  c->add_option("DIR,--store", flags->directory, "directory of the store")->required();
  add_model(c, flags->model);
  c->add_option("--to", flags->to, "number format of the KV on the disk; int8/int4: K int8, V int4")
      ->check(one_of({"int4", "int8", "int8/int4"}))
      ->capture_default_str();
  c->add_option("--older-than", flags->older_than, "sessions that were last saved this long ago: 90 (seconds), 45m, 12h, 30d")
      ->type_name("TIME")
      ->capture_default_str();
  c->add_option_function<std::string>(
      "--domain",
      [flags](const std::string& domain) {
        flags->domain = domain;
        flags->all_domains = false;
      },
      "only the sessions of this domain");
  c->add_flag("--json", flags->json, "one JSON object");
  add_compute(c, flags->model);
  c->callback([flags, &code] { code = shrink(*flags); });
}

}  // namespace cli
