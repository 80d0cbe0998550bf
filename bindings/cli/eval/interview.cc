#include "bindings/cli/eval/interview.h"

#include <algorithm>

#include "bindings/cli/eval/numbers.h"
#include "bindings/cli/eval/row_reader.h"

namespace cli::eval {

namespace {

constexpr std::string_view kNoThoughts = R"({"enable_thinking": false})";  // the name that templates of models that
                                                                           // think use
constexpr std::string_view kNextUser("\nUser:",
                                     7);  // ends an answer of a model without a template; with its NUL

std::string spelled(std::string_view role, std::string_view content) {
  if (role == "system") return fmt::format("{}\n", content);
  return role == "user" ? fmt::format("User: {}\nAssistant:", content) : fmt::format(" {}\n", content);
}

}  // namespace

Interview::Interview(const Model& model, Place* place) : model_(model), place_(place), chats_(model.info()->has_template != 0) {
  // Some templates (Gemma 2, Mistral 7B) refuse a system message: it begins the user's first one then.
  const std::string both = fmt::format("[{}, {}]", message_json("system", "a"), message_json("user", "b"));
  takes_system_ = !chats_ || rendered(model, both).has_value();
}

std::optional<std::string> Interview::rendered(const Model& model, const std::string& messages) {
  auto options = init<kvrt_template_options>();
  kvrt::assign(options.variables, options.variables_size, kNoThoughts);
  std::string text;
  if (!model.apply_template(messages, options, text).ok()) return std::nullopt;
  return text;
}

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

kvrt_status Interview::answer(Session* session, uint32_t tokens_max, std::string* text, uint64_t* rows, uint64_t* kept) {
  auto options = init<kvrt_generate_options>();
  options.max_tokens = tokens_max;
  if (!chats_) kvrt::assign(options.stop_strings, options.stop_strings_size, kNextUser);
  uint64_t tokens = 0;
  const auto on_event = [&](const Event& event) {
    tokens += event.type == KVRT_EVENT_TOKEN;
    if (event.type == KVRT_EVENT_TOKEN || event.type == KVRT_EVENT_DONE) text->append(event.text_view());
    return stop_if(Interrupt::came());
  };
  const Result<kvrt_report> done = session->generate(options, on_event);
  if (!done.ok() && Interrupt::came()) return KVRT_CANCELLED;
  place_->position = std::max<uint64_t>(session->info()->tokens, 1) - 1;
  if (kvrt_status s = checked(done.status(), "cannot answer")) return s;
  if (done->reason == KVRT_REASON_CONTEXT_FULL) {
    return complain(
        KVRT_LIMIT,
        fmt::format(
            "a case took more than the {} tokens that the model's context, or the pool, can hold: lower --tokens, or raise --kv-bytes",
            session->info()->tokens));
  }
  if (done->stop_string_tokens > 0) {  // what ended the answer is no part of it
    const uint64_t keep = session->info()->tokens - done->stop_string_tokens;
    if (kvrt_status s = checked(session->truncate(keep), "cannot cut the answer")) return s;
  }
  if (kept) *kept = tokens - done->stop_string_tokens;
  *rows += done->prefilled + done->generated;
  rows_ += done->prefilled + done->generated;
  kv_bytes_peak_ = std::max(kv_bytes_peak_, session->info()->kv_bytes);
  return KVRT_OK;
}

kvrt_status Interview::ask(const Case& about, const std::string& name, Answers* out) {
  Session session;
  std::string said_before;  // by a system message that the template refuses
  for (size_t q = 0; q < about.questions.size(); ++q) {
    const Question& question = about.questions[q];
    const bool begins = q == 0 || !about.turns;
    if (begins) {
      if (kvrt_status s = open(name, &session)) return s;
      said_before.clear();
      for (const Line& line : about.before) {
        if (line.role == "system" && !takes_system_) {
          said_before += line.content + "\n\n";
        } else if (kvrt_status s = tell(&session, line.role, line.content)) {
          return s;
        }
      }
    }
    if (kvrt_status s = tell(&session, "user", (begins ? said_before + about.document : "") + question.text)) return s;
    out->texts.emplace_back();
    if (kvrt_status s = answer(&session, question.tokens_max, &out->texts.back(), &out->rows)) return s;
  }
  return KVRT_OK;
}

kvrt_status Interview::converse(const std::string& messages, uint32_t tokens_max, const std::string& name, Answers* out) {
  Session session;
  if (kvrt_status s = open(name, &session)) return s;
  if (kvrt_status s = checked(session.set_messages(messages).status(), "--program: cannot append its messages")) return s;
  out->texts.emplace_back();
  return answer(&session, tokens_max, &out->texts.back(), &out->rows);
}

kvrt_status Interview::write(const std::string& request, uint32_t tokens_max, const std::string& name, Decode* out) {
  Session session;
  if (kvrt_status s = open(name, &session)) return s;
  if (kvrt_status s = tell(&session, "user", request)) return s;
  uint64_t kept = 0;
  if (kvrt_status s = answer(&session, tokens_max, &out->text, &out->rows, &kept)) return s;
  if (kvrt_status s = session_tokens(session, out->tokens)) return s;
  out->prompt = out->tokens.size() - std::min<size_t>(kept, out->tokens.size());
  return KVRT_OK;
}

kvrt_status Interview::read(const Model& base, const std::vector<int32_t>& tokens, Reading* out) {
  RowReader its, mine;
  if (kvrt_status s = its.begin(base, tokens, "cannot compute the base's logits")) return s;
  if (kvrt_status s = mine.begin(model_, tokens, "cannot compute logits")) return s;
  for (;;) {
    std::span<const float> of_base, row;
    if (kvrt_status s = its.next(&of_base, &place_->position)) return s;
    if (kvrt_status s = mine.next(&row, &place_->position)) return s;
    if (of_base.empty() || row.empty()) return KVRT_OK;
    out->divergence.push_back(divergence(of_base, row));
    if (best_of(of_base) != best_of(row)) out->flips.push_back(place_->position);
  }
}

}  // namespace cli::eval
