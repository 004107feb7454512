#include <doctest/doctest.h>
#include <unistd.h>

#include <cstdlib>

#include "base/files/files.h"
#include "engine/checkpoint/global/checkpoint_store.h"
#include "tests/parallel/training_on_ranks.h"

using namespace longhaul;
using namespace longhaul::test;

TEST_CASE("2 and 4 ranks follow the 1-rank curve to the bit: losses, norms and weights") {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const RankRun one = train_one_rank(20, dtype);
    REQUIRE(one.losses.size() == 20);
    CHECK(one.losses.back() < one.losses.front());
    for (const int ranks : {2, 4, 8}) {
      CAPTURE(ranks);
      for (const RankRun& run : train_on_threads(data_parallel(ranks), 20, dtype)) {
        CHECK(run.status.ok());
        CHECK(worst_relative(one.losses, run.losses) <= 1e-5);
        CHECK(run.losses == one.losses);
        CHECK(run.norms == one.norms);
        CHECK(run.weights == one.weights);
      }
    }
  }
}

TEST_CASE("planted errors turn the comparison red") {
  const RankRun one = train_one_rank(20, DType::f32);
  // A rank that starts from other weights, and one that reads its neighbour's data.
  const auto other_weight = [](int rank, TrainingSetup& setup, int step) {
    if (rank == 1 && step == 0) setup.store.masters()[100] += 0.1F;
  };
  const auto other_data = [](int rank, TrainingSetup& setup, int step) {
    if (rank == 1 && step == 3) setup.trainer.progress().consumed_samples += 1;
  };
  CHECK(worst_relative(one.losses, train_on_threads(data_parallel(2), 20, DType::f32, other_weight)[0].losses) > 1e-5);
  CHECK(worst_relative(one.losses, train_on_threads(data_parallel(2), 20, DType::f32, other_data)[0].losses) > 1e-5);
}

TEST_CASE("one rank's error ends all of them with its message, at once") {
  const auto poison = [](int rank, TrainingSetup& setup, int step) {
    if (rank == 1 && step == 2) setup.store.masters()[0] = std::numeric_limits<float>::quiet_NaN();
  };
  for (const RankRun& run : train_on_threads(data_parallel(2), 20, DType::f32, poison)) {
    REQUIRE_FALSE(run.status.ok());
    CHECK(run.status.error().message().find("step 3") != std::string::npos);
    CHECK(run.losses.size() == 2);
  }
}

TEST_CASE("a checkpoint of 2 ranks goes on with 4, and with 1, bit for bit") {
  char name[] = "/tmp/longhaul-parallel-XXXXXX";
  const std::string folder = ::mkdtemp(name);
  const SystemClock clock;
  const RankRun whole = train_one_rank(20, DType::f32);
  std::atomic<int> saved{0};
  on_threads(data_parallel(2), [&](int, Mesh& mesh) {
    TrainingSetup setup(16, 20, 2, &mesh, DType::f32, 32);
    for (int i = 0; i < 10; ++i)
      if (!setup.trainer.step().ok()) return;
    CheckpointStore store(clock, folder, 2);
    saved += store.save(mesh.world(), state_of(setup)).ok();
  });
  CHECK(saved == 2);
  CHECK(list_tree(folder)->size() == 4);  // two shards, checkpoint.json, latest.json
  for (const int ranks : {1, 4}) {
    std::atomic<int> equal{0};
    on_threads(data_parallel(ranks), [&](int, Mesh& mesh) {
      TrainingSetup setup(16, 20, 2, &mesh, DType::f32, 32);
      TrainingState state = state_of(setup);
      const auto loaded = CheckpointStore(clock, folder, 2).load_newest(mesh.world(), state);
      if (!loaded.ok() || !loaded->has_value()) return;
      setup.trainer.progress() = state.progress;
      std::vector<double> losses;
      for (int i = 0; i < 10; ++i) losses.push_back(setup.trainer.step()->loss);
      equal += std::equal(losses.begin(), losses.end(), whole.losses.begin() + 10) &&
               std::equal(whole.weights.begin(), whole.weights.end(), setup.store.masters().begin());
    });
    CHECK(equal == ranks);
  }
  CHECK(remove_tree(folder).ok());
}
