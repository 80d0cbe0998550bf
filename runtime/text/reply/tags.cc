#include "runtime/text/reply/tags.h"

#include "runtime/text/reply/syntax.h"

namespace kvrt::reply {

struct TagScan::Form {
  std::string_view begin, key_end, middle, value_end;
};

constexpr TagScan::Form TagScan::kForms[2] = {
    {"<parameter=", ">", "", "</parameter>"},
    {"<arg_key>", "</arg_key>", "<arg_value>", "</arg_value>"},
};

TagScan::State TagScan::feed(char c) {
  if (text_.empty() && is_space(c) && (place_ == Place::kBetween || place_ == Place::kMiddle)) return State::kMore;
  text_.push_back(c);
  switch (place_) {
    case Place::kBetween: {
      bool may_go_on = false;
      for (const Form& form : kForms) {
        may_go_on |= form.begin.starts_with(text_);
        if (form.begin != text_) continue;
        form_ = &form;
        place_ = Place::kKey;
        text_.clear();
        return State::kMore;
      }
      for (std::string_view end : {"</function>", "</tool_call>"}) {
        if (end == text_) return State::kDone;
        may_go_on |= end.starts_with(text_);
      }
      return may_go_on ? State::kMore : State::kRefused;
    }
    case Place::kKey:
      if (!text_.ends_with(form_->key_end)) return c == '\n' ? State::kRefused : State::kMore;
      text_.resize(text_.size() - form_->key_end.size());
      if (text_.empty()) return State::kRefused;
      arguments_.emplace_back(std::move(text_), "");
      text_.clear();
      place_ = form_->middle.empty() ? Place::kValue : Place::kMiddle;
      return State::kMore;
    case Place::kMiddle:
      if (!form_->middle.starts_with(text_)) return State::kRefused;
      if (form_->middle != text_) return State::kMore;
      text_.clear();
      place_ = Place::kValue;
      return State::kMore;
    case Place::kValue: {
      if (!text_.ends_with(form_->value_end)) return State::kMore;
      std::string_view value = std::string_view(text_).substr(0, text_.size() - form_->value_end.size());
      if (value.starts_with('\n')) value.remove_prefix(1);
      if (value.ends_with('\n')) value.remove_suffix(1);
      arguments_.back().second = value;
      text_.clear();
      place_ = Place::kBetween;
      return State::kMore;
    }
  }
  return State::kRefused;
}

}  // namespace kvrt::reply
