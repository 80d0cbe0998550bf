// kvrt store ls | stat | rm | mv | pin | unpin | ttl | gc | verify | repair.
#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <ctime>
#include <filesystem>
#include <iterator>

#include "bindings/cli/commands.h"
#include "bindings/cli/wrap.h"

namespace cli {

namespace {

struct Opened {
  Runtime runtime;
  Store store;
};

kvrt_status open(const StoreFlags& flags, bool read_only, Opened& out) {
  if (kvrt_status s = open_runtime({}, out.runtime)) return s;
  return open_store(out.runtime, flags.directory, read_only, true, out.store);
}

constexpr const char *kSeconds = "%Y-%m-%d %H:%M:%S", *kMinutes = "%Y-%m-%d %H:%M";

std::string local_time(int64_t unix_ms, const char* format = kSeconds) {
  const std::time_t seconds = unix_ms / 1000;
  std::tm parts{};
  char text[32];
  if (!localtime_r(&seconds, &parts) || !std::strftime(text, sizeof text, format, &parts)) return "?";
  return text;
}

Json entry_json(const kvrt_store_entry& e) {
  Json json;
  json.add("name", e.name).add("domain", e.domain).add("id", e.id).add("revision", e.revision).add("tokens", e.tokens);
  json.add("chunks", e.chunks).add("chunks_missing", e.chunks_missing).add("bytes", e.bytes).add("bytes_shared", e.bytes_shared);
  json.add("created_unix_ms", e.created_unix_ms).add("saved_unix_ms", e.saved_unix_ms);
  json.add("expires_unix_ms", e.expires_unix_ms).add("pinned", uint64_t{e.pinned});
  return json;
}

std::string expiry(const kvrt_store_entry& e) { return e.expires_unix_ms ? local_time(e.expires_unix_ms) : "never"; }

void entry_text(const kvrt_store_entry& e) {
  put("{}: {}, revision {}\n", printable(e.name), counted(e.tokens, "token"), e.revision);
  if (e.domain[0]) put("  domain   {}\n", printable(e.domain));
  put("  id       {}\n  created  {}\n  saved    {}\n", e.id, local_time(e.created_unix_ms), local_time(e.saved_unix_ms));
  put("  expires  {}{}\n", expiry(e), e.pinned ? fmt::format("; pinned, priority {}", e.pinned) : "");
  put("  chunks   {} on disk, {} missing\n", e.chunks, e.chunks_missing);
  put("  bytes    {} of its own, {} shared with other sessions\n", human_bytes(e.bytes - e.bytes_shared), human_bytes(e.bytes_shared));
}

// What the rows of `store ls` are made of. They fit 100 columns: where the longest name leaves no room, a longer one has a line of its own.
class Table {
 public:
  void add(const kvrt_store_entry& e) {
    rows_.push_back({printable(e.name), printable(e.domain), std::to_string(e.tokens), human_bytes(e.bytes - e.bytes_shared),
                     human_bytes(e.bytes_shared), std::to_string(e.revision), local_time(e.saved_unix_ms, kMinutes),
                     e.pinned            ? "pinned"
                     : e.expires_unix_ms ? local_time(e.expires_unix_ms, kMinutes)
                                         : "never"});
  }
  void print() {
    rows_.insert(rows_.begin(), {"NAME", "DOMAIN", "TOKENS", "OWN", "SHARED", "REV", "SAVED", "EXPIRES"});
    for (const Row& row : rows_) {
      for (size_t i = 0; i < kColumns; ++i) widths_[i] = std::max(widths_[i], columns_of(row[i]));
    }
    const bool domains = std::any_of(rows_.begin() + 1, rows_.end(), [](const Row& row) { return !row[kDomain].empty(); });
    if (!domains) rows_[0][kDomain].clear();
    widths_[kDomain] = domains ? std::min(widths_[kDomain], kDomainMax) : 0;
    size_t rest = 0;
    for (size_t i = kDomain; i < kColumns; ++i) rest += widths_[i] ? widths_[i] + kBetween : 0;
    widths_[kName] = std::min(widths_[kName], kLine - std::min(rest, kLine - 1));
    for (const Row& row : rows_) print(row);
  }

