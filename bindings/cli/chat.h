// kvrt chat: a conversation at a terminal, or of lines that come through a pipe.
#pragma once

#include <cstdio>
#include <string>
#include <vector>

#include "bindings/cli/chat_interrupts.h"
#include "bindings/cli/commands.h"
#include "bindings/cli/line_editor.h"
#include "bindings/cli/tables.h"

namespace cli {

class Chat {
 public:
  explicit Chat(const ChatFlags& flags) : flags_(flags), sampling_(flags.sampling), name_(flags.session) {}
  kvrt_status open();
  int loop();
  static std::vector<Entry> lines();  // its commands

 private:
  kvrt_status resume_or_open();
  kvrt_status check_text();
  kvrt_status ask(const std::string& text);
  kvrt_status answer(const kvrt_generate_options& options, const std::string& said = "");  // `said`: how it begins already
  kvrt_status save(const std::string& name, bool quiet, bool overwrite = false);
  LineEditor::Read read_line(std::string& line, bool& pasted);
  kvrt_status command(const std::string& line);  // without white space at its end
  bool leaves() const { return interrupts_.ended() || std::ferror(stdout); }
  uint64_t tokens() const;
  std::vector<Message> messages() const;
  bool last_question(Message& out) const;
  bool oldest_turn(uint64_t& begin, uint64_t& end) const;  // false: there is none before the last
  uint64_t most_tokens() const { return tokens_held(*model_.info()); }
  std::string why_no_more() const;  // what limits the session to these
  void advise_room() const;
  void say_unfinished() const;

  struct Command {
    std::string usage;  // "/fork [NAME]"
    const char* text;
    kvrt_status (Chat::*run)(const std::string& argument);
    std::string verb() const { return usage.substr(0, usage.find(' ')); }
  };
  static const std::vector<Command> kCommands;
  kvrt_status help(const std::string&);
  kvrt_status go_on(const std::string&);
  kvrt_status retry(const std::string& seed);
  kvrt_status rewind(const std::string& to);
  std::string fork_name() const;
  kvrt_status fork(const std::string& name);
  kvrt_status forget(const std::string&);
  kvrt_status history(const std::string&);
  kvrt_status save_as(const std::string& name);
  kvrt_status stats(const std::string&);
  kvrt_status quit(const std::string&);

  const ChatFlags& flags_;
  SamplingFlags sampling_;
  std::string name_;
  Interrupts interrupts_;  // before the runtime
  Runtime runtime_;
  Model model_, draft_;
  Store store_;
  Session session_;
  std::string stop_;  // options_ points into it, sampling_ and flags_
  kvrt_generate_options options_ = init<kvrt_generate_options>();
  kvrt_report last_ = init<kvrt_report>();
  kvrt_status saved_ = KVRT_OK;  // how the last save went
  bool saves_ = false;           // there is a store, and it can be written
  bool at_stop_ = false;         // a stop string ended the last answer, and nothing has changed since
  bool over_ = false;            // /quit came
  LineEditor editor_;
};

}  // namespace cli
