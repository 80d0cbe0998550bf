// What a store keeps of a session, for people and scripts to look at. No model is needed: the token tree and the manifest say it all.
#pragma once

#include <string>
#include <string_view>

#include "storage/store/store.h"

namespace kvrt {

// The JSON of kvrt_store_show.
Result<std::string> show_session(Store* store, std::string_view domain, std::string_view name);

}  // namespace kvrt