 private:
  static constexpr size_t kColumns = 8, kName = 0, kDomain = 1, kFirstNumber = 2, kSaved = 6;
  static constexpr size_t kLine = 100, kBetween = 2, kDomainMax = 12;
  using Row = std::array<std::string, kColumns>;

  void print(const Row& row) const {
    std::string line;
    const bool apart = columns_of(row[kName]) > widths_[kName] || columns_of(row[kDomain]) > widths_[kDomain];
    if (apart) put("{}{}{}\n", row[kName], row[kDomain].empty() ? "" : "  ", row[kDomain]);
    for (size_t i = 0; i < kColumns; ++i) {
      if (!widths_[i]) continue;
      const std::string cell = apart && i < kFirstNumber ? "" : row[i];
      const std::string padding(widths_[i] - columns_of(cell), ' ');
      if (i > 0) line.append(kBetween, ' ');
      line += i >= kFirstNumber && i < kSaved ? padding + cell : cell + padding;
    }
    put("{}\n", line.substr(0, line.find_last_not_of(' ') + 1));
  }

  std::vector<Row> rows_;
  std::array<size_t, kColumns> widths_{};
};

struct Listing {
  bool json;
  uint64_t sessions = 0, tokens = 0, own = 0;
  Table table;

  Flow operator()(const Event& event) {
    if (event.type != KVRT_EVENT_ENTRY) return Flow::go_on;
    const kvrt_store_entry& e = *event.entry;
    ++sessions;
    tokens += e.tokens;
    own += e.bytes - e.bytes_shared;
    if (json) {
      entry_json(e).print();
    } else {
      table.add(e);
    }
    return stop_if(Interrupt::came());
  }
};

struct Faults {
  Progress bar;
  bool json;
  uint64_t count = 0;

  Flow operator()(const Event& event) {
    bar.update(event);
    if (event.type != KVRT_EVENT_FAULT) return stop_if(Interrupt::came());
    bar.clear();
    ++count;
    if (json) {
      Json().add("fault", event.text_view()).print();
    } else {
      put("{}\n", printable(event.text_view()));
    }
    return stop_if(Interrupt::came());
  }
};

int set_pinned(const StoreFlags& flags, uint32_t pinned) {
  Opened at;
  if (kvrt_status s = open(flags, false, at)) return s;
  kvrt_status worst = KVRT_OK;
  for (const std::string& name : flags.names) {
    if (kvrt_status s = at.store.pin(name, pinned, flags.domain).code()) {
      worst = complain((pinned != 0 ? "cannot pin " : "cannot unpin ") + in_quotes(name), s);
    } else if (flags.json) {
      Json().add("name", name).add("pinned", uint64_t{pinned}).print();
    }
  }
  return finish(worst);
}

// Sets `seconds` from "90", "90s", "45m", "12h" or "30d"; "never" gives 0. False: the text is no time.
bool parse_time(const std::string& text, uint64_t& seconds) {
  if (text == "never") {
    seconds = 0;
    return true;
  }
  uint64_t count = 0, unit = 1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), count);
  const std::string_view rest(end, static_cast<size_t>(text.data() + text.size() - end));
  if (rest == "m") unit = 60;
  if (rest == "h") unit = 3600;
  if (rest == "d") unit = 86400;
  if (error != std::errc() || !count || count > UINT64_MAX / unit || (unit == 1 && !rest.empty() && rest != "s")) return false;
  seconds = count * unit;
  return true;
}

}  // namespace

