// The model of the target `api`: the sessions, the content of the store, and the answers that a call may therefore give.
#pragma once

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <map>
#include <optional>

#include "tests/fuzz/api_rig.h"

namespace api_fuzz {

struct Slot {
  kvrt_session* handle = nullptr;
  std::vector<int32_t> tokens;  // while it generates or is busy: those before
  bool stored = false;          // it has a store
  bool generating = false, all_or_nothing = false;
  bool busy = false;      // inside a call of it, in its callback
  bool closing = false;   // closed there: the call's return ends it
  bool reserved = false;  // a resume will fill it
  std::string domain, name;
  uint64_t revision = 0;  // of that name
};

struct Saved {
  bool exists = false, may_expire = false;
  uint64_t revision = 0, newest = 0;
  std::vector<int32_t> tokens;
};
using Key = std::pair<std::string, std::string>;  // domain and name

struct World;

// A callback: it makes other calls, answers a host sampler, and stops at one of its events.
struct Hook {
  World* world;
  Input* in;
  Slot* session;
  uint32_t stop_at;  // 0: never
  uint32_t events = 0;
  static int32_t run(void* user, const kvrt_event* event);
};

struct World {
  World() {
    const char* parent = std::filesystem::is_directory("/dev/shm") ? "/dev/shm" : "/tmp";
    std::string pattern = std::string(parent) + "/kvrt-fuzz-XXXXXX";
    require(mkdtemp(pattern.data()) != nullptr, "a directory");
    root = pattern;
    kvrt_runtime_options o{};
    o.struct_size = sizeof o;
    o.threads = 1;
    o.log_level = KVRT_LOG_DEBUG;
    o.log = [](void*, int32_t, const char* text, size_t size) {
      const std::string line(text, size);
      require(is_utf8(line.c_str()) && line.find(kSecret) == std::string::npos, "no prompt in the log: " + line);
    };
    require(kvrt_runtime_open(&o, &runtime, nullptr) == KVRT_OK, "the runtime opens");
    o.log = nullptr;
    require(kvrt_runtime_open(&o, &other, nullptr) == KVRT_OK, "another runtime opens");
    kvrt_model_options m{};
    m.struct_size = sizeof m;
    m.block_tokens = 16;
    m.kv_bytes_max = 20 * 16 * uint64_t{1024};  // a pool that is too small for all
    const std::string path = KVRT_TINY_DIR "/llama_gqa_q4_1.gguf";
    const kvrt_status status = kvrt_model_open(runtime, path.data(), path.size(), &m, nullptr, nullptr, &model, nullptr);
    require(status == KVRT_OK, std::string("the model opens: ") + last_error().message);
    vocab = model_info().vocab_size;
  }
  ~World() {
    kvrt_model_release(model);
    kvrt_runtime_release(runtime);
    kvrt_runtime_release(other);
    std::error_code ignored;
    std::filesystem::remove_all(root, ignored);
  }
  World(const World&) = delete;

  kvrt_model_props model_info() const {
    kvrt_model_props p{};
    p.struct_size = sizeof p;
    require(kvrt_model_info(model, &p, nullptr) == KVRT_OK, "model_info");
    return p;
  }

  // ---- sessions ---------------------------------------------------------------------------------------------------------------------

