// Which ranks stand still because of a file system. How long that takes says nothing about a rank or its host: a
// metadata server that fails over is silent for minutes, and all that work with it wait.
#pragma once

#include <string_view>

#include "resiliency/beat/heartbeat_page.h"

namespace longhaul {

// Sections of our own programs that read or write files of the run; what a step does (`micro_batch`) reads its data,
// too, and is no such section: most of what stands still there is the device's or the network's.
constexpr bool touches_files(std::string_view section) {
  constexpr std::string_view all[] = {"initialize",          "load",      beat_checkpoint,
                                      beat_checkpoint_write, "milestone", "export"};
  for (const std::string_view one : all)
    if (section == one) return true;
  return false;
}

}  // namespace longhaul