std::vector<OldFile> old_files(const std::string& directory) {
  namespace fs = std::filesystem;
  std::vector<OldFile> found;
  std::error_code ignored;
  for (auto it = fs::directory_iterator(directory, ignored); !ignored && it != fs::directory_iterator(); it.increment(ignored)) {
    const std::string name = it->path().filename();
    const bool folder = name.starts_with("damaged-") && it->is_directory(ignored);
    if (!folder && name != "catalog.db.old") continue;
    OldFile old{name};
    std::error_code inside;
    if (folder) {
      for (auto in = fs::directory_iterator(it->path(), inside); !inside && in != fs::directory_iterator(); in.increment(inside)) {
        std::error_code no_file;
        const uint64_t bytes = in->file_size(no_file);
        if (!no_file) old.bytes += bytes;
      }
    } else {
      old.bytes = it->file_size(inside);
    }
    found.push_back(std::move(old));
  }
  std::sort(found.begin(), found.end(), [](const OldFile& a, const OldFile& b) { return a.name < b.name; });
  return found;
}

int cmd_store_ls(const StoreFlags& flags) {
  Interrupt interrupt;
  Opened at;
  if (kvrt_status s = open(flags, true, at)) return s;
  Listing listing{.json = flags.json, .table = {}};
  const std::string_view domain = flags.all_domains ? std::string_view() : flags.domain;
  const std::string failure = "cannot list " + in_quotes(flags.directory);
  if (kvrt_status s = checked(at.store.list(domain, listing), failure)) return finish(s);
  if (flags.json) return finish(KVRT_OK);
  const Result<kvrt_store_props> props = at.store.info();
  if (kvrt_status s = checked(props.status(), failure)) return finish(s);
  listing.table.print();
  put("{}, {}; {} of KV in one session only, {} in all\n", counted(listing.sessions, "session"), counted(listing.tokens, "token"),
      human_bytes(listing.own), human_bytes(props->chunk_bytes));
  return finish(KVRT_OK);
}

int cmd_store_stat(const StoreFlags& flags) {
  Opened at;
  if (kvrt_status s = open(flags, true, at)) return s;
  if (flags.names.empty()) {
    const Result<kvrt_store_props> props = at.store.info();
    if (kvrt_status s = checked(props.status(), "cannot read " + in_quotes(flags.directory))) return s;
    const kvrt_store_props& p = *props;
    if (flags.json) {
      Json json;
      const bool read_only = ::access(flags.directory.c_str(), W_OK) != 0;  // this command itself never writes
      json.add("format", uint64_t{p.format}).add("read_only", uint64_t{read_only}).add("sessions", p.sessions);
      json.add("chunks", p.chunks).add("segments", p.segments).add("chunk_bytes", p.chunk_bytes);
      json.add("chunk_raw_bytes", p.chunk_raw_bytes).add("chunks_damaged", p.chunks_damaged).add("disk_bytes", p.disk_bytes);
      json.add("old_bytes", p.old_bytes).add("bytes_free", p.bytes_free);
      json.add("resumes_evicted", p.resumes_evicted).print();
    } else {
      tell("{}: format {}, {}", flags.directory, p.format, counted(p.sessions, "session"));
      put("  chunks   {} in {}: {}, {} of raw KV\n", p.chunks, counted(p.segments, "segment"), human_bytes(p.chunk_bytes),
          human_bytes(p.chunk_raw_bytes));
      put("  on disk  {}, the catalog of tokens and messages included\n", human_bytes(p.disk_bytes));
      put("  evicted  {} found KV given up for want of room\n", counted(p.resumes_evicted, "resume"));
      for (const OldFile& old : old_files(flags.directory)) tell("  old      {}, {}", old.name, human_bytes(old.bytes));
    }
    return finish(KVRT_OK);
  }
  for (const std::string& name : flags.names) {
    const Result<kvrt_store_entry> entry = at.store.stat(name, flags.domain);
    if (kvrt_status s = checked(entry.status(), "cannot look up " + in_quotes(name))) return finish(s);
    if (flags.json) {
      entry_json(*entry).print();
    } else {
      entry_text(*entry);
    }
  }
  return finish(KVRT_OK);
}

