// Context parallelism: sequences distributed over ranks in three ways, beside every other axis, against one rank.
#include <doctest/doctest.h>
#include <unistd.h>

#include "base/files/files.h"
#include "base/text/text.h"
#include "engine/checkpoint/global/checkpoint_store.h"
#include "engine/model/store/parameter_store.h"
#include "tests/parallel/thorough.h"
#include "tests/parallel/training_on_ranks.h"

using namespace longhaul;
using namespace longhaul::test;

namespace {

constexpr int context_ranks_max = thorough ? 16 : 4;
const int context_half_way = (curve_steps + 1) / 2;

constexpr ContextAttentionKind kinds[] = {ContextAttentionKind::ring, ContextAttentionKind::gather,
                                          ContextAttentionKind::a2a};
const char* name_of(ContextAttentionKind kind) {
  return kind == ContextAttentionKind::ring ? "ring" : kind == ContextAttentionKind::gather ? "gather" : "a2a";
}

// As many kv heads as tp * cp asks for when heads are exchanged.
SetupOptions setup_of(ContextAttentionKind kind, bool packed) {
  SetupOptions setup;
  setup.shape.num_attention_heads = 8, setup.shape.num_key_value_heads = 4, setup.shape.head_dim = 4;
  setup.context_attention = kind, setup.packed = packed;
  return setup;
}

ParallelDims layout(int cp, int tp = 1, bool sp = false, int pp = 1, int dp = 1, int shard = 1, int zero = 1) {
  ParallelDims dims;
  dims.cp = cp, dims.tp = tp, dims.sp = sp, dims.pp = pp, dims.dp_replicate = dp, dims.dp_shard = shard;
  dims.zero = shard > 1 ? zero : 0;
  return dims;
}

std::vector<ParallelDims> context_layouts() {
  std::vector<ParallelDims> layouts = {layout(2),
                                       layout(4),
                                       layout(2, 2),
                                       layout(2, 2, true),
                                       layout(2, 1, false, 2),
                                       layout(4, 1, false, 2),
                                       layout(2, 1, false, 1, 2),
                                       layout(2, 1, false, 1, 1, 2),
                                       layout(2, 1, false, 1, 1, 2, 2),
                                       layout(2, 1, false, 1, 1, 2, 3),
                                       layout(2, 2, true, 2),
                                       layout(2, 2, true, 1, 2, 2),
                                       layout(2, 2, true, 2, 1, 2, 3),
                                       layout(4, 1, false, 1, 2, 2)};
  std::erase_if(layouts, [](const ParallelDims& dims) { return dims.world_size() > context_ranks_max; });
  return layouts;
}

// What only some of these can do.
bool has_heads(const ParallelDims& dims, ContextAttentionKind kind) {
  return kind != ContextAttentionKind::a2a || 4 % (dims.tp * dims.cp) == 0;
}

// Passes everything on; of the messages in a cp group the third has the wrong sign.
class SpoilingCommunicator final : public Communicator {
 public:
  SpoilingCommunicator(std::unique_ptr<Communicator> inner, bool spoils)
      : Communicator(inner->rank(), inner->members(), inner->epoch(), inner->name(), inner->options()),
        inner_(std::move(inner)),
        spoils_(spoils) {}
  std::unique_ptr<Communicator> subgroup(int axis, const std::string& name, std::span<const int> ranks) override {
    return std::make_unique<SpoilingCommunicator>(inner_->subgroup(axis, name, ranks), spoils_);
  }

 protected:
  Result<std::unique_ptr<CommOperation>> start(const Arguments& a) override {
    return std::unique_ptr<CommOperation>(new Operation{*inner_, request_of(a)});
  }

