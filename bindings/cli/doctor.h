// kvrt doctor: its report, and the checks of a store's directory.
#pragma once

#include <fmt/core.h>

#include "bindings/cli/commands.h"

namespace cli {

// Prints a line per check, ok, warn or fail; with --json an object per line.
class Report {
 public:
  explicit Report(bool json) : json_(json) {}
  void ok(std::string_view what, const std::string& text) { line("ok", "\x1b[32m", what, text); }
  void warn(std::string_view what, const std::string& text) { line("warn", "\x1b[33m", what, text); }
  void fail(kvrt_status of, std::string_view what, const std::string& text) {
    line("fail", "\x1b[31m", what, text);
    if (!status_) status_ = of;
  }
  kvrt_status status() const { return status_; }  // the class of the first check that failed

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
// Checks a store, or the place for one: its file system, its files, the processes that have it open, the leftovers in it.
void examine_store(Report& out, const Runtime& runtime, const std::string& path);

}  // namespace cli