int cmd_store_rm(const StoreFlags& flags) {
  Opened at;
  if (kvrt_status s = open(flags, false, at)) return s;
  kvrt_status worst = KVRT_OK;
  for (const std::string& name : flags.names) {
    if (kvrt_status s = checked(at.store.remove(name, flags.domain), "cannot remove " + in_quotes(name))) {
      worst = s;
    } else if (flags.json) {
      Json().add("removed", name).print();
    }
  }
  return finish(worst);
}

int cmd_store_mv(const StoreFlags& flags) {
  Opened at;
  if (kvrt_status s = open(flags, false, at)) return s;
  const std::string &from = flags.names[0], &to = flags.argument;
  const std::string failure = "cannot rename " + in_quotes(from) + " to " + in_quotes(to);
  if (kvrt_status s = checked(at.store.rename(from, to, flags.domain), failure)) return finish(s);
  if (flags.json) Json().add("renamed", from).add("name", to).print();
  return finish(KVRT_OK);
}

int cmd_store_pin(const StoreFlags& flags) { return set_pinned(flags, flags.priority); }
int cmd_store_unpin(const StoreFlags& flags) { return set_pinned(flags, 0); }

int cmd_store_ttl(const StoreFlags& flags) {
  uint64_t seconds = 0;
  if (!parse_time(flags.argument, seconds)) {
    return complain(KVRT_INVALID, "expected a time such as 90s, 45m, 12h or 30d, or never; found \"" + flags.argument + "\"");
  }
  Opened at;
  if (kvrt_status s = open(flags, false, at)) return s;
  const std::string& name = flags.names[0];
  const std::string failure = "cannot set the expiry of " + in_quotes(name);
  if (kvrt_status s = checked(at.store.set_ttl(name, seconds, flags.domain), failure)) return finish(s);
  const Result<kvrt_store_entry> entry = at.store.stat(name, flags.domain);
  if (kvrt_status s = checked(entry.status(), failure)) return finish(s);
  if (flags.json) {
    Json().add("name", name).add("expires_unix_ms", entry->expires_unix_ms).print();
  } else {
    tell("{} {}", name, entry->expires_unix_ms ? "expires at " + expiry(*entry) : "never expires");
  }
  return finish(KVRT_OK);
}

int cmd_store_gc(const StoreFlags& flags) {
  Interrupt interrupt;
  Opened at;
  if (kvrt_status s = open(flags, false, at)) return s;
  Progress bar("collecting");
  const Result<kvrt_gc_report> collected = at.store.gc([&](const Event& event) {
    bar.update(event);
    return stop_if(Interrupt::came());
  });
  bar.clear();
  const kvrt_status s = collected.status().code();
  if (s == KVRT_CANCELLED) return finish(complain(s, in_quotes(flags.directory) + ": stopped; the next gc does the rest"));
  if (s) return finish(complain("cannot collect in " + in_quotes(flags.directory), s));
  const kvrt_gc_report& r = *collected;
  uint64_t old = 0;
  if (flags.old) {
    const Result<uint64_t> removed = at.store.remove_old();
    if (kvrt_status e = checked(removed.status(), "cannot remove old files of " + in_quotes(flags.directory))) return finish(e);
    old = *removed;
  }
  if (r.log_bytes_kept) {
    say("another process still reads the log: {} of it stay, with removed content among them; run gc again when it is done\n",
        human_bytes(r.log_bytes_kept));
  }
  if (flags.json) {
    Json json;
    json.add("sessions_removed", r.sessions_removed).add("chunks_removed", r.chunks_removed);
    json.add("segments_removed", r.segments_removed).add("bytes_freed", r.bytes_freed).add("bytes_rewritten", r.bytes_rewritten);
    json.add("bytes_punched", r.bytes_punched).add("log_bytes_kept", r.log_bytes_kept).add("old_bytes", old).add("ms", r.ms).print();
  } else {
    put("removed {}, {} and {}: {} freed\n", counted(r.sessions_removed, "session"), counted(r.chunks_removed, "chunk"),
        counted(r.segments_removed, "file"), human_bytes(r.bytes_freed + r.bytes_punched + old));
  }
  return finish(KVRT_OK);
}

