// Checks that libkvrt calls its own SQLite, zstd, PCRE2 and libsodium.
#pragma once

#include "runtime/base/status.h"

namespace kvrt {

// UNSUPPORTED if the host's copy of one of them took over libkvrt's calls. It looks once: -z now binds all calls at load.
Status check_host_symbols();

}  // namespace kvrt
