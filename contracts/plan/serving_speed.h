// How fast a rank on a processor answers, as `longhaul-engine measure` times it: what the operations of a step of a
// server take, each by itself. autotune/inference/processor_serving.h puts them together.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/value/value.h"

namespace longhaul {

// Rows that a product is timed with: one, what the engine's path for few tokens takes (kGemvTokensMax) and one more,
// and up to a whole piece of a prompt.
inline constexpr std::int64_t serving_rows[] = {1, 4, 8, 9, 16, 32, 64, 256};
// Bytes of all weights that are read one after the other before the first ones are read again: those that a core's
// cache holds, those that (a part of) a processor's does, those that come from memory.
inline constexpr std::int64_t serving_sets[] = {1LL << 20, 2LL << 20, 4LL << 20, 8LL << 20, 32LL << 20, 128LL << 20};

// Bytes of keys and values that a step reads: those that a core's cache holds, those that (a part of) a processor's
// does, those that come from memory.
inline constexpr std::int64_t serving_caches[] = {1LL << 18, 4LL << 20, 32LL << 20};

struct ServedProduct {
  std::int64_t rows = 0, set_bytes = 0;
  double seconds = 0;  // of a weight, beyond what a call costs
};

// Seconds. A default one is of a rank of which nothing is known.
struct ServingSpeed {
  std::vector<ServedProduct> products;  // every row with every set, in that order
  double call = 0;                      // of a product of next to nothing
  double attention = 0;                 // of a token of a cache, a head of queries and an element of the head
  // Beside that, of a token of a cache, a head of keys and values and an element of the head: reading both, where a
  // step reads so many bytes of them (serving_caches).
  double cache_near = 0, cache_shared = 0, cache_far = 0;
  double prompt_attention = 0;  // of a token of a prompt and one before it, a head of queries and an element
  double layer = 0;             // of a layer's small operations, whatever they work on
  double element = 0;           // and of an element that they read or write (serving_time.h counts them)
  double logit = 0;             // drawing a token, of a word of the vocabulary

  bool known() const { return !products.empty(); }
};

// Those of its figures that are single numbers, by their names in JSON.
struct ServingFigure {
  const char* key;
  double ServingSpeed::* at;
};
std::span<const ServingFigure> serving_figures();

Value serving_speed_to_value(const ServingSpeed& speed);
// False: something is missing, or cannot be.
bool serving_speed_from_value(const Value& value, ServingSpeed& speed);

}  // namespace longhaul