  Slot& slot(Input& in) {
    const uint8_t which = in.byte();
    Slot& s = slots[which % kSlots];
    if (which < 248 && !s.closing && s.handle != nullptr) return s;
    return none = Slot();
  }
  // One that is free, after closing the session in it; nullptr when it is in use.
  Slot* vacate(Input& in) {
    Slot& s = slots[in.byte() % kSlots];
    if (s.busy || s.reserved) return nullptr;
    close(s);
    return &s;
  }
  void reserve(Slot& s, bool on) { s.reserved = on; }
  void close(Slot& s) {
    kvrt_session_close(s.handle);
    if (s.busy) {
      s.closing = true;
    } else if (s.handle != nullptr) {
      s = Slot();
    }
  }
  void close_all() {
    for (Slot& s : slots) close(s);
  }
  // A call whose callback may call others; false: it is refused before.
  bool enter(Slot& s) {
    if (s.handle == nullptr || s.busy || s.generating) return false;
    return s.busy = true;
  }
  // True when the session is no more.
  bool leave(Slot& s, bool entered) {
    if (!entered) return false;
    s.busy = false;
    if (!s.closing) return false;
    s = Slot();
    return true;
  }
  // The status of a call that cannot be made now.
  void refused(const Slot& s, kvrt_status status, const std::string& what) const {
    require(status == (s.handle == nullptr ? KVRT_INVALID : KVRT_BUSY), what + ": INVALID without a session, BUSY inside its callback");
  }
  // True when the call was made, and OK. `what`: a call that a generating session refuses.
  bool changed(const Slot& s, kvrt_status status, const std::string& what) const {
    if (s.handle == nullptr || s.busy) return refused(s, status, what), false;
    require(!s.generating || status != KVRT_OK, what + ": refused while it generates");
    return status == KVRT_OK;
  }

  std::vector<int32_t> tokens_of(const Slot& s) const {
    size_t needed = 0;
    std::vector<int32_t> tokens(1024);
    require(kvrt_session_tokens(s.handle, tokens.data(), tokens.size(), &needed, nullptr) == KVRT_OK, "tokens can be read in any state");
    tokens.resize(needed);
    return tokens;
  }
  kvrt_session_props info(const Slot& s) const {
    kvrt_session_props p{};
    p.struct_size = sizeof p;
    require(kvrt_session_info(s.handle, &p, nullptr) == KVRT_OK, "info can be read in any state");
    require(std::strstr(p.last_error_message, kSecret) == nullptr, "no prompt in last_error_message");
    return p;
  }
  void check(const Slot& s, const std::string& what) const {
    if (s.handle == nullptr || s.closing) return;
    const auto now = tokens_of(s);
    const kvrt_session_props p = info(s);
    require(p.tokens == now.size() && p.kv_tokens <= p.tokens, what + ": info counts the tokens");
    require(p.state != KVRT_STATE_FAILED, what + ": failed: " + p.last_error_message);
    if (s.busy) return;
    require((p.state == KVRT_STATE_GENERATING) == s.generating, what + ": the state");
    const bool begins = now.size() >= s.tokens.size() && std::equal(s.tokens.begin(), s.tokens.end(), now.begin());
    require(begins && (s.generating || now.size() == s.tokens.size()), what + ": " + std::to_string(now.size()) + " tokens, expected " +
                                                                           std::to_string(s.tokens.size()) + (begins ? "" : ", or others"));
  }
  // The session has more tokens now, and the first `kept` are as they were.
  void extend(Slot& s, size_t kept, const std::string& what) const {
    auto now = tokens_of(s);
    require(now.size() >= kept && std::equal(now.begin(), now.begin() + static_cast<ptrdiff_t>(kept), s.tokens.begin()),
            what + ": the beginning stays");
    s.tokens = std::move(now);
  }
  void rewritten(Slot& s, kvrt_status status, const Out<kvrt_append_info>& info, const std::string& what) const {
    if (changed(s, status, what)) {
      const size_t before = s.tokens.size();
      const kvrt_append_info i = info.value();
      if (info.whole()) require(i.rewritten_at + i.rewritten == before, what + ": what is rewritten is the end");
      extend(s, info.whole() ? i.rewritten_at : 0, what);
      if (info.whole()) require(s.tokens.size() == before - i.rewritten + i.appended, what + ": as many tokens as it says");
    }
    check(s, what);
  }
  void check_report(const kvrt_report& r, size_t tokens) const {
    require(r.prompt_tokens == r.reused_memory + r.reused_disk + r.prefilled, "the parts of prompt_tokens");
    require(r.reason >= KVRT_REASON_EOS && r.reason <= KVRT_REASON_PREFILLED, "a reason");
    if (r.reason == KVRT_REASON_CANCELLED || (r.reason == KVRT_REASON_CONTEXT_FULL && !r.prompt_tokens)) return;
    require(r.prompt_tokens + r.generated == tokens, "the prompt and what was generated are the session");
  }
  void after_next(Slot& s) const {
    if (s.generating && info(s).state != KVRT_STATE_GENERATING) {
      s.generating = false;
      extend(s, s.tokens.size(), "next");
    }
    check(s, "next");
  }

