// longhaul-rank: becomes one rank below srun, as `longhaul-worker rank` does, inside a container that srun has made. It
// needs nothing of the image, for it is linked statically: containers have another C library, an older one, or none.
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "base/text/print.h"
#include "worker/launch/rank_arguments.h"
#include "worker/launch/rank_exec.h"

int main(int argc, char** argv) {
  const auto arguments = longhaul::parse_rank_arguments({argv + 1, argv + argc});
  if (!arguments) {
    longhaul::print_text(stderr, "usage: longhaul-rank rank --log-dir DIR --beat-dir DIR [--near-gpu] -- PROGRAM\n");
    return 2;
  }
  const auto variable = [](const char* name) -> std::string {
    const char* value = std::getenv(name);
    return value ? value : "";
  };
  const longhaul::Status failed = longhaul::exec_rank(*arguments, variable);
  longhaul::print_text(stderr, "longhaul-rank: " + failed.error().message() + "\n");
  return 127;
}
