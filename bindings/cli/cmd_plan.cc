// kvrt plan: the memory that a model and its sessions need, as a table or JSON.
#include <algorithm>

#include <fmt/core.h>

#include "bindings/cli/commands.h"

namespace cli {

namespace {

// 1234567 as 1,234,567.
std::string grouped(uint64_t n) {
  std::string text = std::to_string(n);
  for (size_t at = text.size(); at > 3;) text.insert(at -= 3, ",");
  return text;
}

std::string many(uint64_t n, std::string_view what) { return grouped(n) + " " + plural(n, what); }

// What the layers of a group keep of the tokens.
std::string kind_name(uint32_t kind) {
  return kind == KVRT_GROUP_RECURRENT ? "recurrent" : kind == KVRT_GROUP_WINDOW ? "window" : "everything";
}

bool recurrent(const kvrt_plan& p, uint32_t group) { return p.kv_group_kind[group] == KVRT_GROUP_RECURRENT; }
// A group that keeps everything comes first, recurrent layers last.
bool has_recurrent(const kvrt_plan& p) { return p.kv_groups > 0 && recurrent(p, p.kv_groups - 1); }
bool has_boundaries(const kvrt_plan& p) { return p.kv_groups > 0 && p.kv_group_kind[p.kv_groups - 1] != KVRT_GROUP_EVERYTHING; }

// The plan of a draft model for the same sessions. The other plan's sums and limits are then those of both models together.
struct Draft {
  bool there = false;
  kvrt_plan plan = init<kvrt_plan>();
};

void print_json(const kvrt_plan& p, const ModelFlags& flags, const Draft& draft) {
  std::vector<Json> groups(p.kv_groups);
  for (uint32_t g = 0; g < p.kv_groups; ++g) {
    groups[g].add("kind", kind_name(p.kv_group_kind[g])).add("layers", uint64_t{p.kv_group_layers[g]});
    groups[g].add("window", uint64_t{p.kv_group_window[g]});
    groups[g].add("bytes_per_token", uint64_t{p.kv_group_bytes_per_token[g]}).add("tokens_max", uint64_t{p.kv_group_tokens_max[g]});
  }
  Json json;
  json.add("kv_format", k_format(flags))
      .add("kv_format_v", v_format(flags))
      .add("block_tokens", uint64_t{p.block_tokens})
      .add("layers", uint64_t{p.layers});
  json.add("heads", uint64_t{p.heads}).add("kv_heads", uint64_t{p.kv_heads}).add("head_dim", uint64_t{p.head_dim});
  json.add("context_length", uint64_t{p.context_length}).add("fits", p.fits != 0);
  json.add("kv_bytes_per_token", p.kv_bytes_per_token).add("unit_bytes", p.unit_bytes);
  json.add("weight_bytes", p.weight_bytes).add("scratch_bytes", p.scratch_bytes);
  json.add("session_units", p.session_units).add("session_bytes", p.session_bytes).add("used", p.used).add("waste", p.waste);
  json.add("units", p.units).add("kv_bytes", p.kv_bytes);
  json.add("stored_tokens", p.stored_tokens).add("unshared_tokens", p.unshared_tokens);
  json.add("total_bytes", p.total_bytes).add("memory_bytes", p.memory_bytes);
  json.add("sessions_max", p.sessions_max).add("context_max", p.context_max);
  json.add("kv_groups", groups).add("recurrent_bytes", p.recurrent_bytes);
  json.add("boundary_bytes", p.boundary_bytes).add("boundaries", p.boundaries);
  if (draft.there) {
    const kvrt_plan& d = draft.plan;
    json.add("draft", Json()
                          .add("weight_bytes", d.weight_bytes)
                          .add("scratch_bytes", d.scratch_bytes)
                          .add("kv_bytes_per_token", d.kv_bytes_per_token)
                          .add("session_bytes", d.session_bytes)
                          .add("kv_bytes", d.kv_bytes)
                          .add("total_bytes", d.total_bytes));
  }
  json.print();
}

void line(std::string_view what, const std::string& text) { put("{:<10} {}\n", what, text); }

// What a session keeps in each group of layers. One group without a window needs no word.
void print_groups(const kvrt_plan& p) {
  if (p.kv_groups < 2 && !has_boundaries(p)) return;
  const bool one = p.kv_groups - has_recurrent(p) == 1;  // group with KV: all bytes of a token are its
  for (uint32_t g = 0; g < p.kv_groups; ++g) {
    const std::string layers = many(p.kv_group_layers[g], "layer"), bytes = human_bytes(p.kv_group_bytes_per_token[g]);
    const uint64_t over = one && !recurrent(p, g) ? p.kv_group_bytes_per_token[g] - p.kv_bytes_per_token : 0;
    const std::string unused = over ? fmt::format(", {} of them unused", human_bytes(over)) : "";
    std::string words = fmt::format("{}: {} for every token{}", layers, bytes, unused);
    if (recurrent(p, g)) {
      const uint64_t room = uint64_t{p.kv_group_bytes_per_token[g]} * p.block_tokens;
      words = fmt::format("{}, recurrent: two states of {}, each in {}, {}", layers, human_bytes(p.recurrent_bytes),
                          many(room / p.unit_bytes, "unit"), human_bytes(room));
    } else if (p.kv_group_window[g] > 0) {
      words = fmt::format("{}, window {}: {} for each of the last {} tokens", layers, grouped(p.kv_group_window[g]), bytes,
                          grouped(p.kv_group_tokens_max[g]));
    }
    line(g == 0 ? "groups" : "", words);
  }
}

// What a unit is: "32 tokens of 3 layers". All units have one size, each with all or some of its group's layers.
std::string unit_words(const kvrt_plan& p) {
  uint64_t least = UINT64_MAX, most = 0;
  for (uint32_t g = 0; g < p.kv_groups; ++g) {
    if (recurrent(p, g)) continue;
    const uint64_t units = std::max<uint64_t>(1, uint64_t{p.kv_group_bytes_per_token[g]} * p.block_tokens / p.unit_bytes);
    least = std::min(least, p.kv_group_layers[g] / units);
    most = std::max(most, (p.kv_group_layers[g] + units - 1) / units);
  }
  return fmt::format("{} tokens of {}{}", p.block_tokens, least < most ? fmt::format("{} to ", least) : "", many(most, "layer"));
}

// The units of the pool, and those in it that no session asked for.
std::string pool_words(const kvrt_plan& p, uint64_t sessions) {
  std::string words = many(p.units, "unit");
  if (p.units > sessions * p.session_units) words += ", the fewest that a pool has";
  if (p.kv_bytes > p.units * p.unit_bytes) words += ", and one of zeros";
  return words;
}

// How much of this would fit.
std::string most_words(const kvrt_plan& p, uint64_t tokens) {
  if (p.memory_bytes <= p.weight_bytes + p.scratch_bytes) return "no session: weights and scratch alone do not fit";
  if (p.context_max == 0) return "no session: there is no room for the fewest units that a pool has";
  const std::string other = fmt::format("one of {} (--context {})", grouped(p.context_max), p.context_max);
  if (p.sessions_max == 0) return fmt::format("no session of {}, but {}", many(tokens, "token"), other);
  const bool whole = p.context_max == p.context_length;  // the model has no more: that says nothing of the memory
  return fmt::format("{} of {}{}", many(p.sessions_max, "session"), many(tokens, "token"), whole ? "" : ", or " + other);
}

// A session's KV at a few lengths up to the planned one, each twice the one before.
void print_chart(const kvrt_plan& p, uint64_t tokens) {
  constexpr uint64_t kRows = 7, kWidth = 40;
  std::vector<uint64_t> lengths;
  for (uint64_t n = tokens; n >= p.block_tokens && lengths.size() < kRows; n /= 2) lengths.insert(lengths.begin(), n);
  if (lengths.size() < 3) return;
  const uint64_t most = session_bytes(p, tokens),
                 without = (tokens + p.block_tokens - 1) / p.block_tokens * p.block_tokens * p.kv_bytes_per_token;
  put("\n{:>10}  {:<10}\n", "tokens", "KV of a session");
  for (const uint64_t n : lengths) {
    const uint64_t bytes = session_bytes(p, n);
    const auto bar = static_cast<size_t>((bytes * kWidth + most / 2) / most);
    put("{:>10}  {:>10}  {}\n", grouped(n), human_bytes(bytes), std::string(std::max<size_t>(bar, 1), '#'));
  }
  if (has_boundaries(p) && !has_recurrent(p)) put("{:>10}  {:>10}  without windows\n", grouped(tokens), human_bytes(without));
}

void print_table(const kvrt_plan& p, const PlanFlags& flags, const Draft& draft) {
  const uint64_t sessions = flags.sessions ? flags.sessions : 1, tokens = p.unshared_tokens / sessions;
  std::string shape = fmt::format("{}, {} of {}", many(p.layers, "layer"), many(p.kv_heads, "KV head"), many(p.head_dim, "dimension"));
  if (p.heads) shape += " for " + many(p.heads, "head");
  if (p.context_length) shape += fmt::format(", context {}", grouped(p.context_length));
  line("model", shape);
  if (p.weight_bytes) {
    line("weights", human_bytes(p.weight_bytes));
    line("scratch", human_bytes(p.scratch_bytes) + ", a step's working memory: activations, logits, workspaces");
  }
  line("KV", fmt::format("{}: {} a token; a unit: {}, {}", kv_formats(flags.model), human_bytes(p.kv_bytes_per_token), unit_words(p),
                         human_bytes(p.unit_bytes)));
  print_groups(p);
  line("session", fmt::format("{} in {}, {}; {:.1f} % used, {:.1f} % waste", many(tokens, "token"), many(p.session_units, "unit"),
                              human_bytes(p.session_bytes), 100 * p.used, 100 * p.waste));
  std::string all = fmt::format("{} in {}: {}", grouped(sessions), pool_words(p, sessions), human_bytes(p.kv_bytes));
  if (p.stored_tokens != p.unshared_tokens) {
    all += fmt::format("; {} stored instead of {}", many(p.stored_tokens, "token"), grouped(p.unshared_tokens));
  }
  line("sessions", all);
  if (has_boundaries(p))
    line("boundary",
         fmt::format("{} at each place to go back to; the pool has room for {}", human_bytes(p.boundary_bytes), grouped(p.boundaries)));
  if (draft.there) {
    const kvrt_plan& d = draft.plan;
    line("draft", fmt::format("{}: weights {}, scratch {}, KV {} ({} a token)", human_bytes(d.total_bytes), human_bytes(d.weight_bytes),
                              human_bytes(d.scratch_bytes), human_bytes(d.kv_bytes), human_bytes(d.kv_bytes_per_token)));
  }
  line("total", fmt::format("{}: {} {}{}", human_bytes(p.total_bytes), p.fits ? "fits into" : "does not fit into",
                            human_bytes(p.memory_bytes), flags.memory ? "" : " that are free now"));
  line("at most", most_words(p, tokens));
  print_chart(p, tokens);
}

// A model without a file needs all three of its figures.
kvrt_status check_geometry(const PlanFlags& flags) {
  const std::pair<const char*, uint32_t> figures[] = {
      {"--layers", flags.layers}, {"--kv-heads", flags.kv_heads}, {"--head-dim", flags.head_dim}};
  std::string given, missing;
  for (const auto& [name, value] : figures) {
    std::string& list = value ? given : missing;
    list += (list.empty() ? "" : " and ") + std::string(name);
  }
  if (!flags.model.model.empty() || missing.empty()) return KVRT_OK;
  const bool two = given.find(" and ") != std::string::npos;
  return complain(KVRT_INVALID, fmt::format("{} {} given without {}", given, two ? "are" : "is", missing));
}

Result<kvrt_plan> plan_for(const Runtime& runtime, const std::string& path, kvrt_plan_options options, uint64_t sessions, uint64_t tokens) {
  options.sessions = static_cast<uint32_t>(sessions);
  options.session_tokens = tokens;
  options.shared_tokens = std::min<uint64_t>(options.shared_tokens, tokens);
  return runtime.plan(path, options);
}

// The largest n up to `most` for which this is so; 0: none.
template <typename F>
uint64_t largest(uint64_t most, const F& is_so) {
  uint64_t low = 0;
  while (low < most) {
    const uint64_t middle = low + (most - low + 1) / 2;
    if (is_so(middle)) {
      low = middle;
    } else {
      most = middle - 1;
    }
  }
  return low;
}

// Adds the draft to the model's plan. A session that is longer than the draft's context has a draft for its beginning alone.
kvrt_status add_draft(const Runtime& runtime, const PlanFlags& flags, const kvrt_plan_options& options, kvrt_plan& p, Draft& draft) {
  if (flags.draft.empty()) return KVRT_OK;
  const std::string what = "--draft: cannot plan for " + in_quotes(flags.draft);
  auto alone = options;
  alone.shared_tokens = 0;
  const Result<kvrt_plan> whole = plan_for(runtime, flags.draft, alone, 1, 0);
  if (kvrt_status s = checked(whole.status(), what)) return s;
  const uint64_t sessions = flags.sessions ? flags.sessions : 1, tokens = p.unshared_tokens / sessions, context = whole->context_length;
  const auto draft_for = [&](const kvrt_plan_options& with, uint64_t count, uint64_t length) {
    return plan_for(runtime, flags.draft, with, count, std::min(length, context));
  };
  if (kvrt_status s = take(draft_for(options, sessions, tokens), draft.plan, what)) return s;
  draft.there = true;
  const auto fit = [&](const kvrt_plan_options& with, uint64_t count, uint64_t length) {
    const Result<kvrt_plan> model = plan_for(runtime, flags.model.model, with, count, length), drafts = draft_for(with, count, length);
    return model.ok() && drafts.ok() && model->total_bytes + drafts->total_bytes <= p.memory_bytes;
  };
  p.total_bytes += draft.plan.total_bytes;
  p.fits = p.total_bytes <= p.memory_bytes;
  p.sessions_max = largest(p.sessions_max, [&](uint64_t count) { return fit(options, count, tokens); });
  p.context_max = largest(p.context_max, [&](uint64_t length) { return fit(alone, 1, length); });
  return KVRT_OK;
}

}  // namespace

int cmd_plan(const PlanFlags& flags) {
  if (kvrt_status s = check_geometry(flags)) return s;
  Runtime runtime;
  if (kvrt_status s = open_runtime(flags.model, runtime)) return s;
  auto options = init<kvrt_plan_options>();
  options.kv_format = kv_format(k_format(flags.model));
  options.kv_format_v = kv_format(v_format(flags.model));
  options.block_tokens = flags.model.block_tokens;
  options.sessions = flags.sessions;
  options.session_tokens = flags.context;
  options.shared_tokens = flags.shared;
  options.memory_bytes = flags.memory;
  options.layers = flags.layers;
  options.kv_heads = flags.kv_heads;
  options.head_dim = flags.head_dim;
  const std::string& path = flags.model.model;
  kvrt_plan plan = init<kvrt_plan>();
  if (kvrt_status s = take(runtime.plan(path, options), plan, "cannot plan" + (path.empty() ? "" : " for " + in_quotes(path)))) return s;
  Draft draft;
  if (kvrt_status s = add_draft(runtime, flags, options, plan, draft)) return s;
  if (flags.json) {
    print_json(plan, flags.model, draft);
  } else {
    print_table(plan, flags, draft);
  }
  return finish(KVRT_OK);
}

}  // namespace cli
