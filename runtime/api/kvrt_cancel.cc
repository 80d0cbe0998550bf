#include "runtime/api/boundary.h"

using namespace kvrt::api;

extern "C" {

kvrt_status kvrt_cancel_open(kvrt_cancel** out, kvrt_error* err) {
  return guard(err, [&]() -> kvrt::Status {
    KVRT_TRY(check_not_null(out, "out"));
    *out = new kvrt_cancel(std::make_shared<kvrt::Cancel>());
    return {};
  });
}

void kvrt_cancel_retain(kvrt_cancel* cancel) { retain(cancel); }
void kvrt_cancel_release(kvrt_cancel* cancel) { release(cancel); }

void kvrt_cancel_fire(kvrt_cancel* cancel) {
  const kvrt::NotCancelled not_cancelled;
  if (const auto held = hold_quietly(cancel)) held->fire();
}

uint32_t kvrt_cancel_fired(const kvrt_cancel* cancel) {
  const auto held = hold_quietly(cancel);
  return held && held->fired();
}

}  // extern "C"
