// A model from an open file, from somewhere in the middle of it: the same digests as by its path. Wrong ranges and descriptors.
#include <fcntl.h>

#include "misuse.h"

enum { kLength = 20 };

static char* read_all(const char* path, size_t* size) {
  FILE* f = fopen(path, "rb");
  REQUIRE(f != NULL, "%s: %s", path, strerror(errno));
  fseek(f, 0, SEEK_END);
  *size = (size_t)ftell(f);
  rewind(f);
  char* bytes = malloc(*size);
  REQUIRE(bytes && fread(bytes, 1, *size, f) == *size, "%s", path);
  fclose(f);
  return bytes;
}

// The model between `before` and `after` bytes of something else.
static void embed(const char* model, const char* to, size_t before, size_t after) {
  size_t size = 0;
  char* bytes = read_all(model, &size);
  FILE* f = fopen(to, "wb");
  REQUIRE(f != NULL, "%s: %s", to, strerror(errno));
  uint64_t random = before + 1;
  for (size_t i = 0; i < before; ++i) fputc((int)(next_random(&random) & 255), f);
  fwrite(bytes, 1, size, f);
  for (size_t i = 0; i < after; ++i) fputc((int)(next_random(&random) & 255), f);
  fclose(f);
  free(bytes);
}

static void digests(kvrt_model* model, struct run* r) {
  kvrt_session* s = open_session(model, NULL, 1);
  int32_t tokens[50];
  prompt_tokens(tokens, 50, 6, model_props(model).vocab_size);
  MUST(kvrt_session_append(s, tokens, 50, NULL));
  memset(r, 0, sizeof *r);
  generate_into(s, kLength, r);
  kvrt_session_close(s);
}

static kvrt_status open_fd(struct stage* t, const char* name, int fd, uint64_t offset, uint64_t size, kvrt_model** model) {
  const kvrt_model_options o = {.struct_size = sizeof o, .from_fd = 1, .fd = fd, .fd_offset = offset, .fd_size = size};
  kvrt_model* m = NULL;
  const kvrt_status status = kvrt_model_open(t->runtime, name, name ? strlen(name) : 0, &o, NULL, NULL, &m, NULL);
  EXPECT((status == KVRT_OK) == (m != NULL), "out does not fit the status");
  *model = m;
  return status;
}

static void embedded(struct stage* t) {
  static struct run want, got;
  digests(t->model, &want);
  struct stat plain;
  REQUIRE(stat(t->tiny, &plain) == 0, "%s", strerror(errno));
  const uint64_t size = (uint64_t)plain.st_size;
  const size_t before[] = {0, 1, 31, 4096, 4099, 100000}, after[] = {0, 1, 5000};
  char path[kPathMax + 32];
  snprintf(path, sizeof path, "%s/embedded", t->dir);
  for (size_t b = 0; b < sizeof before / sizeof *before; ++b) {
    for (size_t a = 0; a < sizeof after / sizeof *after; ++a) {
      embed(t->tiny, path, before[b], after[a]);
      const int fd = open(path, O_RDONLY | O_CLOEXEC);
      REQUIRE(fd >= 0 && lseek(fd, 7, SEEK_SET) == 7, "%s", strerror(errno));
      kvrt_model* model = NULL;
      EXPECT_STATUS(open_fd(t, b % 2 ? "the model in the package" : NULL, fd, before[b], size, &model), KVRT_OK);
      EXPECT(fcntl(fd, F_GETFD) >= 0 && lseek(fd, 0, SEEK_CUR) == 7, "the descriptor is the caller's, its position too");
      close(fd);
      unlink(path);  // the model stays
      if (model == NULL) continue;
      EXPECT(model_props(model).file_bytes == size, "%" PRIu64 " bytes", model_props(model).file_bytes);
      digests(model, &got);
      EXPECT(same_run(&got, &want), "%zu bytes before and %zu after: it says something else", before[b], after[a]);
      kvrt_model_release(model);
    }
    const uint64_t end = before[b] + size;  // size 0: to the end of the file
    embed(t->tiny, path, before[b], 0);
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    kvrt_model* model = NULL;
    EXPECT_STATUS(open_fd(t, NULL, fd, before[b], 0, &model), KVRT_OK);
    if (model) EXPECT(model_props(model).file_bytes == size && end > size - 1, "%" PRIu64 " bytes", model_props(model).file_bytes);
    kvrt_model_release(model);
    close(fd);
  }
  // A session that the model by its path has saved is one of the model from within another file.
  kvrt_session* s = open_session(t->model, t->store, 0);
  MUST(kvrt_session_append(s, (const int32_t[]){5, 6, 7}, 3, NULL));
  static struct run first;
  generate_into(s, 3, &first);
  MUST(kvrt_session_suspend(s, "by path", 7, NULL, NULL, NULL));
  kvrt_session_close(s);
  embed(t->tiny, path, 777, 9);
  const int fd = open(path, O_RDONLY | O_CLOEXEC);
  kvrt_model* model = NULL;
  EXPECT_STATUS(open_fd(t, NULL, fd, 777, size, &model), KVRT_OK);
  s = resume_session(model, t->store, "by path", NULL);
  expect_sound(s, t->model, "resumed with the model from a descriptor");
  kvrt_session_close(s);
  kvrt_model_release(model);
  close(fd);
}

