// Arguments with wrong values: enums, ranges, encodings, names, files.
#include <fcntl.h>
#include <math.h>

#include "misuse.h"

static kvrt_status open_runtime_with(uint32_t threads, uint32_t isa, uint32_t level) {
  kvrt_runtime_options o = {.struct_size = sizeof o, .threads = threads, .isa = isa, .log_level = level};
  kvrt_runtime* rt = NULL;
  const kvrt_status status = kvrt_runtime_open(&o, &rt, NULL);
  EXPECT((status == KVRT_OK) == (rt != NULL), "out does not fit the status");
  kvrt_runtime_release(rt);
  return status;
}

static kvrt_status open_model_with(struct stage* t, const char* path, uint32_t kv, uint32_t block, uint32_t chunk, uint64_t bytes) {
  kvrt_model_options o = {.struct_size = sizeof o, .kv_format = kv, .block_tokens = block, .prefill_chunk = chunk, .kv_bytes_max = bytes};
  kvrt_model* m = NULL;
  const kvrt_status status = kvrt_model_open(t->runtime, path, strlen(path), &o, NULL, NULL, &m, NULL);
  EXPECT((status == KVRT_OK) == (m != NULL), "out does not fit the status");
  kvrt_model_release(m);
  return status;
}

static kvrt_status open_model_as(struct stage* t, kvrt_model_options o) {
  o.struct_size = sizeof o;
  kvrt_model* m = NULL;
  const kvrt_status status = kvrt_model_open(t->runtime, t->tiny, strlen(t->tiny), &o, NULL, NULL, &m, NULL);
  EXPECT((status == KVRT_OK) == (m != NULL), "out does not fit the status");
  kvrt_model_release(m);
  return status;
}

static int32_t stop_at_once(void* user, const kvrt_event* e) {
  (void)e;
  ++*(int*)user;
  return 1;
}

static void write_file(const char* path, const char* bytes, size_t size) {
  FILE* f = fopen(path, "wb");
  REQUIRE(f != NULL, "%s: %s", path, strerror(errno));
  fwrite(bytes, 1, size, f);
  fclose(f);
}

