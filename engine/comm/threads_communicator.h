// Ranks as threads of one process: for tests of everything parallel, and for several ranks without MPI.
#pragma once

#include <memory>

#include "engine/comm/communicator.h"

namespace longhaul {

struct ThreadsHub;  // where the ranks meet

// Made once, before the threads; shared by them. Any thread may ask for its communicator of any epoch.
class ThreadsWorld {
 public:
  explicit ThreadsWorld(int size);
  ~ThreadsWorld();
  std::unique_ptr<Communicator> communicator(int rank, std::uint64_t epoch, const CommOptions& options) const;

 private:
  int size_;
  std::shared_ptr<ThreadsHub> hub_;
};

}  // namespace longhaul
