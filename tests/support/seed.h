// The seed of a test that draws. It is the same in every run, so that a change that breaks nothing stays green;
// LONGHAUL_SEED=new draws another one, a number repeats one that was printed.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <random>
#include <string_view>

namespace longhaul::testing {

inline std::uint64_t seed(std::uint64_t usual) {
  const char* const asked = std::getenv("LONGHAUL_SEED");
  if (!asked) return usual;
  return asked == std::string_view("new") ? std::random_device{}() : std::strtoull(asked, nullptr, 10);
}

}  // namespace longhaul::testing
