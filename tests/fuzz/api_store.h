// The calls of the target `api` that open, save and find sessions, and those of the store.
#pragma once

#include "tests/fuzz/api_state.h"

namespace api_fuzz {

// ---- sessions -------------------------------------------------------------------------------------------------------------------------

inline void op_open(World& w, Input& in) {
  Slot* s = w.vacate(in);
  if (s == nullptr) return;
  const Text domain = name_of(in, true);
  kvrt_session_options o{};
  o.no_prefix_cache = in.rarely() ? in.below(4) : 0;
  o.store = in.rarely() ? nullptr : w.store;
  o.domain = domain.data;
  o.domain_size = domain.size;
  Options<kvrt_session_options> options(in, o);
  kvrt_session* out = nullptr;
  const kvrt_status status = call("open", [&] { return kvrt_session_open(w.model, options.get(), &out, nullptr); });
  require((status == KVRT_OK) == (out != nullptr), "open gives a session or none");
  require(status != KVRT_OK || !options.wrong(), "wrong options are refused");
  if (status != KVRT_OK) return;
  *s = Slot();
  s->handle = out;
  s->stored = options->store != nullptr;
  s->domain.assign(options->domain ? options->domain : "", options->domain ? options->domain_size : 0);
  w.check(*s, "open");
}

inline void op_fork(World& w, Input& in) {
  Slot& from = w.slot(in);
  Slot* to = w.vacate(in);
  if (to == nullptr || to == &from) return;
  kvrt_session* out = nullptr;
  const kvrt_status status = call("fork", [&] { return kvrt_session_fork(from.handle, nullptr, &out, nullptr); });
  require((status == KVRT_OK) == (out != nullptr), "fork gives a session or none");
  if (!w.changed(from, status, "fork")) return;
  *to = from;
  to->handle = out;
  to->name.clear(), to->revision = 0;
  w.check(*to, "fork");
  w.check(from, "fork");
}

inline void op_close(World& w, Input& in) { w.close(w.slot(in)); }

inline void op_save(World& w, Input& in) {
  Slot& s = w.slot(in);
  const Text name = name_of(in, false);
  kvrt_save_options o{};
  o.durability = in.rarely() ? in.below(8) : in.below(5);
  o.overwrite = in.below(2);
  o.pin = in.rarely() ? in.below(3) : 0;
  o.ttl_seconds = in.rarely() ? (in.below(2) ? 1 : UINT64_MAX) : 0;
  o.codec = o.durability % 3;
  Options<kvrt_save_options> options(in, o);
  Out<kvrt_save_report> report(in, true);
  const bool suspend = in.below(2);
  const kvrt_status status = call(suspend ? "suspend" : "checkpoint", [&] {
    return (suspend ? kvrt_session_suspend : kvrt_session_checkpoint)(s.handle, name.data, name.size, options.get(), report.get(), nullptr);
  });
  report.check("save", status);
  const bool wrong = name.wrong || options.wrong() || report.wrong();
  require(!wrong || status != KVRT_OK, "a save takes sound arguments alone");
  w.saved(s, suspend, status, name.string(), *options.operator->(), wrong);
  w.check(s, "save");
}

inline void op_resume(World& w, Input& in) {
  Slot* s = w.vacate(in);
  if (s == nullptr) return;
  const Text name = name_of(in, false), domain = name_of(in, true);
  kvrt_session_options o{};
  o.domain = domain.data;
  o.domain_size = domain.size;
  Options<kvrt_session_options> options(in, o);
  Out<kvrt_report> report(in, true);
  Hook hook{&w, &in, nullptr, in.below(16)};
  const auto callback = in.below(4) ? nullptr : Hook::run;
  kvrt_session* out = nullptr;
  const std::string scope(options->domain ? options->domain : "", options->domain ? options->domain_size : 0);
  const Key key{scope, name.string()};
  const auto before = w.saves;
  const uint64_t ops = w.ops;
  w.reserve(*s, true);
  const kvrt_status status = call(
      "resume",
      [&] {
        return kvrt_session_resume(w.model, w.store, name.data, name.size, options.get(), callback, &hook, report.get(), &out, nullptr);
      },
      true);
  w.reserve(*s, false);
  report.check("resume", status);
  require((status == KVRT_OK) == (out != nullptr), "resume gives a session or none");
  const bool no_domain = options->domain == nullptr && options->domain_size != 0;  // of the fields that a cut struct shows
  const bool wrong = name.wrong || options.wrong() || report.wrong() || no_domain || w.store == nullptr;
  require(!wrong || status != KVRT_OK, "resume takes sound arguments alone");
  const auto found = before.find(key);
  const bool there = found != before.end() && found->second.exists;
  require(status != KVRT_OK || there, "what is resumed was saved");
  require(wrong || !there || found->second.may_expire || status == KVRT_OK || status == KVRT_CANCELLED || ops != w.ops,
          std::string("what was saved is resumed: ") + last_error().message);
  if (status != KVRT_OK) return;
  *s = Slot();
  s->handle = out;
  s->stored = true;
  s->domain = scope, s->name = key.second, s->revision = found->second.revision;
  s->tokens = found->second.tokens;
  w.check(*s, "resume");
}

// ---- the store ------------------------------------------------------------------------------------------------------------------------

inline void op_store_name(World& w, Input& in) {
  const Text domain = name_of(in, true), name = name_of(in, false);
  const Key key{domain.string(), name.string()};
  const bool wrong = domain.wrong || name.wrong || w.store == nullptr;
  const uint32_t what = in.below(6);
  Out<kvrt_store_entry> entry(in, false);
  const Text to = name_of(in, false);
  const uint64_t seconds = in.rarely() ? UINT64_MAX : in.below(3);
  kvrt_status status = KVRT_OK;
  if (what == 0) {
    status = call("stat", [&] { return kvrt_store_stat(w.store, domain.data, domain.size, name.data, name.size, entry.get(), nullptr); });
    entry.check("stat", status);
  } else if (what == 1) {
    status = call("remove", [&] { return kvrt_store_remove(w.store, domain.data, domain.size, name.data, name.size, nullptr); });
  } else if (what == 2) {
    status = call("rename",
                  [&] { return kvrt_store_rename(w.store, domain.data, domain.size, name.data, name.size, to.data, to.size, nullptr); });
  } else if (what == 3) {
    status = call("pin", [&] { return kvrt_store_pin(w.store, domain.data, domain.size, name.data, name.size, in.below(2), nullptr); });
  } else if (what == 4) {
    status = call("set_ttl", [&] { return kvrt_store_set_ttl(w.store, domain.data, domain.size, name.data, name.size, seconds, nullptr); });
  } else {
    status = buffer_call<char>("show", in, [&](char* b, size_t n, size_t* needed) {
      return kvrt_store_show(w.store, domain.data, domain.size, name.data, name.size, b, n, needed, nullptr);
    });
    if (status == KVRT_TOO_SMALL) status = KVRT_OK;
  }
  require(!wrong || status != KVRT_OK, "the store's calls take sound names alone");
  const bool refused = wrong || (what == 0 && entry.wrong()) || (what == 2 && to.wrong) || (what == 4 && seconds == UINT64_MAX);
  require(!refused || status != KVRT_OK, "the store's calls take sound arguments alone");
  w.named(what, key, {key.first, to.string()}, status, refused, seconds);
}

inline void op_store_whole(World& w, Input& in) {
  const uint32_t what = in.below(4);
  Hook hook{&w, &in, nullptr, in.below(16)};
  const auto callback = in.below(4) ? nullptr : Hook::run;
  if (what == 0) {
    Out<kvrt_gc_report> report(in, true);
    const kvrt_status status = call(
        "gc", [&] { return kvrt_store_gc(w.store, callback, &hook, report.get(), nullptr); }, true);
    report.check("gc", status);
  } else if (what == 1) {
    const kvrt_status status = call(
        "verify", [&] { return kvrt_store_verify(w.store, callback, &hook, nullptr); }, true);
    require(status != KVRT_CORRUPT, std::string("the store is whole: ") + last_error().message);
  } else if (what == 2) {
    const Text domain = name_of(in, true);
    call(
        "list", [&] { return kvrt_store_list(w.store, domain.data, domain.size, callback, &hook, nullptr); }, true);
  } else {
    Out<kvrt_store_props> props(in, false);
    const kvrt_status status = call("store_info", [&] { return kvrt_store_info(w.store, props.get(), nullptr); });
    props.check("store_info", status);
  }
}

// Another runtime, as another process would, has the store open for a while.
inline void op_other(World& w, Input& in) {
  const uint32_t what = in.below(4);
  const Text domain = name_of(in, true), name = name_of(in, false);
  const std::string path = w.root + "/store";
  kvrt_store_options o{};
  o.struct_size = sizeof o;
  o.must_exist = 1;
  kvrt_store* other = nullptr;
  const kvrt_status opened = call("store_open", [&] { return kvrt_store_open(w.other, path.data(), path.size(), &o, &other, nullptr); });
  require(opened == KVRT_OK || (opened == KVRT_NOT_FOUND && w.store == nullptr),
          std::string("two may have a store open: ") + last_error().message);
  if (opened != KVRT_OK) return;
  if (what == 0) {
    const kvrt_status status = call("gc", [&] { return kvrt_store_gc(other, nullptr, nullptr, nullptr, nullptr); });
    require(status == KVRT_OK, std::string("gc by another: ") + last_error().message);
  } else if (what == 1) {
    const kvrt_status status = call("verify", [&] { return kvrt_store_verify(other, nullptr, nullptr, nullptr); });
    require(status == KVRT_OK, std::string("verify by another: ") + last_error().message);
  } else {
    const kvrt_status status =
        call("remove", [&] { return kvrt_store_remove(other, domain.data, domain.size, name.data, name.size, nullptr); });
    if (!domain.wrong && !name.wrong) {
      Saved& v = w.saves[{domain.string(), name.string()}];
      require(status == (v.exists ? KVRT_OK : KVRT_NOT_FOUND) || v.may_expire, "another finds what was saved");
      v.exists = false;
    }
  }
  kvrt_store_release(other);
}

inline void op_reopen(World& w, Input& in) {
  if (w.depth > 0) return;
  if (in.below(2)) w.close_all();
  w.close_store();
  w.open_store(in);
}

}  // namespace api_fuzz
