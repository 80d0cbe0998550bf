// What a client has to know of the model's tokenizer, as JSON: control tokens as texts, and the chat template.
#pragma once

#include <string>

#include "kvrt.hpp"

std::string tokenizer_info(const kvrt::Runtime& runtime, const kvrt::Model& model, const std::string& path);
