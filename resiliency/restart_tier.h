// How far one has to go back to be rid of a fault, cheapest first (architecture, section 6).
#pragma once

namespace longhaul {

enum class RestartTier {
  skip,        // training goes on: leave a batch out, or only take note
  in_process,  // all ranks alive: roll back, new communicators
  in_job,      // new launch on the same hosts
  swap,        // new launch with a spare in the host's place
  new_job,     // new allocation, bad hosts excluded
  stop,        // no tier cures it: a person has to
};

constexpr const char* to_string(RestartTier tier) {
  switch (tier) {
    case RestartTier::skip: return "skip";
    case RestartTier::in_process: return "in_process";
    case RestartTier::in_job: return "in_job";
    case RestartTier::swap: return "swap";
    case RestartTier::new_job: return "new_job";
    case RestartTier::stop: return "stop";
  }
  return "unknown";
}

}  // namespace longhaul
