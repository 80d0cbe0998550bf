#include "storage/store/reserve.h"

#include <vector>

namespace kvrt {

bool make_reserve(Env* env, const std::string& root) {
  std::string path = root + "/reserve";
  auto old = env->open_read(path);
  if (old.is_ok()) {
    auto size = (*old)->size();
    if (size.is_ok() && *size == kReserveBytes) return true;
    (void)env->remove_file(path).is_ok();
  }
  auto file = env->create_new(path);
  if (!file.is_ok()) return false;
  if ((*file)->append(std::vector<uint8_t>(kReserveBytes)).is_ok()) return true;
  (void)env->remove_file(path).is_ok();
  return false;
}

void give_up_reserve(Env* env, const std::string& root) { (void)env->remove_file(root + "/reserve").is_ok(); }

}  // namespace kvrt
