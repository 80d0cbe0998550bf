// Every call works on a thread with 96 KiB of stack (its thread-local storage included), with the deepest templates, JSON, schemas and
// grammars that the limits allow. Below the stack is a guard page: a call that needs more dies here. Prints the stack that was needed.
#include <limits.h>
#include <sys/mman.h>

#include "chat.h"
#include "misuse.h"

enum { kText = 1 << 16 };

static size_t stack_bytes = 96 << 10;

// ---- deep texts --------------------------------------------------------------------------------------------------------------------

// `open` n times, `middle`, and `close` n times.
static const char* nested(const char* open, int n, const char* middle, const char* close) {
  static char text[kText];
  size_t at = 0;
  REQUIRE((strlen(open) + strlen(close)) * (size_t)n + strlen(middle) < sizeof text, "%d times %s", n, open);
  for (int i = 0; i < n; ++i) at += (size_t)sprintf(text + at, "%s", open);
  at += (size_t)sprintf(text + at, "%s", middle);
  for (int i = 0; i < n; ++i) at += (size_t)sprintf(text + at, "%s", close);
  text[at] = 0;
  return text;
}

static kvrt_status render(const char* source, const char* messages, const char* variables) {
  static char out[1 << 20];
  size_t size = 0;
  kvrt_template_options o = {.struct_size = sizeof o, .source = source, .source_size = strlen(source)};
  if (variables) o.variables = variables, o.variables_size = strlen(variables);
  return kvrt_model_apply_template(NULL, messages, strlen(messages), &o, out, sizeof out, &size, NULL);
}

// At each depth the call succeeds or says LIMIT, and both come: the deepest that is allowed is among them.
#define EVERY_DEPTH(what, from, to, call)                                                                                 \
  do {                                                                                                                    \
    int good = 0, limited = 0;                                                                                            \
    for (int n = (from); n <= (to); ++n) {                                                                                \
      const kvrt_status got = (call);                                                                                     \
      good += got == KVRT_OK, limited += got == KVRT_LIMIT;                                                               \
      EXPECT(got == KVRT_OK || got == KVRT_LIMIT, "%s %d deep: %s (%s)", what, n, kvrt_status_name(got), last_message()); \
    }                                                                                                                     \
    EXPECT(good&& limited, "%s: %d good, %d at the limit", what, good, limited);                                          \
  } while (0)

static const char kOne[] = "[{\"role\":\"user\",\"content\":\"a\"}]";

static kvrt_status deep_json(int n) {
  static char messages[kText];
  snprintf(messages, sizeof messages, "[{\"role\":\"user\",\"content\":%s}]", nested("[", n, "1", "]"));
  return render("{{ messages | tojson }}{{ messages }}{{ messages == messages }}{{ messages | tojson(indent=1) }}", messages, NULL);
}

static void deep_texts(void) { EVERY_DEPTH("JSON", 50, 70, deep_json(n)); }

// A template's text inside {{ }}: `open` n times, 1, and `close` n times.
static kvrt_status expression(const char* open, int n, const char* close) {
  static char source[kText];
  snprintf(source, sizeof source, "{{ %s }}", nested(open, n, "1", close));
  return render(source, kOne, NULL);
}

static void deep_expressions(void) {
  EVERY_DEPTH("parentheses", 2, 70, expression("(", n, ")"));
  EVERY_DEPTH("lists", 2, 70, expression("[", n, "]"));
  EVERY_DEPTH("dicts", 2, 70, expression("{'a': ", n, "}"));
  EVERY_DEPTH("not", 2, 70, expression("not ", n, ""));
  EVERY_DEPTH("calls", 2, 70, expression("dict(a=", n, ")"));
  EVERY_DEPTH("inline if", 2, 70, expression("(1 if ", n, " else 2)"));
  EVERY_DEPTH("subscripts", 2, 70, expression("[1][0 * ", n, "]"));
  EVERY_DEPTH("filters", 2, 70, expression("(1 | default(", n, "))"));
  EVERY_DEPTH("if", 2, 200, render(nested("{% if 1 %}", n, "x", "{% endif %}"), kOne, NULL));
  EVERY_DEPTH("for", 2, 200, render(nested("{% for i in [1] %}", n, "x", "{% endfor %}"), kOne, NULL));
  EVERY_DEPTH("set", 2, 200, render(nested("{% set x %}", n, "x", "{% endset %}"), kOne, NULL));
  EVERY_DEPTH("filter", 2, 200, render(nested("{% filter upper %}", n, "x", "{% endfilter %}"), kOne, NULL));
}

