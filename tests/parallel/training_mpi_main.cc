// mpirun -np 2 parallel_training_mpi: the ranks must follow the curve of one rank (computed here by each as well). The
// first rank reports; any difference on any rank is exit code 1.
#include <cstdio>

#include "engine/comm/mpi_communicator.h"
#include "tests/parallel/training_on_ranks.h"

using namespace longhaul;

int main(int argc, char** argv) {
  const SystemClock clock;
  auto runtime = MpiRuntime::start(&argc, &argv);
  if (!runtime.ok()) {
    std::fprintf(stderr, "%s\n", runtime.error().message().c_str());
    return 1;
  }
  CommOptions options;
  options.clock = &clock;
  bool good = false;
  {
    auto world = (*runtime)->world(1, options);
    if (!world.ok()) return 1;
    CollectiveGroup group(**world);
    const test::RankRun one = test::train_rank(CollectiveGroup(), 20, DType::f32);
    const test::RankRun run = test::train_rank(group, 20, DType::f32);
    const double worst = test::worst_relative(one.losses, run.losses);
    good = run.status.ok() && worst <= 1e-5 && run.losses == one.losses && run.weights == one.weights;
    // A planted error: the last rank alone reads other data. The comparison must see it, on every rank.
    const test::RankRun spoilt = test::train_rank(group, 20, DType::f32, [&](test::TrainingSetup& setup, int step) {
      if (group.rank() + 1 == group.size() && step == 3) setup.trainer.progress().consumed_samples += 1;
    });
    const double spoilt_worst = test::worst_relative(one.losses, spoilt.losses);
    good = good && spoilt_worst > 1e-5;
    const Status all = group.agree(good ? Status() : Status(make_error(ErrorCode::internal, "the curves differ")));
    good = all.ok();
    if (group.is_first())
      std::printf("%d MPI ranks over 20 steps: worst relative difference %.3g, with a planted error %.3g: %s\n",
                  group.size(), worst, spoilt_worst, good ? "passed" : "FAILED");
  }
  return good ? 0 : 1;
}
