// Every call of kvrt.h through kvrt.hpp. Linked with cpp_mock.c it shows that the header reaches all of the library (argv[1] lists its
// functions) and allocates nothing; compiled alone it is the source of the compile matrix.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <string>

#include "kvrt.hpp"

extern "C" const char* mock_calls(void);

static long allocations = 0;

// noinline: else g++ takes malloc and free for a mismatched pair where one of them is inlined.
#define COUNTED __attribute__((noinline))
COUNTED void* operator new(std::size_t size) {
  ++allocations;
  if (void* p = std::malloc(size)) return p;
  std::abort();
}
COUNTED void operator delete(void* p) noexcept { std::free(p); }
COUNTED void operator delete(void* p, std::size_t) noexcept { std::free(p); }

namespace {

int failures = 0;

void expect(bool good, const char* what) {
  if (good) return;
  std::printf("FAILED: %s\n", what);
  ++failures;
}

// A container that needs no allocation.
template <class T>
struct Fixed {
  T items[16] = {};
  std::size_t count = 0;
  T* data() noexcept { return items; }
  std::size_t size() const noexcept { return count; }
  void resize(std::size_t n) noexcept { count = n; }
};

void stores(const kvrt::Runtime& runtime) {
  kvrt::Result<kvrt::Store> store = kvrt::Store::open(runtime, "dir");
  kvrt::Store copy = *store;
  expect(copy.info()->sessions == 6, "info");
  int events = 0;
  auto count = [&](const kvrt::Event&) { ++events; };
  expect(copy.list({}, count).ok() && events == 3, "list");
  expect(copy.list("domain", [](const kvrt::Event&) { return kvrt::Flow::stop; }) == KVRT_CANCELLED, "list, stopped");
  expect(copy.list({}, [&](const kvrt::Event&) { return kvrt::stop_if(++events == 5); }) == KVRT_CANCELLED && events == 5, "stop_if");
  expect(copy.stat("ann")->tokens == 7, "stat");
  Fixed<char> json;
  expect(copy.show("ann", json).ok() && json.size() == 2 && json.data()[0] == '{', "show");
  expect(copy.remove("ann", "domain").ok() && copy.rename("ann", "bob").ok() && copy.pin("ann", 1).ok(), "remove, rename, pin");
  expect(*copy.remove_old() == 5, "remove_old");
  expect(copy.set_ttl("ann", 5).ok() && copy.gc()->chunks_removed == 8 && copy.verify(count).ok() && events == 8, "set_ttl, gc, verify");
  expect(kvrt::Store::repair(runtime, "/s")->sessions_kept == 9, "repair");
}

void models(kvrt::Model& model) {
  Fixed<std::int32_t> tokens;
  Fixed<char> text;
  std::int32_t ids[4];
  char bytes[8];
  std::size_t needed = 0;
  const auto o = kvrt::init<kvrt_template_options>();
  expect(model.info()->layers == 4 && *model.step(5) == 3 && model.metrics()->steps == 5, "info, step, metrics");
  expect(model.tokenize("abc", 0, tokens).ok() && tokens.size() == 3 && tokens.items[2] == 3, "tokenize into a container");
  expect(model.tokenize("abc", KVRT_TEXT_BOS, ids, needed).ok() && needed == 3 && ids[2] == 3, "tokenize into a span");
  expect(model.tokenize("abc", 0, kvrt::Span<std::int32_t>(ids, 2), needed) == KVRT_TOO_SMALL && needed == 3, "tokenize, too small");
  expect(model.detokenize(ids, 0, text).ok() && text.size() == 4, "detokenize");
  expect(model.detokenize(ids, 0, bytes, needed).ok() && needed == 4 && bytes[3] == 't', "detokenize into a span");
  expect(model.apply_template("[]", o, text).ok() && model.apply_template("[]", o, bytes, needed).ok(), "apply_template");
  expect(model.metrics_text({}, text).ok() && model.metrics_text("label", bytes, needed).ok() && needed == 4, "metrics_text");
  expect(model.metrics_text("", text).ok() && model.metrics_text("", bytes, needed).ok(), "metrics_text, by the model's name");
}

void outputs(const kvrt::Session& s) {
  Fixed<std::int32_t> tokens;
  Fixed<char> text;
  std::int32_t ids[4];
  char bytes[8];
  std::size_t needed = 0;
  auto props = kvrt::init<kvrt_message_props>();
  expect(s.info()->tokens == 9 && s.cancel().ok(), "info, cancel");
  expect(s.tokens(tokens).ok() && tokens.size() == 3 && s.tokens(ids, needed).ok() && needed == 3, "tokens");
  expect(s.text(0, UINT64_MAX, 0, text).ok() && s.text(0, 1, KVRT_TEXT_SPECIAL, bytes, needed).ok() && needed == 4, "text");
  expect(s.message(0, &props, text).ok() && text.size() == 2 && s.message(0, nullptr, bytes, needed).ok() && needed == 2, "message");
}

void sessions(kvrt::Model& model, const kvrt::Store& store) {
  int woken = 0;
  const auto wake = [&]() noexcept { ++woken; };
  auto o = kvrt::init<kvrt_session_options>();
  kvrt::assign(o.domain, o.domain_size, "domain");
  kvrt::wake_with(o, wake);
  kvrt::Result<kvrt::Session> opened = kvrt::Session::open(model, o);
  expect(opened.ok() && woken == 1, "open, wake");
  kvrt::Session s = std::move(*opened);
  auto report = kvrt::init<kvrt_report>();
  kvrt::Session resumed = *kvrt::Session::resume(model, store, "ann", o, &report, [](const kvrt::Event&) {});
  o.autosave_turn = 1;
  resumed = *kvrt::Session::resume_or_open(model, store, "ann", o);
  expect(resumed && woken == 1, "resume_or_open, resumed");
  int events = 0;
  resumed = *kvrt::Session::resume_or_open(model, store, "nobody", o, &report, [&](const kvrt::Event&) { ++events; });
  expect(resumed && woken == 2 && events == 0, "resume_or_open, opened");
  resumed = *s.fork();
  const std::int32_t ids[] = {1, 2, 3};
  expect(s.append(ids).ok() && s.append_text("text", KVRT_TEXT_SPECIAL).ok(), "append");
  expect(s.append_message("{}")->appended == 10 && s.set_messages("[]")->appended == 11, "messages");
  expect(s.truncate(2).ok() && s.mark().ok() && s.erase(0, 1).ok() && s.accept(3).ok(), "truncate, mark, erase, accept");
  std::size_t rows = 0;
  auto row = [&](const kvrt::Event& e) { rows += e.logits_span().size() + e.top_span().size(); };
  expect(s.prefill(KVRT_LOGITS_LAST, row)->prefilled == 12 && rows == 2, "prefill");
  std::size_t letters = 0;
  auto g = kvrt::init<kvrt_generate_options>();
  g.max_tokens = 3;
  const kvrt::Cancel cancel = *kvrt::Cancel::open(), again = cancel;
  g.cancel = again.get();
  cancel.fire();
  expect(g.cancel != nullptr && cancel.fired(), "cancel");
  const auto stop = [&](const kvrt::Event& e) {
    letters += e.text_view().size();
    return e.type == KVRT_EVENT_DONE ? kvrt::Flow::stop : kvrt::Flow::go_on;
  };
  expect(s.generate(g, stop).status() == KVRT_CANCELLED && letters == 2 && s.generate()->generated == 13, "generate");
  expect(s.begin(g).ok() && s.next(0)->type == KVRT_EVENT_TOKEN, "begin, next");
  kvrt::Status end;
  for (const kvrt::Event& e : s.events(end)) events += e.type != KVRT_EVENT_NONE;
  expect(end.ok() && events == 2, "events");
  expect(s.checkpoint("ann")->chunks == 14 && s.suspend("ann")->chunks == 15, "checkpoint, suspend");
  outputs(s);
  s.close();
  expect(!s && s.get() == nullptr && resumed, "close");
}

void everything() {
  int lines = 0;
  const auto log = [&](std::int32_t, std::string_view text) noexcept { lines += text == "line"; };
  auto o = kvrt::init<kvrt_runtime_options>();
  kvrt::log_to(o, log);
  kvrt::Runtime runtime = *kvrt::Runtime::open(o);
  expect(lines == 1 && o.struct_size == sizeof o, "log");
  expect(runtime.info()->threads == 2 && runtime.set_threads(1).ok() && runtime.plan("file")->fits == 1 && runtime.cache()->files == 3,
         "runtime");
  std::string json;
  expect(runtime.inspect("file", 0, json).ok() && json == "{}", "inspect");
  kvrt::Result<kvrt::Model> model = kvrt::Model::open(runtime, "file", kvrt::init<kvrt_model_options>(), [](const kvrt::Event&) {});
  const kvrt::Result<kvrt::Store> store = kvrt::Store::open(runtime, "dir");
  stores(runtime);
  models(*model);
  sessions(*model, *store);
  kvrt::Model second = *model;
  second.reset();
  kvrt::Runtime third = runtime;
  third = std::move(runtime);
  expect(third && !runtime, "move");
  expect(std::strcmp(kvrt::last_error().message, "mock") == 0 && std::strcmp(kvrt::Status(KVRT_IO).name(), "FAILED") == 0, "last_error");
  expect(kvrt::Status() == KVRT_OK && kvrt::Status(KVRT_IO) != KVRT_OK, "Status");
  expect(kvrt_version() + kvrt_abi_version() + kvrt_struct_size("kvrt_event") + kvrt_struct_offset("kvrt_event", "type") == 0, "versions");
}

}  // namespace

int main(int argc, char** argv) {
  const long before = allocations;
  everything();
  expect(allocations == before, "kvrt.hpp allocated");
  std::FILE* list = argc == 2 ? std::fopen(argv[1], "r") : nullptr;
  expect(list != nullptr, "no list of functions");
  char name[128], word[132];
  int functions = 0;
  while (list && std::fscanf(list, "%127s", name) == 1) {
    std::snprintf(word, sizeof word, " %s ", name);
    if (std::strstr(mock_calls(), word) == nullptr) {
      std::printf("FAILED: kvrt.hpp did not call %s\n", name);
      ++failures;
    }
    ++functions;
  }
  if (list) std::fclose(list);
  expect(functions > 50, "the list of functions is short");
  ::operator delete(::operator new(1));
  expect(allocations == before + 1, "the count of allocations counts nothing");
  std::printf("%d functions, %ld allocations, %d failures\n", functions, allocations - before - 1, failures);
  return failures != 0;
}
