// Ranks with a GPU each, as far as it takes to see whether they stop for ever: multiprocessors that kernels hold,
// queues (streams) that run in their order, connections that queues share, and a host that asks for work and waits.
// There is no time: of all that could happen next, a draw decides, so every order that hardware may choose comes up.
//
//   - A product begins when the one before has ended, takes what multiprocessors are free (one is enough), and ends.
//   - A kernel of a communicator begins when all products that were asked for before it have ended and its queue has
//     come to it. It takes multiprocessors one after the other, as they become free, and keeps them. It ends when it
//     has all of them and so have the kernels of the ranks that it works with.
//   - Queues of one connection are served in the order in which the host asked, whichever queue it was.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace longhaul::testing {

// Kernels of one communicator: the n-th of each rank belong together.
struct SimulatedMeeting {
  std::vector<int> ranks;
};
struct SimulatedKernel {
  int meeting = 0, member = 0, number = 0;  // this rank's place there, and the how manieth of its kernels it is
  int queue = 0;                            // from 1; 0 is the operations'
  int blocks = 1;
  std::vector<int> partners;  // members whose kernel it needs; none: of all
};
struct SimulatedAction {
  enum class Kind { product, start, wait, finish_products };
  Kind kind = Kind::product;
  int kernel = -1;  // of start and wait: in SimulatedRank::kernels
};
struct SimulatedRank {
  std::vector<SimulatedAction> actions;  // of its host, in their order
  std::vector<SimulatedKernel> kernels;
  int queues = 1;
};
struct SimulatedLaunch {
  std::vector<SimulatedMeeting> meetings;
  std::vector<SimulatedRank> ranks;
};

struct SimulatedDevice {
  int multiprocessors = 132;
  int connections = 32;
};
struct SimulationResult {
  bool finished = false;
  std::int64_t moves = 0;
  int stuck = 0;  // ranks that have not come to their end
  int full = 0;   // of them, those on which kernels that wait hold every multiprocessor
  std::string text() const;
};

SimulationResult simulate(const SimulatedLaunch& launch, const SimulatedDevice& device, std::uint64_t seed);

}  // namespace longhaul::testing
