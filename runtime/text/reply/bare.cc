#include "runtime/text/reply/bare.h"

#include <algorithm>

#include "runtime/text/reply/literals.h"

namespace kvrt::reply {

void BareHead::reset(const CallSyntax& syntax, const ReplyTools& tools) {
  syntax_ = &syntax;
  tools_ = &tools;
  (void)go(At::kFirst);
}

bool BareHead::go(At at) {
  at_ = at;
  key_.clear();
  names_ = tools_->names();
  size_ = 0;
  return true;
}

// A byte of a key, or the quote that ends it.
bool BareHead::feed_key(char c) {
  static constexpr std::string_view kName[] = {"name"};
  const bool first = at_ == At::kNameKey;
  const std::span<const std::string_view> keys = first ? kName : bare_keys(syntax_->format);
  if (c == '"') return std::ranges::find(keys, key_) != keys.end() && go(first ? At::kColon : At::kLastColon);
  key_.push_back(c);
  return std::ranges::any_of(keys, [&](std::string_view key) { return key.starts_with(key_); });
}

// A byte of a tool's name, or the one right behind it.
bool BareHead::feed_name(char c) {
  if (c == (at_ == At::kWord ? '(' : '"'))
    return !names_.empty() && names_.front().size() == size_ && go(at_ == At::kWord ? At::kWhole : At::kComma);
  const auto byte = [this](std::string_view name) {
    return name.size() == size_ ? -1 : static_cast<int>(static_cast<unsigned char>(name[size_]));
  };
  const auto same = std::ranges::equal_range(names_, static_cast<int>(static_cast<unsigned char>(c)), {}, byte);
  names_ = {same.begin(), same.end()};
  ++size_;
  return !names_.empty();
}

bool BareHead::feed(char c) {
  static constexpr struct {
    At at;
    char byte;
    At next;
  } kSteps[] = {{At::kFirst, '[', At::kItem},     {At::kFirst, '{', At::kObject},    {At::kItem, '{', At::kObject},
                {At::kObject, '"', At::kNameKey}, {At::kColon, ':', At::kNameQuote}, {At::kNameQuote, '"', At::kName},
                {At::kComma, ',', At::kKeyQuote}, {At::kKeyQuote, '"', At::kKey},    {At::kLastColon, ':', At::kWhole}};
  if (at_ == At::kNameKey || at_ == At::kKey) return feed_key(c);
  if (at_ == At::kWord || at_ == At::kName) return feed_name(c);
  if (is_space(c)) return at_ != At::kFirst;
  for (const auto& step : kSteps) {
    if (step.at == at_ && step.byte == c) return go(step.next);
  }
  return at_ == At::kItem && syntax_->flags & CallSyntax::kPython && go(At::kWord) && begins_word(c) && feed_name(c);
}

}  // namespace kvrt::reply