// Recursion at run time: to the interpreter's own limit, by each way there is.
static void deep_runs(void) {
  const char* sources[] = {
      "{% macro m(n) %}{{ m(n + 1) }}{% endmacro %}{{ m(0) }}",
      "{% macro m(n) %}{% for i in [1] %}{% if true %}{{ [m(n + 1) | upper, 1] | join('') }}{% endif %}{% endfor %}{% endmacro %}{{ m(0) "
      "}}",
      "{% macro m(n) %}{{ ((((((((((n + 1 if n else m(n | int + 0))))))))))) }}{% endmacro %}{{ m(0) }}",
      "{% macro m(n) %}{% set x %}{{ '%s' | format(m(n)) ~ '' }}{% endset %}{{ x }}{% endmacro %}{{ m(0) }}",
      "{% macro m(n) %}{% if caller %}{{ caller() }}{% endif %}{% call m(n) %}{{ m(n) }}{% endcall %}{% endmacro %}{{ m(0) }}",
      "{% macro m(n) %}{{ {'a': [m(n)], 'b': {'c': m(n)}} }}{% endmacro %}{{ m(0) }}",
      "{% macro m(n) %}{{ '{}'.format(m(n)) }}{{ [1, 2] | map('default', m(n)) | list }}{% endmacro %}{{ m(0) }}",
      "{% for x in [[1]] recursive %}{{ loop([[1]]) }}{% endfor %}",
      "{% macro m(n) %}{{ ([1] | selectattr('x', 'equalto', m(n)) | list)[m(n):m(n)] }}{% endmacro %}{{ m(0) }}",
  };
  for (size_t i = 0; i < sizeof sources / sizeof *sources; ++i) {
    EXPECT_STATUS(render(sources[i], kOne, NULL), KVRT_LIMIT);
    EXPECT(strstr(last_message(), "deeper") != NULL, "template %zu: %s", i, last_message());
  }
  const char* values[] = {
      "{% set ns = namespace(x=[]) %}{% for i in range(200) %}{% set ns.x = [ns.x] %}{% endfor %}{{ ns.x }}",
      "{% set ns = namespace(x=[]) %}{% for i in range(126) %}{% set ns.x = {'a': [ns.x][0]} %}{% endfor %}{{ ns.x | tojson }}{{ ns.x }}"
      "{{ ns.x == ns.x }}{{ [ns.x] | sort }}{{ ns.x | string | length }}",
  };
  for (size_t i = 0; i < sizeof values / sizeof *values; ++i) {
    const kvrt_status status = render(values[i], kOne, NULL);
    EXPECT(status == (i ? KVRT_OK : KVRT_LIMIT), "values %zu: %s (%s)", i, kvrt_status_name(status), last_message());
  }
}

static kvrt_model* the_model;

static kvrt_status generate_by(uint32_t kind, const char* grammar) {
  kvrt_session* s = open_session(the_model, NULL, 0);
  MUST(kvrt_session_append_text(s, "Say it: ", 8, 0, NULL));
  const kvrt_generate_options o = {
      .struct_size = sizeof o, .max_tokens = 2, .grammar_kind = kind, .grammar = grammar, .grammar_size = strlen(grammar)};
  const kvrt_status status = kvrt_session_generate(s, &o, NULL, NULL, NULL, NULL);
  kvrt_session_close(s);
  return status;
}

