#include "bindings/cli/eval/data_axes.h"

namespace cli::eval {

namespace {

uint64_t rows_of_letters(uint64_t letters) { return letters * 2 / 9; }

uint64_t rows_expected(const Item& item) {
  uint64_t letters = item.prompt.size();
  for (const std::string& choice : item.choices) letters += item.delimiter.size() + choice.size();
  return rows_of_letters(letters);
}

class DataAxis {
 public:
  DataAxis(const DataFile& file, const std::string& configuration, Scorer* scorer, Record* record, const Advance& advance)
      : file_(file), configuration_(configuration), scorer_(*scorer), record_(*record), advance_(advance) {}
  kvrt_status prepare();  // complains of items before any is computed
  kvrt_status measure() { return file_.is_text() ? measure_text() : measure_items(); }

 private:
  kvrt_status measure_items();
  kvrt_status measure_text();
  bool knows(uint32_t index, size_t scores) const;

  const DataFile& file_;
  const std::string& configuration_;
  Scorer& scorer_;
  Record& record_;
  const Advance& advance_;
  std::vector<uint32_t> waiting_;   // items that are not scored yet
  std::vector<ItemTokens> tokens_;  // theirs
};

bool DataAxis::knows(uint32_t index, size_t scores) const {
  const auto& known = record_.of(configuration_).answers;
  const auto found = known.find({file_.name, index});
  return found != known.end() && found->second.scores.size() == scores;
}

kvrt_status DataAxis::prepare() {
  for (uint32_t i = 0; i < file_.items.size(); ++i) {
    const Item& item = file_.items[i];
    if (knows(i, item.choices.size())) {
      advance_(rows_expected(item), false);
      continue;
    }
    waiting_.push_back(i);
    tokens_.emplace_back();
    if (kvrt_status s = scorer_.tokens_of(file_, item, &tokens_.back())) return s;
  }
  return KVRT_OK;
}

kvrt_status DataAxis::measure_items() {
  for (size_t done = 0; done < waiting_.size();) {
    const std::span<const ItemTokens> left = std::span(tokens_).subspan(done), some = left.first(scorer_.fit(left));
    scorer_.go_to(file_.name, waiting_[done]);
    std::vector<Answers> answers;
    if (kvrt_status s = scorer_.score(some, &answers)) return s;
    for (Answers& one : answers) {
      const uint32_t index = waiting_[done++];
      if (kvrt_status s = record_.add(configuration_, file_.name, index, std::move(one))) return s;
      advance_(rows_expected(file_.items[index]), true);
    }
  }
  return KVRT_OK;
}

kvrt_status DataAxis::measure_text() {
  std::vector<int32_t> tokens;
  if (kvrt_status s = scorer_.tokens_of(file_.text, &tokens)) return s;
  const std::vector<Window> windows = scorer_.windows_of(tokens);
  for (uint32_t i = 0; i < windows.size(); ++i) {
    const Window& window = windows[i];
    const uint64_t rows = rows_expected(file_) / windows.size();
    const bool known = knows(i, window.tokens.size() - window.context);
    if (!known) {
      Answers answers;
      scorer_.go_to(file_.name, i);
      if (kvrt_status s = scorer_.score(window, &answers)) return s;
      if (kvrt_status s = record_.add(configuration_, file_.name, i, std::move(answers))) return s;
    }
    advance_(rows, !known);
  }
  return KVRT_OK;
}

}  // namespace

uint64_t rows_expected(const DataFile& file) {
  if (file.is_text()) return rows_of_letters(file.bytes);
  uint64_t sum = 0;
  for (const Item& item : file.items) sum += rows_expected(item);
  return sum;
}

kvrt_status measure_data(const std::vector<DataFile>& data, const std::string& configuration, Scorer* scorer, Record* record,
                         const Advance& advance) {
  std::vector<DataAxis> axes;
  for (const DataFile& file : data) axes.emplace_back(file, configuration, scorer, record, advance);
  for (DataAxis& axis : axes) {
    if (kvrt_status s = axis.prepare()) return s;
  }
  for (DataAxis& axis : axes) {
    if (kvrt_status s = axis.measure()) return s;
  }
  return KVRT_OK;
}

}  // namespace cli::eval
