// How long a rank of the engine waits in a collective before it gives up by itself.
#pragma once

#include <cstdint>

namespace longhaul {

inline constexpr std::int64_t collective_deadline_ms = 600'000;

}  // namespace longhaul
