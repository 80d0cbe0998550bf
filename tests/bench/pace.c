// The speed of a prompt beside busy processes, and that of a process's first prompt. One JSON object a line:
//   beside   gaps between the tokens of 8 sessions while a prompt of 4,000 tokens arrives (fairness, which lies beside this program)
//   first    a process's first prompt over its second: kv_populate 1, medians over `starts` processes
//   lone     beside `burners` processes, prompts as the library comes and with step_ms_max 1000, in turn: medians over `rounds`
//   deep     the same of 130 tokens after 5,000
//   pace [--model PATH] [--burners 5] [--rounds 5] [--starts 7] [--only beside|first|lone|deep]
// beside and first want a quiet machine: they come before the burners.
#include <libgen.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "tests/api/support.h"

enum { kRunsMax = 64, kTokensMax = 6000, kFirstPrompt = 2000, kDeep = 5000 };

static struct arguments {
  char model[kPathMax];
  int burners, rounds, starts;
  const char *only, *child;
} args = {.burners = 5, .rounds = 5, .starts = 7, .only = "", .child = ""};

static int32_t tokens[kTokensMax];

struct figure {
  double wall_ms, cpu_ms, rows;  // rows a step
};

static int compare(const void* a, const void* b) {
  const double x = *(const double*)a, y = *(const double*)b;
  return (x > y) - (x < y);
}

static double median(double* values, int count) {
  qsort(values, (size_t)count, sizeof *values, compare);
  return count % 2 ? values[count / 2] : (values[count / 2 - 1] + values[count / 2]) / 2;
}

// The median of one field of the figures.
static double median_of(const struct figure* figures, size_t offset, int count) {
  double values[kRunsMax];
  for (int i = 0; i < count; ++i) memcpy(&values[i], (const char*)&figures[i] + offset, sizeof(double));
  return median(values, count);
}
#define MEDIAN(figures, field, count) median_of(figures, offsetof(struct figure, field), count)

// The CPU time of all threads, spinning included.
static double cpu_ms(void) {
  struct rusage r;
  getrusage(RUSAGE_SELF, &r);
  return (double)(r.ru_utime.tv_sec + r.ru_stime.tv_sec) * 1e3 + (double)(r.ru_utime.tv_usec + r.ru_stime.tv_usec) * 1e-3;
}

static kvrt_model* open_with(kvrt_runtime* rt, uint32_t step_ms_max) {
  kvrt_model_options o = {.struct_size = sizeof o, .step_ms_max = step_ms_max, .kv_populate = 1, .kv_bytes_max = 64u << 20};
  kvrt_model* model = NULL;
  MUST(kvrt_model_open(rt, args.model, strlen(args.model), &o, NULL, NULL, &model, NULL));
  o.kv_bytes_max = (kTokensMax + 64) * model_props(model).kv_bytes_per_token;
  kvrt_model_release(model);
  MUST(kvrt_model_open(rt, args.model, strlen(args.model), &o, NULL, NULL, &model, NULL));
  prompt_tokens(tokens, kTokensMax, 7, model_props(model).vocab_size);
  return model;
}

// Computes the tokens from `begin` to `end`; those before `begin` are there.
static struct figure prefill(kvrt_model* model, kvrt_session* s, size_t begin, size_t end) {
  MUST(kvrt_session_append(s, tokens + begin, end - begin, NULL));
  const kvrt_metrics before = metrics_of(model);
  const double cpu = cpu_ms(), wall = now_ms();
  MUST(kvrt_session_prefill(s, KVRT_LOGITS_LAST, NULL, NULL, NULL, NULL));
  struct figure f = {.wall_ms = now_ms() - wall, .cpu_ms = cpu_ms() - cpu};
  const kvrt_metrics after = metrics_of(model);
  f.rows = (double)(after.step_rows - before.step_rows) / (double)(after.steps - before.steps);
  return f;
}

// The same in a fork of `base`, which has `begin` tokens.
static struct figure prompt(kvrt_model* model, kvrt_session* base, size_t begin, size_t end) {
  kvrt_session* s = NULL;
  MUST(kvrt_session_fork(base, NULL, &s, NULL));
  const struct figure f = prefill(model, s, begin, end);
  kvrt_session_close(s);
  return f;
}

// Runs this program or its neighbour; the first line that it prints, empty where there is none.
static void ask(const char* command, char* line, size_t size) {
  FILE* pipe = popen(command, "r");
  REQUIRE(pipe != NULL, "%s: %s", command, strerror(errno));
  if (!fgets(line, (int)size, pipe)) line[0] = 0;
  REQUIRE(pclose(pipe) == 0, "%s failed", command);
}

static void beside(const char* self) {
  char path[kPathMax], command[3 * kPathMax], line[1024];
  snprintf(path, sizeof path, "%s", self);
  snprintf(command, sizeof command, "'%s/fairness' '%s' 8 4000", dirname(path), args.model);
  ask(command, line, sizeof line);
  line[strcspn(line, "\n")] = 0;
  printf("{\"beside\": %s}\n", line);
}

static void first_of_a_process(void) {
  kvrt_runtime* rt = open_runtime(0, 0);
  kvrt_model* model = open_with(rt, 0);
  kvrt_session* empty = open_session(model, NULL, 1);
  const struct figure a = prompt(model, empty, 0, kFirstPrompt), b = prompt(model, empty, 0, kFirstPrompt);
  kvrt_session_close(empty);
  printf("%g %g %g %g\n", a.wall_ms, b.wall_ms, a.cpu_ms, b.cpu_ms);
  kvrt_model_release(model);
  kvrt_runtime_release(rt);
}

