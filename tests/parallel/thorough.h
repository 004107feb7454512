// Under ThreadSanitizer, which looks for races and not at curves, a few steps of what differs most are enough.
#pragma once

namespace longhaul::test {

#if defined(__SANITIZE_THREAD__)
inline constexpr bool thorough = false;
#else
inline constexpr bool thorough = true;
#endif

// Where two trainings have to have the same bits: one that differs is in the weights after the step that made it.
inline constexpr int bit_steps = thorough ? 4 : 2;

}  // namespace longhaul::test
