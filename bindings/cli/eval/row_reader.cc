#include "bindings/cli/eval/row_reader.h"

#include <algorithm>
#include <cmath>

namespace cli::eval {

kvrt_status RowReader::begin(const Model& model, const std::vector<int32_t>& tokens, const char* what) {
  what_ = what;
  auto options = init<kvrt_generate_options>();
  options.prefill = 1;
  options.logits = KVRT_LOGITS_ALL;
  if (kvrt_status s = take(Session::open(model), session_, "cannot open a session")) return s;
  if (kvrt_status s = checked(session_.append(tokens), "cannot append tokens")) return s;
  return checked(session_.begin(options), what);
}

kvrt_status RowReader::next(std::span<const float>* row, uint64_t* position) {
  *row = {};
  do {
    Result<Event> event = session_.next();
    if (Interrupt::came()) return KVRT_CANCELLED;
    event_ = *event;
    if (kvrt_status s = checked(event.status(), what_)) return s;
    if (event_.type == KVRT_EVENT_DONE) return KVRT_OK;
  } while (event_.type != KVRT_EVENT_LOGITS);
  *position = event_.position;
  *row = {event_.logits, event_.logits_count};
  if (std::all_of(row->begin(), row->end(), [](float x) { return std::isfinite(x); })) return KVRT_OK;
  return complain(KVRT_DEVICE, fmt::format("{}: those of position {} of a text hold a NaN or an infinity", what_, event_.position),
                  KVRT_DETAIL_NUMERIC);
}

}  // namespace cli::eval