int cmd_store_verify(const StoreFlags& flags) {
  Interrupt interrupt;
  Opened at;
  if (kvrt_status s = open(flags, true, at)) return s;
  Faults faults{.bar = Progress("verifying"), .json = flags.json};
  const kvrt_status s = at.store.verify(faults).code();
  faults.bar.clear();
  if (s == KVRT_CANCELLED && reader_went()) return finish(KVRT_OK);
  if (s == KVRT_CANCELLED) return finish(complain(s, in_quotes(flags.directory) + ": stopped before its end"));
  if (s && s != KVRT_CORRUPT) return finish(complain("cannot verify " + in_quotes(flags.directory), s));
  if (s == KVRT_CORRUPT && !faults.count) return finish(complain("cannot verify " + in_quotes(flags.directory), s));
  say("{}: {}\n", flags.directory, faults.count ? counted(faults.count, "fault") : "all is well");
  const int failed = finish(KVRT_OK);
  return failed ? failed : faults.count ? KVRT_CORRUPT : KVRT_OK;
}

int cmd_store_repair(const StoreFlags& flags) {
  Interrupt interrupt;
  Runtime runtime;
  if (kvrt_status s = open_runtime({}, runtime)) return s;
  Faults faults{.bar = Progress("repairing"), .json = flags.json};
  const Result<kvrt_repair_report> repaired = Store::repair(runtime, flags.directory, faults);
  const kvrt_repair_report& r = *repaired;
  const kvrt_status s = repaired.status().code();
  faults.bar.clear();
  if (s == KVRT_CANCELLED) return finish(complain(s, in_quotes(flags.directory) + ": stopped before anything was changed"));
  if (s) return finish(complain("cannot repair " + in_quotes(flags.directory), s));
  constexpr const char* kOutcomes[] = {"?", "sound", "mended", "rebuilt"};
  const char* outcome = kOutcomes[r.outcome < std::size(kOutcomes) ? r.outcome : 0];
  if (flags.json) {
    Json json;
    json.add("outcome", outcome).add("sessions_kept", r.sessions_kept).add("sessions_with_holes", r.sessions_with_holes);
    json.add("sessions_recovered", r.sessions_recovered).add("sessions_lost", r.sessions_lost).add("chunks_kept", r.chunks_kept);
    json.add("chunks_lost", r.chunks_lost)
        .add("chunks_orphaned", r.chunks_orphaned)
        .add("bytes_kept", r.bytes_kept)
        .add("ms", r.ms)
        .print();
  } else if (r.outcome == KVRT_REPAIR_SOUND) {
    tell("{}: all is well; nothing was changed", flags.directory);
  } else {
    tell("{}: {}; {} kept, {} of them with KV to compute again, {} recovered under new names, {} lost; {} kept ({}), {} lost",
         flags.directory, outcome, counted(r.sessions_kept, "session"), r.sessions_with_holes, r.sessions_recovered, r.sessions_lost,
         counted(r.chunks_kept, "chunk"), human_bytes(r.bytes_kept), r.chunks_lost);
    if (r.chunks_orphaned)
      tell("{}: {} {} to no session that is left", flags.directory, counted(r.chunks_orphaned, "chunk"),
           r.chunks_orphaned == 1 ? "belongs" : "belong");
  }
  const int failed = finish(KVRT_OK);
  return failed ? failed : r.sessions_lost || r.chunks_orphaned ? KVRT_CORRUPT : KVRT_OK;
}

}  // namespace cli
