// The sampling that a model's file suggests.
#pragma once

#include <string>

#include "kvrt.hpp"

// As members of a request: those of general.sampling.* in the file; where there are none, those that `kvrt chat` has then.
std::string suggested_sampling(const kvrt::Runtime& runtime, const std::string& model);