 private:
  struct Operation final : CommOperation {
    Operation(Communicator& inner, Request request) : inner_(inner), request_(std::move(request)) {}
    Result<bool> poll() override { return inner_.test(request_); }
    std::vector<int> waiting_for() override { return {}; }
    void abandon(const std::string&) override { request_ = {}; }
    Communicator& inner_;
    Request request_;
  };
  static std::span<float> floats(Bytes bytes) {
    return {reinterpret_cast<float*>(bytes.data()), bytes.size() / sizeof(float)};
  }
  Request request_of(const Arguments& a) {
    switch (a.kind) {
      case CollectiveKind::all_reduce_sum: return inner_->all_reduce_sum(floats(a.out));
      case CollectiveKind::all_gather: return inner_->all_gather(a.in, a.out);
      case CollectiveKind::barrier: return inner_->barrier();
      case CollectiveKind::recv: return inner_->recv(a.out, a.peer, a.tag);
      case CollectiveKind::send: return inner_->send(message(a.in), a.peer, a.tag);
      default: break;
    }
    LH_ASSERT(false, to_string(a.kind));
    return {};
  }
  ConstBytes message(ConstBytes in) {
    if (!spoils_ || name() != "cp" || ++sent_ != 3) return in;
    spoilt_.assign(in.begin(), in.end());
    for (float& x : floats(spoilt_)) x = -x;
    return spoilt_;
  }

  std::unique_ptr<Communicator> inner_;
  bool spoils_;
  int sent_ = 0;
  std::vector<std::byte> spoilt_;
};

}  // namespace

TEST_CASE("initial weights are the same bits on every rank of a cp group, whatever stands beside it") {
  const ComputeContext context(1);
  ParameterStore whole(training_shape(), DType::f32);
  initialize_parameters(context, whole, 5);
  for (const ParallelDims& dims : {layout(4), layout(2, 2, true)}) {
    std::atomic<int> equal{0};
    on_threads(dims, [&](int, Mesh& mesh) {
      const ComputeContext own(1);
      ParameterStore store(training_shape(), DType::f32, nullptr, {mesh.dims(), mesh.at()});
      initialize_parameters(own, store, 5);
      std::vector<float> all(whole.masters().size());
      (void)gather_masters(mesh, training_shape(), store.layout(), store.masters(), whole.layout(), all).ok();
      equal += std::equal(all.begin(), all.end(), whole.masters().begin());
    });
    CHECK(equal == dims.world_size());
  }
}

TEST_CASE("ring, gather and a2a follow the curve of one rank beside every other axis, packed or not") {
  for (const DType dtype : {DType::f32, DType::bf16})
    for (const bool packed : {true, false})
      for (const ContextAttentionKind kind : kinds) {
        if (!thorough && (!packed || dtype != DType::f32)) continue;
        const SetupOptions chosen = setup_of(kind, packed);
        const RankRun one = train_one_rank(curve_steps, dtype, chosen);
        REQUIRE(one.losses.size() == curve_steps);
        const double bar = dtype == DType::f32 ? 1e-5 : 2e-2;
        // The ring in every layout, in f32 with documents; otherwise those that differ most.
        const bool all = dtype == DType::f32 && packed && kind == ContextAttentionKind::ring;
        const std::vector<ParallelDims> some = {layout(4), layout(2, 2, true), layout(2, 1, false, 2, 1, 2, 3)};
        for (const ParallelDims& dims : all ? context_layouts() : some) {
          if (dims.world_size() > context_ranks_max) continue;
          if (!has_heads(dims, kind)) continue;
          INFO(name_of(kind), " ", dims.to_string(), packed ? " packed" : "", " ", dtype_name(dtype));
          for (const RankRun& run : train_on_threads(dims, curve_steps, dtype, {}, chosen)) {
            REQUIRE_MESSAGE(run.status.ok(), (run.status.ok() ? "" : run.status.error().message()));
            CHECK(worst_relative(one.losses, run.losses) <= bar);
            CHECK(worst_relative(one.norms, run.norms) <= 10 * bar);
          }
        }
      }
}