static void runtime_and_model(struct stage* t) {
  char path[kPathMax + 32];
  BAD("runtime_open", "isa 99", open_runtime_with(1, 99, 0));
  BAD("runtime_open", "log_level 99", open_runtime_with(1, 0, 99));
  ROW("runtime_open", "a million threads", open_runtime_with(1000000, 0, 0), ANY(KVRT_INVALID) | ANY(KVRT_LIMIT));
  BAD("model_open", "kv_format 99", open_model_with(t, t->tiny, 99, 0, 0, 0));
  BAD("model_open", "kv_format 7", open_model_with(t, t->tiny, KVRT_KV_INT4 + 1, 0, 0, 0));
  for (uint32_t kv = KVRT_KV_DEFAULT; kv <= KVRT_KV_INT4; ++kv) {
    const kvrt_model_options o = {.struct_size = sizeof o, .kv_format = kv};
    kvrt_model* model = NULL;
    MUST(kvrt_model_open(t->runtime, t->tiny, strlen(t->tiny), &o, NULL, NULL, &model, NULL));
    EXPECT(model_props(model).kv_format == (kv ? kv : (uint32_t)KVRT_KV_F16), "kv_format %u is %u", kv, model_props(model).kv_format);
    kvrt_model_release(model);
  }
  BAD("model_open", "block_tokens 17", open_model_with(t, t->tiny, 0, 17, 0, 0));
  BAD("model_open", "block_tokens 8", open_model_with(t, t->tiny, 0, 8, 0, 0));
  BAD("model_open", "block_tokens 512", open_model_with(t, t->tiny, 0, 512, 0, 0));
  BAD("model_open", "prefill_chunk 513", open_model_with(t, t->tiny, 0, 0, 513, 0));
  ROW("model_open", "kv_bytes_max 1", open_model_with(t, t->tiny, 0, 0, 0, 1), ANY(KVRT_LIMIT) | ANY(KVRT_INVALID));
  ROW("model_open", "kv_bytes_max 2^46", open_model_with(t, t->tiny, 0, 0, 0, UINT64_C(1) << 46), ANY(KVRT_LIMIT));
  ROW("runtime_set_threads", "257", kvrt_runtime_set_threads(t->runtime, 257, ERR), ANY(KVRT_INVALID) | ANY(KVRT_LIMIT));
  ROW("runtime_set_threads", "UINT32_MAX", kvrt_runtime_set_threads(t->runtime, UINT32_MAX, ERR), ANY(KVRT_INVALID) | ANY(KVRT_LIMIT));
  kvrt_runtime_props rp = {.struct_size = sizeof rp};
  EXPECT(kvrt_runtime_info(t->runtime, &rp, NULL) == KVRT_OK && rp.threads == 1, "%u threads after refused ones", rp.threads);
  BAD("model_open", "step_ms_max UINT32_MAX", open_model_as(t, (kvrt_model_options){.step_ms_max = UINT32_MAX}));
  BAD("model_open", "from_fd 2", open_model_as(t, (kvrt_model_options){.from_fd = 2}));
  BAD("model_open", "kv_populate 2", open_model_as(t, (kvrt_model_options){.kv_populate = 2}));
  BAD("model_open", "cache_dir \"\"", open_model_as(t, (kvrt_model_options){.cache_dir = ""}));
  BAD("model_open", "cache_dir NULL", open_model_as(t, (kvrt_model_options){.cache_dir_size = 3}));
  BAD("model_open", "cache_dir NUL", open_model_as(t, (kvrt_model_options){.cache_dir = "a\0b", .cache_dir_size = 3}));
  BAD("model_open", "fd -1", open_model_as(t, (kvrt_model_options){.from_fd = 1, .fd = -1}));
  BAD("model_open", "fd -1 without from_fd", open_model_as(t, (kvrt_model_options){.fd = -1}));
  kvrt_model* m = NULL;
  BAD("model_open", "path of size 0", kvrt_model_open(t->runtime, "", 0, NULL, NULL, NULL, &m, ERR));
  BAD("model_open", "path with a NUL", kvrt_model_open(t->runtime, "a\0b", 3, NULL, NULL, NULL, &m, ERR));
  ROW("model_open", "no such file", kvrt_model_open(t->runtime, "/nonexistent/m.gguf", 19, NULL, NULL, NULL, &m, ERR), ANY(KVRT_NOT_FOUND));
  ROW("model_open", "a directory", kvrt_model_open(t->runtime, t->dir, strlen(t->dir), NULL, NULL, NULL, &m, NULL),
      ANY(KVRT_INVALID) | ANY(KVRT_IO) | ANY(KVRT_CORRUPT));
  snprintf(path, sizeof path, "%s/empty", t->dir);
  write_file(path, "", 0);
  ROW("model_open", "an empty file", kvrt_model_open(t->runtime, path, strlen(path), NULL, NULL, NULL, &m, ERR), ANY(KVRT_CORRUPT));
  write_file(path, "this is not a model, it is a line of text\n", 42);
  ROW("model_open", "a text file", kvrt_model_open(t->runtime, path, strlen(path), NULL, NULL, NULL, &m, ERR), ANY(KVRT_CORRUPT));
  int calls = 0;
  ROW("model_open", "callback stops", kvrt_model_open(t->runtime, t->tiny, strlen(t->tiny), NULL, stop_at_once, &calls, &m, NULL),
      ANY(KVRT_CANCELLED));
  EXPECT(calls == 1 && m == NULL, "%d calls after the stop", calls);
}

