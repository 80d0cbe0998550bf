#include "bindings/cli/eval/cases/judge.h"

#include <algorithm>

namespace cli::eval {

namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// A character of a word. Of the others than ASCII's those are none that are spaces, dashes, quotes and the like: U+00A0 to U+00BF, U+2000 to
// U+206F, U+3000 to U+303F.
bool in_word(std::string_view text, size_t at) {
  const char c = text[at];
  if (is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')) return true;
  if ((static_cast<unsigned char>(c) & 0x80) == 0) return false;
  while (at > 0 && (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80) --at;  // to the character's first byte
  const std::string_view from = text.substr(at);
  return !from.starts_with("\xC2") && !from.starts_with("\xE2\x80") && !from.starts_with("\xE2\x81") && !from.starts_with("\xE3\x80");
}

size_t word_at(std::string_view lowered, std::string_view word) {
  for (size_t at = lowered.find(word); at != lowered.npos; at = lowered.find(word, at + 1)) {
    const size_t end = at + word.size();
    if ((at == 0 || !in_word(lowered, at - 1)) && (end == lowered.size() || !in_word(lowered, end))) return at;
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
    const bool minus = i > 0 && text[i - 1] == '-' && (i == 1 || !in_word(text, i - 2));
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

Judge results_in(int64_t number) {
  return [number](std::string_view answer) {
    constexpr std::string_view kResult = "result:";
    const size_t said = lower(answer).find(kResult);
    const std::string_view from = said == answer.npos ? answer.substr(0, answer.find('\n')) : answer.substr(said + kResult.size());
    const std::vector<int64_t> found = numbers_in(from);
    return !found.empty() && (said == answer.npos ? found.back() : found.front()) == number ? 1.0 : 0.0;
  };
}

bool has_digits(std::string_view text, std::string_view digits) {
  std::string joined;
  for (size_t i = 0; i < text.size(); ++i) {
    if (is_digit(text[i]) || in_word(text, i)) joined += text[i];
  }
  return joined.find(digits) != joined.npos;
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
