// Why a training stops before its last step, as its ranks know it together. A rank that was asked to stop knows of its
// own signal only; what the others were asked comes with the exchange that follows every step. So a signal that a
// single rank got is distinguished from one that all of them got, and either from an end that the ranks saw coming by
// themselves.
#pragma once

#include <string>
#include <vector>

namespace longhaul {

struct StopCause {
  std::vector<int> asked;  // ranks that had been asked when all agreed to stop; empty: the time was nearly over
  int ranks = 1;
  int signal = 0;  // by which they were asked; 0: not the same for all of them, or not known

  bool by_own_timer() const { return asked.empty(); }
  // "rank 3: asked to stop by SIGTERM": whose it is stands where blamed_rank() of the lead reads it. "all ranks were
  // asked to stop by SIGUSR1", "the time is nearly over".
  std::string text() const;
};

}  // namespace longhaul
