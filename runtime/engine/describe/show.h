// Shows a stored session to people and scripts. It needs no model: the token tree and the manifest have all there is.
#pragma once

#include <string>
#include <string_view>

#include "storage/store/store.h"

namespace kvrt {

// The JSON of kvrt_store_show.
Result<std::string> show_session(Store* store, std::string_view domain, std::string_view name);

}  // namespace kvrt