static void text(struct stage* t) {
  int32_t tokens[64];
  char buffer[64];
  size_t needed = 77;
  canary(tokens, sizeof tokens);
  canary(buffer, sizeof buffer);
  BAD("model_tokenize", "flags 0x80", kvrt_model_tokenize(t->model, "a", 1, 0x80, tokens, 64, &needed, ERR));
  EXPECT(needed == 77, "needed changed");
  ROW("model_tokenize", "capacity 1", kvrt_model_tokenize(t->model, "hello, you", 10, 0, tokens, 1, &needed, ERR), ANY(KVRT_TOO_SMALL));
  EXPECT(needed > 1 && needed <= 10, "needed %zu", needed);
  EXPECT(has_canary(tokens, sizeof tokens), "TOO_SMALL wrote to the buffer");
  const size_t want = needed;
  // This vocabulary has all bytes: those that are no UTF-8 come back as they were.
  size_t count = 0, bytes = 0;
  ROW("model_tokenize", "bad UTF-8 (no misuse)", kvrt_model_tokenize(t->model, kBadUtf8, 4, 0, tokens, 64, &count, ERR), ANY(KVRT_OK));
  ROW("model_detokenize", "bad UTF-8 (no misuse)", kvrt_model_detokenize(t->model, tokens, count, 0, buffer, 64, &bytes, ERR),
      ANY(KVRT_OK));
  EXPECT(bytes == 4 && memcmp(buffer, kBadUtf8, 4) == 0, "%zu bytes came back", bytes);
  canary(tokens, sizeof tokens);
  canary(buffer, sizeof buffer);
  ROW("model_tokenize", "NULL and 0 ask for the size", kvrt_model_tokenize(t->model, "hello, you", 10, 0, NULL, 0, &needed, NULL),
      ANY(KVRT_TOO_SMALL) | ANY(KVRT_OK));
  EXPECT(needed == want, "needed %zu, before %zu", needed, want);
  MUST(kvrt_model_tokenize(t->model, NULL, 0, 0, tokens, 64, &needed, NULL));
  EXPECT(needed == 0, "an empty text has %zu tokens", needed);
  const int32_t negative = -1, past = (int32_t)t->vocab, good[] = {5, 6};
  needed = 77;
  BAD("model_detokenize", "token -1", kvrt_model_detokenize(t->model, &negative, 1, 0, buffer, 64, &needed, ERR));
  BAD("model_detokenize", "token == vocab_size", kvrt_model_detokenize(t->model, &past, 1, 0, buffer, 64, &needed, ERR));
  BAD("model_detokenize", "flags 0x80", kvrt_model_detokenize(t->model, good, 2, 0x80, buffer, 64, &needed, ERR));
  EXPECT(needed == 77 && has_canary(buffer, sizeof buffer), "outputs changed");
}

static kvrt_status template_with(kvrt_model* m, const char* messages, const char* source, const char* tools) {
  kvrt_template_options o = {.struct_size = sizeof o,
                             .source = source,
                             .source_size = source ? strlen(source) : 0,
                             .tools = tools,
                             .tools_size = tools ? strlen(tools) : 0};
  char buffer[64];
  size_t needed = 77;
  canary(buffer, sizeof buffer);
  const kvrt_status status = kvrt_model_apply_template(m, messages, strlen(messages), &o, buffer, sizeof buffer, &needed, NULL);
  EXPECT(status == KVRT_OK || status == KVRT_TOO_SMALL || needed == 77, "needed changed");
  EXPECT(status == KVRT_OK || has_canary(buffer, sizeof buffer), "buffer changed");
  return status;
}

static void templates(struct stage* t) {
  const char* good = "[{\"role\":\"user\",\"content\":\"hi\"}]";
  BAD("model_apply_template", "messages are no JSON", template_with(t->model, "[{", NULL, NULL));
  BAD("model_apply_template", "messages are an object", template_with(t->model, "{}", NULL, NULL));
  BAD("model_apply_template", "messages are bad UTF-8", template_with(t->model, "[{\"role\":\"user\",\"content\":\"\xFF\"}]", NULL, NULL));
  BAD("model_apply_template", "tools are no JSON", template_with(t->model, good, NULL, "[1,"));
  BAD("model_apply_template", "template does not parse", template_with(t->model, good, "{% for %}", NULL));
  EXPECT(last_detail() == KVRT_DETAIL_TEMPLATE_ERROR, "detail %d", (int)last_detail());
  ROW("model_apply_template", "a range too long", template_with(t->model, good, "{% for i in range(99999999) %}{% endfor %}", NULL),
      ANY(KVRT_LIMIT));
  ROW("model_apply_template", "template never ends",
      template_with(t->model, good, "{% for i in range(90000) %}{% for j in range(90000) %}x{% endfor %}{% endfor %}", NULL),
      ANY(KVRT_LIMIT));
  EXPECT(last_detail() == KVRT_DETAIL_TEMPLATE_LIMIT, "detail %d", (int)last_detail());
  ROW("model_apply_template", "model NULL with a source (no misuse)", template_with(NULL, good, "{{ messages[0].content }}", NULL),
      ANY(KVRT_OK));
}

