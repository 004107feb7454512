// One loss curve for every way to distribute experts over ranks.
#include <doctest/doctest.h>
#include <unistd.h>

#include "base/files/files.h"
#include "base/text/text.h"
#include "engine/checkpoint/global/checkpoint_store.h"
#include "tests/parallel/expert_curves.h"
#include "tests/parallel/thorough.h"

using namespace longhaul;
using namespace longhaul::test;

namespace {

const int expert_half_way = (curve_steps + 1) / 2;
constexpr int expert_ranks_max = thorough ? 16 : 4;

ParallelDims expert_layout(int tp, bool sp, int ep, int etp, int pp, int dp, int shard = 1) {
  ParallelDims d;
  d.tp = tp, d.sp = sp, d.ep = ep, d.etp = etp, d.pp = pp;
  d.dp_replicate = dp / shard, d.dp_shard = shard, d.zero = shard > 1;
  return d;
}

std::vector<ParallelDims> expert_layouts() {
  std::vector<ParallelDims> all = {
      // ep over replicas, with one copy of the experts or several
      expert_layout(1, false, 2, 1, 1, 2), expert_layout(1, false, 4, 1, 1, 4), expert_layout(1, false, 2, 1, 1, 4),
      expert_layout(1, false, 1, 2, 1, 2), expert_layout(1, false, 2, 2, 1, 4),
      // the ranks of tp as copies, with parts of their own, and beyond them
      expert_layout(2, true, 1, 1, 1, 1), expert_layout(2, false, 1, 1, 1, 2), expert_layout(2, true, 2, 1, 1, 1),
      expert_layout(2, false, 2, 1, 1, 2), expert_layout(2, true, 1, 2, 1, 2), expert_layout(2, true, 4, 1, 1, 2),
      expert_layout(2, false, 2, 2, 1, 4), expert_layout(4, true, 2, 1, 1, 1),
      // stages
      expert_layout(1, false, 1, 1, 2, 1), expert_layout(1, false, 2, 1, 2, 2), expert_layout(2, true, 4, 1, 2, 4),
      // ZeRO-1
      expert_layout(1, false, 1, 1, 1, 2, 2), expert_layout(1, false, 2, 1, 1, 4, 4),
      expert_layout(1, false, 4, 1, 1, 4, 2), expert_layout(2, true, 2, 1, 1, 4, 2),
      expert_layout(1, false, 2, 1, 2, 4, 2)};
  // Context parallelism: chunks of a micro-batch's tokens on several ranks
  for (ParallelDims d : {expert_layout(1, false, 1, 1, 1, 1), expert_layout(1, false, 2, 1, 1, 1),
                         expert_layout(1, false, 4, 1, 1, 2), expert_layout(2, true, 2, 2, 1, 1),
                         expert_layout(1, false, 2, 1, 1, 2, 2), expert_layout(1, false, 2, 1, 2, 1)}) {
    d.cp = 2;
    all.push_back(d);
  }
  // ZeRO-2 and 3
  for (const int zero : {2, 3})
    for (ParallelDims d : {expert_layout(1, false, 1, 1, 1, 2, 2), expert_layout(1, false, 2, 1, 1, 4, 4),
                           expert_layout(1, false, 4, 1, 1, 4, 2), expert_layout(2, true, 2, 1, 1, 2, 2)}) {
      d.zero = zero;
      all.push_back(d);
    }
  int nth = 0;
  std::erase_if(
      all, [&](const ParallelDims& d) { return d.world_size() > expert_ranks_max || (!thorough && nth++ % 3 != 0); });
  return all;
}

bool fits(const SetupOptions& what, const ParallelDims& dims) {
  return check_moe_settings(what.moe, what.shape, dims).ok() && what.shape.num_key_value_heads % dims.tp == 0;
}

}  // namespace

