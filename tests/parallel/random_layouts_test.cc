// Layouts, schedules and practices drawn together by a seed, each against the curve of one rank. The usual seed is
// always the same, so that a change that breaks nothing stays green; LONGHAUL_SEED=new draws another
// (parallel_random_soak, of the slow tests, does), a number repeats one that was printed, LONGHAUL_DRAWS asks for more
// of them.
#include <doctest/doctest.h>

#include <cstdlib>
#include <random>

#include "base/text/text.h"
#include "contracts/plan/layout_check.h"
#include "tests/parallel/expert_curves.h"
#include "tests/parallel/thorough.h"
#include "tests/support/seed.h"

using namespace longhaul;
using namespace longhaul::test;

namespace {

#if defined(__SANITIZE_THREAD__)
constexpr int draw_ranks_max = 4;
constexpr std::uint64_t draws_usual = 8;
#else
constexpr int draw_ranks_max = 16;
constexpr std::uint64_t draws_usual = 24;
#endif

constexpr std::uint64_t seed_usual = 3621381463;  // among its first: a rank whose experts get no token

struct Drawn {
  ParallelDims dims;
  SetupOptions what;
  DType dtype = DType::f32;
  std::string text;
};

class Draw {
 public:
  explicit Draw(std::uint64_t seed) : random_(seed) {}

  // One that the product takes.
  Drawn next() {
    for (;;) {
      Drawn drawn = any();
      if (takes(drawn)) {
        describe(drawn);
        return drawn;
      }
    }
  }

 private:
  template <class T>
  T one_of(std::initializer_list<T> values) {
    return values.begin()[std::uniform_int_distribution<std::size_t>(0, values.size() - 1)(random_)];
  }

  Drawn any() {
    Drawn d;
    d.dims.tp = one_of({1, 1, 2, 4}), d.dims.sp = d.dims.tp > 1 && one_of({true, false});
    d.dims.cp = one_of({1, 1, 2, 4}), d.dims.pp = one_of({1, 1, 2, 4}), d.dims.vp = d.dims.pp > 1 ? one_of({1, 2}) : 1;
    d.dims.dp_replicate = one_of({1, 1, 2}), d.dims.dp_shard = one_of({1, 2, 4});
    d.dims.zero = d.dims.dp_shard > 1 ? one_of({1, 2, 3}) : 0;
    const std::string model = one_of({"llama", "gpt2", "experts", "experts"});
    if (model == "experts") {
      const std::vector<ExpertModel> models = expert_models();
      d.what = models[std::uniform_int_distribution<std::size_t>(0, models.size() - 1)(random_)].what;
      d.dims.ep = one_of({1, 2, 4}), d.dims.etp = one_of({1, 1, 2});
    } else {
      d.what.shape = model == "gpt2" ? training_gpt2_shape() : training_shape(4, one_of({true, false}));
      d.dtype = one_of({DType::f32, DType::f32, DType::bf16});
    }
    d.what.shape.num_hidden_layers = 4;
    d.what.pipeline.schedule = d.dims.pp == 1 ? "auto" : one_of({"auto", "1f1b", "zb-h1"});
    d.what.overlap = one_of({true, true, false});
    d.what.context_attention =
        one_of({ContextAttentionKind::ring, ContextAttentionKind::gather, ContextAttentionKind::a2a});
    d.what.packed = one_of({true, false});
    d.what.dropout = one_of({0.0, 0.0, 0.1});
    modules_ = one_of<std::vector<std::string>>(
        {{}, {}, {"norms"}, {"attention"}, {"activation"}, {"feed_forward"}, {"norms", "attention"}, {"block"}});
    d.what.recompute = recompute_from({modules_, 0}).value();
    if (one_of({true, false, false})) d.what.rampup = {8, 8, 40};
    return d;
  }

  static const char* kind_of(ContextAttentionKind kind) {
    return kind == ContextAttentionKind::ring ? "ring" : kind == ContextAttentionKind::gather ? "gather" : "a2a";
  }