static void stores(struct stage* t) {
  kvrt_store* s = NULL;
  kvrt_store_entry entry;
  canary(&entry, sizeof entry);
  entry.struct_size = sizeof entry;
  char path[kPathMax + 32], long_name[300];
  memset(long_name, 'n', sizeof long_name);
  kvrt_store_options o = {.struct_size = sizeof o, .must_exist = 1};
  snprintf(path, sizeof path, "%s/absent", t->dir);
  ROW("store_open", "must_exist and absent", kvrt_store_open(t->runtime, path, strlen(path), &o, &s, ERR), ANY(KVRT_NOT_FOUND));
  EXPECT(access(path, F_OK) != 0, "it was made all the same");
  BAD("store_open", "path of size 0", kvrt_store_open(t->runtime, "", 0, NULL, &s, ERR));
  BAD("store_open", "path with a NUL", kvrt_store_open(t->runtime, "a\0b", 3, NULL, &s, ERR));
  o = (kvrt_store_options){.struct_size = sizeof o, .reserved = 1};
  ROW("store_open", "reserved 1", kvrt_store_open(t->runtime, path, strlen(path), &o, &s, ERR), ANY(KVRT_INVALID) | ANY(KVRT_UNSUPPORTED));
  snprintf(path, sizeof path, "%s/file", t->dir);
  write_file(path, "x", 1);
  ROW("store_open", "a file", kvrt_store_open(t->runtime, path, strlen(path), NULL, &s, NULL),
      ANY(KVRT_INVALID) | ANY(KVRT_IO) | ANY(KVRT_INCOMPATIBLE));
  snprintf(path, sizeof path, "%s/foreign", t->dir);
  mkdir(path, 0700);
  snprintf(path, sizeof path, "%s/foreign/notes.txt", t->dir);
  write_file(path, "mine", 4);
  snprintf(path, sizeof path, "%s/foreign", t->dir);
  kvrt_status status = kvrt_store_open(t->runtime, path, strlen(path), NULL, &s, NULL);
  ROW("store_open", "a directory of another program", status, ANY(KVRT_INCOMPATIBLE) | ANY(KVRT_INVALID) | ANY(KVRT_CONFLICT));
  EXPECT(last_detail() == KVRT_DETAIL_OTHER_PROGRAM, "detail %d", (int)last_detail());
  EXPECT(s == NULL, "out changed");
  ROW("store_stat", "no such session", kvrt_store_stat(t->store, NULL, 0, "nobody", 6, &entry, ERR), ANY(KVRT_NOT_FOUND));
  size_t needed = 0;
  ROW("store_show", "no such session", kvrt_store_show(t->store, NULL, 0, "nobody", 6, path, sizeof path, &needed, ERR),
      ANY(KVRT_NOT_FOUND));
  ROW("store_remove", "no such session", kvrt_store_remove(t->store, NULL, 0, "nobody", 6, ERR), ANY(KVRT_NOT_FOUND));
  BAD("store_stat", "name of 0 bytes", kvrt_store_stat(t->store, NULL, 0, "", 0, &entry, ERR));
  BAD("store_stat", "name of 256 bytes", kvrt_store_stat(t->store, NULL, 0, long_name, 256, &entry, ERR));
  BAD("store_stat", "name of bad UTF-8", kvrt_store_stat(t->store, NULL, 0, kBadUtf8, 4, &entry, ERR));
  BAD("store_stat", "domain of 256 bytes", kvrt_store_stat(t->store, long_name, 256, "a", 1, &entry, ERR));
  BAD("store_remove", "name of 0 bytes", kvrt_store_remove(t->store, NULL, 0, "", 0, ERR));
  const char* const names[] = {"", long_name, kBadUtf8, "a\0b"};
  const size_t sizes[] = {0, 256, 4, 3};
  for (int i = 0; i < 4; ++i) {
    BAD("store_rename", "from: a name that is none", kvrt_store_rename(t->store, NULL, 0, names[i], sizes[i], "b", 1, ERR));
    BAD("store_rename", "to: a name that is none", kvrt_store_rename(t->store, NULL, 0, "a", 1, names[i], sizes[i], ERR));
    BAD("store_show", "a name that is none", kvrt_store_show(t->store, NULL, 0, names[i], sizes[i], path, sizeof path, &needed, ERR));
    BAD("store_pin", "a name that is none", kvrt_store_pin(t->store, NULL, 0, names[i], sizes[i], 1, ERR));
    BAD("store_set_ttl", "a name that is none", kvrt_store_set_ttl(t->store, NULL, 0, names[i], sizes[i], 9, ERR));
  }
  BAD("store_pin", "pinned 256", kvrt_store_pin(t->store, NULL, 0, "nobody", 6, 256, ERR));
  ROW("store_pin", "no such session", kvrt_store_pin(t->store, NULL, 0, "nobody", 6, 1, ERR), ANY(KVRT_NOT_FOUND));
  ROW("store_set_ttl", "no such session", kvrt_store_set_ttl(t->store, NULL, 0, "nobody", 6, 9, ERR), ANY(KVRT_NOT_FOUND));
  ROW("store_rename", "no such session", kvrt_store_rename(t->store, NULL, 0, "nobody", 6, "b", 1, ERR), ANY(KVRT_NOT_FOUND));
  BAD("store_list", "domain of bad UTF-8", kvrt_store_list(t->store, kBadUtf8, 4, stop_at_once, &(int){0}, ERR));
  EXPECT(has_canary((char*)&entry + 4, sizeof entry - 4), "entry changed on failure");
}

