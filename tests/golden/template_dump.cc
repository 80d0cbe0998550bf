// Renders templates for template_equivalence.py. Each line of the standard input is a JSON object (template, messages, tools, documents,
// variables, prompt, now; a string among the first four is JSON as it is given to kvrt); each line of the output is {"text": ...} or {"code": ..., "message": ...}.
#include <iostream>
#include <nlohmann/json.hpp>

#include "runtime/text/template/chat_template.h"

namespace {

kvrt::Result<std::string> render(const nlohmann::ordered_json& job) {
  auto part = [&job](const char* key) {
    if (!job.contains(key) || job[key].is_null()) return std::string();
    return job[key].is_string() ? job[key].get<std::string>() : job[key].dump();
  };
  std::string messages = part("messages"), tools = part("tools"), documents = part("documents"), variables = part("variables");
  KVRT_ASSIGN(auto parsed, kvrt::ChatTemplate::parse(job["template"].get<std::string>()));
  kvrt::TemplateOptions options;
  options.add_generation_prompt = job.value("prompt", false);
  options.bos_token = "<s>";
  options.eos_token = "</s>";
  options.arguments.tools = tools;
  options.arguments.documents = documents;
  options.arguments.variables = variables;
  options.arguments.now = job.value("now", int64_t{0});
  return parsed->render(messages.empty() ? "[]" : messages, options);
}

}  // namespace

int main() {
  std::ios::sync_with_stdio(false);
  for (std::string line; std::getline(std::cin, line);) {
    auto result = render(nlohmann::ordered_json::parse(line));
    nlohmann::json out;
    if (result.is_ok()) {
      out["text"] = *result;
    } else {
      out["code"] = kvrt::code_name(result.status().code());
      out["message"] = result.status().message();
    }
    std::cout << out.dump() << '\n';
  }
  return 0;
}
