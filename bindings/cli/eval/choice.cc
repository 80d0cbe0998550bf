#include "bindings/cli/eval/choice.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace cli::eval {

namespace {

bool has(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// What --data has, of the kinds that --axes names.
kvrt_status choose_data(const EvalFlags& flags, Size* size, std::vector<DataFile>* data) {
  if (!flags.data.empty()) {
    if (kvrt_status s = read_data(flags.data, data)) return s;
  }
  for (const char* kind : {kChoices, kText}) {
    const auto is_one = [&](const DataFile& file) { return file.name.starts_with(kind); };
    const bool named = has(flags.axes, kind);
    if (named && std::none_of(data->begin(), data->end(), is_one)) {
      return complain(KVRT_INVALID, fmt::format("--axes: {} needs a folder with {}/*{}, which --data names", kind, kind,
                                                kind == std::string_view(kText) ? ".txt" : ".jsonl"));
    }
    if (!named && !flags.axes.empty()) std::erase_if(*data, is_one);
  }
  if (!flags.data.empty() && data->empty()) return complain(KVRT_INVALID, "--data: --axes names neither choices nor text");
  for (const DataFile& file : *data) size->data.push_back(file.name);
  return KVRT_OK;
}

kvrt_status choose_axes(const EvalFlags& flags, Size* out) {
  Size& size = *out;
  for (const Axis& axis : axes()) size.axes.emplace_back(axis.name);
  std::vector<std::string> all = size.axes;
  all.insert(all.end(), {kChoices, kText});
  for (const std::string& name : flags.axes) {
    if (has(all, name)) continue;
    return complain(KVRT_INVALID, fmt::format("--axes: there is no axis {}{}; there are {}", in_quotes(name), suggestion(name, all),
                                              fmt::join(all, ", ")));
  }
  if (!flags.axes.empty()) std::erase_if(size.axes, [&](const std::string& name) { return !has(flags.axes, name); });
  for (const std::string& program : flags.programs) {
    const std::string name = program.substr(0, program.find('='));
    if (name.empty() || name.size() + 1 >= program.size())
      return complain(KVRT_INVALID, fmt::format("--program: NAME=COMMAND is expected, found {}", in_quotes(program)));
    if (has(all, name) || name == kScenario || has(size.programs, name) || has(size.data, name))
      return complain(KVRT_INVALID, fmt::format("--program: there is an axis {} already", in_quotes(name)));
    size.programs.push_back(name);
  }
  return KVRT_OK;
}

kvrt_status add_configuration(const EvalFlags& flags, const std::string& text, std::vector<Configuration>* all) {
  const auto [k, v] = kv_pair(text);
  const std::vector<std::string> formats = kv_format_names();
  for (const std::string& format : {k, v}) {
    if (has(formats, format)) continue;
    return complain(KVRT_INVALID,
                    fmt::format("--candidates: {} is no format of KV: one of {} is expected, or two of them as int8/f16 (of K and of V)",
                                in_quotes(text), fmt::join(formats, ", ")));
  }
  const std::string name = k == v ? k : k + "/" + v;
  const bool base = !all->empty() && all->front().name == name;  // what differs from it is the instrument's fault
  Configuration added{base ? name + " again" : name, flags.model};
  if (std::any_of(all->begin(), all->end(), [&](const Configuration& c) { return c.name == added.name; }))
    return complain(KVRT_INVALID, fmt::format("--candidates: {} is named twice", in_quotes(name)));
  added.flags.kv_k = k;
  added.flags.kv_v = v;
  all->push_back(std::move(added));
  return KVRT_OK;
}

}  // namespace

kvrt_status choose(const EvalFlags& flags, Size* size, std::vector<Configuration>* configurations, std::vector<DataFile>* data) {
  size->seed = flags.seed;
  size->times = flags.times;
  size->decode_tokens = flags.answer;
  size->tokens_max = flags.tokens;
  if (kvrt_status s = choose_data(flags, size, data)) return s;
  if (kvrt_status s = choose_axes(flags, size)) return s;
  if (kvrt_status s = add_configuration(flags, k_format(flags.model) + "/" + v_format(flags.model), configurations)) return s;
  for (const std::string& name : flags.candidates) {
    if (kvrt_status s = add_configuration(flags, name, configurations)) return s;
  }
  return KVRT_OK;
}

}  // namespace cli::eval