static void wrong(struct stage* t) {
  char path[kPathMax + 32];
  struct stat plain;
  REQUIRE(stat(t->tiny, &plain) == 0, "%s", strerror(errno));
  const uint64_t size = (uint64_t)plain.st_size;
  snprintf(path, sizeof path, "%s/embedded", t->dir);
  embed(t->tiny, path, 100, 50);
  const int fd = open(path, O_RDONLY | O_CLOEXEC), closed = dup(fd);
  close(closed);
  kvrt_model* model = NULL;
  const uint32_t damaged = ANY(KVRT_CORRUPT), range = ANY(KVRT_INVALID) | ANY(KVRT_CORRUPT) | ANY(KVRT_IO);
  ROW("model_open", "a closed descriptor", open_fd(t, NULL, closed, 100, size, &model), ANY(KVRT_INVALID) | ANY(KVRT_IO));
  ROW("model_open", "descriptor 1000000", open_fd(t, NULL, 1000000, 0, 0, &model), ANY(KVRT_INVALID) | ANY(KVRT_IO));
  ROW("model_open", "an offset past the end", open_fd(t, NULL, fd, size + 151, 0, &model), range);
  ROW("model_open", "an offset at the end", open_fd(t, NULL, fd, size + 150, 0, &model), range);
  ROW("model_open", "offset UINT64_MAX", open_fd(t, NULL, fd, UINT64_MAX, 0, &model), range);
  ROW("model_open", "offset and size that overflow", open_fd(t, NULL, fd, 100, UINT64_MAX - 50, &model), range);
  ROW("model_open", "a size past the end", open_fd(t, NULL, fd, 100, size + 51, &model), range);
  ROW("model_open", "the wrong offset", open_fd(t, NULL, fd, 99, size, &model), damaged);
  ROW("model_open", "offset 0, where it begins later", open_fd(t, NULL, fd, 0, 0, &model), damaged);
  ROW("model_open", "a size too short", open_fd(t, NULL, fd, 100, size - 64, &model), damaged);
  ROW("model_open", "size 3", open_fd(t, NULL, fd, 100, 3, &model), damaged);
  close(fd);
  int ends[2];
  REQUIRE(pipe(ends) == 0, "%s", strerror(errno));
  ROW("model_open", "a pipe", open_fd(t, NULL, ends[0], 0, 0, &model), ANY(KVRT_INVALID) | ANY(KVRT_IO));
  close(ends[0]), close(ends[1]);
  const int write_only = open(path, O_WRONLY | O_CLOEXEC), directory = open(t->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  ROW("model_open", "not open for reading", open_fd(t, NULL, write_only, 100, size, &model), ANY(KVRT_INVALID) | ANY(KVRT_IO));
  ROW("model_open", "a directory's descriptor", open_fd(t, NULL, directory, 0, 0, &model), ANY(KVRT_INVALID) | ANY(KVRT_IO));
  close(write_only), close(directory);
  EXPECT_STATUS(open_fd(t, "a name for messages", closed, 0, 0, &model) == KVRT_OK ? KVRT_OK : KVRT_INVALID, KVRT_INVALID);
  EXPECT(strstr(last_message(), "a name for messages") != NULL, "the message has no name: %s", last_message());
  const kvrt_model_options by_path = {.struct_size = sizeof by_path, .fd_offset = 100};
  ROW("model_open", "fd_offset without from_fd", kvrt_model_open(t->runtime, t->tiny, strlen(t->tiny), &by_path, NULL, NULL, &model, NULL),
      ANY(KVRT_INVALID));
}

int main(void) {
  struct stage t;
  stage_open(&t);
  embedded(&t);
  wrong(&t);
  stage_close(&t);
  return finish();
}
