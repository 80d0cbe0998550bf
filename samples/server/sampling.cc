#include "sampling.h"

#include "json.h"

std::string suggested_sampling(const kvrt::Runtime& runtime, const std::string& model) {
  struct Member {
    const char *key, *name;
    double most;
  };
  constexpr Member kMembers[] = {{"temp", "temperature", 2},
                                 {"top_k", "top_k", 1 << 30},
                                 {"top_p", "top_p", 1},
                                 {"min_p", "min_p", 1},
                                 {"penalty_repeat", "repetition_penalty", 100}};
  JsonWriter w;
  w.begin('{');
  bool any = false, warm = false;
  std::string text;
  if (runtime.inspect(model, 0, text).ok()) {
    const Json json = read_json(text);
    const Json* metadata = json.find("metadata");
    for (const Member& m : kMembers) {
      const Json* value = metadata ? metadata->find(std::string("general.sampling.") + m.key) : nullptr;
      if (!value || !value->is(Json::kNumber) || value->number < 0 || value->number > m.most) continue;  // -1 is off in some files
      w.key(m.name).raw(value->raw);
      any = true;
      warm = warm || m.name == std::string_view("temperature");
    }
  }
  // A file that suggests other values and no temperature means 1.
  if (!warm) w.key("temperature").raw(any ? "1" : "0.7");
  if (!any) w.key("min_p").raw("0.05");
  return w.end('}').take();
}
