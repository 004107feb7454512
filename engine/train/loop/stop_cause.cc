#include "engine/train/loop/stop_cause.h"

#include <csignal>

#include "base/text/text.h"

namespace longhaul {
namespace {

constexpr std::size_t ranks_named_max = 8;

std::string by_signal(int number) {
  switch (number) {
    case 0: return "";
    case SIGTERM: return " by SIGTERM";
    case SIGINT: return " by SIGINT";
    case SIGUSR1: return " by SIGUSR1";
    default: return format(" by signal {}", number);
  }
}

}  // namespace

std::string StopCause::text() const {
  if (asked.empty()) return "the time is nearly over";
  std::string stop = "asked to stop" + by_signal(signal);
  if (ranks == 1) return stop;
  if (static_cast<int>(asked.size()) == ranks) return "all ranks were " + stop;
  if (asked.size() == 1) return format("rank {}: {}", asked.front(), stop);
  if (asked.size() > ranks_named_max) return format("{} of {} ranks were {}", asked.size(), ranks, stop);
  std::vector<std::string> names;
  for (const int rank : asked) names.push_back(std::to_string(rank));
  return format("ranks {} were {}", join(names, ", "), stop);
}

}  // namespace longhaul
