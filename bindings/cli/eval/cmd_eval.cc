// kvrt eval: what a format of the KV costs a model. The same questions and texts go to the model with the base's format and with each other
// one; the report sets their answers and predictions side by side.
#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <memory>

#include "bindings/cli/commands.h"
#include "bindings/cli/eval/cases/axes.h"
#include "bindings/cli/eval/choice.h"
#include "bindings/cli/eval/data_axes.h"
#include "bindings/cli/eval/files.h"
#include "bindings/cli/eval/gate.h"
#include "bindings/cli/eval/interview.h"
#include "bindings/cli/eval/program.h"
#include "bindings/cli/machine.h"

namespace cli {

namespace eval {

namespace {

using std::chrono::steady_clock;

constexpr uint32_t kFullTokens = 32768, kLongScenario = 2;
constexpr uint32_t kTokensBeside = 1536;  // of texts that are not of --tokens, questions, and a long answer
constexpr int kGateFailed = 20;           // the exit code; no status has it

// About the rows that a case takes: of its document once, or of all turns.
uint64_t rows_expected(const Case& about) {
  uint64_t letters = about.document.size(), tokens = 0;
  for (const Line& line : about.before) letters += line.content.size();
  for (const Question& q : about.questions) {
    letters += q.text.size();
    tokens += q.tokens_max / 2 + 16;
  }
  return letters * 2 / 9 + tokens;
}

class Evaluation {
 public:
  explicit Evaluation(const EvalFlags& flags) : flags_(flags) {
    // Else bits of prompts depend on how they are cut into steps.
    if (flags_.model.device != "cpu" && flags_.model.determinism == "by-class") flags_.model.determinism = "strict";
  }
  kvrt_status run();
  bool holds() const { return flags_.gate.empty() || gate_.holds(report_); }

 private:
  kvrt_status read_gate();
  kvrt_status begin();
  kvrt_status open(const Configuration& configuration, Model* out);
  kvrt_status check_date(const Model& model);
  kvrt_status measure(size_t index);
  kvrt_status answer_cases(const std::string& name, Interview* interview);
  kvrt_status ask_programs(const std::string& name, Interview* interview);
  kvrt_status write_long(const std::string& name, Interview* interview);
  kvrt_status read_along(const std::string& name, const Model& model);
  void advance(uint64_t rows, bool computed = true);
  uint64_t long_rows() const { return uint64_t{report_.size.decodes} * report_.size.decode_tokens + report_.size.tokens_max; }
  uint64_t all_rows() const;
  void sum_up();
  kvrt_status save();
  std::string header() const;