static kvrt_status gbnf(const char* open, int n, const char* close) {
  static char text[kText];
  snprintf(text, sizeof text, "root ::= %s", nested(open, n, "\"a\"", close));
  return generate_by(KVRT_GRAMMAR_GBNF, text);
}
static kvrt_status pattern(const char* open, int n, const char* close) {
  static char text[kText];
  snprintf(text, sizeof text, "{\"type\":\"string\",\"pattern\":\"^%s$\"}", nested(open, n, "a", close));
  return generate_by(KVRT_GRAMMAR_JSON_SCHEMA, text);
}
static kvrt_status schema(const char* open, int n, const char* close) {
  return generate_by(KVRT_GRAMMAR_JSON_SCHEMA, nested(open, n, "{\"type\":\"integer\"}", close));
}
// Rules that call the next one, as deep as there are rules; recursion to the left and to the right.
static void chained_rules(void) {
  static char text[kText * 4];
  size_t at = 0;
  for (int i = 0; i < 5000; ++i) at += (size_t)sprintf(text + at, "%s%.0d ::= \"a\" r%d \"b\" | \"c\"\n", i ? "r" : "root", i, i + 1);
  sprintf(text + at, "r5000 ::= \"x\" r5000 | \"y\"\n");
  EXPECT_STATUS(generate_by(KVRT_GRAMMAR_GBNF, text), KVRT_OK);
}

static void deep_grammars(void) {
  EVERY_DEPTH("GBNF groups", 2, 70, gbnf("(", n, ")"));
  EVERY_DEPTH("GBNF repeated groups", 2, 70, gbnf("(", n, ")?"));
  EVERY_DEPTH("pattern groups", 2, 70, pattern("(", n, ")"));
  EVERY_DEPTH("pattern choices", 2, 70, pattern("(?:b|", n, ")"));
  EVERY_DEPTH("allOf", 2, 70, schema("{\"allOf\":[", n, "]}"));
  EVERY_DEPTH("anyOf", 2, 70, schema("{\"anyOf\":[", n, "]}"));
  EVERY_DEPTH("oneOf", 2, 70, schema("{\"oneOf\":[", n, "]}"));
  EVERY_DEPTH("properties", 2, 70, schema("{\"type\":\"object\",\"required\":[\"a\"],\"properties\":{\"a\":", n, "}}"));
  EVERY_DEPTH("items", 2, 70, schema("{\"type\":\"array\",\"minItems\":1,\"items\":", n, "}"));
  EVERY_DEPTH("const", 2, 70, schema("{\"const\":[", n, "]}"));
  EVERY_DEPTH("enum", 2, 70, schema("{\"enum\":[[1,", n, "]]}"));
  chained_rules();
}

// ---- models, sessions and stores -----------------------------------------------------------------------------------------------------

static void use(const char* path, const char* dir, uint32_t kv, uint32_t isa) {
  const kvrt_runtime_options ro = {.struct_size = sizeof ro, .threads = 2, .isa = isa};
  kvrt_runtime* rt = NULL;
  const kvrt_status started = kvrt_runtime_open(&ro, &rt, NULL);
  if (started == KVRT_UNSUPPORTED && isa) return;  // not this machine's
  REQUIRE(started == KVRT_OK, "isa %u: %s", isa, last_message());
  kvrt_model_options mo;
  KVRT_INIT(&mo);
  mo.kv_format = kv;
  kvrt_model* model = NULL;
  MUST(kvrt_model_open(rt, path, strlen(path), &mo, NULL, NULL, &model, NULL));
  static char text[1 << 20];
  size_t size = 0;
  MUST(kvrt_model_inspect(rt, path, strlen(path), 0, text, sizeof text, &size, NULL));
  kvrt_store* store = open_store(rt, dir);
  int32_t tokens[700];
  prompt_tokens(tokens, 700, 5, model_props(model).vocab_size);
  kvrt_session* s = open_session(model, store, 0);
  const size_t fits = model_props(model).context_length > 720 ? 700 : model_props(model).context_length / 2;
  MUST(kvrt_session_append(s, tokens, fits, NULL));
  const kvrt_generate_options o = {.struct_size = sizeof o,
                                   .max_tokens = 5,
                                   .ignore_eos = 1,
                                   .top_logprobs = 64,
                                   .temperature = 0.7f,
                                   .top_k = 50,
                                   .top_p = 0.9f,
                                   .repetition_penalty = 1.1f,
                                   .seed = 1};
  MUST(kvrt_session_generate(s, &o, NULL, NULL, NULL, NULL));
  MUST(kvrt_session_suspend(s, "deep", 4, &(kvrt_save_options){.struct_size = sizeof(kvrt_save_options), .overwrite = 1}, NULL, NULL));
  kvrt_session_close(s);
  s = resume_session(model, store, "deep", NULL);
  MUST(kvrt_session_generate(s, &o, NULL, NULL, NULL, NULL));
  kvrt_session* fork = NULL;
  MUST(kvrt_session_fork(s, NULL, &fork, NULL));
  kvrt_session_close(fork);
  kvrt_session_close(s);
  MUST(kvrt_model_metrics_text(model, NULL, 0, text, sizeof text, &size, NULL));
  MUST(kvrt_store_verify(store, NULL, NULL, NULL));
  MUST(kvrt_store_remove(store, NULL, 0, "deep", 4, NULL));
  MUST(kvrt_store_gc(store, NULL, NULL, NULL, NULL));
  MUST(kvrt_model_tokenize(model, "Hello wonderful world, 1234567 \xC3\xA9\xE4\xB8\xAD", 36, 0, tokens, 700, &size, NULL));
  kvrt_store_release(store);
  kvrt_model_release(model);
  kvrt_runtime_release(rt);
}

