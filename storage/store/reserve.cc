#include "storage/store/reserve.h"

#include <vector>

namespace kvrt {

namespace {

bool make(Env* env, const std::string& path, uint64_t bytes) {
  auto old = env->open_read(path);
  if (old.is_ok()) {
    auto size = (*old)->size();
    if (size.is_ok() && *size == bytes) return true;
    (void)env->remove_file(path).is_ok();
  }
  auto file = env->create_new(path);
  if (!file.is_ok()) return false;
  if (bytes == 0 || (*file)->append(std::vector<uint8_t>(bytes)).is_ok()) return true;
  (void)env->remove_file(path).is_ok();
  return false;
}

}  // namespace

bool make_reserve(Env* env, const std::string& root) {
  const bool bytes = make(env, root + "/reserve", kReserveBytes);
  return make(env, root + "/reserve2", 0) && bytes;
}

void give_up_reserve(Env* env, const std::string& root) {
  (void)env->remove_file(root + "/reserve").is_ok();
  (void)env->remove_file(root + "/reserve2").is_ok();
}

}  // namespace kvrt
