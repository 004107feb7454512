// mpirun -np 2 parallel_training_mpi: the ranks must follow the curve of one rank (computed here by each as well). The
// first rank reports; any difference on any rank is exit code 1.
#include <algorithm>
#include <cstdio>

#include "contracts/plan/units_at_once.h"
#include "engine/comm/mpi_communicator.h"
#include "tests/parallel/training_on_ranks.h"

using namespace longhaul;

namespace {

struct Layout {
  ParallelDims dims;
  test::SetupOptions options;
};

// Every way to map these ranks to pp, tp and dp, the data-parallel one first; and every schedule.
std::vector<Layout> layouts_of(int ranks) {
  std::vector<Layout> layouts;
  for (const int pp : {1, 2})
    for (const int tp : {1, 2})
      for (const bool sp : {false, true}) {
        if (ranks % (tp * pp) != 0 || (sp && tp == 1)) continue;
        ParallelDims dims;
        dims.pp = pp, dims.tp = tp, dims.sp = sp, dims.dp_replicate = ranks / tp / pp;
        layouts.push_back({dims, {}});
        if (dims.dp_replicate == 1) continue;
        dims.dp_shard = dims.dp_replicate, dims.dp_replicate = 1;
        for (dims.zero = 1; dims.zero <= 3; ++dims.zero) layouts.push_back({dims, {}});
      }
  for (const auto& [schedule, vp] : {std::pair{"zb-h1", 1}, std::pair{"interleaved", 2}}) {
    Layout layout;
    layout.dims.pp = 2, layout.dims.vp = vp, layout.dims.dp_replicate = ranks / 2;
    layout.options.shape = test::training_shape(4), layout.options.pipeline.schedule = schedule;
    layouts.push_back(layout);
  }
  return layouts;
}

// Sequences split over two ranks in all three ways, with documents in them. The worst difference of a loss from one
// rank's; 1 where a run failed.
double context_difference(Communicator& world) {
  double worst = 0;
  for (const ContextAttentionKind kind :
       {ContextAttentionKind::ring, ContextAttentionKind::gather, ContextAttentionKind::a2a}) {
    test::SetupOptions setup;
    setup.context_attention = kind, setup.packed = true;
    const test::RankRun one = test::train_one_rank(20, DType::f32, setup);
    ParallelDims dims;
    dims.cp = 2, dims.dp_replicate = world.size() / 2;
    const auto mesh = Mesh::create(dims, world);
    if (!mesh.ok()) return 1;
    const test::RankRun run = test::train_rank(**mesh, 20, DType::f32, {}, setup);
    worst = std::max(worst, run.status.ok() ? test::worst_relative(one.losses, run.losses) : 1.0);
  }
  return worst;
}

// Of a training of replicas: the most that messages took, over what the sums of `sums_at_once` neighbouring units take.
// Above 1 more of them were under way.
double messages_over_planned(MpiRuntime& runtime, CommOptions options) {
  MemoryAccount messages;
  options.memory = &messages;
  const auto world = runtime.world(2, options);
  if (!world.ok()) return 2;
  const test::SetupOptions deep = test::training_shape(6);
  const auto mesh = Mesh::create(test::data_parallel((*world)->size()), **world);
  if (!mesh.ok() || !test::train_rank(**mesh, 20, DType::f32, {}, deep).status.ok()) return 2;
  const ParameterLayout layout(deep.shape);
  std::int64_t elements = 0;
  for (std::size_t i = sums_at_once; i <= layout.units().size(); ++i) {
    std::int64_t here = 0;
    for (std::size_t k = i - sums_at_once; k < i; ++k) here += layout.units()[k].flat.size();
    elements = std::max(elements, here);
  }
  const double planned = 2.0 * sizeof(float) * static_cast<double>(elements);  // what goes out and what comes in
  return static_cast<double>(messages.bytes_peak) / planned;
}

}  // namespace

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
    const test::RankRun flat = test::train_one_rank(20, DType::f32);
    test::SetupOptions experts(test::training_mixtral_shape());
    experts.adam_eps = 1e-6;  // AdamW makes no whole step of a rounding, which may choose another expert
    const test::RankRun mixed = test::train_one_rank(20, DType::f32, experts);
    const test::RankRun deep = test::train_one_rank(20, DType::f32, test::training_shape(4));
    double worst = 0, spoilt_worst = 0;
    good = true;
    auto layouts = layouts_of((*world)->size());
    const auto with_experts = [&](int tp, int ep, int shard, int zero) {
      ParallelDims dims;
      dims.tp = tp, dims.sp = tp > 1, dims.ep = ep, dims.dp_shard = shard, dims.zero = zero;
      dims.dp_replicate = (*world)->size() / tp / shard;
      layouts.emplace_back(dims, experts);
    };
    with_experts(1, (*world)->size(), 1, 0), with_experts(2, 2, 1, 0), with_experts(1, 2, (*world)->size(), 1);
    for (const auto& [dims, setup_options] : layouts) {
      const test::RankRun& one = setup_options.shape.is_moe()                 ? mixed
                                 : setup_options.shape.num_hidden_layers == 4 ? deep
                                                                              : flat;
      const auto mesh = Mesh::create(dims, **world);
      if (!mesh.ok()) return 1;
      const test::RankRun run = test::train_rank(**mesh, 20, DType::f32, {}, setup_options);
      const double difference = test::worst_relative(one.losses, run.losses);
      worst = std::max(worst, difference);
      good = good && run.status.ok() && difference <= 1e-5;
      if (dims.tp * dims.pp == 1 && dims.zero == 0)
        good = good && run.losses == one.losses && run.weights == one.weights;
      // A planted error: the last rank alone reads other data. The comparison must see it, on every rank.
      const auto spoil = [&](test::TrainingSetup& setup, int step) {
        if ((*world)->rank() + 1 == (*world)->size() && step == 3) setup.trainer.progress().consumed_samples += 1;
      };
      const test::RankRun spoilt = test::train_rank(**mesh, 20, DType::f32, spoil, setup_options);
      spoilt_worst = test::worst_relative(one.losses, spoilt.losses);
      good = good && spoilt_worst > 1e-5;
    }
    const double context = context_difference(**world);
    worst = std::max(worst, context);
    good = good && context <= 1e-5;
    const double messages = messages_over_planned(**runtime, options);
    good = good && messages > 0.4 && messages < 1.05;  // beside the sums ranks agree that all goes well
    CollectiveGroup group(**world);
    const Status all = group.agree(good ? Status() : Status(make_error(ErrorCode::internal, "the curves differ")));
    good = all.ok();
    if (group.is_first())
      std::printf(
          "%d MPI ranks over 20 steps: worst relative difference %.3g, with a planted error %.3g; messages %.2f of "
          "what is planned: %s\n",
          group.size(), worst, spoilt_worst, messages, good ? "passed" : "FAILED");
  }
  return good ? 0 : 1;
}