  // ---- the store --------------------------------------------------------------------------------------------------------------------

  // The tokens that were saved beside a generation: all that it has, or those before it, where it is to leave no trace.
  std::vector<int32_t> saved_beside(const Slot& s, const std::string& name, bool may_expire) const {
    kvrt_store_entry e{};
    e.struct_size = sizeof e;
    auto now = tokens_of(s);
    const kvrt_status status = kvrt_store_stat(store, s.domain.data(), s.domain.size(), name.data(), name.size(), &e, nullptr);
    require(status == KVRT_OK || may_expire, "what was saved is there");
    if (status != KVRT_OK) return now;
    require(e.tokens == now.size() || e.tokens == s.tokens.size(), "a save of all tokens, or of those before");
    return e.tokens == now.size() ? now : s.tokens;
  }
  void saved(Slot& s, bool suspend, kvrt_status status, const std::string& name, const kvrt_save_options& o, bool wrong) {
    const bool rests = s.handle != nullptr && !s.busy && !s.generating;
    const bool could = s.handle != nullptr && (rests || !suspend) && s.stored && !wrong && !read_only;
    Saved& v = saves[{s.domain, name}];
    const bool own = v.exists && s.name == name && s.revision == v.revision;
    if (could && status == KVRT_CONFLICT) require(v.exists && !o.overwrite && !own, "CONFLICT where the name is another's");
    const bool beside = !suspend && s.handle != nullptr && !rests;
    if (beside ? status != KVRT_OK : !changed(s, status, "save")) return require(!beside || status != KVRT_BUSY, "no checkpoint is BUSY");
    require(could, "a save without a store, or into one that is read");
    require(!v.exists || v.may_expire || o.overwrite || own, "no save goes over another's");
    const uint64_t revision = info(s).revision;
    require(revision > v.newest, "revisions of a name go up");
    const bool may_expire = o.ttl_seconds > 0 || (v.exists && v.may_expire);
    v = {true, may_expire, revision, revision, beside ? saved_beside(s, name, may_expire) : s.tokens};
    s.name = name, s.revision = revision;
  }
  // The effect of a stat, remove, rename, pin, set_ttl or show on the names.
  void named(uint32_t what, const Key& key, const Key& to, kvrt_status status, bool refused, uint64_t seconds) {
    const bool writes = what >= 1 && what <= 4;
    if (refused) return;
    require(!writes || !read_only || status != KVRT_OK, "a store that is read is not changed");
    if (writes && read_only) return;
    Saved& v = saves[key];
    require(v.exists || status != KVRT_OK, "what is found was saved");
    if (what == 2 && v.exists) {
      if (key == to) return resync(key);
      Saved& target = saves[to];
      if (status != KVRT_OK) return require(v.may_expire || target.exists, "a free name can be taken");
      require(!target.exists || target.may_expire, "rename goes over no session");
      const uint64_t newest = std::max(v.newest, target.newest);
      target = v;
      v.exists = false;
      resync(to);
      return require(target.revision > newest, "a renamed session has a revision of its own");
    }
    require(!v.exists || v.may_expire || status == KVRT_OK, "what was saved is found");
    if (status == KVRT_OK && what == 1) v.exists = false;
    if (status == KVRT_OK && what == 4) v.may_expire = seconds > 0;
  }
  void resync(const Key& key) {
    kvrt_store_entry e{};
    e.struct_size = sizeof e;
    Saved& v = saves[key];
    const kvrt_status status =
        kvrt_store_stat(store, key.first.data(), key.first.size(), key.second.data(), key.second.size(), &e, nullptr);
    require(status == KVRT_OK || v.may_expire, "a renamed session is there");
    if (status != KVRT_OK) return;
    require(e.tokens == v.tokens.size() && e.revision >= v.revision, "a renamed session is the same");
    v.revision = v.newest = e.revision;
  }

