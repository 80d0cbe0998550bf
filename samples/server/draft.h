// The draft model, which proposes tokens of the answers.
#pragma once

#include <string>

#include "kvrt.hpp"

// Opens it, with room for the KV of as many conversations as the model's. Empty: `path` is. Throws std::runtime_error where it does not go
// with the model.
kvrt::Model open_draft(const kvrt::Runtime& runtime, const kvrt::Model& model, const std::string& path);
