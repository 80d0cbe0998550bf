#include "graph.h"

#include <algorithm>
#include <cstdio>

#include "json.h"

namespace {

constexpr auto kReadTime = std::chrono::milliseconds(100);  // of a call, for sessions of the store that are new to it
constexpr size_t kKeysMax = 200'000;                        // of an answer

uint64_t mix(uint64_t x) {
  x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9u;
  x = (x ^ x >> 27) * 0x94D049BB133111EBu;
  return x ^ x >> 31;
}

uint64_t hash(std::string_view text) {
  uint64_t h = 1;
  for (const char c : text) h = mix(h + static_cast<unsigned char>(c) + 0x9E3779B97F4A7C15u);
  return h | 1;  // not 0
}

uint64_t count(const Json* value) { return value && value->number > 0 ? static_cast<uint64_t>(value->number) : 0; }

}  // namespace

std::shared_ptr<Graph::Domain> Graph::domain_of(const std::string& name) {
  std::lock_guard lock(mu_);
  auto& domain = domains_[name];
  if (!domain) domain = std::make_shared<Domain>();
  return domain;
}

Graph::Chain Graph::chain_of(const std::vector<int32_t>& tokens) const {
  const size_t block = std::max<uint32_t>(model_.info()->block_tokens, 1);
  Chain chain;
  uint64_t h = 0;
  for (size_t i = 0; i < tokens.size(); ++i) {
    h = mix(h + static_cast<uint32_t>(tokens[i]) + 0x9E3779B97F4A7C15u);
    if ((i + 1) % block == 0 || i + 1 == tokens.size()) chain.push_back(h);
  }
  return chain;
}

// A session that nobody used since the last call has the chain that it had.
void Graph::look_at_open(const std::string& name, Domain* domain) {
  std::map<std::string, Open> now;
  for (const auto& [session_name, used, busy, conversation] : conversations_.open(name)) {
    const auto info = conversation->session.info();
    if (!info.ok()) continue;
    const auto before = domain->open.find(session_name);
    Open open{used, info->tokens, info->kv_tokens, info->revision, info->state == KVRT_STATE_GENERATING, info->kv_units > 0, {}};
    if (!busy && before != domain->open.end() && before->second.used == used) {
      open.chain = std::move(before->second.chain);
    } else {
      std::vector<int32_t> tokens;
      if (!conversation->session.tokens(tokens).ok()) continue;
      open.tokens = tokens.size();
      open.chain = chain_of(tokens);
    }
    if (busy) open.used = UINT64_MAX;  // it goes on changing
    now[session_name] = std::move(open);
  }
  domain->open = std::move(now);
}

// The list takes long where there are many sessions: it is then made less often.
void Graph::list_saved(const std::string& name, Domain* domain) {
  const auto begin = Clock::now();
  kvrt::Store store = conversations_.store();
  if (store.get() != domain->store.get()) domain->saved.clear(), domain->list_again = {};
  domain->store = std::move(store);
  if (!domain->store || begin < domain->list_again) return;
  std::map<std::string, Saved> now;
  const auto take = [&](const kvrt::Event& e) {
    const kvrt_store_entry& entry = *e.entry;
    const auto before = domain->saved.find(entry.name);
    if (before != domain->saved.end() && before->second.revision == entry.revision) {
      now[entry.name] = before->second;
      return;
    }
    now[entry.name] = {entry.revision, entry.tokens, 0, entry.saved_unix_ms, false, 0, {}};
  };
  if (domain->store.list(name, take).ok()) domain->saved = std::move(now);
  const auto end = Clock::now();
  domain->list_again = end + 9 * (end - begin);
}

