// Whose SQLite, zstd, PCRE2 and libsodium this process runs.
#pragma once

#include "runtime/base/status.h"

namespace kvrt::api {

// UNSUPPORTED where the host's own copy of one of them took libkvrt's calls over. Looked for once: -z now binds them all at load.
Status check_host_symbols();

}  // namespace kvrt::api
