#include "tests/sim/toy.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

namespace kvrt::test {

namespace {
uint64_t mix(uint64_t z) {
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
  return z ^ (z >> 31);
}
}  // namespace

uint64_t Random::next() { return mix(state_ += 0x9e3779b97f4a7c15ull); }

namespace {
constexpr uint64_t kStart = 0x6b76'7274;
uint64_t next(uint64_t state, uint64_t kv) { return mix(state * 0xd6e8feb86659fd93ull + kv); }
}  // namespace

ToyState::ToyState(std::span<const uint32_t> windows) {
  for (const uint32_t window : windows) groups_.push_back({window, kStart, {}});
}

// Over the last `positions` of a window.
uint64_t ToyState::Group::fold(uint64_t positions) const {
  if (window == 0) return all;
  uint64_t state = kStart;
  for (size_t i = seen.size() - std::min<size_t>(seen.size(), positions); i < seen.size(); ++i) state = next(state, seen[i]);
  return state;
}

uint64_t ToyState::kv(uint32_t group, int32_t token, uint64_t position) const {
  uint64_t state = group;
  for (const Group& g : groups_) state = next(state, g.fold(g.window - 1));
  return mix(state + mix(position * 0x9e3779b97f4a7c15ull + static_cast<uint64_t>(token) + 1));
}

void ToyState::see(uint32_t group, uint64_t kv) {
  Group& g = groups_[group];
  g.all = next(g.all, kv);
  g.seen.push_back(kv);
  if (g.seen.size() > std::max(g.window, 1u)) g.seen.pop_front();
}

uint64_t ToyState::state() const {
  uint64_t state = kStart;
  for (const Group& g : groups_) state = next(state, g.fold(g.window));
  return state;
}

// One token in most rows stands out, the end token in some, none in others.
void toy_logits(uint64_t state, std::span<float> row) {
  for (size_t i = 0; i < row.size(); ++i) row[i] = static_cast<float>(mix(state + i) >> 40) * 0x1p-22f;
  uint64_t peak = mix(state ^ 0x5bd1e995);
  if (peak % 8 != 0) row[(peak >> 8) % row.size()] += 4.0f;
  if (peak % 24 == 1) row[kToyEnd] += 12.0f;
  if (peak % 3000 == 2) row[row.size() / 2] = std::numeric_limits<float>::quiet_NaN();
}

ModelDims toy_dims(uint32_t context, uint32_t vocab, std::vector<uint32_t> windows, std::vector<Heads> layer_heads, uint32_t recurrent,
                   RecurrentDims state) {
  ModelDims d;
  if (recurrent > 0) {
    d.mixers.assign(windows.size(), Mixer::kAttention);
    d.mixers.insert(d.mixers.end(), recurrent, Mixer::kScan);
    d.recurrent = state;
    windows.insert(windows.end(), recurrent, 0);
    if (!layer_heads.empty()) layer_heads.insert(layer_heads.end(), recurrent, Heads{});
  }
  d.layers = static_cast<uint32_t>(windows.size());
  d.windows = std::move(windows);
  d.layer_heads = std::move(layer_heads);
  d.heads = d.kv_heads = kToyHeads;
  d.head_dim = kToyHeadDim;
  d.width = d.ff = kToyHeads * kToyHeadDim;
  d.vocab = vocab;
  d.context = context;
  return d;
}

std::vector<uint32_t> toy_windows(const KvGroups& kv) {
  std::vector<uint32_t> windows;
  for (const KvGroup& group : kv.groups) windows.push_back(group.state ? 0 : group.window);
  return windows;
}

const char* const kToyTemplate =
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";

// Letters, the bytes of "é" and of U+FFFD one by one, and a few merges, so that text can be spelled in several ways.
Result<std::unique_ptr<Tokenizer>> toy_tokenizer(ToyText text) {
  VocabSource v;
  v.model = "gpt2";
  v.pre = "gpt-2";
  v.tokens = {
      "<s>", "<|im_start|>", "<|im_end|>", "Ġ", "Ċ", "a", "b", "c", "d", "e", "i", "m", "n", "r", "s", "t", "u", "y", "Ã", "©", "ï", "¿",
      "½",   "ab",           "cd",         "er"};
  v.merges = {"a b", "c d", "e r"};
  v.types.assign(v.tokens.size(), 1);
  if (text.spm) {
    v.model = "llama";
    v.merges.clear();
    v.tokens[3] = "▁", v.tokens[4] = "\n";
    v.tokens[18] = "<0xC3>", v.tokens[19] = "<0xA9>", v.tokens[20] = "<0xEF>";  // the model may write half a code point
    std::fill(v.types.begin() + 18, v.types.begin() + 21, 6);
    v.tokens[21] = "é", v.tokens[22] = "\uFFFD";
    for (std::string_view more : {"▁a", "▁ab", "us", "▁us"}) v.tokens.push_back(more), v.types.push_back(1);
    for (size_t i = 0; i < v.tokens.size(); ++i) v.scores.push_back(-static_cast<float>(i));
  }
  v.types[kToyBos] = v.types[kToyTurn] = v.types[kToyEnd] = 3;
  v.bos = kToyBos;
  v.eos = kToyEnd;
  v.add_bos = text.add_bos;
  return Tokenizer::create(v);
}

// ---- slots

namespace {

// The place of element d of a slot: K [layer][head][d][token], V [layer][head][token][d], latents [layer][token][d]. A group's last unit may have room for more layers.
template <typename Byte, typename Visit>
void each_element(const KvGroup& group, uint32_t unit, Byte* block, uint32_t slot, Visit visit) {
  const KvGeometry& kv = group.unit;
  uint32_t index = 0;
  for (uint32_t layer = 0; layer < std::min(kv.layers, group.layers - unit * kv.layers); ++layer) {
    Byte* k = block + layer * kv.layer_bytes();
    Byte* v = k + kv.v_at();
    for (uint32_t d = 0; kv.latent && d < kv.k.dim; ++d) visit(index++, k + (size_t{slot} * kv.k.dim + d) * kv.k.cell_bytes());
    if (kv.latent) continue;
    for (uint32_t i = 0; i < kv.kv_heads * kv.k.dim; ++i) visit(index++, k + (size_t{i} * kv.block_tokens + slot) * kv.k.cell_bytes());
    for (uint32_t h = 0; h < kv.kv_heads; ++h) {
      for (uint32_t d = 0; d < kv.v.dim; ++d) {
        visit(index++, v + ((size_t{h} * kv.block_tokens + slot) * kv.v.dim + d) * kv.v.cell_bytes());
      }
    }
  }
}

// The first four elements are the value, the others follow from it.
uint16_t element(uint64_t value, uint32_t index) {
  return static_cast<uint16_t>(index < 4 ? value >> (16 * index) : (value * (2 * uint64_t{index} + 1)) >> 40);
}

}  // namespace

bool toy_read_slot(const KvGroup& group, const uint8_t* unit, uint32_t index, uint32_t slot, uint64_t* value) {
  uint64_t found = 0;
  bool whole = true;
  each_element(group, index, unit, slot, [&](uint32_t i, const uint8_t* at) {
    uint16_t have;
    std::memcpy(&have, at, sizeof have);
    if (i < 4) found |= uint64_t{have} << (16 * i);
    if (i >= 4) whole &= have == element(found, i);
  });
  *value = found - index;
  return whole;
}

void toy_write_slot(const KvGroup& group, uint8_t* unit, uint32_t index, uint32_t slot, uint64_t value) {
  each_element(group, index, unit, slot, [&](uint32_t i, uint8_t* at) {
    uint16_t put = element(value + index, i);
    std::memcpy(at, &put, sizeof put);
  });
}

// Calls visit(index, word) for each word of the state.
template <typename Byte, typename Visit>
static void each_word(const StateLayout& states, Byte* pool, const int32_t* units, Visit visit) {
  uint32_t index = 0;
  for (const StateItems& kind : {states.inputs, states.heads}) {
    for (uint32_t n = 0; n < states.layers * kind.items; ++n) {
      Byte* item = pool + state_offset(states, kind, units, n / kind.items, n % kind.items);
      for (uint32_t at = 0; at < kind.bytes; at += sizeof(uint32_t)) visit(index++, item + at);
    }
  }
}

static uint32_t word(uint64_t value, uint32_t index) {
  return static_cast<uint32_t>(index < 2 ? value >> (32 * index) : (value * (2 * uint64_t{index} + 1)) >> 30);
}

bool toy_read_state(const StateLayout& states, const uint8_t* pool, const int32_t* units, uint64_t* value) {
  uint64_t found = 0;
  bool whole = true;
  each_word(states, pool, units, [&](uint32_t i, const uint8_t* at) {
    uint32_t have;
    std::memcpy(&have, at, sizeof have);
    if (i < 2) found |= uint64_t{have} << (32 * i);
    if (i >= 2) whole &= have == word(found, i);
  });
  *value = found;
  return whole;
}

void toy_write_state(const StateLayout& states, uint8_t* pool, const int32_t* units, uint64_t value) {
  each_word(states, pool, units, [&](uint32_t i, uint8_t* at) {
    const uint32_t put = word(value, i);
    std::memcpy(at, &put, sizeof put);
  });
}

// ---- clock and random

// A call takes a microsecond; one in some takes as long as a deadline.
uint64_t ToyEnv::now_ns() {
  uint64_t now = now_ns_ += 1000;
  if (mix(now) % 64 == 0) now = now_ns_ += 15'000'000;
  return now;
}

void ToyEnv::random(std::span<uint8_t> out) {
  std::lock_guard lock(mu_);
  for (uint8_t& byte : out) byte = static_cast<uint8_t>(random_.next());
}

// ---- the runner

// All units of the block agree.
uint64_t ToyRunner::read(const StepSeq& seq, uint32_t group, const uint8_t* pool, uint64_t position) {
  const KvGroup& g = kv_.groups[group];
  const uint64_t i = position / g.unit.block_tokens;
  const auto slot = static_cast<uint32_t>(position % g.unit.block_tokens);
  uint64_t value = 0;
  for (uint32_t u = 0; u < g.tables; ++u) {
    uint64_t found = 0;
    const int32_t unit = i < seq.n_blocks ? seq.table(g.first_table + u)[i] : kNoBlock;
    const uint8_t* at = pool + static_cast<uint64_t>(unit) * kv_.unit_bytes();
    if (unit == kNoBlock || !toy_read_slot(g, at, u, slot, &found) || (u > 0 && found != value)) ++faults;
    value = found;
  }
  return value;
}

void ToyRunner::write(const StepSeq& seq, uint32_t group, uint8_t* pool, uint64_t position, uint64_t value) {
  const KvGroup& g = kv_.groups[group];
  const uint64_t i = position / g.unit.block_tokens;
  for (uint32_t u = 0; u < g.tables && i < seq.n_blocks; ++u) {
    const int32_t unit = seq.table(g.first_table + u)[i];
    if (unit == kNoBlock) continue;
    toy_write_slot(g, pool + static_cast<uint64_t>(unit) * kv_.unit_bytes(), u, static_cast<uint32_t>(position % g.unit.block_tokens),
                   value);
  }
}

uint64_t ToyRunner::read_state(const StepSeq& seq, const uint8_t* pool) {
  uint64_t value = 0;
  if (!toy_read_state(kv_.states, pool, seq.state_from, &value)) ++faults;
  return value;
}

Status ToyRunner::run(const Step& step, uint8_t* pool, float* logits, DrawnToken*) {
  if (before) before(step, pool);
  size_t next_logit = 0;
  const std::vector<uint32_t> windows = toy_windows(kv_);
  if (step.n_tables != kv_.tables() || step.n_groups != windows.size()) ++faults;
  for (size_t q = 0; q < step.seqs.size(); ++q) {
    const StepSeq& seq = step.seqs[q];
    const uint64_t salt = salts.empty() ? 0 : salts[q];
    ToyState state(windows);
    const auto first = static_cast<uint64_t>(seq.first_position);
    if ((seq.state_to != nullptr) != (kv_.states.units > 0) || (seq.state_from != nullptr) != (kv_.states.units > 0 && first > 0)) ++faults;
    for (uint32_t g = 0; g < windows.size(); ++g) {
      if (kv_.groups[g].state) {
        if (seq.state_from) state.folded(g) = read_state(seq, pool) ^ salt;
        continue;
      }
      for (uint64_t p = windows[g] > 0 && first >= windows[g] ? first - windows[g] + 1 : 0; p < first; ++p)
        state.see(g, read(seq, g, pool, p) ^ salt);
    }
    for (uint32_t row = seq.first_row; row < seq.first_row + seq.n_rows; ++row) {
      const auto p = static_cast<uint64_t>(step.positions[row]);
      std::vector<uint64_t> values;
      for (uint32_t g = 0; g < windows.size(); ++g) values.push_back(state.kv(g, step.tokens[row], p));
      for (uint32_t g = 0; g < windows.size(); ++g) {
        if (kv_.groups[g].state) {
          state.see(g, values[g]);
          continue;
        }
        if (seq.stores >> g & 1) write(seq, g, pool, p, values[g] ^ salt);
        const uint64_t stored = read(seq, g, pool, p) ^ salt;
        if (stored != values[g]) ++faults;  // a row that stores nothing finds its KV
        state.see(g, stored);
      }
      if (next_logit < step.logits_rows.size() && step.logits_rows[next_logit] == row) {
        toy_logits(state.state(), std::span(logits + next_logit * vocab_, vocab_));
        ++next_logit;
      }
    }
    if (seq.state_to) toy_write_state(kv_.states, pool, seq.state_to, state.folded(static_cast<uint32_t>(windows.size()) - 1) ^ salt);
  }
  if (next_logit != step.logits_rows.size()) ++faults;
  if (random_.one_in(16)) row_ns_ = 1000 << random_.below(13);  // the machine is now faster, now slower
  env_->advance(100'000 + row_ns_ * step.n_rows());
  return {};
}

}  // namespace kvrt::test