static kvrt_status begin_with(struct stage* t, kvrt_generate_options o) {
  o.struct_size = sizeof o;
  const kvrt_status status = kvrt_session_begin(t->session, &o, NULL);
  if (status == KVRT_OK) {  // let it end
    kvrt_session_cancel(t->session, NULL);
    kvrt_event e = {.struct_size = sizeof e};
    while (kvrt_session_next(t->session, &e, -1, NULL) == KVRT_OK && e.type != KVRT_EVENT_DONE) {
    }
    MUST(kvrt_session_truncate(t->session, 20, NULL));
  }
  return status;
}

static void options_of_begin(struct stage* t) {
  static char strings[17 * 300];
  const int32_t negative = -1;
  BAD("session_begin", "temperature -1", begin_with(t, (kvrt_generate_options){.temperature = -1}));
  BAD("session_begin", "temperature NaN", begin_with(t, (kvrt_generate_options){.temperature = NAN}));
  BAD("session_begin", "temperature infinite", begin_with(t, (kvrt_generate_options){.temperature = INFINITY}));
  BAD("session_begin", "top_p 1.5", begin_with(t, (kvrt_generate_options){.top_p = 1.5f}));
  BAD("session_begin", "top_p -0.5", begin_with(t, (kvrt_generate_options){.top_p = -0.5f}));
  BAD("session_begin", "top_p NaN", begin_with(t, (kvrt_generate_options){.top_p = NAN}));
  static const float wrong[] = {-1, 1.5f, NAN, INFINITY};
  for (int i = 0; i < 4; ++i)
    BAD("session_begin", "min_p -1, 1.5, NaN, infinite", begin_with(t, (kvrt_generate_options){.min_p = wrong[i]}));
  for (int i = 0; i < 4; ++i) {
    if (i != 1) BAD("session_begin", "repetition_penalty", begin_with(t, (kvrt_generate_options){.repetition_penalty = wrong[i]}));
    if (i < 2) continue;
    BAD("session_begin", "frequency_penalty", begin_with(t, (kvrt_generate_options){.frequency_penalty = wrong[i]}));
    BAD("session_begin", "presence_penalty", begin_with(t, (kvrt_generate_options){.presence_penalty = wrong[i]}));
    const kvrt_token_value bias = {3, wrong[i]};
    BAD("session_begin", "logit_bias", begin_with(t, (kvrt_generate_options){.logit_bias = &bias, .logit_bias_count = 1}));
  }
  const kvrt_token_value banned = {3, -INFINITY}, negative_bias = {-1, 1}, past = {(int32_t)t->vocab, 1};
  ROW("session_begin", "logit_bias -infinity (no misuse)",
      begin_with(t, (kvrt_generate_options){.logit_bias = &banned, .logit_bias_count = 1}), ANY(KVRT_OK));
  BAD("session_begin", "logit_bias of token -1",
      begin_with(t, (kvrt_generate_options){.logit_bias = &negative_bias, .logit_bias_count = 1}));
  BAD("session_begin", "logit_bias past the vocabulary",
      begin_with(t, (kvrt_generate_options){.logit_bias = &past, .logit_bias_count = 1}));
  BAD("session_begin", "top_logprobs 65", begin_with(t, (kvrt_generate_options){.top_logprobs = 65}));
  BAD("session_begin", "sampler 2", begin_with(t, (kvrt_generate_options){.sampler = 2}));
  BAD("session_begin", "ignore_eos 2", begin_with(t, (kvrt_generate_options){.ignore_eos = 2}));
  BAD("session_begin", "emit_logits 2", begin_with(t, (kvrt_generate_options){.emit_logits = 2}));
  BAD("session_begin", "no_generation_prompt 2", begin_with(t, (kvrt_generate_options){.no_generation_prompt = 2}));
  BAD("session_begin", "all_or_nothing 2", begin_with(t, (kvrt_generate_options){.all_or_nothing = 2}));
  BAD("session_begin", "stop_tokens NULL, count 1", begin_with(t, (kvrt_generate_options){.stop_token_count = 1}));
  BAD("session_begin", "stop token -1", begin_with(t, (kvrt_generate_options){.stop_tokens = &negative, .stop_token_count = 1}));
  BAD("session_begin", "stop_strings NULL, size 4", begin_with(t, (kvrt_generate_options){.stop_strings_size = 4}));
  BAD("session_begin", "stop string without its NUL", begin_with(t, (kvrt_generate_options){.stop_strings = "ab", .stop_strings_size = 2}));
  BAD("session_begin", "an empty stop string", begin_with(t, (kvrt_generate_options){.stop_strings = "", .stop_strings_size = 1}));
  for (int i = 0; i < 17; ++i) memcpy(strings + 2 * i, "x", 2);
  ROW("session_begin", "17 stop strings", begin_with(t, (kvrt_generate_options){.stop_strings = strings, .stop_strings_size = 34}),
      ANY(KVRT_INVALID) | ANY(KVRT_LIMIT));
  memset(strings, 'y', 257);
  strings[257] = 0;
  ROW("session_begin", "a stop string of 257 bytes",
      begin_with(t, (kvrt_generate_options){.stop_strings = strings, .stop_strings_size = 258}), ANY(KVRT_INVALID) | ANY(KVRT_LIMIT));
}