TEST_CASE("experts: every layout follows the curve of one rank") {
  for (const ExpertModel& model : expert_models()) {
    CAPTURE(std::string(model.name));
    if (!thorough && !model.what.shape.router_bias) continue;  // the one with groups, a bias and a shared expert
    const ExpertCurve one = curve_of_one_rank(model.what, curve_steps, DType::f32);
    REQUIRE(one.run.losses.size() == curve_steps);
    CHECK(one.run.losses.back() < one.run.losses.front());
    double worst = 0;
    int layouts = 0, parted = 0;
    for (const ParallelDims& dims : expert_layouts()) {
      if (!fits(model.what, dims)) continue;
      CAPTURE(dims.to_string());
      ++layouts;
      const std::vector<RankRun> runs = train_on_threads(dims, curve_steps, DType::f32, {}, model.what);
      for (const RankRun& run : runs) {
        REQUIRE_MESSAGE(run.status.ok(), (run.status.ok() ? "" : run.status.error().message()));
        CHECK(run.losses == runs[0].losses);
        CHECK(run.norms == runs[0].norms);
      }
      const Followed f = followed(one, runs[0], 1e-5);
      worst = std::max(worst, f.worst);
      CHECK(f.worst <= 1e-5);
      if (f.steps < curve_steps) {
        ++parted;
        MESSAGE(dims.to_string() << " chooses another expert in step " << f.steps + 1 << " or the one before, where "
                                 << "the closest choice of one rank was between "
                                 << one.gaps[static_cast<std::size_t>(f.steps)] << "; losses differ by "
                                 << worst_relative(one.run.losses, runs[0].losses) << " at most");
        CHECK(worst_relative(one.run.losses, runs[0].losses) <= 1e-3);
        continue;
      }
      CHECK(worst_relative(one.run.norms, runs[0].norms) <= 1e-4);
      if (one.run.balance_losses.front() > 0)
        CHECK(worst_relative(one.run.balance_losses, runs[0].balance_losses) <= 1e-4);
      // Replicas that only bring their experts together add in the same order.
      if (dims.tp * dims.cp * dims.etp * dims.pp == 1 && dims.zero == 0) {
        CHECK(runs[0].losses == one.run.losses);
        CHECK(runs[0].weights == one.run.weights);
      }
    }
    CHECK(parted <= 1);  // none with AVX-512, and a rounding of another processor may part one
    MESSAGE(std::string(model.name) << ": " << layouts << " layouts, worst relative difference of a loss " << worst);
  }
}

namespace {

// From the first step on every token goes to the first top_k experts.
void prefer_first_experts(TrainingSetup& setup) {
  const ModelShape& shape = setup.store.shape();
  std::vector<float> bias(static_cast<std::size_t>(shape.num_local_experts), 0.0F);
  std::fill(bias.begin(), bias.begin() + shape.num_experts_per_tok, 100.0F);
  for (const FlatParameter& p : setup.store.layout().parameters())
    if (p.spec.name.ends_with("e_score_correction_bias")) setup.store.put(setup.context, p, bias);
  setup.store.refresh_compute_copy(setup.context);
}

}  // namespace

TEST_CASE("experts: ranks whose experts get no token at all keep step with the others") {
  SetupOptions what = expert_models()[3].what;
  what.shape.n_group = 1, what.shape.topk_group = 1;
  Mesh alone;
  const auto set_one = [](TrainingSetup& setup, int step) {
    if (step == 0) prefer_first_experts(setup);
  };
  const auto set = [&](int, TrainingSetup& setup, int step) { set_one(setup, step); };
  const RankRun one = train_rank(alone, expert_half_way, DType::f32, set_one, what);
  REQUIRE(one.status.ok());
  ParallelDims context = expert_layout(1, false, 4, 1, 1, 4, 4);
  context.cp = 4;
  for (ParallelDims dims : {expert_layout(1, false, 4, 1, 1, 4, 4), expert_layout(1, false, 4, 1, 1, 4, 2),
                            expert_layout(2, true, 2, 1, 1, 2, 2), expert_layout(1, false, 4, 2, 1, 8, 8), context})
    for (const bool overlap : {true, false})
      for (const std::vector<std::string>& modules : {std::vector<std::string>(), {"feed_forward"}, {"block"}}) {
        if (dims.world_size() > expert_ranks_max) continue;
        dims.zero = 3;
        CAPTURE(dims.to_string());
        SetupOptions here = what;
        here.overlap = overlap, here.recompute = recompute_from({modules, 0}).value();
        for (const RankRun& run : train_on_threads(dims, expert_half_way, DType::f32, set, here)) {
          REQUIRE_MESSAGE(run.status.ok(), (run.status.ok() ? "" : run.status.error().message()));
          CHECK(worst_relative(one.losses, run.losses) <= 1e-5);
          CHECK(worst_relative(one.norms, run.norms) <= 1e-4);
        }
      }
}

