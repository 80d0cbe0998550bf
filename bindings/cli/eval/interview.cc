#include "bindings/cli/eval/interview.h"

#include <algorithm>

#include "bindings/cli/eval/numbers.h"

namespace cli::eval {

namespace {

constexpr std::string_view kNoThoughts = R"({"enable_thinking": false})";  // the name that templates of models that think use
constexpr std::string_view kNextUser("\nUser:", 7);                        // ends an answer of a model without a template; with its NUL

std::string spelled(std::string_view role, std::string_view content) {
  if (role == "system") return fmt::format("{}\n", content);
  return role == "user" ? fmt::format("User: {}\nAssistant:", content) : fmt::format(" {}\n", content);
}

}  // namespace

Interview::Interview(const Model& model) : model_(model), chats_(model.info()->has_template != 0) {}

kvrt_status Interview::open(const std::string& name, Session* out) const {
  auto options = init<kvrt_session_options>();
  kvrt::assign(options.domain, options.domain_size, name);
  if (chats_) kvrt::assign(options.variables, options.variables_size, kNoThoughts);
  return take(Session::open(model_, options), *out, "cannot open a session");
}

kvrt_status Interview::tell(Session* session, std::string_view role, std::string_view content) const {
  if (chats_) return checked(session->append_message(message_json(role, content)).status(), "cannot append a message");
  const std::string before = session->info()->tokens && role == "user" ? "\n" : "";
  return checked(session->append_text(before + spelled(role, content)), "cannot append a text");
}

kvrt_status Interview::answer(Session* session, uint32_t tokens_max, std::string* text, uint64_t* tokens, uint64_t* rows) {
  auto options = init<kvrt_generate_options>();
  options.max_tokens = tokens_max;
  if (!chats_) kvrt::assign(options.stop_strings, options.stop_strings_size, kNextUser);
  const auto on_event = [&](const Event& event) {
    *tokens += event.type == KVRT_EVENT_TOKEN;
    if (event.type == KVRT_EVENT_TOKEN || event.type == KVRT_EVENT_DONE) text->append(event.text_view());
    return stop_if(Interrupt::came());
  };
  const Result<kvrt_report> done = session->generate(options, on_event);
  if (!done.ok() && Interrupt::came()) return KVRT_CANCELLED;
  if (kvrt_status s = checked(done.status(), "cannot answer")) return s;
  *rows += done->prefilled + done->generated;
  kv_bytes_peak_ = std::max(kv_bytes_peak_, session->info()->kv_bytes);
  return KVRT_OK;
}

kvrt_status Interview::ask(const Case& about, const std::string& name, Answers* out) {
  Session session;
  for (size_t q = 0; q < about.questions.size(); ++q) {
    const Question& question = about.questions[q];
    const bool begins = q == 0 || !about.turns;
    if (begins) {
      if (kvrt_status s = open(name, &session)) return s;
      for (const Line& line : about.before) {
        if (kvrt_status s = tell(&session, line.role, line.content)) return s;
      }
    }
    if (kvrt_status s = tell(&session, "user", (begins ? about.document : "") + question.text)) return s;
    out->texts.emplace_back();
    out->tokens.push_back(0);
    if (kvrt_status s = answer(&session, question.tokens_max, &out->texts.back(), &out->tokens.back(), &out->rows)) return s;
  }
  return KVRT_OK;
}

kvrt_status Interview::converse(const std::string& messages, uint32_t tokens_max, const std::string& name, Answers* out) {
  if (!chats_) return complain(KVRT_UNSUPPORTED, "--program: the model has no chat template, and a program's messages need one");
  Session session;
  if (kvrt_status s = open(name, &session)) return s;
  if (kvrt_status s = checked(session.set_messages(messages).status(), "--program: cannot append its messages")) return s;
  out->texts.emplace_back();
  out->tokens.push_back(0);
  return answer(&session, tokens_max, &out->texts.back(), &out->tokens.back(), &out->rows);
}

kvrt_status Interview::write(const std::string& request, uint32_t tokens_max, const std::string& name, Decode* out) {
  Session session;
  if (kvrt_status s = open(name, &session)) return s;
  if (kvrt_status s = tell(&session, "user", request)) return s;
  uint64_t generated = 0;
  if (kvrt_status s = answer(&session, tokens_max, &out->text, &generated, &out->rows)) return s;
  if (kvrt_status s = session_tokens(session, out->tokens)) return s;
  out->prompt = out->tokens.size() - std::min<size_t>(generated, out->tokens.size());
  return KVRT_OK;
}

// The next LOGITS of a prefill that was begun, or its DONE.
kvrt_status Interview::next_row(Session* session, Event* out) {
  for (;;) {
    Result<Event> event = session->next();
    if (Interrupt::came()) return KVRT_CANCELLED;
    if (kvrt_status s = checked(event.status(), "cannot compute logits")) return s;
    *out = *event;
    if (out->type == KVRT_EVENT_LOGITS || out->type == KVRT_EVENT_DONE) return KVRT_OK;
  }
}

kvrt_status Interview::read(const Model& base, const Model& other, const std::vector<int32_t>& tokens, Reading* out) {
  auto options = init<kvrt_generate_options>();
  options.prefill = 1;
  options.logits = KVRT_LOGITS_ALL;
  Session sessions[2];
  for (size_t i = 0; i < 2; ++i) {
    if (kvrt_status s = take(Session::open(i == 0 ? base : other), sessions[i], "cannot open a session")) return s;
    if (kvrt_status s = checked(sessions[i].append(tokens), "cannot append tokens")) return s;
    if (kvrt_status s = checked(sessions[i].begin(options), "cannot compute")) return s;
  }
  for (;;) {
    Event its, row;
    if (kvrt_status s = next_row(&sessions[0], &its)) return s;
    if (kvrt_status s = next_row(&sessions[1], &row)) return s;
    if (its.type != KVRT_EVENT_LOGITS || row.type != KVRT_EVENT_LOGITS) break;
    const std::span<const float> of_base(its.logits, its.logits_count), of_other(row.logits, row.logits_count);
    out->divergence.push_back(divergence(of_base, of_other));
    if (best_of(of_base) != best_of(of_other)) out->flips.push_back(row.position);
  }
  out->rows = tokens.size();
  return KVRT_OK;
}

}  // namespace cli::eval
