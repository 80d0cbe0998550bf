// Any bytes as a sequence of calls of kvrt.h with any arguments, also out of callbacks, on one model and a store of its own. A simple model
// of the state knows each session's tokens, the content of each name, and the answer of a call on a busy session. At the end every
// saved session is as it was saved and the store verifies clean.
//
// Input: a byte says which call, those after it its arguments; out of input, zeros.
#include "tests/fuzz/api_store.h"

namespace api_fuzz {

namespace {

// ---- tokens, text, messages -------------------------------------------------------------------------------------------------------

void op_append(World& w, Input& in) {
  Slot& s = w.slot(in);
  std::vector<int32_t> tokens(in.below(40));
  for (int32_t& token : tokens) token = static_cast<int32_t>(in.byte() % w.vocab);
  bool wrong = false;
  if (!tokens.empty() && in.rarely()) tokens[in.below(40) % tokens.size()] = in.below(2) ? -1 : static_cast<int32_t>(w.vocab), wrong = true;
  std::unique_ptr<int32_t[]> exact(new int32_t[tokens.size()]);
  std::copy(tokens.begin(), tokens.end(), exact.get());
  size_t count = tokens.size();
  const int32_t* data = exact.get();
  if (in.rarely()) {  // counts that went wrong, and no tokens
    const size_t counts[] = {SIZE_MAX, SIZE_MAX / 4, size_t{1} << 40, 1025};
    count = counts[in.below(4)], wrong = true;
  } else if (in.rarely()) {
    data = nullptr, wrong = count > 0;
  }
  const kvrt_status status = call("append", [&] { return kvrt_session_append(s.handle, data, count, nullptr); });
  require(!wrong || status != KVRT_OK, "append takes tokens of the vocabulary, as many as fit");
  if (w.changed(s, status, "append")) s.tokens.insert(s.tokens.end(), tokens.begin(), tokens.end());
  w.check(s, "append");
}

std::string prompt(Input& in) { return kSecret + in.bytes(in.below(24)); }

void op_append_text(World& w, Input& in) {
  Slot& s = w.slot(in);
  Text text(prompt(in));
  uint32_t flags = in.below(2);
  if (in.rarely()) flags = in.word();
  if (in.rarely()) text.data = nullptr, text.wrong = text.size > 0;
  if (in.rarely()) text.size = (size_t{64} << 20) + 1 + in.word(), text.wrong = true;
  const kvrt_status status = call("append_text", [&] { return kvrt_session_append_text(s.handle, text.data, text.size, flags, nullptr); });
  require((!text.wrong && flags < 2) || status != KVRT_OK, "append_text takes text and its flag");
  if (w.changed(s, status, "append_text")) w.extend(s, s.tokens.size(), "append_text");
  w.check(s, "append_text");
}

std::string message(Input& in) {
  static const char* const kOthers[] = {
      "{\"role\": \"user\"}", "{\"role\": \"nobody\", \"content\": \"Secr3tPr0mpt\"}",   "[]", "{\"role\": ",
      "\"Secr3tPr0mpt\"",     "{\"role\": \"user\", \"content\": \"Secr3tPr0mpt\xff\"}", ""};
  const uint8_t kind = in.byte();
  if (kind >= 224) return kOthers[kind % 7];
  static const char* const kRoles[] = {"user", "assistant", "system", "user"};
  std::string content = kSecret;
  for (char c : in.bytes(in.below(12))) content += static_cast<char>('a' + (c & 15));
  return std::string("{\"role\": \"") + kRoles[kind % 4] + "\", \"content\": \"" + content + "\"}";
}

void op_append_message(World& w, Input& in) {
  Slot& s = w.slot(in);
  Text json(message(in));
  Out<kvrt_append_info> info(in, true);
  const kvrt_status status =
      call("append_message", [&] { return kvrt_session_append_message(s.handle, json.data, json.size, info.get(), nullptr); });
  info.check("append_message", status);
  w.rewritten(s, status, info, "append_message");
}

void op_set_messages(World& w, Input& in) {
  Slot& s = w.slot(in);
  std::string list = "[";
  for (uint32_t i = in.below(4); i > 0; --i) list += message(in) + (i > 1 ? "," : "");
  Text json(list + (in.rarely() ? "" : "]"));
  Out<kvrt_append_info> info(in, true);
  const kvrt_status status =
      call("set_messages", [&] { return kvrt_session_set_messages(s.handle, json.data, json.size, info.get(), nullptr); });
  info.check("set_messages", status);
  w.rewritten(s, status, info, "set_messages");
}

uint64_t place(Input& in, const Slot& s) {
  if (in.rarely()) return in.below(2) ? UINT64_MAX : s.tokens.size() + 1 + in.word();
  return in.word() % (s.tokens.size() + 1);
}

void op_truncate(World& w, Input& in) {
  Slot& s = w.slot(in);
  const uint64_t count = place(in, s);
  const kvrt_status status = call("truncate", [&] { return kvrt_session_truncate(s.handle, count, nullptr); });
  if (w.changed(s, status, "truncate")) {
    require(count <= s.tokens.size(), "truncate keeps tokens that are there");
    s.tokens.resize(count);
  }
  w.check(s, "truncate");
}

void op_mark(World& w, Input& in) {
  Slot& s = w.slot(in);
  const uint64_t at = place(in, s);
  const kvrt_status status = call("mark", [&] { return kvrt_session_mark(s.handle, at, nullptr); });
  if (w.changed(s, status, "mark")) require(at <= s.tokens.size(), "mark takes tokens that are there");
  w.check(s, "mark");
}

void op_erase(World& w, Input& in) {
  Slot& s = w.slot(in);
  const uint64_t from = place(in, s), to = place(in, s);
  const kvrt_status status = call("erase", [&] { return kvrt_session_erase(s.handle, from, to, nullptr); });
  if (w.changed(s, status, "erase")) {
    require(from <= to && to <= s.tokens.size(), "erase drops tokens that are there");
    const auto now = w.tokens_of(s);  // the tokens that joined a message to the next may be gone too
    require(now.size() <= s.tokens.size() - (to - from), "erase drops what it was told to");
    s.tokens.erase(s.tokens.begin() + static_cast<ptrdiff_t>(from),
                   s.tokens.end() - static_cast<ptrdiff_t>(now.size() - std::min<size_t>(now.size(), from)));
  }
  w.check(s, "erase");
}

void op_read(World& w, Input& in) {
  Slot& s = w.slot(in);
  const uint32_t what = in.below(4);
  if (what == 0) {
    Out<kvrt_session_props> props(in, false);
    const kvrt_status status = call("info", [&] { return kvrt_session_info(s.handle, props.get(), nullptr); });
    props.check("info", status);
  } else if (what == 1) {
    const uint64_t from = place(in, s), to = place(in, s);
    const uint32_t flags = in.rarely() ? in.word() : in.below(2);
    buffer_call<char>(
        "text", in, [&](char* b, size_t n, size_t* needed) { return kvrt_session_text(s.handle, from, to, flags, b, n, needed, nullptr); });
  } else if (what == 2) {
    const uint64_t index = in.rarely() ? UINT64_MAX : in.below(8);
    Out<kvrt_message_props> props(in, true);
    size_t needed = 0;
    char json[256];
    const kvrt_status status =
        call("message", [&] { return kvrt_session_message(s.handle, index, props.get(), json, sizeof json, &needed, nullptr); });
    props.check("message", status);
  } else {
    w.check(s, "tokens");
  }
}

// ---- generating ---------------------------------------------------------------------------------------------------------------------

void op_generate(World& w, Input& in) {
  Slot& s = w.slot(in);
  Generation g(w, in);
  Out<kvrt_report> report(in, true);
  const bool whole = !in.rarely(), with_callback = in.below(4) == 0;
  Hook hook{&w, &in, &s, in.below(32)};
  const size_t before = s.tokens.size();
  const bool entered = w.enter(s);
  const kvrt_status status = call(
      whole ? "generate" : "prefill",
      [&] {
        return whole ? kvrt_session_generate(s.handle, g.options->get(), with_callback ? Hook::run : nullptr, &hook, report.get(), nullptr)
                     : kvrt_session_prefill(s.handle, in.rarely() ? 3 : in.below(3), with_callback ? Hook::run : nullptr, &hook,
                                            report.get(), nullptr);
      },
      true);
  const bool closed = w.leave(s, entered);
  require(status != KVRT_OK || !report.wrong(), "a wrong report is refused");
  if (status != KVRT_CANCELLED) report.check("generate", status);
  if (closed) return;
  if (!entered) {
    w.changed(s, status, "generate");
    return w.check(s, "generate");
  }
  const auto now = w.tokens_of(s);
  const bool began = status == KVRT_OK || status == KVRT_CANCELLED || (whole && (*g.options)->sampler == KVRT_SAMPLER_HOST);
  if (status == KVRT_OK && report.whole()) w.check_report(report.value(), now.size());
  if (!began || (whole && (*g.options)->all_or_nothing && status != KVRT_OK)) {
    require(now.size() == before, "a generation that did not come to its end leaves no trace");
  }
  w.extend(s, before, "generate");
  w.check(s, "generate");
}

void op_begin(World& w, Input& in) {
  Slot& s = w.slot(in);
  Generation g(w, in);
  const kvrt_status status = call("begin", [&] { return kvrt_session_begin(s.handle, g.options->get(), nullptr); });
  require(status != KVRT_OK || !g.options->wrong(), "wrong options are refused");
  if (w.changed(s, status, "begin")) s.generating = true, s.all_or_nothing = (*g.options)->all_or_nothing;
  w.check(s, "begin");
}

void op_next(World& w, Input& in) {
  Slot& s = w.slot(in);
  Out<kvrt_event> event(in, false);
  const int32_t timeouts[] = {0, -1, 1, INT32_MIN};
  const int32_t timeout = timeouts[in.below(4)];
  const kvrt_status status = call("next", [&] { return kvrt_session_next(s.handle, event.get(), timeout, nullptr); });
  event.check("next", status);
  if (s.handle == nullptr || s.busy) return w.refused(s, status, "next");
  const kvrt_event e = event.value();
  if (status == KVRT_OK && event.whole()) {
    require((e.type == KVRT_EVENT_IDLE) == !s.generating, "IDLE when nothing generates");
    if (e.type == KVRT_EVENT_DONE) w.check_report(*e.report, w.tokens_of(s).size());
    require(e.type != KVRT_EVENT_TOKEN || is_utf8(std::string(e.text, e.text_size).c_str()), "whole code points");
  }
  w.after_next(s);
}

void op_drain(World& w, Input& in) {  // to DONE, answering where the host samples
  Slot& s = w.slot(in);
  if (s.handle == nullptr || s.busy) return;
  for (int i = 0; s.generating && i < 2000; ++i) {
    kvrt_event e{};
    e.struct_size = sizeof e;
    const kvrt_status status = call("next", [&] { return kvrt_session_next(s.handle, &e, -1, nullptr); });
    if (status == KVRT_INVALID)
      call("accept", [&] { return kvrt_session_accept(s.handle, static_cast<int32_t>(in.byte() % w.vocab), nullptr); });
    if (i == 1000) call("cancel", [&] { return kvrt_session_cancel(s.handle, nullptr); });  // a grammar may take none of these
    w.after_next(s);
  }
  require(!s.generating, "a generation that is driven comes to its end");
}

void op_accept(World& w, Input& in) {
  Slot& s = w.slot(in);
  const int32_t token = in.rarely() ? -static_cast<int32_t>(in.word()) : static_cast<int32_t>(in.word());
  const kvrt_status status = call("accept", [&] { return kvrt_session_accept(s.handle, token, nullptr); });
  require(status != KVRT_OK || s.generating || s.busy, "accept on a session that does not generate");
}

void op_cancel(World& w, Input& in) {
  Slot& s = w.slot(in);
  const kvrt_status status = call("cancel", [&] { return kvrt_session_cancel(s.handle, nullptr); });
  require((status == KVRT_OK) == (s.handle != nullptr), "cancel is free of states");
  w.check(s, "cancel");
}

void op_step(World& w, Input& in) {
  uint32_t runnable = 0x5a5a5a5a;
  const kvrt_status status =
      call("step", [&] { return kvrt_model_step(w.model, in.below(3), in.rarely() ? nullptr : &runnable, nullptr); });
  require(status == KVRT_OK || status == KVRT_BUSY, "step steps");
}

// ---- the model and the runtime --------------------------------------------------------------------------------------------------------

void op_model(World& w, Input& in) {
  const uint32_t what = in.below(6);
  Text text(prompt(in));
  const uint32_t flags = in.rarely() ? in.word() : in.below(4);
  if (what == 0) {
    std::vector<int32_t> ids;
    const kvrt_status status = buffer_call<int32_t>(
        "tokenize", in,
        [&](int32_t* b, size_t n, size_t* needed) {
          return kvrt_model_tokenize(w.model, text.data, text.size, flags, b, n, needed, nullptr);
        },
        &ids);
    if (status != KVRT_OK || flags != 0) return;
    std::vector<char> back;
    buffer_call<char>(
        "detokenize", in,
        [&](char* b, size_t n, size_t* needed) { return kvrt_model_detokenize(w.model, ids.data(), ids.size(), 0, b, n, needed, nullptr); },
        &back);
    require(back.empty() || std::string(back.data(), back.size()) == text.string(), "the bytes of a text come back");
  } else if (what == 1) {
    const std::string list = "[" + message(in) + "]";
    kvrt_template_options o{};
    o.no_generation_prompt = in.rarely() ? 2 : in.below(2);
    Options<kvrt_template_options> options(in, o);
    buffer_call<char>("apply_template", in, [&](char* b, size_t n, size_t* needed) {
      return kvrt_model_apply_template(w.model, list.data(), list.size(), options.get(), b, n, needed, nullptr);
    });
  } else if (what == 2) {
    Out<kvrt_metrics> metrics(in, false);
    metrics.check("metrics", call("metrics", [&] { return kvrt_model_metrics(w.model, metrics.get(), nullptr); }));
  } else if (what == 3) {
    const Text label = name_of(in, false);
    buffer_call<char>("metrics_text", in, [&](char* b, size_t n, size_t* needed) {
      return kvrt_model_metrics_text(w.model, label.data, label.size, b, n, needed, nullptr);
    });
  } else if (what == 4) {
    Out<kvrt_model_props> props(in, false);
    props.check("model_info", call("model_info", [&] { return kvrt_model_info(w.model, props.get(), nullptr); }));
  } else {
    Out<kvrt_error> error(in, false);
    error.check("last_error", kvrt_last_error(error.get()));
    call("set_threads", [&] { return kvrt_runtime_set_threads(w.runtime, in.rarely() ? 257 : 1, nullptr); });
  }
}

using Op = void (*)(World&, Input&);
constexpr Op kOps[] = {op_append,     op_append,     op_append_text, op_append_message, op_set_messages, op_truncate, op_mark,
                       op_erase,      op_read,       op_other,       op_generate,       op_generate,     op_begin,    op_next,
                       op_next,       op_drain,      op_accept,      op_cancel,         op_step,         op_open,     op_open,
                       op_fork,       op_close,      op_save,        op_save,           op_save,         op_resume,   op_resume,
                       op_store_name, op_store_name, op_store_whole, op_reopen,         op_model};

}  // namespace

void World::step(Input& in) {
  ++ops;
  kOps[in.byte() % std::size(kOps)](*this, in);
}

}  // namespace api_fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static api_fuzz::World world;
  api_fuzz::Input in(data, size);
  world.start(in);
  for (int i = 0; i < 48 && !in.empty(); ++i) world.step(in);
  world.finish();
  return 0;
}