TEST_CASE("experts: padding takes no part in Sinkhorn's choice, on whichever rank of a micro-batch it lies") {
  SetupOptions what = expert_models()[4].what;
  what.padded = true;
  const ExpertCurve one = curve_of_one_rank(what, expert_half_way, DType::f32);
  REQUIRE(one.run.losses.size() == expert_half_way);
  SetupOptions whole = what;
  whole.padded = false;
  CHECK(train_one_rank(1, DType::f32, whole).losses[0] != one.run.losses[0]);
  ParallelDims context = expert_layout(1, false, 2, 1, 1, 1);
  context.cp = 2;
  for (const ParallelDims& dims : {expert_layout(2, true, 2, 1, 1, 1), expert_layout(2, false, 2, 1, 1, 1), context,
                                   expert_layout(1, false, 2, 1, 1, 2)}) {
    CAPTURE(dims.to_string());
    for (const RankRun& run : train_on_threads(dims, expert_half_way, DType::f32, {}, what)) {
      REQUIRE_MESSAGE(run.status.ok(), (run.status.ok() ? "" : run.status.error().message()));
      CHECK(followed(one, run, 1e-5).worst <= 1e-5);
    }
  }
}

TEST_CASE("experts in bf16: every layout stays near the curve of one rank") {
  if (!thorough) return;
  const SetupOptions what = mixtral();
  const RankRun one = train_one_rank(curve_steps, DType::bf16, what);
  for (const ParallelDims& dims : expert_layouts()) {
    if (!fits(what, dims)) continue;
    CAPTURE(dims.to_string());
    const RankRun run = train_on_threads(dims, curve_steps, DType::bf16, {}, what)[0];
    REQUIRE(run.status.ok());
    CHECK(worst_relative(one.losses, run.losses) <= 2e-2);
  }
}

TEST_CASE("experts: how micro-batches are distributed changes no bit, whatever the matrices are split into") {
  const SetupOptions what = expert_models()[3].what;  // with the bias and the shared expert
  for (const int pp : {1, 2})
    for (const bool sp : {false, true}) {
      const std::vector<RankRun> one =
          train_on_threads(expert_layout(2, sp, 2, 1, pp, 1), bit_steps, DType::f32, {}, what);
      for (const int ep : {2, 4}) {
        const ParallelDims dims = expert_layout(2, sp, ep, 1, pp, 2);
        CAPTURE(dims.to_string());
        if (dims.world_size() > expert_ranks_max) continue;
        for (const RankRun& run : train_on_threads(dims, bit_steps, DType::f32, {}, what)) {
          REQUIRE(run.status.ok());
          CHECK(run.losses == one[0].losses);
          CHECK(run.weights == one[0].weights);
        }
      }
    }
}

namespace {

// Layouts in which rows go to experts on other ranks, with parts of experts and without, over replicas, tp and cp.
std::vector<ParallelDims> travelling_layouts() {
  std::vector<ParallelDims> all = {expert_layout(1, false, 2, 1, 1, 2), expert_layout(1, false, 2, 2, 1, 4),
                                   expert_layout(2, true, 4, 1, 1, 2), expert_layout(2, false, 2, 1, 1, 1),
                                   expert_layout(1, false, 2, 1, 2, 2)};
  ParallelDims context = expert_layout(1, false, 2, 1, 1, 1);
  context.cp = 2;
  all.push_back(context);
  std::erase_if(all, [](const ParallelDims& d) { return d.world_size() > expert_ranks_max; });
  return all;
}

}  // namespace