TEST_CASE("a model with a sliding window follows the curve of one rank, which is not the one without") {
  for (const ContextAttentionKind kind : kinds) {
    if (!thorough && kind != ContextAttentionKind::ring) continue;  // which sends the parts that a window skips
    SetupOptions chosen = setup_of(kind, true);
    const RankRun without = train_one_rank(curve_steps, DType::f32, chosen);
    chosen.shape.sliding_window = 3;
    const RankRun one = train_one_rank(curve_steps, DType::f32, chosen);
    REQUIRE(one.losses.size() == curve_steps);
    CHECK(one.losses != without.losses);
    for (const ParallelDims& dims : {layout(4), layout(2, 2, true), layout(2, 1, false, 2)}) {
      if (dims.world_size() > context_ranks_max || !has_heads(dims, kind)) continue;
      INFO(name_of(kind), " ", dims.to_string());
      for (const RankRun& run : train_on_threads(dims, curve_steps, DType::f32, {}, chosen)) {
        REQUIRE_MESSAGE(run.status.ok(), (run.status.ok() ? "" : run.status.error().message()));
        CHECK(worst_relative(one.losses, run.losses) <= 1e-5);
      }
    }
  }
}

TEST_CASE("one wrong message of the ring turns the comparison red") {
  const SetupOptions chosen = setup_of(ContextAttentionKind::ring, false);
  const RankRun one = train_one_rank(curve_steps, DType::f32, chosen);
  for (const bool spoils : {false, true}) {
    const SystemClock clock;
    const ThreadsWorld world(2);
    CommOptions options;
    options.clock = &clock;
    std::vector<RankRun> runs(2);
    std::vector<std::thread> threads;
    for (int rank = 0; rank < 2; ++rank)
      threads.emplace_back([&, rank] {
        SpoilingCommunicator communicator(world.communicator(rank, 1, options), spoils && rank == 1);
        const auto mesh = Mesh::create(layout(2), communicator, 20'000);
        if (mesh.ok()) runs[static_cast<std::size_t>(rank)] = train_rank(**mesh, curve_steps, DType::f32, {}, chosen);
      });
    for (std::thread& thread : threads) thread.join();
    for (const RankRun& run : runs) {
      CHECK(run.status.ok());
      CHECK((worst_relative(one.losses, run.losses) > 1e-5) == spoils);
    }
  }
}

TEST_CASE("beside cp, how micro-batches are distributed changes no bit") {
  for (const ContextAttentionKind kind : kinds) {
    const SetupOptions chosen = setup_of(kind, true);
    const std::vector<RankRun> one = train_on_threads(layout(2), context_half_way, DType::f32, {}, chosen);
    for (const int dp : {2, 4}) {
      if (2 * dp > context_ranks_max) continue;
      for (const RankRun& run :
           train_on_threads(layout(2, 1, false, 1, dp), context_half_way, DType::f32, {}, chosen)) {
        CHECK(run.losses == one[0].losses);
        CHECK(run.norms == one[0].norms);
        CHECK(run.weights == one[0].weights);
      }
    }
  }
}

TEST_CASE("GPT-2's learned positions are those of the whole sequence") {
  for (const ContextAttentionKind kind : kinds) {
    if (!thorough && kind != ContextAttentionKind::gather) continue;
    SetupOptions chosen(training_gpt2_shape());
    chosen.context_attention = kind, chosen.packed = true;
    const RankRun one = train_one_rank(curve_steps, DType::f32, chosen);
    for (const ParallelDims& dims : {layout(4), layout(2, 2, true)})
      for (const RankRun& run : train_on_threads(dims, curve_steps, DType::f32, {}, chosen)) {
        REQUIRE_MESSAGE(run.status.ok(), (run.status.ok() ? "" : run.status.error().message()));
        CHECK(worst_relative(one.losses, run.losses) <= 1e-5);
      }
  }
}

TEST_CASE("pipelines of every kind carry the tokens of each cp rank") {
  for (const char* schedule : {"interleaved", "zb-h1"}) {
    CAPTURE(schedule);
    SetupOptions chosen = setup_of(ContextAttentionKind::ring, true);
    chosen.shape.num_hidden_layers = 4, chosen.pipeline.schedule = schedule;
    const RankRun one = train_one_rank(curve_steps, DType::f32, chosen);
    ParallelDims dims = layout(2, 1, false, 2);
    dims.vp = 2;
    for (const RankRun& run : train_on_threads(dims, curve_steps, DType::f32, {}, chosen)) {
      REQUIRE_MESSAGE(run.status.ok(), (run.status.ok() ? "" : run.status.error().message()));
      CHECK(worst_relative(one.losses, run.losses) <= 1e-5);
    }
  }
}

TEST_CASE("sequences that are not distributed evenly are padded, and the curve stays") {
  // 16 tokens over 2 * 3 chunks.
  for (const ContextAttentionKind kind : {ContextAttentionKind::ring, ContextAttentionKind::gather}) {
    const SetupOptions chosen = setup_of(kind, true);
    const RankRun one = train_one_rank(curve_steps, DType::f32, chosen);
    for (const RankRun& run : train_on_threads(layout(3), curve_steps, DType::f32, {}, chosen)) {
      REQUIRE_MESSAGE(run.status.ok(), (run.status.ok() ? "" : run.status.error().message()));
      CHECK(worst_relative(one.losses, run.losses) <= 1e-5);
    }
  }
}

TEST_CASE("one rank of a cp group that fails ends all of them at once, with its message") {
  const auto fail = [](int rank, TrainingSetup& setup, int step) { setup.source.unreadable = rank == 2 && step == 1; };
  for (const ContextAttentionKind kind : kinds)
    for (const RankRun& run : train_on_threads(layout(4), curve_steps, DType::f32, fail, setup_of(kind, false))) {
      REQUIRE_FALSE(run.status.ok());
      CHECK(run.status.error().message().find("cannot be read") != std::string::npos);
      CHECK(run.losses.size() == 1);
    }
}

TEST_CASE("what a cp layout saves another goes on with, and the other way round") {
  char name[] = "/tmp/longhaul-context-XXXXXX";
  const std::string folder = ::mkdtemp(name);
  const SystemClock clock;
  const SetupOptions chosen = setup_of(ContextAttentionKind::ring, true);
  const RankRun whole = train_one_rank(curve_steps, DType::f32, chosen);
  for (const ParallelDims& written : {layout(2, 1, false, 1, 1, 2), layout(1, 2), layout(4)}) {
    CAPTURE(written.to_string());
    std::atomic<int> saved{0};
    on_threads(written, [&](int, Mesh& mesh) {
      TrainingSetup setup(16, curve_steps, 2, &mesh, DType::f32, 32, chosen);
      for (int i = 0; i < context_half_way; ++i)
        if (!setup.trainer.step().ok()) return;
      saved += CheckpointStore(clock, folder, 1).save(mesh.world(), state_of(setup)).ok();
    });
    CHECK(saved == written.world_size());
    for (const ParallelDims& read : {layout(1), layout(2, 2, true), layout(4), layout(2, 1, false, 2)}) {
      CAPTURE(read.to_string());
      std::atomic<int> good{0};
      on_threads(read, [&](int, Mesh& mesh) {
        TrainingSetup setup(16, curve_steps, 2, &mesh, DType::f32, 32, chosen);
        TrainingState state = state_of(setup);
        const auto loaded = CheckpointStore(clock, folder, 1).load_newest(mesh.world(), state);
        if (!loaded.ok() || !loaded->has_value()) return;
        setup.trainer.progress() = state.progress;
        const ComputeContext context(1);
        setup.store.refresh_compute_copy(context);
        std::vector<double> losses(whole.losses.begin(), whole.losses.begin() + context_half_way);
        for (int i = context_half_way; i < curve_steps; ++i) losses.push_back(setup.trainer.step()->loss);
        good += worst_relative(whole.losses, losses) <= 1e-5;
      });
      CHECK(good == read.world_size());
    }
    CHECK(remove_tree(folder).ok());
  }
}
