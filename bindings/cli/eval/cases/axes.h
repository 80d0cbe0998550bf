// The makers of cases, one for each axis; axes.cc lists them.
#pragma once

#include "bindings/cli/eval/cases/case.h"

namespace cli::eval {

Case needle_case(uint64_t seed, uint32_t index, uint32_t tokens_max);
Case needles_case(uint64_t seed, uint32_t index, uint32_t tokens_max);
Case hidden_case(uint64_t seed, uint32_t index, uint32_t tokens_max);
Case tracing_case(uint64_t seed, uint32_t index, uint32_t tokens_max);
Case counting_case(uint64_t seed, uint32_t index, uint32_t tokens_max);
Case arithmetic_case(uint64_t seed, uint32_t index, uint32_t tokens_max);
Case documents_case(uint64_t seed, uint32_t index, uint32_t tokens_max);
Case calls_case(uint64_t seed, uint32_t index, uint32_t tokens_max);
Case routing_case(uint64_t seed, uint32_t index, uint32_t tokens_max);
Case files_case(uint64_t seed, uint32_t index, uint32_t tokens_max);
Case rules_case(uint64_t seed, uint32_t index, uint32_t tokens_max);
Case secrets_case(uint64_t seed, uint32_t index, uint32_t tokens_max);
Case turns_case(uint64_t seed, uint32_t index, uint32_t tokens_max);

uint32_t scenario_count();
Case scenario_case(uint64_t seed, uint32_t index, uint32_t tokens_max);
std::string long_request(uint64_t seed, uint32_t index);  // for an answer of hundreds of tokens

}  // namespace cli::eval
