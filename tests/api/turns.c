// A conversation of 20 turns by append_message with a restart between any two: odd turns run in a process of their own, the others with
// everything closed and opened again. Each computes its own tokens and at most one block more, and answers as a conversation without a
// restart. turns [real]; turns turn MODEL DIRECTORY NUMBER SEED is one turn.
#include <sys/wait.h>

#include "chat.h"

enum { kTurns = 20, kBlock = 32, kLength = 6 };

struct turn {
  uint64_t before, appended, rewritten, prompt, prefilled, messages;
  struct run run;
};

static void question(int number, char* text, size_t capacity) {
  static const char* const words[] = {"and", "so", "why", "when", "a sea", "the sun", "who", "far"};
  snprintf(text, capacity, "%s %d", words[number % 8], number * number);
}

static kvrt_generate_options turn_options(uint64_t seed) {
  kvrt_generate_options o = run_options(kLength);
  o.ignore_eos = 0;
  o.seed = seed;
  return o;
}

static void take_turn(kvrt_session* s, int number, uint64_t seed, struct turn* t) {
  char text[64];
  question(number, text, sizeof text);
  memset(t, 0, sizeof *t);
  t->before = session_props(s).tokens;
  kvrt_append_info info;
  say(s, "user", text, &info);
  t->appended = info.appended, t->rewritten = info.rewritten;
  const kvrt_generate_options o = turn_options(seed);
  kvrt_report report = {.struct_size = sizeof report};
  MUST(kvrt_session_generate(s, &o, run_callback, &t->run, &report, NULL));
  check_report(&report, "turn");
  t->prompt = report.prompt_tokens, t->prefilled = report.prefilled;
  t->messages = session_props(s).messages;
}

static void restarted(const char* path, const char* dir, int number, uint64_t seed, struct turn* t) {
  kvrt_runtime* rt = open_runtime(0, 0);
  kvrt_model* model = open_model(rt, path, 0, kBlock, 0);
  kvrt_store* store = open_store(rt, dir);
  kvrt_session* s = number ? resume_session(model, store, "chat", NULL) : open_session(model, store, 0);
  if (number == 0) say(s, "system", "Be kind.", NULL);
  take_turn(s, number, seed, t);
  MUST(kvrt_session_suspend(s, "chat", 4, NULL, NULL, NULL));
  kvrt_session_close(s);
  kvrt_store_release(store);
  kvrt_model_release(model);
  kvrt_runtime_release(rt);
}

static int child(char** argv) {
  static struct turn t;
  restarted(argv[2], argv[3], atoi(argv[4]), (uint64_t)atoll(argv[5]), &t);
  char file[kPathMax + 32];
  snprintf(file, sizeof file, "%s.turn", argv[3]);
  FILE* f = fopen(file, "wb");
  REQUIRE(f && fwrite(&t, sizeof t, 1, f) == 1 && fclose(f) == 0, "%s: %s", file, strerror(errno));
  return finish();
}

static void in_a_process(const char* program, const char* path, const char* dir, int number, uint64_t seed, struct turn* t) {
  char numbers[2][32], file[kPathMax + 32];
  snprintf(numbers[0], sizeof numbers[0], "%d", number);
  snprintf(numbers[1], sizeof numbers[1], "%" PRIu64, seed);
  snprintf(file, sizeof file, "%s.turn", dir);
  fflush(stdout);
  const pid_t pid = fork();
  if (pid == 0) {
    execl(program, program, "turn", path, dir, numbers[0], numbers[1], (char*)NULL);
    _exit(127);
  }
  int status = 0;
  waitpid(pid, &status, 0);
  REQUIRE(WIFEXITED(status) && WEXITSTATUS(status) == 0, "turn %d ended with %x", number, status);
  FILE* f = fopen(file, "rb");
  REQUIRE(f && fread(t, sizeof *t, 1, f) == 1, "%s: %s", file, strerror(errno));
  fclose(f);
  remove(file);
}