  static bool takes(const Drawn& d) {
    const ModelShape& shape = d.what.shape;
    if (d.dims.world_size() > draw_ranks_max || d.dims.world_size() < 2) return false;
    if (!layout_problems({shape, d.dims, 2, 16, kind_of(d.what.context_attention)}).empty()) return false;
    if (shape.is_moe() && !check_moe_settings(d.what.moe, shape, d.dims).ok()) return false;
    // Tokens that begin a document are the same wherever they stand: which of them an expert drops is a matter of luck.
    if (d.what.packed && d.what.moe.capacity_factor > 0 && d.what.moe.drop_policy == "probability") return false;
    if (!resolve_stages(static_cast<int>(shape.num_hidden_layers), d.dims.pp, d.dims.vp, {}).ok()) return false;
    for (std::int64_t batch = d.what.rampup.start > 0 ? d.what.rampup.start : 16; batch <= 16;
         batch += std::max<std::int64_t>(1, d.what.rampup.increment))
      if (!check_batch_sizes(2, batch, d.dims.dp()).ok() ||
          !schedule_settings(d.what.pipeline, d.dims, batch / 2 / d.dims.dp()).ok())
        return false;
    return true;
  }

  void describe(Drawn& d) const {
    const ModelShape& shape = d.what.shape;
    d.text = format("{}{}{}, {}{}{}{}{}{}{}{}", d.dims.to_string(), d.dims.pp > 1 ? " " : "",
                    d.dims.pp > 1 ? d.what.pipeline.schedule : "", shape.architecture,
                    shape.is_moe() ? format(" ({}, capacity {})", d.what.moe.balance, d.what.moe.capacity_factor) : "",
                    d.dtype == DType::bf16 ? ", bf16" : "",
                    d.dims.cp > 1 ? std::string(", ") + kind_of(d.what.context_attention) : "",
                    d.what.packed ? ", documents" : "", d.what.dropout > 0 ? ", dropout" : "",
                    modules_.empty() ? "" : ", again: " + join(modules_, " "),
                    std::string(d.what.rampup.start > 0 ? ", batch grows" : "") + (d.what.overlap ? "" : ", in turn"));
  }

  std::mt19937_64 random_;
  std::vector<std::string> modules_;
};

}  // namespace

TEST_CASE("layouts drawn by a seed follow the curve of one rank") {
  const std::uint64_t seed = testing::seed(seed_usual);
  const char* asked = std::getenv("LONGHAUL_DRAWS");
  const std::uint64_t draws = asked ? std::strtoull(asked, nullptr, 10) : draws_usual;
  CAPTURE(seed);
  Draw draw(seed);
  double worst = 0;
  int parted = 0;
  for (std::uint64_t i = 0; i < draws; ++i) {
    const Drawn drawn = draw.next();
    CAPTURE(drawn.text);
    const bool f32 = drawn.dtype == DType::f32, experts = drawn.what.shape.is_moe();
    ExpertCurve one;
    SetupOptions alone = drawn.what;
    alone.pipeline = {}, alone.overlap = true, alone.recompute = {};
    if (experts)
      one = curve_of_one_rank(alone, curve_steps, drawn.dtype);
    else
      one.run = train_one_rank(curve_steps, drawn.dtype, alone), one.gaps.assign(curve_steps, HUGE_VAL);
    REQUIRE(one.run.losses.size() == curve_steps);
    const std::vector<RankRun> runs = train_on_threads(drawn.dims, curve_steps, drawn.dtype, {}, drawn.what);
    for (const RankRun& run : runs) {
      REQUIRE_MESSAGE(run.status.ok(), (run.status.ok() ? "" : run.status.error().message()));
      CHECK(run.losses == runs[0].losses);
      CHECK(run.norms == runs[0].norms);
    }
    const Followed f = followed(one, runs[0], 1e-5);
    if (f.steps < curve_steps) {
      ++parted;
      MESSAGE(drawn.text << ": another expert is chosen in step " << f.steps + 1 << " or the one before");
      CHECK(f.worst <= 1e-5);
      CHECK(worst_relative(one.run.losses, runs[0].losses) <= 2e-2);
      continue;
    }
    CHECK(f.worst <= (f32 ? 1e-5 : 2e-2));
    CHECK(worst_relative(one.run.norms, runs[0].norms) <= (f32 ? 1e-4 : 2e-1));
    CHECK(worst_relative({one.run.heldout_loss}, {runs[0].heldout_loss}) <= (f32 ? 1e-5 : 2e-2));
    if (f32) worst = std::max(worst, f.worst);
  }
  MESSAGE("seed " << seed << ": " << draws << " layouts, " << parted << " parted at a close choice; worst f32 loss "
                  << worst);
  // Of the usual seed none does; a rounding of another processor may part one.
  CHECK(parted <= (seed == seed_usual && draws == draws_usual ? 1 : static_cast<int>(draws) / 4));
}
