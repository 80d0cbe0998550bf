// Describes the content of a GGUF file, and the parts of it that kvrt cannot run. Reads the header alone, no tensor.
#pragma once

#include <string>

#include "runtime/compute/backend.h"
#include "runtime/model/gguf.h"

namespace kvrt {

// The JSON of kvrt_model_inspect. `whole`: arrays to their end, not only their first elements. NO_MEMORY.
Result<std::string> inspect(const GgufFile& file, const Backend& backend, bool whole);

}  // namespace kvrt
