// Ranks as threads, and a bit that changes on the way into a sum of gradients: it is found before the update, on every
// rank the same rank is named, and a training that makes the step again ends with the bits of the undisturbed one.
#include <doctest/doctest.h>

#include <random>

#include "tests/parallel/thorough.h"
#include "tests/parallel/training_on_ranks.h"
#include "tests/support/seed.h"

using namespace longhaul;
using namespace longhaul::test;

namespace corruption_cases {

constexpr int corruption_steps = 3;

struct Flip {
  int rank = -1, step = 0;
  std::uint64_t bit = 0;
};

// What a rank's computations of first micro-batches go wrong at: by their number in this rank, from 0.
using Wrong = std::function<std::optional<std::uint64_t>(int rank, int computation)>;

struct CorruptedRun {
  std::vector<float> weights;
  std::vector<SilentCorruption> found;
  std::vector<ErrorCode> codes;
  Status status;
};

// Each step is made again until it is done; `flip` happens once.
std::vector<CorruptedRun> train(const ParallelDims& dims, const SetupOptions& options, DType dtype, const Flip& flip,
                                const Wrong& wrong = {}) {
  std::vector<CorruptedRun> runs(static_cast<std::size_t>(dims.world_size()));
  on_threads(dims, [&](int rank, Mesh& mesh) {
    CorruptedRun& run = runs[static_cast<std::size_t>(rank)];
    TrainingSetup setup(16, corruption_steps, 2, &mesh, dtype, 32, options);
    bool planted = false;
    int computations = 0;
    if (wrong) setup.trainer.hooks.gradient_flip = [&] { return wrong(rank, computations++); };
    for (int tries = 0; tries < corruption_steps + 1 && setup.trainer.progress().step < corruption_steps; ++tries) {
      if (rank == flip.rank && setup.trainer.progress().step == flip.step && !planted) {
        setup.trainer.guard_of_sums().plant(flip.bit);
        planted = true;
      }
      const auto report = setup.trainer.step();
      if (report.ok()) continue;
      run.codes.push_back(report.error().code);
      if (!setup.trainer.corruption()) {
        run.status = report.error();
        return;
      }
      run.found.push_back(*setup.trainer.corruption());
    }
    const ParameterLayout whole(options.shape);
    run.weights.resize(static_cast<std::size_t>(whole.flat_size()));
    run.status = gather_masters(mesh, options.shape, setup.store.layout(), setup.store.masters(), whole, run.weights);
  });
  return runs;
}

#if defined(__SANITIZE_THREAD__)
constexpr int draws = 1;  // twenty times slower; what is raced for is the same in every draw
#else
constexpr int draws = 3;
#endif

struct Layout {
  ParallelDims dims;
  SetupOptions setup;
  DType dtype = DType::f32;
};

std::vector<Layout> layouts() {
  std::vector<Layout> all;
  const auto add = [&](const auto& change) {
    Layout one;
    change(one);
    all.push_back(one);
  };
  add([](Layout& c) { c.dims.dp_replicate = 2; });
  add([](Layout& c) { c.dims.dp_replicate = 4, c.setup.overlap = false; });
  add([](Layout& c) { c.dims.dp_shard = 4, c.dims.zero = 1, c.dtype = DType::bf16; });
  add([](Layout& c) { c.dims.dp_shard = 2, c.dims.dp_replicate = 2, c.dims.zero = 1; });
  add([](Layout& c) { c.dims.dp_shard = 2, c.dims.zero = 2; });
  add([](Layout& c) { c.dims.dp_shard = 4, c.dims.zero = 3, c.dtype = DType::bf16; });
  add([](Layout& c) { c.dims.tp = 2, c.dims.sp = true, c.dims.dp_replicate = 2; });
  add([](Layout& c) { c.dims.pp = 2, c.dims.dp_replicate = 2; });
  add([](Layout& c) { c.dims.cp = 2, c.dims.dp_shard = 2, c.dims.zero = 1; });
  add([](Layout& c) { c.dims.ep = 2, c.dims.dp_replicate = 2, c.setup.shape = training_mixtral_shape(); });
  if (!thorough) return {all[3], all[5], all[7], all[9]};  // every kind of sum, and what else ranks send
  return all;
}

}  // namespace corruption_cases

TEST_CASE(
    "a flipped bit of a contribution is found in every layout, its rank is named, and no bit of the training changes") {
  using namespace corruption_cases;
  const std::uint64_t seed = testing::seed(11);
  MESSAGE("seed ", seed);
  std::mt19937_64 random(seed);
  for (Layout one : layouts()) {
    const std::string layout = one.dims.to_string();
    CAPTURE(layout);
    const auto undisturbed = train(one.dims, one.setup, one.dtype, {});
    one.setup.check_contributions = true;
    for (int draw = 0; draw < draws; ++draw) {
      const Flip flip{static_cast<int>(random() % static_cast<unsigned>(one.dims.world_size())),
                      static_cast<int>(random() % corruption_steps), random()};
      CAPTURE(flip.rank);
      CAPTURE(flip.step);
      CAPTURE(flip.bit);
      const auto runs = train(one.dims, one.setup, one.dtype, flip);
      for (std::size_t rank = 0; rank < runs.size(); ++rank) {
        CAPTURE(rank);
        const std::string problem = runs[rank].status.ok() ? "" : runs[rank].status.error().message();
        CHECK(problem == "");
        CHECK(runs[rank].weights == undisturbed[rank].weights);
        REQUIRE(runs[rank].found.size() == 1);
        const SilentCorruption& found = runs[rank].found.front();
        CHECK(found.rank == flip.rank);
        CHECK(found.other == -1);
        CHECK(found.step == flip.step + 1);
        CHECK(found.decided);
        const bool own = static_cast<int>(rank) == flip.rank;
        CHECK(runs[rank].codes.front() == (own ? ErrorCode::corrupt : ErrorCode::aborted));
      }
    }
  }
}