TEST_CASE("experts: rows that travel beside computation change no bit") {
  for (const std::size_t model : {std::size_t{0}, std::size_t{3}})
    for (const DType dtype : {DType::f32, DType::bf16})
      for (const char* schedule : {"auto", "zb-h1"})
        for (const ParallelDims& dims : travelling_layouts()) {
          SetupOptions beside = expert_models()[model].what;
          if (!fits(beside, dims) || (dims.pp == 1 && schedule[0] == 'z')) continue;
          CAPTURE(dims.to_string());
          beside.pipeline.schedule = schedule;
          SetupOptions after = beside;
          after.overlap = false;
          const std::vector<RankRun> now = train_on_threads(dims, bit_steps, dtype, {}, beside);
          const std::vector<RankRun> then = train_on_threads(dims, bit_steps, dtype, {}, after);
          REQUIRE(now[0].status.ok());
          CHECK(now[0].losses == then[0].losses);
          CHECK(now[0].balance_losses == then[0].balance_losses);
          CHECK(now[0].weights == then[0].weights);
        }
}

TEST_CASE("experts: what is computed again instead of kept changes no bit") {
  std::vector<ParallelDims> layouts = travelling_layouts();
  layouts.push_back(expert_layout(1, false, 1, 1, 1, 1));
  for (const ExpertModel& model : expert_models())
    for (const char* schedule : {"auto", "zb-h1"})
      for (const ParallelDims& dims : layouts) {
        SetupOptions kept = model.what;
        if (!fits(kept, dims) || (dims.pp == 1 && schedule[0] == 'z')) continue;
        kept.pipeline.schedule = schedule, kept.dropout = 0.1;
        CAPTURE(std::string(model.name));
        CAPTURE(dims.to_string());
        const std::vector<RankRun> whole = train_on_threads(dims, bit_steps, DType::f32, {}, kept);
        REQUIRE(whole[0].status.ok());
        for (const std::vector<std::string>& modules : std::vector<std::vector<std::string>>{
                 {"activation"}, {"feed_forward", "norms"}, {"attention", "feed_forward"}, {"block"}})
          for (const std::int64_t layers : {0, 1}) {
            if (layers == 1 && modules[0] != "block") continue;
            CAPTURE(join(modules, " "));
            CAPTURE(layers);
            SetupOptions again = kept;
            again.recompute = recompute_from({modules, layers}).value();
            const std::vector<RankRun> run = train_on_threads(dims, bit_steps, DType::f32, {}, again);
            REQUIRE(run[0].status.ok());
            CHECK(run[0].losses == whole[0].losses);
            CHECK(run[0].norms == whole[0].norms);
            CHECK(run[0].balance_losses == whole[0].balance_losses);
            CHECK(run[0].weights == whole[0].weights);
          }
      }
}

TEST_CASE("experts: a token that comes back wrong turns the comparison red") {
  const SetupOptions what = mixtral();
  const RankRun one = train_one_rank(curve_steps, DType::f32, what);
  const ParallelDims dims = expert_layout(1, false, 2, 1, 1, 2);
  // An expert of one rank is not what the tokens' rank thinks it is.
  const auto spoil = [](int rank, TrainingSetup& setup, int step) {
    if (rank != 1 || step != 1) return;
    const FlatParameter& p = setup.store.layout().find("model.layers.0.block_sparse_moe.experts.5.w2.weight");
    for (std::int64_t i = p.begin; i < p.end; ++i) setup.store.masters()[static_cast<std::size_t>(i)] *= -1;
  };
  CHECK(worst_relative(one.losses, train_on_threads(dims, curve_steps, DType::f32, spoil, what)[0].losses) > 1e-5);
}

