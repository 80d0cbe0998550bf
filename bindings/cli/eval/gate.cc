#include "bindings/cli/eval/gate.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "bindings/cli/commands.h"

namespace cli::eval {

kvrt_status Gate::read(const std::string& path) {
  std::string text;
  if (kvrt_status s = read_file(path, text)) return s;
  const auto json = nlohmann::json::parse(text, nullptr, false);
  const auto refuse = [&](const std::string& why) { return complain(KVRT_INVALID, fmt::format("--gate: {}: {}", in_quotes(path), why)); };
  if (!json.is_object() || json.empty()) return refuse("a JSON object is expected, such as {\"int8.divergence.mean\": {\"max\": 0.001}}");
  for (const auto& [name, bounds] : json.items()) {
    Bound bound{name, {}, {}};
    const std::string where =
        fmt::format("\"{}\": an object with numbers \"min\" and \"max\" is expected, or one of the two", printable(name));
    if (!bounds.is_object() || bounds.empty()) return refuse(where);
    for (const auto& [key, value] : bounds.items()) {
      if (!value.is_number() || (key != "min" && key != "max")) return refuse(where);
      (key == "min" ? bound.min : bound.max) = value.get<double>();
    }
    bounds_.push_back(std::move(bound));
  }
  return KVRT_OK;
}

kvrt_status Gate::check(const std::vector<std::string>& beginnings) const {
  for (const Bound& bound : bounds_) {
    const auto begins = [&](const std::string& beginning) { return bound.figure.starts_with(beginning); };
    if (std::any_of(beginnings.begin(), beginnings.end(), begins)) continue;
    const std::string two = bound.figure.substr(0, bound.figure.find('.', bound.figure.find('.') + 1) + 1);
    return complain(KVRT_INVALID, fmt::format("--gate: there is no figure {}{}", in_quotes(bound.figure), suggestion(two, beginnings)));
  }
  return KVRT_OK;
}

bool Gate::holds(const EvalReport& report) const {
  bool all = true;
  for (const Bound& bound : bounds_) {
    double value = 0;
    if (const Broken* broken = report.broken_one(bound.figure.substr(0, bound.figure.find('.')))) {
      say("gate: there is no figure {}: {}\n", in_quotes(bound.figure), what_broke(*broken));
      all = false;
      continue;
    }
    if (!figure(report, bound.figure, &value)) {
      std::vector<std::string> names = figure_names(report);
      say("gate: there is no figure {}{}\n", in_quotes(bound.figure), suggestion(bound.figure, names));
      all = false;
      continue;
    }
    const bool low = bound.min && !(value >= *bound.min), high = bound.max && !(value <= *bound.max);
    if (low) say("gate: {} is {:.9g}, at least {:.9g} is expected\n", bound.figure, value, *bound.min);
    if (high) say("gate: {} is {:.9g}, at most {:.9g} is expected\n", bound.figure, value, *bound.max);
    all = all && !low && !high;
  }
  return all;
}

}  // namespace cli::eval
