// When a standby whose lead in waiting has found no majority tries again. Two nodes may hold themselves to be the
// standby, where the lead named another one and did not reach all agents any more. The one that the lead named last
// (its address lies beside the lead's) goes first, and the other lets it have its whole time: so agents that turn to
// both in turn are all with one of them. Agents go back to a lead that lives in the pause before. Pure.
#pragma once

#include <cstdint>

namespace longhaul {

inline constexpr std::int64_t stand_in_ms = 4'000;  // so long a lead in waiting waits for a majority

constexpr std::int64_t stand_in_pause_ms(bool named_last) {
  return named_last ? 2'000 : 3'000 + stand_in_ms;
}

}  // namespace longhaul
