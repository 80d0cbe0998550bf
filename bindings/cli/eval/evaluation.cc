#include "bindings/cli/eval/evaluation.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <memory>

#include "bindings/cli/eval/cases/axes.h"
#include "bindings/cli/eval/data_axes.h"
#include "bindings/cli/eval/program.h"

namespace cli::eval {

namespace {

constexpr uint32_t kLongScenario = 2;

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

// What fails with the candidate alone: the others go on. A device that is lost, a file that cannot be written and Ctrl-C end the run.
bool candidates_own(kvrt_status status, const Place& place) {
  if (status == KVRT_DEVICE) return last_complaint().detail == KVRT_DETAIL_NUMERIC;
  if (status == KVRT_INVALID) return place.axis.empty();  // the model cannot have the format
  return status == KVRT_LIMIT || status == KVRT_NO_MEMORY || status == KVRT_UNSUPPORTED;
}

}  // namespace

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
  asked.session_tokens = std::min<uint64_t>(alone->context_length, std::max<uint64_t>(2 * needed, foreign_.context()));
  asked.sessions = 2;
  const Result<kvrt_plan> plan = runtime_.plan(flags.model, asked);
  if (kvrt_status s = checked(plan.status(), what)) return s;
  if (!flags.kv_bytes) flags.kv_bytes = plan->kv_bytes;
  return open_model(flags, runtime_, *out);
}

uint64_t Evaluation::rows_of_each() const {
  const Size& size = report_.size;
  uint64_t rows = 0;
  for (const Axis& axis : axes()) {
    if (!size.has(axis.name)) continue;
    for (uint32_t i = 0; i < cases_of(size, axis); ++i) rows += rows_expected(axis.make(size.seed, i, size.tokens_max));
  }
  for (uint32_t i = 0; i < scenario_count(); ++i) rows += rows_expected(scenario_case(size.seed, i, size.tokens_max));
  for (const DataFile& file : report_.data) rows += rows_expected(file);
  return rows + long_rows() + foreign_.rows();
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
    place_ = {axis, index, 0};
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
    place_ = {axis, 0, 0};
    const auto answer = [&](const Asked& asked, std::string* text) -> kvrt_status {
      place_.index = static_cast<uint32_t>(answers.texts.size());
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
    place_ = {"decode", i, 0};
    if (kvrt_status s = interview->write(request, size.decode_tokens, fmt::format("decode {}", i), &decode)) return s;
    if (kvrt_status s = record_.add(name, i, std::move(decode))) return s;
    advance(rows);
  }
  return KVRT_OK;
}

kvrt_status Evaluation::read_along(const std::string& name, Interview* interview) {
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
    place_ = {i == report_.size.decodes ? "text_divergence" : "divergence", i, 0};
    if (kvrt_status s = interview->read(base, tokens, &reading)) return s;
    if (kvrt_status s = record_.add(name, i, std::move(reading))) return s;
    advance(rows);
  }
  return KVRT_OK;
}

bool Evaluation::knows_window(const std::string& name, uint32_t window) {
  const auto& known = record_.of(name).readings;
  const auto found = known.find(first_window(report_.size) + window);
  place_ = {kForeignText, window, 0};
  return found != known.end() && found->second.divergence.size() == foreign_.files()[0].rows();
}

kvrt_status Evaluation::read_foreign(const Model& base) {
  const uint32_t first = first_window(report_.size);
  for (uint32_t w = 0; w < foreign_.windows(); ++w) {
    bool known = true;
    for (const ForeignFile& file : foreign_.files()) {
      known = knows_window(file.name, w) && known;
      if (foreign_.own_base()) known = knows_window(to_own(file.name), w) && known;
    }
    if (!known) {
      std::vector<Reading> by_base, by_own;
      if (kvrt_status s = foreign_.read(base, w, &place_, &by_base, &by_own)) return s;
      for (size_t f = 0; f < by_base.size(); ++f) {
        const std::string& name = foreign_.files()[f].name;
        if (kvrt_status s = record_.add(name, first + w, std::move(by_base[f]))) return s;
        if (by_own.empty()) continue;
        if (kvrt_status s = record_.add(to_own(name), first + w, std::move(by_own[f]))) return s;
      }
    }
    advance(foreign_.files()[0].context, !known);
  }
  return KVRT_OK;
}

kvrt_status Evaluation::read_candidate(const std::string& name, const Model& model) {
  Model base;
  for (uint32_t w = 0; w < foreign_.windows(); ++w) {
    const bool known = knows_window(name, w);
    if (!known && !base) {
      if (kvrt_status s = open(configurations_[0], &base)) return s;
    }
    Reading reading;
    if (kvrt_status s = known ? KVRT_OK : foreign_.read(base, model, w, &place_, &reading)) return s;
    if (kvrt_status s = known ? KVRT_OK : record_.add(name, first_window(report_.size) + w, std::move(reading))) return s;
    advance(foreign_.files()[0].context, !known);
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
  place_ = {};
  bar_.clear();
  if (kvrt_status s = open(configuration, &model)) return s;
  Interview interview(model, &place_);
  if (!flags_.programs.empty() && !model.info()->has_template)
    return complain(KVRT_UNSUPPORTED, "--program: the model has no chat template, and a program's messages need one");
  if (kvrt_status s = check_date(model)) return s;
  if (kvrt_status s = foreign_.check(model)) return s;
  if (kvrt_status s = record_.set_bytes_per_token(configuration.name, model.info()->kv_bytes_per_token)) return s;
  Scorer scorer(model, report_.size.tokens_max, &place_);
  const auto advance_by = [this](uint64_t rows, bool computed) { advance(rows, computed); };
  if (kvrt_status s = measure_data(report_.data, configuration.name, &scorer, &record_, advance_by)) return s;
  if (kvrt_status s = answer_cases(configuration.name, &interview)) return s;
  if (kvrt_status s = ask_programs(configuration.name, &interview)) return s;
  if (kvrt_status s = write_long(configuration.name, &interview)) return s;
  if (kvrt_status s = index == 0 ? KVRT_OK : read_along(configuration.name, &interview)) return s;
  if (kvrt_status s = index == 0 ? read_foreign(model) : read_candidate(configuration.name, model)) return s;
  report_.model_name = model.info()->name;
  report_.seconds.push_back(ms_since(start) / 1e3);
  report_.rows_here.push_back(interview.rows() + scorer.rows());
  report_.peak_kv_bytes.push_back(interview.kv_bytes_peak());
  return KVRT_OK;
}

void Evaluation::leave_aside(size_t index, kvrt_status status) {
  report_.broken.push_back({configurations_[index].name, status, place_, last_complaint().message});
  say("{}; the run goes on without it\n", what_broke(report_.broken.back()));
  done_ = rows_of_each() * (index + 1) + long_rows() * index;
}

kvrt_status Evaluation::measure_all() {
  total_ = rows_of_each() * configurations_.size() + long_rows() * (configurations_.size() - 1);
  for (size_t i = 0; i < configurations_.size(); ++i) {
    const kvrt_status s = measure(i);
    if (s) bar_.clear();
    if (s == KVRT_CANCELLED && Interrupt::came()) say("interrupted; the same command with --resume goes on\n");
    if (s && (i == 0 || !candidates_own(s, place_))) return s;
    if (s) leave_aside(i, s);
  }
  bar_.clear();
  return KVRT_OK;
}

}  // namespace cli::eval