TEST_CASE("with the check and nothing that changes, bits are those without it; without the check a flip stays") {
  using namespace corruption_cases;
  for (Layout one : layouts()) {
    const std::string layout = one.dims.to_string();
    CAPTURE(layout);
    const auto undisturbed = train(one.dims, one.setup, one.dtype, {});
    REQUIRE(undisturbed.front().status.ok());
    // The highest bit of a gradient's fraction; some gradients are 0, and some places nobody's.
    bool stays = false;
    for (const std::uint64_t element : {3, 101, 501, 1'001, 2'003, 4'001}) {
      if (stays) break;
      const auto spoilt = train(one.dims, one.setup, one.dtype, {1, 1, 32 * element + 22});
      CHECK(spoilt.front().found.empty());
      stays = spoilt.front().weights != undisturbed.front().weights;
    }
    CHECK(stays);
    one.setup.check_contributions = true;
    const auto checked = train(one.dims, one.setup, one.dtype, {});
    CHECK(checked.front().found.empty());
    CHECK(checked.front().weights == undisturbed.front().weights);
  }
}

TEST_CASE("a replay changes no bit of the training, and finds nothing where nothing is wrong") {
  using namespace corruption_cases;
  for (Layout one : layouts()) {
    if (one.dims.ep > 1) continue;  // refused with experts distributed over replicas
    const std::string layout = one.dims.to_string();
    CAPTURE(layout);
    const auto undisturbed = train(one.dims, one.setup, one.dtype, {});
    one.setup.check_contributions = true;
    for (const int every : {1, 2}) {
      one.setup.replay_every = every;
      const auto replayed = train(one.dims, one.setup, one.dtype, {});
      for (std::size_t rank = 0; rank < replayed.size(); ++rank) {
        const std::string problem = replayed[rank].status.ok() ? "" : replayed[rank].status.error().message();
        CHECK(problem == "");
        CHECK(replayed[rank].found.empty());
        CHECK(replayed[rank].weights == undisturbed[rank].weights);
      }
    }
  }
}

TEST_CASE("a gradient that is computed wrongly once is found by replay, and its rank is named") {
  using namespace corruption_cases;
  const std::uint64_t seed = testing::seed(11);
  MESSAGE("seed ", seed);
  std::mt19937_64 random(seed);
  for (Layout one : layouts()) {
    if (one.dims.ep > 1) continue;
    const std::string layout = one.dims.to_string();
    CAPTURE(layout);
    const auto undisturbed = train(one.dims, one.setup, one.dtype, {});
    one.setup.check_contributions = true, one.setup.replay_every = 1;
    // Computations of a step: the neighbour's micro-batch, then the own one.
    for (const int computation : {2, 3}) {
      const int culprit = static_cast<int>(random() % static_cast<unsigned>(one.dims.world_size()));
      const std::uint64_t bit = random();
      CAPTURE(culprit);
      CAPTURE(computation);
      CAPTURE(bit);
      const auto runs = train(one.dims, one.setup, one.dtype, {}, [&](int rank, int number) {
        return rank == culprit && number == computation ? std::optional(bit) : std::nullopt;
      });
      for (std::size_t rank = 0; rank < runs.size(); ++rank) {
        CAPTURE(rank);
        REQUIRE(runs[rank].status.ok());
        REQUIRE(runs[rank].found.size() == 1);
        CHECK(runs[rank].found.front().decided);
        CHECK(runs[rank].found.front().rank == culprit);
        CHECK(runs[rank].found.front().step == 2);
        CHECK(runs[rank].found.front().sound_step == 1);
        CHECK(runs[rank].weights == undisturbed[rank].weights);
      }
    }
  }
}

TEST_CASE("a rank that always computes wrongly is named by the third; of two ranks nobody can know") {
  using namespace corruption_cases;
  for (const int ranks : {2, 4}) {
    CAPTURE(ranks);
    Layout one;
    one.dims.dp_replicate = ranks;
    one.setup.check_contributions = true, one.setup.replay_every = 1;
    const int culprit = ranks - 1;
    const auto runs = train(one.dims, one.setup, one.dtype, {}, [&](int rank, int) {
      return rank == culprit ? std::optional<std::uint64_t>(32 * 5 + 22) : std::nullopt;
    });
    for (const CorruptedRun& run : runs) {
      REQUIRE(!run.found.empty());
      CHECK(run.found.front().decided == (ranks > 2));
      if (ranks > 2) CHECK(run.found.front().rank == culprit);
      CHECK(run.found.front().step == 1);
    }
  }
}

TEST_CASE("without replay a gradient that is computed wrongly stays in the weights") {
  using namespace corruption_cases;
  Layout one;
  one.dims.dp_replicate = 2;
  const auto undisturbed = train(one.dims, one.setup, one.dtype, {});
  one.setup.check_contributions = true;
  const auto spoilt = train(one.dims, one.setup, one.dtype, {}, [](int rank, int computation) {
    return rank == 1 && computation == 1 ? std::optional<std::uint64_t>(32 * 5 + 22) : std::nullopt;
  });
  CHECK(spoilt.front().found.empty());
  CHECK(spoilt.front().weights != undisturbed.front().weights);
}