  EvalFlags flags_;
  std::vector<Configuration> configurations_;
  Runtime runtime_;
  Record record_;
  Gate gate_;
  EvalReport report_;
  Progress bar_{"eval"};
  uint64_t done_ = 0, total_ = 0, done_here_ = 0;  // rows, as expected; the last: computed by this process
  steady_clock::time_point start_ = now();
};

kvrt_status Evaluation::read_gate() {
  if (flags_.gate.empty()) return KVRT_OK;
  if (kvrt_status s = gate_.read(flags_.gate)) return s;
  std::vector<std::string> beginnings;
  for (const Configuration& c : configurations_) {
    for (const std::vector<std::string>& names : {report_.size.axes, report_.size.programs, report_.size.data, figure_groups()}) {
      for (const std::string& name : names) beginnings.push_back(fmt::format("{}.{}", c.name, name));
    }
  }
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

kvrt_status Evaluation::open(const Configuration& configuration, Model* out) {
  ModelFlags flags = configuration.flags;
  auto asked = init<kvrt_plan_options>();
  asked.kv_format = kv_format(flags.kv_k);
  asked.kv_format_v = kv_format(flags.kv_v);
  asked.block_tokens = flags.block_tokens;
  const std::string what = "cannot open the model " + in_quotes(flags.model);
  const Result<kvrt_plan> alone = runtime_.plan(flags.model, asked);
  if (kvrt_status s = checked(alone.status(), what)) return s;
  const uint64_t needed = report_.size.tokens_max + kTokensBeside;
  if (alone->context_length < needed) {
    return complain(KVRT_LIMIT,
                    fmt::format("the model's context has {} tokens, texts of {} and what is asked of them need {}: lower --tokens",
                                alone->context_length, report_.size.tokens_max, needed));
  }
  // Of a tokenizer that makes many tokens of English texts, too, and twice: what is cached of a case stays until its last question.
  asked.session_tokens = std::min<uint64_t>(alone->context_length, 2 * needed);
  asked.sessions = 2;
  const Result<kvrt_plan> plan = runtime_.plan(flags.model, asked);
  if (kvrt_status s = checked(plan.status(), what)) return s;
  if (!flags.kv_bytes) flags.kv_bytes = plan->kv_bytes;
  return open_model(flags, runtime_, *out);
}

uint64_t Evaluation::all_rows() const {
  const Size& size = report_.size;
  uint64_t rows = 0;
  for (const Axis& axis : axes()) {
    if (!size.has(axis.name)) continue;
    for (uint32_t i = 0; i < cases_of(size, axis); ++i) rows += rows_expected(axis.make(size.seed, i, size.tokens_max));
  }
  for (uint32_t i = 0; i < scenario_count(); ++i) rows += rows_expected(scenario_case(size.seed, i, size.tokens_max));
  for (const DataFile& file : report_.data) rows += rows_expected(file);
  return rows + long_rows();
}

void Evaluation::advance(uint64_t rows, bool computed) {
  done_ += rows;
  if (!computed) return;
  done_here_ += rows;
  const double seconds = ms_since(start_) / 1e3, left = seconds / static_cast<double>(std::max<uint64_t>(done_here_, 1)) *
                                                        static_cast<double>(total_ - std::min(done_, total_));
  bar_.set_tail(seconds < 5 ? "" : left < 90 ? fmt::format(" {:.0f} s left", left) : fmt::format(" {:.0f} min left", left / 60));
  bar_.update(done_, total_);
}

kvrt_status Evaluation::answer_cases(const std::string& name, Interview* interview) {
  const Size& size = report_.size;
  const auto answer = [&](const std::string& axis, uint32_t index, const Case& about) -> kvrt_status {
    const uint64_t rows = rows_expected(about);
    const auto& known = record_.of(name).answers;
    const auto found = known.find({axis, index});
    if (found != known.end() && found->second.texts.size() == about.questions.size()) {
      done_ += rows;
      return KVRT_OK;
    }
    Answers answers;
    if (kvrt_status s = interview->ask(about, fmt::format("{} {}", axis, index), &answers)) return s;
    if (kvrt_status s = record_.add(name, axis, index, std::move(answers))) return s;
    advance(rows);
    return KVRT_OK;
  };
  for (const Axis& axis : axes()) {
    if (!size.has(axis.name)) continue;
    for (uint32_t i = 0; i < cases_of(size, axis); ++i) {
      if (kvrt_status s = answer(axis.name, i, axis.make(size.seed, i, size.tokens_max))) return s;
    }
  }
  for (uint32_t i = 0; i < scenario_count(); ++i) {
    if (kvrt_status s = answer(kScenario, i, scenario_case(size.seed, i, size.tokens_max))) return s;
  }
  return KVRT_OK;
}

kvrt_status Evaluation::ask_programs(const std::string& name, Interview* interview) {
  for (size_t i = 0; i < flags_.programs.size(); ++i) {
    const std::string& axis = report_.size.programs[i];
    if (record_.of(name).answers.contains({axis, 0})) continue;
    bar_.note(fmt::format("{}: {}", name, axis));
    std::unique_ptr<Program> program;
    if (kvrt_status s = Program::start(axis, flags_.programs[i].substr(axis.size() + 1), &program)) return s;
    Answers answers;
    const auto answer = [&](const Asked& asked, std::string* text) -> kvrt_status {
      const kvrt_status s = interview->converse(asked.messages, asked.tokens_max, "program " + axis, &answers);
      *text = answers.texts.empty() ? "" : answers.texts.back();
      return s;
    };
    std::vector<double> scores;
    if (kvrt_status s = program->run(answer, &scores)) return s;
    answers.scores = std::move(scores);
    if (kvrt_status s = record_.add(name, axis, 0, std::move(answers))) return s;
  }
  return KVRT_OK;
}

kvrt_status Evaluation::write_long(const std::string& name, Interview* interview) {
  const Size& size = report_.size;
  for (uint32_t i = 0; i <= size.decodes; ++i) {
    const bool in_context = i == size.decodes;  // the last: a short answer to a long text
    const uint64_t rows = in_context ? size.tokens_max : size.decode_tokens;
    if (record_.of(name).decodes.contains(i)) {
      done_ += rows;
      continue;
    }
    const Case about = scenario_case(size.seed, kLongScenario, size.tokens_max);
    const std::string request = in_context ? about.document + about.questions[0].text : long_request(size.seed, i);
    Decode decode;
    if (kvrt_status s = interview->write(request, size.decode_tokens, fmt::format("decode {}", i), &decode)) return s;
    if (kvrt_status s = record_.add(name, i, std::move(decode))) return s;
    advance(rows);
  }
  return KVRT_OK;
}

kvrt_status Evaluation::read_along(const std::string& name, const Model& model) {
  Model base;
  const Measured& of_base = record_.of(configurations_[0].name);
  for (uint32_t i = 0; i <= report_.size.decodes; ++i) {
    const uint64_t rows = i == report_.size.decodes ? report_.size.tokens_max : report_.size.decode_tokens;
    const std::vector<int32_t>& tokens = of_base.decodes.at(i).tokens;
    const auto& known = record_.of(name).readings;
    if (const auto found = known.find(i); found != known.end() && found->second.divergence.size() == tokens.size()) {
      done_ += rows;
      continue;
    }
    if (!base) {
      if (kvrt_status s = open(configurations_[0], &base)) return s;
    }
    Reading reading;
    if (kvrt_status s = Interview::read(base, model, tokens, &reading)) return s;
    if (kvrt_status s = record_.add(name, i, std::move(reading))) return s;
    advance(rows);
  }
  return KVRT_OK;
}

// Some templates write the date: questions of another day are others.
kvrt_status Evaluation::check_date(const Model& model) {
  const std::string now_rendered = Interview::rendered(model, "[" + message_json("user", "a") + "]").value_or("");
  const std::string known = record_.note("template", sha256(now_rendered));
  if (known == sha256(now_rendered)) return KVRT_OK;
  return complain(
      KVRT_INCOMPATIBLE,
      "the model's chat template writes the date, and this run began on another day: its questions would be others from here on; "
      "begin anew");
}

kvrt_status Evaluation::measure(size_t index) {
  const Configuration& configuration = configurations_[index];
  const auto start = now();
  Model model;
  bar_.clear();
  if (kvrt_status s = open(configuration, &model)) return s;
  Interview interview(model);
  if (!flags_.programs.empty() && !model.info()->has_template)
    return complain(KVRT_UNSUPPORTED, "--program: the model has no chat template, and a program's messages need one");
  if (kvrt_status s = check_date(model)) return s;
  if (kvrt_status s = record_.set_bytes_per_token(configuration.name, model.info()->kv_bytes_per_token)) return s;
  Scorer scorer(model, report_.size.tokens_max);
  const auto advance_by = [this](uint64_t rows, bool computed) { advance(rows, computed); };
  if (kvrt_status s = measure_data(report_.data, configuration.name, &scorer, &record_, advance_by)) return s;
  if (kvrt_status s = answer_cases(configuration.name, &interview)) return s;
  if (kvrt_status s = ask_programs(configuration.name, &interview)) return s;
  if (kvrt_status s = write_long(configuration.name, &interview)) return s;
  if (kvrt_status s = index == 0 ? KVRT_OK : read_along(configuration.name, model)) return s;
  report_.model_name = model.info()->name;
  report_.seconds.push_back(ms_since(start) / 1e3);
  report_.rows_here.push_back(interview.rows() + scorer.rows());
  report_.peak_kv_bytes.push_back(interview.kv_bytes_peak());
  return KVRT_OK;
}

void Evaluation::sum_up() {
  const Size& size = report_.size;
  for (const Configuration& c : configurations_)
    report_.summaries.push_back(summarize(size, report_.data, record_, configurations_[0].name, c.name));
  for (uint32_t i = 0; i < scenario_count(); ++i) {
    const Case about = scenario_case(size.seed, i, size.tokens_max);
    Sample sample{about.name, about.document + about.questions[0].text, {}};
    for (const Configuration& c : configurations_) sample.answers.push_back(record_.of(c.name).answers.at({kScenario, i}).texts[0]);
    report_.samples.push_back(std::move(sample));
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
  if (kvrt_status s = read_gate()) return s;
  if (kvrt_status s = begin()) return s;
  total_ = all_rows() * configurations_.size() + long_rows() * (configurations_.size() - 1);
  for (size_t i = 0; i < configurations_.size(); ++i) {
    const kvrt_status s = measure(i);
    if (s) bar_.clear();
    if (s == KVRT_CANCELLED && Interrupt::came()) say("interrupted; the same command with --resume goes on\n");
    if (s) return s;
  }
  bar_.clear();
  sum_up();
  return save();
}

int run(const EvalFlags& flags) {
  Interrupt interrupt;
  Evaluation evaluation(flags);
  if (const int code = finish(evaluation.run())) return code;
  return evaluation.holds() ? KVRT_OK : kGateFailed;
}

}  // namespace

}  // namespace eval

int cmd_eval(const EvalFlags& flags) { return eval::run(flags); }

}  // namespace cli
