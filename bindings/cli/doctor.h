// kvrt doctor: its report, and the part that looks at a store's directory.
#pragma once

#include <fmt/core.h>

#include "bindings/cli/commands.h"

namespace cli {

// One line each: ok, warn or fail; as JSON an object each.
class Report {
 public:
  explicit Report(bool json) : json_(json) {}
  void ok(std::string_view what, const std::string& text) { line("ok", "\x1b[32m", what, text); }
  void warn(std::string_view what, const std::string& text) { line("warn", "\x1b[33m", what, text); }
  void fail(kvrt_status of, std::string_view what, const std::string& text) {
    line("fail", "\x1b[31m", what, text);
    if (!status_) status_ = of;
  }
  kvrt_status status() const { return status_; }  // the class of the first that failed

 private:
  void line(std::string_view mark, std::string_view on, std::string_view what, const std::string& text) const {
    if (json_) return Json().add("mark", mark).add("what", what).add("text", text).print();
    const bool c = colour(stdout);
    put("{}{:<4}{}  {:<12} {}\n", c ? on : "", mark, c ? "\x1b[0m" : "", what, printable(text));
  }
  bool json_;
  kvrt_status status_ = KVRT_OK;
};

std::string last_message();
// A store, or where one shall be: its file system, its files, who has it open, what was left in it.
void examine_store(Report& out, kvrt_runtime* runtime, const std::string& path);

}  // namespace cli
