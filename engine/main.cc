// longhaul-engine: the program that computes. One process per rank; docs/contracts.md tells what it reads and writes.
#include "engine/tasks/command_line.h"

int main(int argc, char** argv) {
  return longhaul::engine_main(argc, argv);
}
