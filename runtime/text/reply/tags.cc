#include "runtime/text/reply/tags.h"

#include "runtime/base/limits.h"

namespace kvrt::reply {

namespace {

std::string without_entities(std::string text) {
  constexpr std::string_view kEntities[][2] = {{"&quot;", "\""}, {"&amp;", "&"}};
  for (const auto& [entity, is] : kEntities)
    for (size_t at = 0; (at = text.find(entity, at)) != std::string::npos; at += is.size()) text.replace(at, entity.size(), is);
  return text;
}

// The literal text of a mark that has no more to read than that: white space after it is skipped anyway.
std::string_view literal(std::string_view pattern) { return pattern.substr(0, pattern.find('\n')); }

}  // namespace

void TagScan::reset(const TagForm& form) {
  *this = TagScan();
  form_ = &form;
  open_ = PatternReader(form.open);
  end_ = PatternReader(form.end);
}

TagScan::State TagScan::feed(char c) {
  if (!in_value_) return between(c);
  arguments_.back().value.push_back(c);
  return form_->nests() ? nested(c) : value(c);
}

TagScan::State TagScan::between(char c) {
  if (mark_bytes_ == 0 && is_space(c)) return State::kMore;
  ++mark_bytes_;
  const bool opens = open_.feed(c), ends = end_.feed(c);
  if (!opens && !ends) return State::kRefused;
  if (end_.whole()) return State::kDone;
  if (!open_.whole()) return State::kMore;
  arguments_.push_back({form_->entities ? without_entities(open_.name) : open_.name, open_.id, ""});
  close_ = literal(form_->close);
  in_value_ = true;
  name_at_ = 0;
  return State::kMore;
}

TagScan::State TagScan::end_value(size_t bytes) {
  std::string& value = arguments_.back().value;
  value.resize(bytes);
  std::string_view kept = value;
  if (!form_->quote.empty() && kept.starts_with(form_->quote)) kept.remove_prefix(form_->quote.size());
  if (!form_->pad.empty() && kept.starts_with(form_->pad)) kept.remove_prefix(form_->pad.size());
  if (!form_->pad.empty() && kept.ends_with(form_->pad)) kept.remove_suffix(form_->pad.size());
  value = std::string(kept);
  in_value_ = false;
  mark_bytes_ = 0;
  open_ = PatternReader(form_->open);
  end_ = PatternReader(form_->end);
  return State::kMore;
}

TagScan::State TagScan::value(char) {
  const std::string& value = arguments_.back().value;
  if (value == form_->quote && !value.empty()) close_.insert(0, form_->unquote);
  return value.ends_with(close_) ? end_value(value.size() - close_.size()) : State::kMore;
}

TagScan::State TagScan::nested(char c) {
  const std::string_view text = arguments_.back().value, begin = form_->begin();
  if (text.ends_with(begin)) {
    name_at_ = text.size();
    return State::kMore;
  }
  if (name_at_ == 0 || c != '>') return State::kMore;
  const std::string_view name = text.substr(name_at_, text.size() - 1 - name_at_);
  const size_t tag_at = name_at_ - begin.size();
  name_at_ = 0;
  if (!name.starts_with('/')) {
    if (name.empty() || nested_.size() + 2 >= kJsonDepthMax) return State::kRefused;
    nested_.emplace_back(name);
    return State::kMore;
  }
  if (name.substr(1) != (nested_.empty() ? arguments_.back().key : nested_.back())) return State::kRefused;
  if (nested_.empty()) return end_value(tag_at);
  nested_.pop_back();
  return State::kMore;
}

bool TagScan::is_mark(std::string_view mark) const {
  if (!in_value_) return true;
  const std::string_view text = arguments_.back().value;
  if (text.empty()) return true;
  for (std::string_view whole : {std::string_view(close_), form_->begin(), form_->quote}) {
    const size_t at = whole.find(mark);
    if (at != std::string_view::npos && text.ends_with(whole.substr(0, at + mark.size()))) return true;
  }
  return false;
}

}  // namespace kvrt::reply
