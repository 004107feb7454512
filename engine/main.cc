// longhaul-engine: the program that computes. One process per rank; docs/contracts.md tells what it reads and writes.
#include <cstdlib>

#include "engine/tasks/command_line.h"

namespace {

std::int64_t number_of(const char* variable) {
  const char* value = std::getenv(variable);
  return value ? std::atoll(value) : 0;
}

}  // namespace

int main(int argc, char** argv) {
  return longhaul::engine_main(
      argc, argv, {number_of("SLURM_MEM_PER_NODE"), number_of("SLURM_MEM_PER_CPU"), number_of("SLURM_CPUS_ON_NODE")});
}
