// The conversations that the server has, found again by what a request says.
//
// A client sends its whole list of messages with each request. A conversation is saved under a name made of all messages of the last request
// that it answered. A later request begins with these messages, so one of its beginnings has that name: no index is needed, and none can be
// lost. Tools, variables of the template, the model and prompt_cache_key go into the name, too. A name only finds: kvrt compares the messages
// themselves, keeps what is equal and drops the rest.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "kvrt.hpp"
#include "place.h"
#include "request.h"

// One that a request works on. Nobody else has it meanwhile.
struct Conversation {
  kvrt::Session session;
  std::string domain, name;  // name "": it is not saved, as another request has the same words
  bool busy = true, saving = false;
  kvrt::Cancel cancel;          // of the generation
  std::vector<int32_t> prompt;  // of the request, where its words alone say what the tokens are
  uint64_t used = 0;
  uint64_t place = 0;            // StorePlace's count, of the store that its session has
  std::string tools, variables;  // of the session
  std::string response;          // of one that keeps a response in memory: its JSON
  std::string ended;             // of such a one: the name of the conversation that the response ended
};

struct SessionWords {
  std::string title, last;   // the first words of the first question, and of the last one
  std::string conversation;  // what the client calls the conversation that this is a branch of
  uint64_t messages = 0;
};

struct SessionEntry {  // of the list
  std::string name, state;
  uint64_t tokens = 0, bytes = 0;
  int64_t saved_ms = 0, expires_ms = 0;
  uint64_t revision = 0;
  SessionWords words{};
};

class Conversations {
 public:
  struct Options {
    uint64_t keep_seconds = 0;  // a saved session expires; 0: never
    size_t open_max = 256;      // conversations of a domain that are open and idle: no key closes another's
    // Answers that come back keep the tokens, and the reasoning that does not come back, as they were generated. Else a request has the tokens
    // that its words have, whatever is remembered.
    bool as_generated = false;
    std::function<void(const std::string&)> log;
  };
  // `place` outlives it.
  Conversations(kvrt::Model model, StorePlace& place, std::string model_id, Options options);
  ~Conversations();

  // The store that is there now; NULL: nothing is saved. Where it is another than before, the conversations in memory are soon saved there.
  kvrt::Store store() const { return look().store; }
  bool has_place() const { return place_.named(); }  // the server was started with a store

  // The conversation of the request, whose messages are said. Throws kvrt::Error.
  std::shared_ptr<Conversation> take(const Request& request, const std::string& domain);
  // Its generation begins: a request for the same conversation that comes after this cancel waits for the end.
  void begins(const std::shared_ptr<Conversation>& conversation, const kvrt::Cancel& cancel);
  // False: its generation has begun with other tokens than the request's words have. Once that has ended, renew gives a conversation that has not.
  bool is_as_sent(const Conversation& conversation) const;
  std::shared_ptr<Conversation> renew(const std::shared_ptr<Conversation>& conversation, const Request& request);
  // It generates. A new one gets its first save: autosaves keep that one's name, and its time to expire, which they cannot set.
  void begun(const std::shared_ptr<Conversation>& conversation) noexcept;
  // Saves it under its new name, and lets others have it.
  void give_back(std::shared_ptr<Conversation> conversation, const Request& request) noexcept;
  // After a request that came to nothing.
  void drop(const std::shared_ptr<Conversation>& conversation) noexcept;

  // Of /v1/responses. A response that is kept is a saved session of its own; its id says its name.
  // Gives the request's response an id, and the request the messages of the response before it. Throws ApiError.
  void prepare(Request* request, const std::string& domain) const;
  // Keeps the conversation as it is, with the response as the client gets it. Both go into the store that is there now.
  void keep(std::shared_ptr<Conversation>* conversation, const Request& request, const std::string& response) noexcept;
  std::string find_response(const std::string& id, const std::string& domain) const;  // "": there is none. Throws ApiError
  // With the conversation that it ended, if that still ends with it. False: there is none. Throws kvrt::Error and ApiError.
  bool remove_response(const std::string& id, const std::string& domain);

