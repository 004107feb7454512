// What the tests of checkpoints share.
#pragma once

#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "base/files/files.h"
#include "engine/checkpoint/global/checkpoint_store.h"
#include "tests/unit/engine/train/training_setup.h"

namespace longhaul::test {

struct CheckpointFolder {
  CheckpointFolder() {
    char name[] = "/tmp/longhaul-checkpoint-XXXXXX";
    path = ::mkdtemp(name);
  }
  ~CheckpointFolder() { [[maybe_unused]] const Status removed = remove_tree(path); }
  std::string path;
};

inline TrainingState state_of(Trainer& trainer) {
  TrainingState state;
  state.layout = &trainer.store().layout();
  state.shape = trainer.store().shape();
  state.masters = trainer.store().masters();
  state.exp_avg = trainer.optimizer().exp_avg();
  state.exp_avg_sq = trainer.optimizer().exp_avg_sq();
  state.progress = trainer.progress();
  state.seed = 1;
  state.extra = Value::make_table();
  return state;
}

inline bool same_bits(ConstView a, ConstView b) {
  return a.dtype() == b.dtype() && a.bytes() == b.bytes() &&
         std::memcmp(a.data(), b.data(), static_cast<std::size_t>(a.bytes())) == 0;
}

inline std::vector<double> train(TrainingSetup& setup, int steps) {
  std::vector<double> losses;
  for (int i = 0; i < steps; ++i) losses.push_back(setup.trainer.step()->loss);
  return losses;
}

inline std::vector<float> weights_of(TrainingSetup& setup) {
  return {setup.store.masters().begin(), setup.store.masters().end()};
}

// Runs `body` in a child process; its exit status (negative: the signal).
template <class F>
int in_child(F body) {
  const pid_t child = ::fork();
  if (child == 0) {
    body();
    ::_exit(0);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
}

}  // namespace longhaul::test
