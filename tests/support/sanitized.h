// Sanitizers look for what is wrong with memory and between threads, in code that a few repetitions run through
// already. A property that takes many of them to show (a mean over seeds, many cases alike) is the release build's.
#pragma once

namespace longhaul::testing {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool sanitized = true;
#else
inline constexpr bool sanitized = false;
#endif

}  // namespace longhaul::testing