  void open_store(Input& in) {
    kvrt_store_options o{};
    const bool plain = in.below(4) != 0;
    o.read_only = plain ? 0 : in.below(3);
    o.must_exist = plain ? 0 : in.below(2);
    o.disk_bytes_max = plain ? 0 : in.word() * uint64_t{16};
    Options<kvrt_store_options> options(in, o);
    const std::string path = root + "/store";
    const kvrt_status status =
        call("store_open", [&] { return kvrt_store_open(runtime, path.data(), path.size(), options.get(), &store, nullptr); });
    require((status == KVRT_OK) == (store != nullptr) && (status != KVRT_OK || !options.wrong()), "open gives a store or none");
    read_only = status == KVRT_OK && store_info().read_only;
  }
  kvrt_store_props store_info() const {
    kvrt_store_props p{};
    p.struct_size = sizeof p;
    require(kvrt_store_info(store, &p, nullptr) == KVRT_OK, "store_info");
    return p;
  }
  void close_store() {
    kvrt_store_retain(store);
    kvrt_store_release(store);
    kvrt_store_release(store);
    store = nullptr;
  }

  void start(Input& in) {
    std::filesystem::remove_all(root + "/store");
    saves.clear();
    open_store(in);
  }
  void step(Input& in);
  // At the end all sessions that were saved are there, as they were saved.
  void finish() {
    close_all();
    close_store();
    const kvrt_model_props p = model_info();
    require(p.sessions == 0 && p.units_free + p.units_cached == p.units, "sessions that are closed hold no units");
    Input none_left(nullptr, 0);
    Input plain(reinterpret_cast<const uint8_t*>("\1"), 1);
    open_store(plain);
    const auto listed = [](void* user, const kvrt_event* event) {
      const auto found = static_cast<World*>(user)->saves.find({event->entry->domain, event->entry->name});
      require(found != static_cast<World*>(user)->saves.end() && found->second.exists, "what is listed was saved");
      require(found->second.revision == event->entry->revision && found->second.tokens.size() == event->entry->tokens, "as it was saved");
      return 0;
    };
    require(kvrt_store_list(store, nullptr, 0, listed, this, nullptr) == KVRT_OK, "list");
    for (const auto& [key, v] : saves) resume(key, v);
    require(kvrt_store_verify(store, nullptr, nullptr, nullptr) == KVRT_OK, std::string("the store is whole: ") + last_error().message);
    require(kvrt_store_gc(store, nullptr, nullptr, nullptr, nullptr) == KVRT_OK, "gc");
    close_store();
  }
  void resume(const Key& key, const Saved& v) {
    Slot s;
    kvrt_session_options o{};
    o.struct_size = sizeof o;
    o.domain = key.first.data();
    o.domain_size = key.first.size();
    const kvrt_status status =
        kvrt_session_resume(model, store, key.second.data(), key.second.size(), &o, nullptr, nullptr, nullptr, &s.handle, nullptr);
    require(v.exists || status != KVRT_OK, "what was removed is gone");
    require(!v.exists || v.may_expire || status == KVRT_OK, std::string("what was saved is resumed: ") + last_error().message);
    if (status != KVRT_OK) return;
    s.tokens = v.tokens;
    check(s, "resume at the end");
    kvrt_session_close(s.handle);
  }

