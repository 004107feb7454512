#include "worker/lead/monitor/rank_end.h"

#include <charconv>
#include <cstring>

#include "base/text/text.h"
#include "resiliency/beat/heartbeat_page.h"

namespace longhaul {

std::optional<int> reported_exit_code(const std::string& section) {
  if (!starts_with(section, beat_failed)) return std::nullopt;
  int code = 0;
  const char* const end = section.data() + section.size();
  const auto [read_to, wrong] = std::from_chars(section.data() + std::strlen(beat_failed), end, code);
  if (wrong != std::errc() || read_to != end || code <= 0) return std::nullopt;
  return code;
}

ExitStatus end_of_rank(const std::string& section, const ExitStatus& launcher) {
  const std::optional<int> reported = reported_exit_code(section);
  return reported ? ExitStatus{*reported, 0} : launcher;
}

}  // namespace longhaul
