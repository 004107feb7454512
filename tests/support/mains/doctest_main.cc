// main of the test programs. A room that has something to do before its first test defines before_tests: what it
// returns other than 0 ends the program.
#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>

#include "fork_signals.h"

__attribute__((weak)) int before_tests();

int main(int argc, char** argv) {
  longhaul::testing::ForkSignals::reset_in_children();
  if (before_tests != nullptr) {
    if (const int failed = before_tests(); failed != 0) return failed;
  }
  return doctest::Context(argc, argv).run();
}
