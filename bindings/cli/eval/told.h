// Told: what a row of predictions says of the next token. Not all rows tell all tokens apart: llama.cpp's files keep 16 bits of
// each log of a probability, and for tokens 16 nats and more below the best one nothing: these are one outcome, the rest.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace cli::eval {

struct Told {
  std::vector<double> logs;  // by token, in nats; kRest: it is in the rest
  double rest = 0;           // the probability that one of the rest comes
  size_t best = 0;           // the first of the most likely tokens
};
inline constexpr double kRest = 1;       // no log of a probability is above 0
inline constexpr double kToldNats = 16;  // below the best one, that a file tells apart

Told told_of(std::span<const float> logits);    // all of it
Told told_near(std::span<const float> logits);  // as much as a file would tell
// A row of a file: a token's log is least + step * its value, and 0 stands for the least and for all below. False: these are no
// probabilities.
bool told_of(float step, float least, std::span<const uint16_t> values, Told* out);

// KL(base || other) in nats, of the tokens that both tell apart and one outcome more, any of the others; never below 0.
double divergence(const Told& base, const Told& other);

}  // namespace cli::eval
