// Under ThreadSanitizer, which looks for races and not at curves, a few steps of what differs most are enough.
#pragma once

namespace longhaul::test {

#if defined(__SANITIZE_THREAD__)
inline constexpr bool thorough = false;
#else
inline constexpr bool thorough = true;
#endif

}  // namespace longhaul::test
