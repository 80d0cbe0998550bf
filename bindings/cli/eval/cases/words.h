// The words of generated texts, and sentences that say nothing that a question asks for.
#pragma once

#include <array>
#include <string>

#include "bindings/cli/eval/cases/random.h"

namespace cli::eval {

inline constexpr std::array kNames = {"Alice", "Bruno", "Carla",  "David",  "Elena", "Felix",  "Greta", "Hugo",  "Irene",
                                      "Jonas", "Karin", "Leo",    "Marta",  "Nadia", "Oscar",  "Paula", "Quinn", "Rosa",
                                      "Simon", "Tessa", "Ursula", "Victor", "Wanda", "Yusuf",  "Amara", "Boris", "Celia",
                                      "Dario", "Edith", "Farid",  "Hanna",  "Ivan",  "Judith", "Kemal", "Lydia", "Milo"};
inline constexpr std::array kCities = {"Lisbon", "Turin", "Oslo",   "Ghent", "Porto",   "Basel", "Malmo",   "Krakow", "Seville", "Bergen",
                                       "Zagreb", "Leeds", "Nantes", "Graz",  "Tampere", "Cork",  "Utrecht", "Varna",  "Siena",   "Lyon"};
inline constexpr std::array kObjects = {"lamp",   "bicycle", "kettle",  "violin", "ladder", "mirror", "carpet",
                                        "barrel", "camera",  "blanket", "hammer", "piano",  "basket", "candle",
                                        "wagon",  "statue",  "anchor",  "drum",   "clock",  "bench"};
inline constexpr std::array kFruits = {"apple", "banana", "cherry", "grape", "lemon", "mango",
                                       "melon", "olive",  "peach",  "pear",  "plum",  "quince"};

inline constexpr uint32_t kShortAnswer = 24;  // tokens: a number or a name, and some words

// About so many tokens of text, at four and a half letters each.
inline size_t letters_of(uint32_t tokens) { return static_cast<size_t>(tokens) * 9 / 2; }

std::string filler(Random* random);  // a sentence

// Filler of about so many tokens, with the sentences of `needles` at even distances, the first one near the beginning.
std::string haystack(Random* random, uint32_t tokens, const std::vector<std::string>& needles);

}  // namespace cli::eval
