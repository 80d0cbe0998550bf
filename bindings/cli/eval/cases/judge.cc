#include "bindings/cli/eval/cases/judge.h"

#include <algorithm>

namespace cli::eval {

namespace {

bool is_letter_or_digit(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (static_cast<unsigned char>(c) & 0x80) != 0;
}
bool is_digit(char c) { return c >= '0' && c <= '9'; }

size_t word_at(std::string_view lowered, std::string_view word) {
  for (size_t at = lowered.find(word); at != lowered.npos; at = lowered.find(word, at + 1)) {
    const size_t end = at + word.size();
    if ((at == 0 || !is_letter_or_digit(lowered[at - 1])) && (end == lowered.size() || !is_letter_or_digit(lowered[end]))) return at;
  }
  return lowered.npos;
}

}  // namespace

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return out;
}

bool has_word(std::string_view text, std::string_view word) { return word_at(lower(text), lower(word)) != std::string_view::npos; }

std::vector<int64_t> numbers_in(std::string_view text) {
  std::vector<int64_t> found;
  constexpr size_t kDigitsMax = 15;  // a longer one is no answer
  for (size_t i = 0; i < text.size();) {
    if (!is_digit(text[i])) {
      ++i;
      continue;
    }
    const bool minus = i > 0 && text[i - 1] == '-' && (i == 1 || !is_letter_or_digit(text[i - 2]));
    int64_t value = 0;
    size_t digits = 0;
    while (i < text.size() && (is_digit(text[i]) || (text[i] == ',' && i + 3 < text.size() && is_digit(text[i + 1]) &&
                                                     is_digit(text[i + 2]) && is_digit(text[i + 3])))) {
      if (text[i] != ',' && ++digits <= kDigitsMax) value = value * 10 + (text[i] - '0');
      ++i;
    }
    found.push_back(minus ? -value : value);
    // A fraction's digits are no number of their own.
    if (i + 1 < text.size() && text[i] == '.' && is_digit(text[i + 1])) {
      for (++i; i < text.size() && is_digit(text[i]);) ++i;
    }
  }
  return found;
}

Judge says(std::string word) {
  return [word = std::move(word)](std::string_view answer) { return has_word(answer, word) ? 1.0 : 0.0; };
}

Judge says_share_of(std::vector<std::string> words) {
  return [words = std::move(words)](std::string_view answer) {
    const auto there = std::count_if(words.begin(), words.end(), [&](const std::string& word) { return has_word(answer, word); });
    return static_cast<double>(there) / static_cast<double>(words.size());
  };
}

Judge ends_with_number(int64_t number) {
  return [number](std::string_view answer) {
    const std::vector<int64_t> found = numbers_in(answer);
    return !found.empty() && found.back() == number ? 1.0 : 0.0;
  };
}

Judge first_number_is(int64_t number) {
  return [number](std::string_view answer) {
    const std::vector<int64_t> found = numbers_in(answer);
    return !found.empty() && found.front() == number ? 1.0 : 0.0;
  };
}

Judge chooses(std::string right, std::vector<std::string> words) {
  return [right = lower(right), words = std::move(words)](std::string_view answer) {
    const std::string text = lower(answer);
    const size_t at = word_at(text, right);
    if (at == text.npos) return 0.0;
    return std::none_of(words.begin(), words.end(), [&](const std::string& w) { return word_at(text, lower(w)) < at; }) ? 1.0 : 0.0;
  };
}

std::vector<Part> whole(Judge judge) {
  std::vector<Part> parts;
  parts.push_back({"", std::move(judge)});
  return parts;
}

}  // namespace cli::eval
