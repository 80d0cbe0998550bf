// How a conversation comes to say what a request says, and with which tokens.
//
// The words of an answer may have other tokens than those that the model generated, and a template may leave out or write anew what it generated.
// By default the request alone decides: the prompt has the tokens that its words have, so the same request has the same answer whether the
// server remembers the conversation or not. The KV of all tokens before the first difference is kept.
#include <algorithm>

#include "conversations.h"
#include "error.h"
#include "room.h"

namespace {

constexpr size_t kNewMessagesMax = 32;  // that are said without a look at their length

// True where the client sends back the answer that the session gave, perhaps without ids and reasoning.
bool same_answer(const Message& message, const Json& answer) {
  const Json *role = answer.find("role"), *content = answer.find("content"), *calls = answer.find("tool_calls");
  if (!role || role->text != message.role || (content ? content->text : "") != message.content) return false;
  if ((calls ? calls->items.size() : 0) != message.calls.size()) return false;
  for (size_t i = 0; i < message.calls.size(); ++i) {
    const Json* function = calls->items[i].find("function");
    const Json* name = function ? function->find("name") : nullptr;
    const Json* arguments = function ? function->find("arguments") : nullptr;
    if (!name || name->text != message.calls[i].name || !arguments || !same(*arguments, read_json(message.calls[i].arguments)))
      return false;
  }
  const Json* reasoning = answer.find("reasoning_content");
  return message.reasoning.empty() || (reasoning && reasoning->text == message.reasoning);
}

bool is_beginning(const std::vector<int32_t>& first, const std::vector<int32_t>& whole) {
  return first.size() <= whole.size() && std::equal(first.begin(), first.end(), whole.begin());
}

std::vector<int32_t> tokens_of(const kvrt::Session& session) {
  std::vector<int32_t> tokens;
  session.tokens(tokens).or_throw();
  return tokens;
}

}  // namespace

// Makes the session's messages those of the request. An answer that the client sends back is taken as the session has it.
void Conversations::say_as_generated(Conversation* c, const Request& request) {
  std::string list = "[", answer;
  for (size_t i = 0; i < request.messages.size(); ++i) {
    const Message& m = request.messages[i];
    auto place = kvrt::init<kvrt_message_props>();
    const bool generated = m.role == "assistant" && c->session.message(i, &place, answer).ok() && place.generated &&
                           same_answer(m, read_json(answer, kKvrtDepthMax));
    list += (i ? "," : "") + (generated ? answer : m.json());
  }
  list += "]";
  // A session renders each new message with all before it. So many that do not fit are refused by one rendering.
  if (request.messages.size() > c->session.info().or_throw().messages + kNewMessagesMax) {
    const uint64_t most = tokens_max(model_), found = prompt_tokens(model_, request, list).size();
    if (found > most) throw too_long(most, {found}, true);
  }
  (void)c->session.set_messages(list).or_throw();
}

void Conversations::say_as_sent(std::shared_ptr<Conversation>* conversation, const Request& request) {
  Conversation* c = conversation->get();
  const std::string list = messages_json(request);
  c->prompt = prompt_tokens(model_, request, list);
  const uint64_t most = tokens_max(model_);
  if (c->prompt.size() >= most) throw too_long(most, {c->prompt.size()}, true);
  const std::vector<int32_t> before = tokens_of(c->session);
  const auto same =
      static_cast<size_t>(std::mismatch(before.begin(), before.end(), c->prompt.begin(), c->prompt.end()).first - before.begin());
  if (same < before.size()) c->session.truncate(same).or_throw();
  if (c->session.set_messages(list).ok() && is_beginning(tokens_of(c->session), c->prompt)) return;
  *conversation = renew(*conversation, request);
}

bool Conversations::is_as_sent(const Conversation& c) const { return is_beginning(c.prompt, tokens_of(c.session)); }

// A session that remembers nothing: its tokens are those of the words.
std::shared_ptr<Conversation> Conversations::renew(const std::shared_ptr<Conversation>& old, const Request& request) {
  const auto [store, count] = look();
  kvrt::Session session = open_session(request.tools, request.variables, old->domain, store);
  (void)session.set_messages(messages_json(request)).or_throw();
  const auto c = replace(old, std::move(session), count);
  c->prompt = std::move(old->prompt);
  return c;
}

// The conversation whose last answer was cut, where the client sends that back as it is. The model goes on with it, token by token.
std::shared_ptr<Conversation> Conversations::take_cut(const Request& request, const Key& key) {
  std::shared_ptr<Conversation> c;
  if (take_open(key, &c) == Found::kBusy) refuse("messages", "messages: this answer is still being given", "answer_busy");
  if (!c) c = take_saved(key);
  const auto says = [&](size_t i, const Message& m) {
    std::string said;
    if (!c->session.message(i, nullptr, said).ok()) return false;
    const Json json = read_json(said, kKvrtDepthMax);
    return same(json, read_json(m.json(), kKvrtDepthMax)) || (m.role == "assistant" && same_answer(m, json));
  };
  auto place = kvrt::init<kvrt_message_props>();
  const size_t last = request.messages.size();
  std::string answer;
  bool found = c && c->session.message(last, &place, answer).ok() && place.generated && !place.ended && says(last, request.cut);
  for (size_t i = 0; found && i < last; ++i) found = says(i, request.messages[i]);
  if (!found) {
    if (c) drop(c);
    refuse("messages", "messages: the last one is not an answer of this server that was cut, as it is remembered", "answer_not_found");
  }
  say_setting(c.get(), request);
  return c;
}