// A seed whose answer has no special token inside: the template makes other tokens of such a one than were sampled.
static uint64_t never_restarted(kvrt_session* s, int number, struct turn* want) {
  for (uint64_t seed = 1; seed < 500; ++seed) {
    kvrt_session* attempt = NULL;
    MUST(kvrt_session_fork(s, NULL, &attempt, NULL));
    take_turn(attempt, number, seed, want);
    int special = want->run.count < 2;
    for (size_t i = 0; i + 1 < want->run.count; ++i) special += want->run.token[i] < 20;
    special += want->run.token[want->run.count - 1] < 20 && want->run.report.reason != KVRT_REASON_EOS;
    kvrt_session_close(attempt);
    if (special) continue;
    take_turn(s, number, seed, want);
    return seed;
  }
  REQUIRE(0, "no such seed");
}

int main(int argc, char** argv) {
  if (argc == 6 && strcmp(argv[1], "turn") == 0) return child(argv);
  char path[kPathMax], dir[kPathMax];
  if (argc > 1 && strcmp(argv[1], "real") == 0) {
    if (!find_real(path)) return kSkip;
  } else {
    tiny_path(path, 1);
  }
  static struct turn want[kTurns], got;
  uint64_t seeds[kTurns], prefilled = 0;
  kvrt_runtime* rt = open_runtime(0, 0);
  kvrt_model* model = open_model(rt, path, 0, 64, 0);
  kvrt_session* s = open_session(model, NULL, 1);
  say(s, "system", "Be kind.", NULL);
  for (int i = 0; i < kTurns; ++i) seeds[i] = never_restarted(s, i, &want[i]);
  static int32_t tokens[2][kChatMax];
  const size_t count = session_tokens(s, tokens[0], kChatMax);
  char messages[2][kChatMax];
  all_messages(s, messages[0], kChatMax);
  kvrt_session_close(s);
  kvrt_model_release(model);
  kvrt_runtime_release(rt);

  make_dir(dir);
  for (int i = 0; i < kTurns; ++i) {
    if (i % 2) {
      in_a_process(argv[0], path, dir, i, seeds[i], &got);
    } else {
      restarted(path, dir, i, seeds[i], &got);
    }
    const uint64_t own = got.prompt - got.before;
    EXPECT(got.prefilled <= own + kBlock, "turn %d: %" PRIu64 " computed, its own are %" PRIu64, i, got.prefilled, own);
    EXPECT(got.rewritten == 0 && got.appended == want[i].appended, "turn %d: %" PRIu64 " rewritten", i, got.rewritten);
    EXPECT(got.messages == 3 + 2 * (uint64_t)i, "turn %d: %" PRIu64 " messages", i, got.messages);
    EXPECT(got.prompt == want[i].prompt && same_run(&got.run, &want[i].run), "turn %d says something else after a restart", i);
    prefilled += got.prefilled;
  }
  rt = open_runtime(0, 0);
  model = open_model(rt, path, 0, kBlock, 0);
  kvrt_store* store = open_store(rt, dir);
  s = resume_session(model, store, "chat", NULL);
  const size_t n = session_tokens(s, tokens[1], kChatMax);
  EXPECT(n == count && memcmp(tokens[0], tokens[1], n * sizeof **tokens) == 0, "%zu tokens, %zu without restarts", n, count);
  all_messages(s, messages[1], kChatMax);
  EXPECT(strcmp(messages[0], messages[1]) == 0, "messages %s, without restarts %s", messages[1], messages[0]);
  printf("%d turns, %zu tokens, %" PRIu64 " computed in prompts\n", kTurns, n, prefilled);
  kvrt_session_close(s);
  kvrt_store_release(store);
  kvrt_model_release(model);
  kvrt_runtime_release(rt);
  remove_tree(dir);
  return finish();
}
