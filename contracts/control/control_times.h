// Times of the control between a lead and its agents that nobody sets. Whatever waits by one of them takes it from
// here; timeout_hierarchy.h says which of them have to be longer than others.
#pragma once

#include <cstdint>

namespace longhaul {

inline constexpr std::int64_t ping_interval_ms = 500;  // a lead says something so often
// A question to the scheduler by a lead that has no majority. It has one thread: while it waits its agents hear
// nothing.
inline constexpr std::int64_t scheduler_question_ms = 1'000;
inline constexpr std::int64_t lead_silent_ms = 2'000;  // then agents look for another lead
// An agent that was not heard of for so long is no voice of a lead's majority.
inline constexpr std::int64_t heard_of_within_ms = 2'000;
// Ranks beside a lost node stand still for so long at least before it is lost.
inline constexpr std::int64_t others_still_ms = 750;
// A save is given up when no rank has written a byte for so long.
inline constexpr std::int64_t write_still_ms = 600'000;
// What a shared file system may take to fail over to another server, in which it answers nobody: Lustre and GPFS are
// set up for one to five minutes.
inline constexpr std::int64_t storage_failover_ms = 300'000;

}  // namespace longhaul
