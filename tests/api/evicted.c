// A store that has no room for all of its sessions counts the resumes that found their KV gone, also in another process.
#include "support.h"

enum { kTokens = 900, kSessionsMax = 24 };

static kvrt_store* open_small(kvrt_runtime* rt, const char* dir, uint64_t bytes) {
  const kvrt_store_options o = {.struct_size = sizeof o, .disk_bytes_max = bytes, .free_bytes_min = 1};
  kvrt_store* store = NULL;
  MUST(kvrt_store_open(rt, dir, strlen(dir), &o, &store, NULL));
  return store;
}

static kvrt_store_props store_props(const kvrt_store* store) {
  kvrt_store_props p = {.struct_size = sizeof p};
  MUST(kvrt_store_info(store, &p, NULL));
  return p;
}

static void save(kvrt_model* model, kvrt_store* store, char name) {
  int32_t tokens[kTokens];
  prompt_tokens(tokens, kTokens, (uint64_t)name, model_props(model).vocab_size);
  kvrt_session* s = open_session(model, store, 0);
  MUST(kvrt_session_append(s, tokens, kTokens, NULL));
  MUST(kvrt_session_prefill(s, KVRT_LOGITS_NONE, NULL, NULL, NULL, NULL));
  const kvrt_save_options o = {.struct_size = sizeof o, .overwrite = 1};
  MUST(kvrt_session_suspend(s, &name, 1, &o, NULL, NULL));
  kvrt_session_close(s);
}

static uint64_t resume(kvrt_model* model, kvrt_store* store, const char* name) {
  kvrt_report r;
  kvrt_session_close(resume_session(model, store, name, &r));
  return store_props(store).resumes_evicted;
}

int main(void) {
  char dir[kPathMax], path[kPathMax];
  make_dir(dir);
  strcat(dir, "/store");
  tiny_path(path, 0);
  kvrt_runtime* rt = open_runtime(2, 0);
  kvrt_model* model = open_model(rt, path, 0, 0, 0);
  kvrt_store* store = open_store(rt, dir);
  save(model, store, 'a');
  const uint64_t one = store_props(store).disk_bytes;
  kvrt_store_release(store);
  store = open_small(rt, dir, 3 * one + (1u << 20));
  EXPECT(resume(model, store, "a") == 0, "a whole session counts");
  char last = 'a';
  while (store_props(store).chunks_evicted == 0 && last < 'a' + kSessionsMax) save(model, store, ++last);
  const char newest[] = {last, 0};
  REQUIRE(store_props(store).chunks_evicted > 0, "nothing is evicted after %c", last);
  EXPECT(store_props(store).resumes_evicted == 0, "nobody has looked");
  EXPECT(resume(model, store, newest) == 0, "the newest counts");
  EXPECT(resume(model, store, "a") == 1, "the oldest does not count");
  EXPECT(resume(model, store, "a") == 2, "nor does it again");
  kvrt_store_release(store);
  store = open_small(rt, dir, 3 * one + (1u << 20));
  EXPECT(store_props(store).chunks_evicted == 0 && store_props(store).resumes_evicted == 2, "opened again: %" PRIu64,
         store_props(store).resumes_evicted);
  save(model, store, 'a');
  EXPECT(resume(model, store, "a") == 2, "saved again it counts");
  kvrt_store_release(store);
  kvrt_model_release(model);
  kvrt_runtime_release(rt);
  *strrchr(dir, '/') = 0;
  remove_tree(dir);
  return finish();
}