void Graph::read_one(const kvrt::Store& store, const std::string& name, const std::string& domain, Saved* saved, const Open* open) {
  saved->read = true;  // also where it cannot be read: it has no blocks then
  std::string text;
  if (!store.show(name, text, domain).ok()) return;
  try {
    const Json shown = read_json(text, kKvrtDepthMax);
    const Json *tokens = shown.find("tokens"), *chunks = shown.find("chunks"), *model = shown.find("model_id");
    if (!tokens || !chunks || !model) return;
    std::vector<int32_t> ids;
    for (const Json& token : tokens->items) ids.push_back(static_cast<int32_t>(token.number));
    saved->tokens = ids.size();
    saved->on_disk = 0;
    for (const Json& chunk : chunks->items) {
      if (count(chunk.find("bytes")) == 0) break;
      saved->on_disk = count(chunk.find("end"));
    }
    saved->chain = chain_of(ids);
    saved->model = hash(model->text);
  } catch (const JsonError&) {
    return;
  }
  if (open && open->revision == saved->revision) own_model_ = saved->model;
}

// The number of sessions that there was no time for.
size_t Graph::read_saved(const std::string& name, Domain* domain, const std::vector<Row>& rows) {
  const auto until = Clock::now() + kReadTime;
  size_t left = 0;
  for (const Row& row : rows) {
    if (!row.saved || row.saved->read) continue;
    if (Clock::now() >= until) {
      ++left;
      continue;
    }
    read_one(domain->store, *row.name, name, &domain->saved[*row.name], row.open);
  }
  return left;
}

std::string Graph::json(const std::string& name, size_t limit, bool pool) {
  const std::shared_ptr<Domain> domain = domain_of(name);
  std::lock_guard lock(domain->mu);
  look_at_open(name, domain.get());
  list_saved(name, domain.get());
  std::vector<Row> rows;
  for (const auto& [session, open] : domain->open) rows.push_back({&session, nullptr, &open});
  for (const auto& [session, saved] : domain->saved) {
    const auto row = std::find_if(rows.begin(), rows.begin() + static_cast<ptrdiff_t>(domain->open.size()),
                                  [&, n = &session](const Row& r) { return *r.name == *n; });
    if (row == rows.begin() + static_cast<ptrdiff_t>(domain->open.size()))
      rows.push_back({&session, &saved, nullptr});
    else
      row->saved = &saved;
  }
  const auto when = [](const Row& r) { return r.open && r.open->generates ? INT64_MAX : r.saved ? r.saved->saved_ms : INT64_MAX - 1; };
  std::stable_sort(rows.begin(), rows.end(), [&](const Row& a, const Row& b) { return when(a) > when(b); });
  const size_t all = rows.size();
  rows.resize(std::min(all, limit));
  const size_t unread = read_saved(name, domain.get(), rows);

  JsonWriter w;
  w.begin('{').pair("object", "kvrt.graph").pair("block_tokens", uint64_t{model_.info()->block_tokens}).key("sessions").begin('[');
  size_t keys = 0, written = 0;
  for (const Row& r : rows) {
    const Chain& chain = r.open ? r.open->chain : r.saved->chain;
    if ((keys += chain.size()) > kKeysMax) break;
    const char* state = !r.open ? "disk" : r.open->generates ? "computing" : r.open->in_memory ? "memory" : "disk";
    const uint64_t tokens = r.open ? r.open->tokens : r.saved->tokens;
    w.begin('{').pair("name", *r.name).pair("state", state).pair("tokens", tokens).pair("computed", r.open ? r.open->computed : 0);
    w.pair("on_disk", r.saved ? std::min(r.saved->on_disk, tokens) : 0).key("blocks").begin('[');
    char text[24];
    const uint64_t model = r.open ? own_model_.load() : r.saved->model;
    for (const uint64_t key : chain) {
      std::snprintf(text, sizeof text, "%012llx", static_cast<unsigned long long>(mix(key + model) >> 16));
      w.string(text);
    }
    w.end(']').end('}');
    ++written;
  }
  w.end(']').pair("more", uint64_t{all - written}).pair("unread", uint64_t{unread});
  if (pool) {
    const auto info = model_.info();
    w.key("pool").begin('{').pair("units", info->units).pair("free", info->units_free).pair("cached", info->units_cached).end('}');
  }
  return w.end('}').take();
}
