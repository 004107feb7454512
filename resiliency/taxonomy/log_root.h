// Which line of which rank says why a launch ended, over the tails of all ranks' logs.
//
// The rule: a root line beats every cascade, a cascade every confirmation; among equals the earliest wins. Times are
// those in the lines themselves ("2026-03-02T04:11:09.201Z", "2026-03-02 04:11:09,201"); a line without one has that of
// the nearest line above it, or else of the caller, and one without any comes after those with. Within one tail the
// first line of a role counts: what a program prints after its first error follows from it. Hosts' clocks are taken as
// they are (health/clock checks that they agree); ties go to the lower rank.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "resiliency/taxonomy/log_line.h"

namespace longhaul {

struct LogTail {
  int rank = 0;
  std::string host;
  std::string_view text;      // the last few KiB; a torn first line does no harm
  std::int64_t ended_ms = 0;  // when the rank's process ended, where that is known; 0 otherwise
};

struct LogRoot {
  LineFinding finding;
  int rank = 0;
  std::string host;
  std::string line;           // as it was written, at most 800 bytes, valid UTF-8
  std::int64_t at_ms = 0;     // by the line's own stamp or what stands in for it; 0: no time is known
  std::int64_t ended_ms = 0;  // of the tail
  // Ranks whose own first root line has the same fingerprint, this one included; and all that were looked at.
  int alike = 0, ranks = 0;
  // Most ranks on several hosts say the same: the cause is what they share, not this rank or its host.
  bool widespread = false;
};
// Nothing where no tail has a line that says anything of a fault.
std::optional<LogRoot> root_of(const std::vector<LogTail>& tails);

// Milliseconds since 1970 of the first "YYYY-MM-DD[T ]HH:MM:SS[.,mmm]" within the first 80 bytes; 0 for none.
std::int64_t line_time_ms(std::string_view line);

}  // namespace longhaul