static kvrt_status open_with_tools(struct stage* t, const char* tools) {
  const kvrt_session_options o = {.struct_size = sizeof o, .tools = tools, .tools_size = strlen(tools)};
  kvrt_session* s = NULL;
  const kvrt_status status = kvrt_session_open(t->model, &o, &s, ERR);
  kvrt_session_close(s);
  return status;
}

static int32_t stop_at_the_end(void* user, const kvrt_event* e) {
  (void)user;
  return e->type == KVRT_EVENT_PROGRESS && e->done == e->total;
}

// What every call says of arguments that are too large, and the callback that stops what has ended.
static void limits(struct stage* t) {
  static const char kOpen[] = "[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[";
  static const char kClose[] = "]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]";
  ROW("session_open", "an integer of 65 bits with its sign (no misuse)", open_with_tools(t, "[{\"maximum\":9223372036854775808}]"),
      ANY(KVRT_OK));
  for (int depth = 64; depth <= 65; ++depth) {
    char deep[256];
    const int brackets = depth - 2;
    snprintf(deep, sizeof deep, "[{\"a\":%.*s%.*s}]", brackets, kOpen, brackets, kClose);
    ROW("session_open", depth == 64 ? "JSON of depth 64 (no misuse)" : "JSON of depth 65", open_with_tools(t, deep),
        depth == 64 ? ANY(KVRT_OK) : ANY(KVRT_LIMIT));
  }
  char* large = malloc((16u << 20) + 2);
  memset(large, ' ', (16u << 20) + 1);
  large[0] = '[', large[16u << 20] = ']', large[(16u << 20) + 1] = 0;
  ROW("session_open", "JSON of 16 MiB and a byte", open_with_tools(t, large), ANY(KVRT_LIMIT));
  kvrt_generate_options o = {.grammar_kind = KVRT_GRAMMAR_GBNF, .grammar = large, .grammar_size = (1u << 20) + 1};
  ROW("session_begin", "a grammar of 1 MiB and a byte", begin_with(t, o), ANY(KVRT_LIMIT));
  o.grammar_kind = KVRT_GRAMMAR_JSON_SCHEMA;
  ROW("session_begin", "a schema of 1 MiB and a byte", begin_with(t, o), ANY(KVRT_LIMIT));
  free(large);
  ROW("store_gc", "a callback that stops at its end", kvrt_store_gc(t->store, stop_at_the_end, NULL, NULL, ERR), ANY(KVRT_OK));
}