  // A session of its own for a prompt of /v1/completions, and its save.
  kvrt::Session open_text(const Prompt& prompt, const std::string& domain);
  void save_text(kvrt::Session& session, const Prompt& prompt) noexcept;

  std::vector<SessionEntry> list(const std::string& domain);
  // Gives the entries their words. The number of those that the next call has them of.
  size_t add_words(const std::string& domain, std::vector<SessionEntry>* entries);
  std::string read_session(const std::string& name, const std::string& domain);  // its messages, as JSON; "": there is none
  bool remove_session(const std::string& name, const std::string& domain);       // false: there is none. Throws ApiError
  // The open ones, each with its name, when it was last used, and whether a request works on it. Their sessions may be read.
  struct Opened {
    std::string name;
    uint64_t used;
    bool busy;
    std::shared_ptr<const Conversation> conversation;
  };
  std::vector<Opened> open(const std::string& domain);

 private:
  using Key = std::pair<std::string, std::string>;  // domain, name
  enum class Found { kNothing, kTaken, kBusy };
  struct Kept {
    std::string response;  // JSON; "": none
    std::string ended;     // the name of the conversation that it ended
    std::vector<Message> messages;
    std::string answer;  // the last one as the session has it
  };
  struct Known {  // of a saved session
    uint64_t revision;
    int64_t saved_ms;
    SessionWords words;
  };

  std::vector<std::string> names_of(const Request& request) const;
  StorePlace::Found look() const;
  void run(const std::stop_token& over);
  bool save(std::shared_ptr<Conversation>* conversation, std::string name);
  bool move(std::shared_ptr<Conversation>* conversation);
  kvrt_session_options session_options(const std::string& domain, const kvrt::Store& store) const;
  Found take_open(const Key& key, std::shared_ptr<Conversation>* out);
  std::shared_ptr<Conversation> take_saved(const Key& key);
  void say_setting(Conversation* conversation, const Request& request);
  std::shared_ptr<Conversation> take_cut(const Request& request, const Key& key);
  bool ends_turn(int32_t token) const;
  std::shared_ptr<Conversation> take_by_key(const Request& request, const std::string& domain);
  std::string setting_hex(const Request& request) const;
  Kept find_kept(const std::string& id, const std::string& domain) const;
  bool save_response(Conversation* kept, const Request& request) const;
  void require_place() const;
  void remove_ended(const Kept& kept, const std::string& domain);
  bool remove_saved(const std::string& name, const std::string& domain);  // false: there is none
  static bool follows(const Conversation& conversation, const Request& request);
  std::shared_ptr<Conversation> take_response(const Request& request, const Key& key);
  std::shared_ptr<Conversation> open_new(const Request& request, const Key& key);
  std::shared_ptr<Conversation> replace(const std::shared_ptr<Conversation>& old, kvrt::Session session, uint64_t place);
  kvrt::Session open_session(const std::string& tools, const std::string& variables, const std::string& domain,
                             const kvrt::Store& store) const;
  void say_as_generated(Conversation* conversation, const Request& request);
  void say_as_sent(std::shared_ptr<Conversation>* conversation, const Request& request);
  void append_beginning(kvrt::Session* session) const;
  kvrt_save_options save_options() const;
  void forget(const Key& key) noexcept;
  void let_go(const std::shared_ptr<Conversation>& conversation) noexcept;
  void let_go_after_request(const std::shared_ptr<Conversation>& conversation) noexcept;

  const kvrt::Model model_;
  StorePlace& place_;
  const std::string model_id_;
  const Options options_;
  mutable std::mutex mu_;
  mutable std::condition_variable changed_;
  std::map<Key, std::shared_ptr<Conversation>> open_;
  std::mutex words_mu_;
  std::map<std::string, std::map<std::string, Known>> words_;  // by domain and name
  uint64_t clock_ = 0;
  mutable std::atomic<uint64_t> seen_{0};  // StorePlace's count
  mutable bool moves_ = false;             // there are conversations to be saved in another store
  std::jthread mover_;                     // at last: it uses all above
};