static void first(const char* self) {
  char command[3 * kPathMax], line[1024];
  double first_ms[kRunsMax], second_ms[kRunsMax], wall[kRunsMax], cpu[kRunsMax];
  snprintf(command, sizeof command, "'%s' --model '%s' --child first", self, args.model);
  for (int i = 0; i < args.starts; ++i) {
    double a = 0, b = 0;
    ask(command, line, sizeof line);
    REQUIRE(sscanf(line, "%lg %lg %lg %lg", &first_ms[i], &second_ms[i], &a, &b) == 4, "%s", line);
    wall[i] = first_ms[i] / second_ms[i];
    cpu[i] = a / b;
  }
  printf("{\"first\": {\"prompt\": %d, \"first_ms\": %.0f, \"second_ms\": %.0f, \"ratio\": %.3f, \"cpu_ratio\": %.3f, \"starts\": %d}}\n",
         kFirstPrompt, median(first_ms, args.starts), median(second_ms, args.starts), median(wall, args.starts), median(cpu, args.starts),
         args.starts);
}

static void lone(int deep) {
  pid_t burners[kRunsMax];
  for (int i = 0; i < args.burners; ++i) {
    burners[i] = fork();
    REQUIRE(burners[i] >= 0, "%s", strerror(errno));
    if (burners[i] != 0) continue;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (volatile unsigned n = 0;;) ++n;
  }
  static const size_t kPrompts[][2] = {{0, 512}, {0, 2000}, {0, 4000}, {kDeep, kDeep + 130}};
  const size_t all = sizeof kPrompts / sizeof *kPrompts;
  kvrt_runtime* rt = open_runtime(0, 0);
  kvrt_model *paced = open_with(rt, 0), *at_once = open_with(rt, 1000);
  for (size_t p = deep ? all - 1 : 0; p < (deep ? all : all - 1); ++p) {
    const size_t begin = kPrompts[p][0], end = kPrompts[p][1];
    struct figure a[kRunsMax], b[kRunsMax];
    double ratio[kRunsMax];
    kvrt_session *base = open_session(paced, NULL, 1), *base_at_once = open_session(at_once, NULL, 1);
    if (begin > 0) {
      prefill(paced, base, 0, begin);
      prefill(at_once, base_at_once, 0, begin);
    }
    for (int i = 0; i < args.rounds; ++i) {
      a[i] = prompt(paced, base, begin, end);
      b[i] = prompt(at_once, base_at_once, begin, end);
      ratio[i] = a[i].cpu_ms / b[i].cpu_ms;
    }
    kvrt_session_close(base);
    kvrt_session_close(base_at_once);
    printf(
        "{\"lone\": {\"from\": %zu, \"to\": %zu, \"burners\": %d, \"rows_a_step\": %.1f, \"at_once_rows_a_step\": %.1f, \"ms\": %.0f, "
        "\"at_once_ms\": %.0f, \"cpu_ms\": %.0f, \"at_once_cpu_ms\": %.0f, \"cpu_ratio\": %.3f, \"rounds\": %d}}\n",
        begin, end, args.burners, MEDIAN(a, rows, args.rounds), MEDIAN(b, rows, args.rounds), MEDIAN(a, wall_ms, args.rounds),
        MEDIAN(b, wall_ms, args.rounds), MEDIAN(a, cpu_ms, args.rounds), MEDIAN(b, cpu_ms, args.rounds), median(ratio, args.rounds),
        args.rounds);
    fflush(stdout);
  }
  kvrt_model_release(paced);
  kvrt_model_release(at_once);
  kvrt_runtime_release(rt);
  for (int i = 0; i < args.burners; ++i) {
    kill(burners[i], SIGKILL);
    waitpid(burners[i], NULL, 0);
  }
}

static void parse(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    const char* value = i + 1 < argc ? argv[i + 1] : "";
    const int number = atoi(value);
    if (!strcmp(argv[i], "--model")) snprintf(args.model, sizeof args.model, "%s", value);
    if (!strcmp(argv[i], "--burners")) args.burners = number;
    if (!strcmp(argv[i], "--rounds")) args.rounds = number;
    if (!strcmp(argv[i], "--starts")) args.starts = number;
    if (!strcmp(argv[i], "--only")) args.only = value;
    if (!strcmp(argv[i], "--child")) args.child = value;
    ++i;
  }
  REQUIRE(args.burners >= 0 && args.burners <= kRunsMax && args.rounds >= 1 && args.rounds <= kRunsMax && args.starts >= 1 &&
              args.starts <= kRunsMax,
          "at most %d of each", kRunsMax);
}

int main(int argc, char** argv) {
  parse(argc, argv);
  if (!args.model[0] && !find_real(args.model)) {
    printf("no model %s\n", args.model);
    return 1;
  }
  if (args.child[0]) {
    first_of_a_process();
    return 0;
  }
  char self[kPathMax] = "";
  REQUIRE(readlink("/proc/self/exe", self, sizeof self - 1) > 0, "%s", strerror(errno));
  if (!args.only[0] || !strcmp(args.only, "beside")) beside(self);
  if (!args.only[0] || !strcmp(args.only, "first")) first(self);
  fflush(stdout);
  if (!args.only[0] || !strcmp(args.only, "lone")) lone(0);
  if (!args.only[0] || !strcmp(args.only, "deep")) lone(1);
  return 0;
}
