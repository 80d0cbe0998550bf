// Arguments of a call in tags of their own: <parameter=key>value</parameter> or <arg_key>key</arg_key><arg_value>value</arg_value>, with
// white space between, up to </function> or </tool_call>.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace kvrt::reply {

class TagScan {
 public:
  enum class State : uint8_t { kMore, kDone, kRefused };
  State feed(char c);
  bool between_tags() const { return text_.empty(); }
  // Values as they stand, but for a line break at either end.
  const std::vector<std::pair<std::string, std::string>>& arguments() const { return arguments_; }

 private:
  struct Form;
  static const Form kForms[2];
  enum class Place : uint8_t { kBetween, kKey, kMiddle, kValue } place_ = Place::kBetween;
  const Form* form_ = nullptr;
  std::string text_;  // the text at this place so far
  std::vector<std::pair<std::string, std::string>> arguments_;
};

}  // namespace kvrt::reply