TEST_CASE("experts: one rank that fails ends all that wait for its tokens at once, with its message") {
  const SetupOptions what = mixtral();
  const auto fail = [](int rank, TrainingSetup& setup, int step) { setup.source.unreadable = rank == 1 && step == 2; };
  for (const RankRun& run :
       train_on_threads(expert_layout(1, false, 2, 1, 1, 2), curve_steps, DType::f32, fail, what)) {
    REQUIRE_FALSE(run.status.ok());
    CHECK(run.status.error().message().find("cannot be read") != std::string::npos);
    CHECK(run.losses.size() == 2);
  }
}

TEST_CASE("experts: held-out losses are the same in every layout, also where replicas have unlike many micro-batches") {
  const SetupOptions what = mixtral(1.0);
  const auto judged = [&](Mesh& mesh) {
    TrainingSetup setup(16, curve_steps, 2, &mesh, DType::f32, 32, what);
    MadeUpSource heldout(16, 37, 11);
    const auto sums = setup.trainer.evaluate(heldout, 11);
    return sums.ok() ? sums->loss / sums->count : -1.0;
  };
  Mesh alone;
  const double one = judged(alone);
  for (const ParallelDims& dims : {expert_layout(1, false, 2, 1, 1, 4), expert_layout(2, true, 4, 1, 1, 2)}) {
    CAPTURE(dims.to_string());
    std::atomic<int> good{0};
    on_threads(dims, [&](int, Mesh& mesh) { good += std::abs(judged(mesh) - one) <= 1e-6 * one; });
    CHECK(good == dims.world_size());
  }
}

TEST_CASE("experts: what one layout saves another goes on with") {
  char name[] = "/tmp/longhaul-experts-XXXXXX";
  const std::string folder = ::mkdtemp(name);
  const SystemClock clock;
  const SetupOptions what = expert_models()[3].what;
  const RankRun whole = train_one_rank(curve_steps, DType::f32, what);
  for (const ParallelDims& written : {expert_layout(1, false, 4, 1, 1, 4), expert_layout(2, true, 2, 2, 1, 2),
                                      expert_layout(1, false, 2, 1, 2, 4, 4), expert_layout(1, false, 2, 1, 1, 4, 2)}) {
    CAPTURE(written.to_string());
    std::atomic<int> saved{0};
    on_threads(written, [&](int, Mesh& mesh) {
      TrainingSetup setup(16, curve_steps, 2, &mesh, DType::f32, 32, what);
      for (int i = 0; i < expert_half_way; ++i)
        if (!setup.trainer.step().ok()) return;
      saved += CheckpointStore(clock, folder, 1).save(mesh.world(), state_of(setup)).ok();
    });
    CHECK(saved == written.world_size());
    for (const ParallelDims& read :
         {expert_layout(1, false, 1, 1, 1, 1), expert_layout(1, false, 2, 1, 1, 2), expert_layout(2, false, 1, 2, 1, 1),
          expert_layout(1, false, 4, 1, 1, 4, 4), expert_layout(2, true, 4, 1, 2, 2)}) {
      if (read.world_size() > expert_ranks_max) continue;
      CAPTURE(read.to_string());
      std::atomic<int> good{0};
      on_threads(read, [&](int, Mesh& mesh) {
        TrainingSetup setup(16, curve_steps, 2, &mesh, DType::f32, 32, what);
        TrainingState state = state_of(setup);
        const auto loaded = CheckpointStore(clock, folder, 1).load_newest(mesh.world(), state);
        if (!loaded.ok() || !loaded->has_value()) return;
        setup.trainer.progress() = state.progress;
        setup.store.refresh_compute_copy(setup.context);
        std::vector<double> losses(whole.losses.begin(), whole.losses.begin() + expert_half_way);
        for (int i = expert_half_way; i < curve_steps; ++i) losses.push_back(setup.trainer.step()->loss);
        good += worst_relative(whole.losses, losses) <= 1e-5;
      });
      CHECK(good == read.world_size());
    }
    CHECK(remove_tree(folder).ok());
  }
}
