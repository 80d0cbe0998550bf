// kvrt eval: what a format of the KV costs a model. The same questions and texts go to the model with the base's format and with each other
// one; the report sets their answers and predictions side by side.
#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "bindings/cli/commands.h"
#include "bindings/cli/eval/cases/axes.h"
#include "bindings/cli/eval/evaluation.h"
#include "bindings/cli/eval/files.h"
#include "bindings/cli/machine.h"

namespace cli {

namespace eval {

namespace {

constexpr uint32_t kFullTokens = 32768;
constexpr int kGateFailed = 20;  // the exit code; no status has it

}  // namespace

Evaluation::Evaluation(const EvalFlags& flags) : flags_(flags) {
  // Else bits of prompts depend on how they are cut into steps.
  if (flags_.model.device != "cpu" && flags_.model.determinism == "by-class") flags_.model.determinism = "strict";
}

kvrt_status Evaluation::read_gate() {
  if (flags_.gate.empty()) return KVRT_OK;
  if (kvrt_status s = gate_.read(flags_.gate)) return s;
  std::vector<std::string> beginnings;
  for (const Configuration& c : configurations_) {
    for (const std::vector<std::string>& names : {report_.size.axes, report_.size.programs, report_.size.data, figure_groups()}) {
      for (const std::string& name : names) beginnings.push_back(fmt::format("{}.{}", c.name, name));
    }
    if (!foreign_.empty()) beginnings.push_back(fmt::format("{}.{}", c.name, kForeignText));
  }
  for (const ForeignFile& file : foreign_.files()) beginnings.push_back(fmt::format("{}.{}", file.name, kForeignText));
  return gate_.check(beginnings);
}

std::string Evaluation::header() const {
  std::vector<std::string> names;
  for (const Configuration& c : configurations_) names.push_back(c.name);
  const Size& size = report_.size;
  std::string cases;
  for (const Axis& axis : axes()) cases += text_of(axis.make(size.seed, 0, size.tokens_max));
  return Json()
      .add("kvrt_eval", report_.version)
      .add("model", report_.model_sha256)
      .add("configurations", fmt::format("{}", fmt::join(names, " ")))
      .add("axes", fmt::format("{}", fmt::join(size.axes, " ")))
      .add("programs", fmt::format("{}", fmt::join(flags_.programs, "\n")))
      .add("data", sha256_of_data(report_.data))
      .add("foreign", foreign_.identity())
      .add("seed", size.seed)
      .add("times", uint64_t{size.times})
      .add("tokens_max", uint64_t{size.tokens_max})
      .add("decode_tokens", uint64_t{size.decode_tokens})
      .add("cases", sha256(cases))
      .add("block_tokens", uint64_t{flags_.model.block_tokens})
      .add("kv_bytes", flags_.model.kv_bytes)
      .add("prefill_chunk", uint64_t{flags_.model.prefill_chunk})
      .add("determinism", flags_.model.determinism)
      .text();
}

kvrt_status Evaluation::begin() {
  if (kvrt_status s = open_runtime(flags_.model, runtime_)) return s;
  const Result<kvrt_runtime_props> props = runtime_.info();
  if (kvrt_status s = checked(props.status(), "cannot read the runtime's properties")) return s;
  report_.version = version_text() + " " + props->numerics;
  report_.cpu = *props->device_name ? props->device_name : cpu_name();
  report_.isa = props->isa;
  report_.threads = props->threads;
  const Result<kvrt_plan> plan = runtime_.plan(flags_.model.model);
  if (kvrt_status s = checked(plan.status(), "cannot open the model " + in_quotes(flags_.model.model))) return s;
  if (flags_.full)
    report_.size.tokens_max = std::min<uint32_t>(kFullTokens, plan->context_length - std::min(plan->context_length, kTokensBeside));
  bar_.note("reading the model's file");
  if (kvrt_status s = sha256_of_model(flags_.model.model, &report_.model_sha256, &report_.model_bytes)) return s;
  bar_.clear();
  return record_.open(flags_.output + ".part", header(), flags_.resume);
}

void Evaluation::sum_up() {
  const Size& size = report_.size;
  std::erase_if(configurations_, [this](const Configuration& c) { return report_.broken_one(c.name) != nullptr; });
  for (const Configuration& c : configurations_)
    report_.summaries.push_back(summarize(size, report_.data, record_, configurations_[0].name, c.name));
  for (uint32_t i = 0; i < scenario_count(); ++i) {
    const Case about = scenario_case(size.seed, i, size.tokens_max);
    Sample sample{about.name, about.document + about.questions[0].text, {}};
    for (const Configuration& c : configurations_) sample.answers.push_back(record_.of(c.name).answers.at({kScenario, i}).texts[0]);
    report_.samples.push_back(std::move(sample));
  }
}

void Evaluation::sum_up_foreign() {
  if (foreign_.empty()) return;
  ForeignReport& out = report_.foreign;
  const ForeignFile& first = foreign_.files()[0];
  const uint32_t begin = first_window(report_.size);
  out.tokens_sha256 = foreign_.tokens_sha256();
  out.context = first.context;
  out.windows = first.windows;
  if (foreign_.own_base()) out.own_base = foreign_.own_base()->name;
  for (size_t i = 1; i < configurations_.size(); ++i) {
    const std::string& name = configurations_[i].name;
    out.rows.push_back({name, false, divergences_of(record_.of(name), begin, first.windows), {}});
  }
  for (const ForeignFile& file : foreign_.files()) {
    out.files.emplace_back(file.name, file.sha256);
    out.rows.push_back({file.name, true, divergences_of(record_.of(file.name), begin, first.windows), {}});
    if (foreign_.own_base()) out.rows.back().to_own = divergences_of(record_.of(to_own(file.name)), begin, first.windows);
  }
}

kvrt_status Evaluation::save() {
  const std::string result = result_json(report_), digest = sha256(result), json = whole_json(report_, result, digest);
  if (kvrt_status s = write_file(flags_.output + ".json", json)) return s;
  if (kvrt_status s = write_file(flags_.output + ".html", html_page(report_, digest))) return s;
  if (flags_.json) {
    show(json);
  } else {
    print_table(report_);
    put("\nresult sha256 {}\n", digest);
    say("{0}.json and {0}.html have the report\n", flags_.output);
  }
  return record_.remove();
}

kvrt_status Evaluation::run() {
  if (kvrt_status s = choose(flags_, &report_.size, &configurations_, &report_.data)) return s;
  if (kvrt_status s = foreign_.open(flags_)) return s;
  for (const ForeignFile& file : foreign_.files()) {
    const auto same = [&](const Configuration& c) { return c.name == file.name; };
    if (std::any_of(configurations_.begin(), configurations_.end(), same))
      return complain(KVRT_INVALID, fmt::format("--foreign: {} is a configuration of this run: take another name", in_quotes(file.name)));
  }
  if (kvrt_status s = read_gate()) return s;
  if (kvrt_status s = begin()) return s;
  if (kvrt_status s = measure_all()) return s;
  sum_up();
  sum_up_foreign();
  return save();
}

}  // namespace eval

int cmd_eval(const EvalFlags& flags) {
  Interrupt interrupt;
  eval::Evaluation evaluation(flags);
  if (const int code = finish(evaluation.run())) return code;
  const bool holds = evaluation.holds();
  if (const kvrt_status broken = evaluation.broken()) return broken;
  return holds ? KVRT_OK : eval::kGateFailed;
}

}  // namespace cli