static void sessions(struct stage* t) {
  char long_name[300];
  memset(long_name, 'n', sizeof long_name);
  kvrt_session* s = NULL;
  kvrt_session_options o = {.struct_size = sizeof o, .store = t->store, .autosave_turn = 2};
  BAD("session_open", "autosave_turn 2", kvrt_session_open(t->model, &o, &s, ERR));
  o = (kvrt_session_options){.struct_size = sizeof o, .store = t->store, .autosave_idle_ms = 86400001};
  BAD("session_open", "autosave_idle_ms of more than a day", kvrt_session_open(t->model, &o, &s, ERR));
  o = (kvrt_session_options){.struct_size = sizeof o, .autosave_tokens = 100};
  BAD("session_open", "autosave without a store", kvrt_session_open(t->model, &o, &s, ERR));
  o = (kvrt_session_options){
      .struct_size = sizeof o, .store = t->store, .autosave_tokens = 1, .autosave_name = long_name, .autosave_name_size = 256};
  BAD("session_open", "autosave_name of 256 bytes", kvrt_session_open(t->model, &o, &s, ERR));
  o = (kvrt_session_options){.struct_size = sizeof o, .store = t->store, .foreign_kv = 3};
  BAD("session_open", "foreign_kv 3", kvrt_session_open(t->model, &o, &s, ERR));
  o = (kvrt_session_options){.struct_size = sizeof o, .domain = long_name, .domain_size = 256};
  ROW("session_open", "domain of 256 bytes", kvrt_session_open(t->model, &o, &s, ERR), ANY(KVRT_INVALID) | ANY(KVRT_LIMIT));
  o.domain = kBadUtf8, o.domain_size = 4;
  BAD("session_open", "domain of bad UTF-8", kvrt_session_open(t->model, &o, &s, ERR));
  const int32_t bad[] = {1, 2, -1}, past[] = {1, (int32_t)t->vocab};
  BAD("session_append", "token -1", kvrt_session_append(t->session, bad, 3, ERR));
  BAD("session_append", "token == vocab_size", kvrt_session_append(t->session, past, 2, ERR));
  ROW("session_append", "nothing (no misuse)", kvrt_session_append(t->session, NULL, 0, ERR), ANY(KVRT_OK));
  BAD("session_append_text", "flags 0x80", kvrt_session_append_text(t->session, "a", 1, 0x80, ERR));
  BAD("session_append_message", "no JSON", kvrt_session_append_message(t->session, "{", 1, NULL, ERR));
  BAD("session_append_message", "an array", kvrt_session_append_message(t->session, "[]", 2, NULL, ERR));
  BAD("session_append_message", "no role", kvrt_session_append_message(t->session, "{\"content\":\"a\"}", 15, NULL, ERR));
  BAD("session_prefill", "logits 3", kvrt_session_prefill(t->session, 3, NULL, NULL, NULL, ERR));
  BAD("session_mark", "past the end", kvrt_session_mark(t->session, 21, ERR));
  BAD("session_truncate", "past the end", kvrt_session_truncate(t->session, 21, ERR));
  EXPECT(session_props(t->session).tokens == 20, "the session changed");
  options_of_begin(t);
  MUST(kvrt_session_open(t->model, NULL, &s, NULL));
  BAD("session_begin", "an empty session", kvrt_session_begin(s, NULL, ERR));
  BAD("session_checkpoint", "a session without a store", kvrt_session_checkpoint(s, "a", 1, NULL, NULL, ERR));
  BAD("session_suspend", "a session without a store", kvrt_session_suspend(s, "a", 1, NULL, NULL, ERR));
  kvrt_session_close(s);
  s = NULL;
  BAD("session_checkpoint", "name of 0 bytes", kvrt_session_checkpoint(t->session, "", 0, NULL, NULL, ERR));
  BAD("session_checkpoint", "name of 256 bytes", kvrt_session_checkpoint(t->session, long_name, 256, NULL, NULL, ERR));
  BAD("session_checkpoint", "name of bad UTF-8", kvrt_session_checkpoint(t->session, kBadUtf8, 4, NULL, NULL, ERR));
  BAD("session_checkpoint", "name with a NUL", kvrt_session_checkpoint(t->session, "a\0b", 3, NULL, NULL, ERR));
  BAD("session_suspend", "name of 256 bytes", kvrt_session_suspend(t->session, long_name, 256, NULL, NULL, ERR));
  kvrt_save_options save = {.struct_size = sizeof save, .durability = 5};
  BAD("session_checkpoint", "durability 5", kvrt_session_checkpoint(t->session, "a", 1, &save, NULL, ERR));
  save = (kvrt_save_options){.struct_size = sizeof save, .pin = 256};
  BAD("session_checkpoint", "pin 256", kvrt_session_checkpoint(t->session, "a", 1, &save, NULL, ERR));
  save = (kvrt_save_options){.struct_size = sizeof save, .codec = 3};
  BAD("session_checkpoint", "codec 3", kvrt_session_checkpoint(t->session, "a", 1, &save, NULL, ERR));
  save = (kvrt_save_options){.struct_size = sizeof save, .ttl_seconds = UINT64_C(3153600001)};
  BAD("session_checkpoint", "ttl_seconds of more than 100 years", kvrt_session_checkpoint(t->session, "a", 1, &save, NULL, ERR));
  EXPECT(session_props(t->session).last_error_status == KVRT_OK, "it got as far as the save");
  save = (kvrt_save_options){.struct_size = sizeof save, .reserved = 1};
  BAD("session_checkpoint", "reserved 1", kvrt_session_checkpoint(t->session, "a", 1, &save, NULL, ERR));
  ROW("session_checkpoint", "name of 255 bytes (no misuse)", kvrt_session_checkpoint(t->session, long_name, 255, NULL, NULL, ERR),
      ANY(KVRT_OK));
  ROW("session_resume", "no such session", kvrt_session_resume(t->model, t->store, "nobody", 6, NULL, NULL, NULL, NULL, &s, NULL),
      ANY(KVRT_NOT_FOUND));
  BAD("session_resume", "name of 0 bytes", kvrt_session_resume(t->model, t->store, "", 0, NULL, NULL, NULL, NULL, &s, ERR));
  EXPECT(s == NULL, "out changed on failure");
}

int main(void) {
  struct stage t;
  stage_open(&t);
  runtime_and_model(&t);
  text(&t);
  templates(&t);
  stores(&t);
  sessions(&t);
  limits(&t);
  EXPECT(strcmp(kvrt_status_name(KVRT_NO_SPACE), "NO_SPACE") == 0, "%s", kvrt_status_name(KVRT_NO_SPACE));
  EXPECT(kvrt_status_name(-1) != NULL && kvrt_status_name(9999) != NULL, "the name of an unknown status is NULL");
  EXPECT(kvrt_abi_version() == KVRT_ABI_VERSION, "abi %u", kvrt_abi_version());
  EXPECT(kvrt_version() == (KVRT_VERSION_MAJOR << 16 | KVRT_VERSION_MINOR << 8 | KVRT_VERSION_PATCH), "version %x", kvrt_version());
  stage_close(&t);
  return finish();
}
