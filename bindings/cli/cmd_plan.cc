// kvrt plan: what a model and its sessions will cost, as a table or JSON. Sizes are in powers of 1024, as memory is sold.
#include <fmt/core.h>

#include "bindings/cli/commands.h"

namespace cli {

namespace {

std::string binary_bytes(uint64_t bytes) {
  constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  auto value = static_cast<double>(bytes);
  size_t unit = 0;
  for (; value >= 1024 && unit + 1 < std::size(kUnits); ++unit) value /= 1024;
  return unit ? fmt::format("{:.{}f} {}", value, value < 10 ? 2 : 1, kUnits[unit]) : fmt::format("{} B", bytes);
}

// 1234567 as 1,234,567.
std::string grouped(uint64_t n) {
  std::string text = std::to_string(n);
  for (size_t at = text.size(); at > 3;) text.insert(at -= 3, ",");
  return text;
}

void print_json(const kvrt_plan& p, const std::string& kv) {
  Json json;
  json.add("kv_format", kv).add("block_tokens", uint64_t{p.block_tokens}).add("layers", uint64_t{p.layers});
  json.add("heads", uint64_t{p.heads}).add("kv_heads", uint64_t{p.kv_heads}).add("head_dim", uint64_t{p.head_dim});
  json.add("context_length", uint64_t{p.context_length}).add("fits", p.fits != 0);
  json.add("kv_bytes_per_token", p.kv_bytes_per_token).add("block_bytes", p.block_bytes);
  json.add("weight_bytes", p.weight_bytes).add("scratch_bytes", p.scratch_bytes);
  json.add("session_blocks", p.session_blocks).add("session_bytes", p.session_bytes).add("used", p.used).add("waste", p.waste);
  json.add("blocks", p.blocks).add("kv_bytes", p.kv_bytes);
  json.add("stored_tokens", p.stored_tokens).add("unshared_tokens", p.unshared_tokens);
  json.add("total_bytes", p.total_bytes).add("memory_bytes", p.memory_bytes);
  json.add("sessions_max", p.sessions_max).add("context_max", p.context_max);
  json.print();
}

void print_table(const kvrt_plan& p, const PlanFlags& flags) {
  const auto line = [](std::string_view what, const std::string& text) { put("{:<10} {}\n", what, text); };
  const uint64_t sessions = flags.sessions ? flags.sessions : 1, tokens = p.unshared_tokens / sessions;
  std::string shape = fmt::format("{} layers, {} KV heads of {} dimensions", p.layers, p.kv_heads, p.head_dim);
  if (p.heads) shape += fmt::format(" for {} heads", p.heads);
  if (p.context_length) shape += fmt::format(", context {}", grouped(p.context_length));
  line("model", shape);
  if (p.weight_bytes) {
    line("weights", binary_bytes(p.weight_bytes));
    line("scratch", binary_bytes(p.scratch_bytes) + ", what a step works in: activations, logits, the device's workspaces");
  }
  line("KV", fmt::format("{}: {} a token, {} a block of {}", flags.model.kv, binary_bytes(p.kv_bytes_per_token),
                         binary_bytes(p.block_bytes), p.block_tokens));
  line("session", fmt::format("{} tokens in {} blocks, {}; {:.1f} % used, {:.1f} % waste", grouped(tokens), grouped(p.session_blocks),
                              binary_bytes(p.session_bytes), 100 * p.used, 100 * p.waste));
  std::string all = fmt::format("{} in {} blocks, {}", grouped(sessions), grouped(p.blocks), binary_bytes(p.kv_bytes));
  if (p.stored_tokens != p.unshared_tokens) {
    all += fmt::format("; {} tokens stored instead of {}", grouped(p.stored_tokens), grouped(p.unshared_tokens));
  }
  line("sessions", all);
  line("total", fmt::format("{}: {} {}{}", binary_bytes(p.total_bytes), p.fits ? "fits into" : "does not fit into",
                            binary_bytes(p.memory_bytes), flags.memory ? "" : " that are free here"));
  line("at most", fmt::format("{} sessions of {} tokens, or one of {}", grouped(p.sessions_max), grouped(tokens), grouped(p.context_max)));
}

}  // namespace

int cmd_plan(const PlanFlags& flags) {
  Runtime runtime;
  if (kvrt_status s = open_runtime(flags.model, runtime)) return s;
  auto options = sized<kvrt_plan_options>();
  options.kv_format = kv_format(flags.model);
  options.block_tokens = flags.model.block_tokens;
  options.sessions = flags.sessions;
  options.session_tokens = flags.context;
  options.shared_tokens = flags.shared;
  options.memory_bytes = flags.memory;
  options.layers = flags.layers;
  options.kv_heads = flags.kv_heads;
  options.head_dim = flags.head_dim;
  auto plan = sized<kvrt_plan>();
  const std::string& path = flags.model.model;
  const char* file = path.empty() ? nullptr : path.data();
  if (kvrt_status s = kvrt_model_plan(runtime.get(), file, path.size(), &options, &plan, nullptr)) return complain("cannot plan", s);
  if (flags.json) {
    print_json(plan, flags.model.kv);
  } else {
    print_table(plan, flags);
  }
  return finish(KVRT_OK);
}

}  // namespace cli