  static constexpr size_t kSlots = 4;
  kvrt_runtime *runtime = nullptr, *other = nullptr;
  kvrt_model* model = nullptr;
  kvrt_store* store = nullptr;
  bool read_only = false;
  uint32_t vocab = 0;
  uint32_t depth = 0;  // of callbacks
  uint64_t ops = 0;
  std::string root;
  Slot slots[kSlots], none;
  std::map<Key, Saved> saves;
};

inline int32_t Hook::run(void* user, const kvrt_event* event) {
  Hook& h = *static_cast<Hook*>(user);
  World& w = *h.world;
  require(event->struct_size == sizeof *event && event->type <= KVRT_EVENT_TOOL_CALL, "an event");
  ++h.events;
  if (h.session != nullptr && event->type == KVRT_EVENT_LOGITS && !h.session->closing) {
    const auto token = static_cast<int32_t>(h.in->byte() % (w.vocab + 1));
    call("accept", [&] { return kvrt_session_accept(h.session->handle, token, nullptr); });
  }
  if (w.depth < 2 && !h.in->empty() && h.in->below(4) == 0) {
    ++w.depth;
    w.step(*h.in);
    --w.depth;
  }
  return h.events == h.stop_at;
}

// kvrt_generate_options and the generation that they lead to.
struct Generation {
  std::vector<int32_t> stops;
  std::string strings, grammar;
  std::vector<kvrt_token_value> bias;
  std::optional<Options<kvrt_generate_options>> options;

  Generation(World& w, Input& in) {
    kvrt_generate_options o{};
    o.max_tokens = in.rarely() ? 0 : 1 + in.below(6);
    o.seed = 7;
    const uint8_t flags = in.byte(), kind = in.byte();
    o.ignore_eos = flags & 1, o.emit_logits = flags >> 1 & 1, o.all_or_nothing = flags >> 2 & 1, o.sampler = (flags >> 3 & 7) == 7;
    o.no_generation_prompt = flags >> 6 & 1, o.prefill = flags >= 240;
    if (o.prefill) o.logits = kind % 3;
    if (kind >= 128) more(w, in, o);
    options.emplace(in, o);
  }

 private:
  void more(World& w, Input& in, kvrt_generate_options& o) {
    static const float kNumbers[] = {0, 0.5f, 1, 1.5f, -1, 1e30f, __builtin_nanf(""), -__builtin_inff()};
    float* const fields[] = {&o.temperature, &o.top_p, &o.min_p, &o.repetition_penalty, &o.frequency_penalty, &o.presence_penalty};
    for (float* field : fields) *field = kNumbers[in.rarely() ? in.below(8) : in.below(3)];
    o.top_k = in.below(8), o.penalty_window = in.below(8);
    o.top_logprobs = in.rarely() ? 65 : in.below(4);
    for (uint32_t i = in.below(4); i > 0; --i) stops.push_back(static_cast<int32_t>(in.rarely() ? w.vocab : in.byte() % w.vocab));
    for (uint32_t i = in.below(4); i > 0; --i) bias.push_back({static_cast<int32_t>(in.byte() % w.vocab), kNumbers[in.below(8)]});
    for (uint32_t i = in.below(3); i > 0; --i) strings += in.bytes(in.below(4)) + (in.rarely() ? "" : std::string(1, '\0'));
    static const char* const kGrammars[] = {"root ::= [a-z]{3}", "root ::= (", "{\"type\": \"boolean\"}", "{\"type\": 5}", "root ::= \"\""};
    o.grammar_kind = in.rarely() ? in.below(6) : 0;
    if (o.grammar_kind) grammar = kGrammars[in.below(5)], o.ignore_eos = 0;
    o.reply = in.rarely() ? in.below(9) : 0;
    o.stop_tokens = stops.data(), o.stop_token_count = stops.size();
    o.logit_bias = bias.data(), o.logit_bias_count = bias.size();
    o.stop_strings = strings.data(), o.stop_strings_size = strings.size();
    o.grammar = grammar.data(), o.grammar_size = o.grammar_kind == KVRT_GRAMMAR_CONTINUE ? 0 : grammar.size();
  }
};

}  // namespace api_fuzz
