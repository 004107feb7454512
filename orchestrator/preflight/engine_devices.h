// What the installed engine can compute on, as it says itself. A run keeps a copy of that program, so how it was built
// holds for the jobs as well; whether a host has a GPU, a driver and the libraries only that host can say, and its rank
// does when it starts (engine/ops/gpu.h).
#pragma once

#include <functional>
#include <string>

namespace longhaul {

enum class EngineCuda { built_in, none, unknown };

struct EngineDevices {
  // How it was built; unknown: it does not answer here, and `why` says it.
  struct Build {
    EngineCuda cuda = EngineCuda::unknown;
    std::string why;
  };
  std::function<Build()> build;
  // Whether this host has a driver for GPUs at all: a cheap look, before the engine is asked.
  std::function<bool()> host_has_driver;
  // Why a rank of `ranks` on this host would find no GPU of its own; `shared`: they may share one. "": each has one.
  std::function<std::string(int ranks, bool shared)> no_gpu_here;
};

// Starts `engine` when it is asked, once for each question, with a deadline.
EngineDevices devices_of_engine(const std::string& engine);

}  // namespace longhaul