static void models(void) {
  static char paths[kModelsMax][kPathMax], dir[kPathMax], store[kPathMax + 64];
  const size_t count = list_tiny(paths);
  make_dir(dir);
  for (size_t i = 0; i < count; ++i) {
    if (strstr(paths[i], "vocab") != NULL) continue;
    const int all = strstr(paths[i], "llama_gqa") != NULL;  // each instruction set and KV format there is
    for (uint32_t isa = 0; isa <= (all ? KVRT_ISA_AVX512 : 0); ++isa) {
      for (uint32_t kv = 0; kv <= (all ? KVRT_KV_FP8 : 0); ++kv) {
        snprintf(store, sizeof store, "%s/store%zu-%u-%u", dir, i, isa, kv);
        use(paths[i], store, kv, isa);
      }
    }
  }
  remove_tree(dir);
}

// ---- the thread ------------------------------------------------------------------------------------------------------------------------

struct part {
  const char* name;
  void (*run)(void);
};

static void* run_part(void* part) {
  ((struct part*)part)->run();
  return NULL;
}

// The bytes used of a stack of ours, which is painted, with a guard page below.
static size_t used_by(struct part* part) {
  const size_t page = (size_t)sysconf(_SC_PAGESIZE);
  unsigned char* map = mmap(NULL, stack_bytes + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  REQUIRE(map != MAP_FAILED && mprotect(map, page, PROT_NONE) == 0, "no stack: %s", strerror(errno));
  memset(map + page, 0xA5, stack_bytes);
  pthread_attr_t attr;
  pthread_t thread;
  REQUIRE(pthread_attr_init(&attr) == 0 && pthread_attr_setstack(&attr, map + page, stack_bytes) == 0, "the stack is refused");
  REQUIRE(pthread_create(&thread, &attr, run_part, part) == 0, "no thread: %s", strerror(errno));
  pthread_join(thread, NULL);
  pthread_attr_destroy(&attr);
  size_t untouched = 0;
  while (untouched < stack_bytes && map[page + untouched] == 0xA5) ++untouched;
  munmap(map, stack_bytes + page);
  return stack_bytes - untouched;
}

int main(int argc, char** argv) {
  if (argc > 1) stack_bytes = (size_t)atol(argv[1]) << 10;
  struct stage t;
  stage_open(&t);
  the_model = t.model;
  struct part parts[] = {
      {"JSON", deep_texts}, {"expressions", deep_expressions}, {"recursion", deep_runs}, {"grammars", deep_grammars}, {"models", models}};
  for (size_t i = 0; i < sizeof parts / sizeof *parts; ++i) {
    printf("%s: ", parts[i].name);
    fflush(stdout);
    printf("%zu of %zu KiB\n", used_by(&parts[i]) >> 10, stack_bytes >> 10);
  }
  stage_close(&t);
  return finish();
}
