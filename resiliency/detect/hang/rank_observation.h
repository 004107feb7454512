// One rank at one moment, as detectors see it: its page and its process. Whoever watches fills it in.
#pragma once

#include <cstdint>
#include <string>

#include "resiliency/beat/heartbeat_page.h"
#include "resiliency/detect/hang/process_state.h"

namespace longhaul {

struct RankObservation {
  int rank = 0;
  std::string host;
  ProcessState process = ProcessState::none;
  BeatSnapshot beat;
  std::int64_t idle_ms = 0;    // since the page last changed, when it was read
  bool seen = false;           // it has a page
  std::int64_t silent_ms = 0;  // since its host's agent was last heard; 0 where local
  // Since its wait was last polled; -1: not known. HangDetector fills it in from successive observations.
  std::int64_t unpolled_ms = -1;
};

}  // namespace longhaul
