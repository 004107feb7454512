// One loss curve for every layout: a tiny training on every way to map ranks to the mesh, against one rank.
#include <doctest/doctest.h>
#include <unistd.h>

#include "base/files/files.h"
#include "base/text/text.h"
#include "base/value/json.h"
#include "engine/checkpoint/global/checkpoint_store.h"
#include "engine/model/store/model_folder.h"
#include "engine/model/store/parameter_store.h"
#include "tests/parallel/thorough.h"
#include "tests/parallel/training_on_ranks.h"
#include "tests/support/write_model_folder.h"

using namespace longhaul;
using namespace longhaul::test;

namespace {

constexpr int ranks_max = thorough ? 16 : 4;
const int half_way = curve_steps / 2;

std::vector<ParallelDims> mesh_layouts() {
  std::vector<ParallelDims> layouts;
  for (const int pp : {1, 2})
    for (const int tp : {1, 2})
      for (const int dp : {1, 2, 4})
        for (const bool sp : {false, true}) {
          if (sp && tp == 1) continue;
          ParallelDims dims;
          dims.pp = pp, dims.tp = tp, dims.sp = sp, dims.dp_replicate = dp;
          layouts.push_back(dims);
          if (dp == 1) continue;
          for (const int zero : {1, 2, 3}) {
            dims.dp_shard = 2, dims.dp_replicate = dp / 2, dims.zero = zero;
            layouts.push_back(dims);
          }
        }
  std::erase_if(layouts, [](const ParallelDims& dims) { return dims.world_size() > ranks_max; });
  return layouts;
}

}  // namespace

TEST_CASE("initial weights are the same bits in every layout") {
  const ComputeContext context(1);
  ParameterStore whole(training_shape(), DType::f32);
  initialize_parameters(context, whole, 5);
  ParallelDims dims;
  dims.tp = 2;
  std::vector<std::vector<float>> gathered(2);
  on_threads(dims, [&](int rank, Mesh& mesh) {
    const ComputeContext own(1);
    ParameterStore store(training_shape(), DType::f32, nullptr, {mesh.dims(), mesh.at()});
    initialize_parameters(own, store, 5);
    auto& all = gathered[static_cast<std::size_t>(rank)];
    all.resize(whole.masters().size());
    (void)gather_masters(mesh, training_shape(), store.layout(), store.masters(), whole.layout(), all).ok();
  });
  for (const std::vector<float>& all : gathered) {
    REQUIRE(all.size() == whole.masters().size());
    CHECK(std::equal(all.begin(), all.end(), whole.masters().begin()));
  }
}

TEST_CASE("shards are put together on the first rank, one parameter after the other") {
  const ComputeContext context(1);
  ParameterStore whole(training_shape(), DType::f32);
  initialize_parameters(context, whole, 5);
  ParallelDims dims;
  dims.tp = 2, dims.pp = 2, dims.dp_shard = 2, dims.zero = 1;
  std::atomic<int> good{0}, parameters{0};
  on_threads(dims, [&](int, Mesh& mesh) {
    const ComputeContext own(1);
    ParameterStore store(training_shape(), DType::f32, nullptr, {mesh.dims(), mesh.at()});
    initialize_parameters(own, store, 5);
    const Status gathered =
        gather_each_parameter(mesh, training_shape(), store.layout(), store.masters(),
                              [&](const ParameterSpec& spec, std::span<const float> values) -> Status {
                                const FlatParameter& p = whole.layout().find(spec.name);
                                if (!std::equal(values.begin(), values.end(), whole.masters().begin() + p.begin))
                                  good -= 1000;
                                ++parameters;
                                return values.size() == static_cast<std::size_t>(spec.elements())
                                           ? Status()
                                           : Status(make_error(ErrorCode::internal, spec.name));
                              });
    good += gathered.ok();
  });
  CHECK(good == 8);
  CHECK(parameters == static_cast<int>(whole.layout().parameters().size()));  // on the first rank alone
}

TEST_CASE("a model read from its folder is cut into the shards of the rank that reads it") {
  char name[] = "/tmp/longhaul-layouts-XXXXXX";
  const std::string folder = ::mkdtemp(name);
  const ComputeContext context(1);
  ParameterStore whole(training_shape(), DType::f32);
  initialize_parameters(context, whole, 9);
  ModelFolderOptions options;
  options.config.shape = training_shape();
  REQUIRE(testing::write_model_folder(folder + "/model", whole, options).ok());
  ParallelDims dims;
  dims.tp = 2, dims.pp = 2;
  std::atomic<int> equal{0};
  on_threads(dims, [&](int, Mesh& mesh) {
    const ComputeContext own(1);
    ParameterStore store(training_shape(), DType::f32, nullptr, {mesh.dims(), mesh.at()});
    if (!load_model_weights(own, folder + "/model", store).ok()) return;
    std::vector<float> all(whole.masters().size());
    (void)gather_masters(mesh, training_shape(), store.layout(), store.masters(), whole.layout(), all).ok();
    equal += std::equal(all.begin(), all.end(), whole.masters().begin());
  });
  CHECK(equal == 4);
  CHECK(remove_tree(folder).ok());
}

TEST_CASE("every layout follows the curve of one rank") {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    if (!thorough && dtype != DType::f32) continue;
    const RankRun one = train_one_rank(curve_steps, dtype);
    REQUIRE(one.losses.size() == curve_steps);
    for (const ParallelDims& dims : mesh_layouts()) {
      CAPTURE(dims.to_string());
      const double bar = dims.tp * dims.pp == 1 && dims.zero == 0 ? 0 : dtype == DType::f32 ? 1e-5 : 2e-3;
      std::int64_t held = 0;
      for (const RankRun& run : train_on_threads(dims, curve_steps, dtype)) {
        REQUIRE_MESSAGE(run.status.ok(), (run.status.ok() ? "" : run.status.error().message()));
        CHECK(worst_relative(one.losses, run.losses) <= bar);
        CHECK(worst_relative(one.norms, run.norms) <= 10 * bar);
        CHECK(worst_relative({one.heldout_loss}, {run.heldout_loss}) <= std::max(bar, 1e-6));
        held = run.held;
        CHECK(run.moments == (dims.zero > 0 ? run.held / dims.dp_shard : run.held));
      }
      if (dims.tp == 2 && dims.pp == 1) CHECK(held < one.held * 6 / 10);  // norms are on both
      if (dims.pp == 2 && dims.tp == 1) CHECK(held < one.held * 6 / 10);  // the tied embedding is on both
    }
  }
}

TEST_CASE("every pipeline schedule and every way to distribute layers follows the curve of one rank") {
  struct Case {
    int pp, vp;
    const char* schedule;
    std::vector<std::int64_t> stage_layers;
    bool tied = true;
  };
  const std::vector<Case> cases = {{2, 2, "interleaved", {}},    {2, 2, "interleaved", {1, 1, 1, 1}, false},
                                   {2, 1, "zb-h1", {}},          {4, 1, "zb-h1", {}, false},
                                   {2, 2, "zb-h1", {}},          {2, 1, "1f1b", {1, 3}},
                                   {4, 1, "1f1b", {0, 2, 2, 0}}, {2, 2, "auto", {0, 2, 2, 0}}};
  for (const Case& one : cases) {
    SetupOptions options;
    options.shape = training_shape(4, one.tied);
    options.pipeline.schedule = one.schedule, options.pipeline.stage_layers = one.stage_layers;
    const RankRun alone = train_one_rank(curve_steps, DType::f32, options);
    REQUIRE(alone.losses.size() == curve_steps);
    for (const int tp : {1, 2})
      for (const int shard : {1, 2})
        for (const int zero : {0, 1, 3}) {
          ParallelDims dims;
          dims.pp = one.pp, dims.vp = one.vp, dims.tp = tp, dims.sp = tp > 1, dims.dp_shard = shard, dims.zero = zero;
          const bool apart = std::string(one.schedule) == "zb-h1";
          if (!thorough && (tp > 1 || !one.stage_layers.empty())) continue;
          if (dims.world_size() > ranks_max || (shard == 1) != (zero == 0) || (apart && zero > 1)) continue;
          CAPTURE(dims.to_string());
          CAPTURE(one.schedule);
          for (const RankRun& run : train_on_threads(dims, curve_steps, DType::f32, {}, options)) {
            REQUIRE_MESSAGE(run.status.ok(), (run.status.ok() ? "" : run.status.error().message()));
            CHECK(worst_relative(alone.losses, run.losses) <= 1e-5);
            CHECK(worst_relative(alone.norms, run.norms) <= 1e-4);
          }
        }
  }
}

TEST_CASE("what is computed again instead of kept changes no bit, and takes less memory") {
  const auto dims_of = [](int tp, int pp, int shard, int zero) {
    ParallelDims dims;
    dims.tp = tp, dims.sp = tp > 1, dims.pp = pp, dims.dp_shard = shard, dims.zero = zero;
    return dims;
  };
  for (const ModelShape& shape : {training_shape(4), training_gpt2_shape()})
    for (const ParallelDims& dims : {dims_of(1, 1, 1, 0), dims_of(2, 2, 1, 0), dims_of(1, 2, 2, 3)})
      for (const char* schedule : {"1f1b", "zb-h1"}) {
        if (std::string(schedule) == "zb-h1" && (dims.zero > 1 || dims.pp == 1)) continue;
        SetupOptions kept(shape);
        kept.dropout = 0.1;
        kept.pipeline.schedule = schedule;
        const std::vector<RankRun> whole = train_on_threads(dims, bit_steps, DType::f32, {}, kept);
        REQUIRE(whole[0].status.ok());
        for (const std::vector<std::string>& modules : {std::vector<std::string>{"norms"},
                                                        {"attention"},
                                                        {"activation"},
                                                        {"feed_forward"},
                                                        {"norms", "attention"},
                                                        {"block"}}) {
          if (!thorough && (modules[0] != "block" || shape.is_gpt2())) continue;
          CAPTURE(dims.to_string());
          CAPTURE(schedule);
          CAPTURE(join(modules, " "));
          SetupOptions again = kept;
          again.recompute = recompute_from({modules, 0}).value();
          const std::vector<RankRun> run = train_on_threads(dims, bit_steps, DType::f32, {}, again);
          CHECK(run[0].losses == whole[0].losses);
          CHECK(run[0].weights == whole[0].weights);
          // Of one layer alone nothing is saved: it needs the memory while it runs.
          if (shape.num_hidden_layers > dims.pp) CHECK(run[0].activations < whole[0].activations);
        }
      }
}

TEST_CASE("a schedule that puts weight gradients off does not go with gradients that are summed at once") {
  ParallelDims dims;
  dims.pp = 2, dims.dp_shard = 2, dims.zero = 2;
  std::atomic<int> refused{0};
  on_threads(dims, [&](int, Mesh& mesh) {
    TrainerOptions options;
    options.micro_batch_size = 1, options.global_batch_size = 8, options.pipeline.schedule = "zb-h1";
    const auto schedule = training_schedules(options, mesh);
    refused += !schedule.ok() && schedule.error().message().find("zero = 2") != std::string::npos;
  });
  CHECK(refused == 4);
}

TEST_CASE("communication beside computation changes no bit") {
  for (const int zero : {0, 1, 2, 3}) {
    CAPTURE(zero);
    ParallelDims dims;
    dims.zero = zero, dims.dp_shard = zero > 0 ? 2 : 1, dims.dp_replicate = zero > 0 ? 1 : 2;
    SetupOptions apart;
    apart.overlap = false;
    const std::vector<RankRun> beside = train_on_threads(dims, bit_steps, DType::bf16);
    const std::vector<RankRun> after = train_on_threads(dims, bit_steps, DType::bf16, {}, apart);
    CHECK(beside[0].status.ok());
    CHECK(beside[0].losses == after[0].losses);
    CHECK(beside[0].weights == after[0].weights);
  }
}

TEST_CASE("rows that travel beside products change no bit") {
  ModelShape four_heads = training_shape();
  four_heads.num_key_value_heads = 4;
  for (const ModelShape& shape : {four_heads, training_gpt2_shape()})
    for (const DType dtype : {DType::f32, DType::bf16}) {
      SetupOptions what(shape);
      what.dropout = 0.1;
      const RankRun one = train_one_rank(bit_steps, dtype, what);
      for (const int tp : {2, 4})
        for (const bool sp : {false, true})
          for (const char* schedule : {"1f1b", "zb-h1"}) {
            ParallelDims dims;
            dims.tp = tp, dims.sp = sp;
            if (std::string(schedule) == "zb-h1") dims.pp = 2, what.pipeline.schedule = schedule;
            if (dims.world_size() > ranks_max) continue;
            CAPTURE(dims.to_string());
            for (const RowPieces pieces : {RowPieces{3, 4}, RowPieces{128, 4}}) {
              SetupOptions beside = what, after = what;
              beside.pieces = after.pieces = pieces, after.overlap = false;
              const std::vector<RankRun> now = train_on_threads(dims, bit_steps, dtype, {}, beside);
              const std::vector<RankRun> then = train_on_threads(dims, bit_steps, dtype, {}, after);
              REQUIRE(now[0].status.ok());
              CHECK(now[0].losses == then[0].losses);
              CHECK(now[0].weights == then[0].weights);
              CHECK(worst_relative(one.losses, now[0].losses) <= (dtype == DType::f32 ? 1e-5 : 2e-2));
            }
            what.pipeline = {};
          }
    }
}

TEST_CASE("a trace shows rows on their way while products are computed") {
  char name[] = "/tmp/longhaul-layouts-XXXXXX";
  const std::string folder = ::mkdtemp(name);
  ParallelDims dims;
  dims.tp = 2, dims.sp = true;
  const SystemClock clock;
  for (const bool overlap : {true, false}) {
    const ThreadsWorld world(2);
    std::vector<std::thread> ranks;
    std::atomic<int> good{0};
    for (int rank = 0; rank < 2; ++rank)
      ranks.emplace_back([&, rank] {
        Trace trace(clock);
        trace.record(true);
        CommOptions options;
        options.clock = &clock, options.trace = &trace;
        const auto communicator = world.communicator(rank, 1, options);
        const auto mesh = Mesh::create(dims, *communicator, 20'000).value();
        SetupOptions what;
        what.overlap = overlap;
        TrainingSetup setup(16, 1, 2, mesh.get(), DType::f32, 32, what);
        setup.context.set_trace(&trace);
        const auto report = setup.trainer.step();
        CHECK_MESSAGE(report.ok(), (report.ok() ? "" : report.error().message()));
        good += report.ok() && trace.write(format("{}/{}.json", folder, rank), rank).ok();
      });
    for (std::thread& rank : ranks) rank.join();
    REQUIRE(good == 2);
    const std::string text = read_file(folder + "/1.json").value();
    const Value json = parse_json(text).value();
    // Of spans of one name those during which one of another name begins.
    const auto beside = [&](const std::string& message, const std::string& product) {
      int found = 0;
      for (const Value& outer : json.find("traceEvents")->as_array()) {
        if (outer.get_string("name") != message) continue;
        const double begin = outer.get_number("ts"), end = begin + outer.get_number("dur");
        for (const Value& inner : json.find("traceEvents")->as_array()) {
          const double at = inner.get_number("ts");
          if (inner.get_string("name") == product && at >= begin && at <= end) ++found;
        }
      }
      return found;
    };
    CHECK((beside("send", "product of rows to be summed") > 0) == overlap);
    CHECK((beside("send", "product of gathered rows") > 0) == overlap);
    CHECK(beside("reduce_scatter_sum", "product of rows to be summed") == 0);
  }
  CHECK(remove_tree(folder).ok());
}

TEST_CASE("how micro-batches are distributed changes no bit, whatever the matrices are split into") {
  for (const int pp : {1, 2})
    for (const bool sp : {false, true}) {
      CAPTURE(sp);
      CAPTURE(pp);
      ParallelDims dims;
      dims.tp = 2, dims.sp = sp, dims.pp = pp;
      const std::vector<RankRun> one = train_on_threads(dims, bit_steps, DType::f32);
      for (const int dp : {2, 4}) {
        dims.dp_replicate = dp;
        if (dims.world_size() > ranks_max) continue;
        for (const RankRun& run : train_on_threads(dims, bit_steps, DType::f32)) {
          CHECK(run.losses == one[0].losses);
          CHECK(run.norms == one[0].norms);
          CHECK(run.weights == one[0].weights);
        }
      }
    }
}

TEST_CASE("a wrong sum in one rank of a tp group turns the comparison red") {
  const RankRun one = train_one_rank(curve_steps, DType::f32);
  ParallelDims dims;
  dims.tp = 2;
  // A weight of one shard that is not what the other shards think it is.
  const auto spoil = [](int rank, TrainingSetup& setup, int step) {
    if (rank == 1 && step == 1) setup.store.masters()[100] *= -1;
  };
  CHECK(worst_relative(one.losses, train_on_threads(dims, curve_steps, DType::f32, spoil)[0].losses) > 1e-5);
}

TEST_CASE("one rank of a tp group that fails ends all of them at once, with its message") {
  ParallelDims dims;
  dims.tp = 2, dims.dp_replicate = 2;
  const auto fail = [](int rank, TrainingSetup& setup, int step) { setup.source.unreadable = rank == 3 && step == 2; };
  for (const RankRun& run : train_on_threads(dims, curve_steps, DType::f32, fail)) {
    REQUIRE_FALSE(run.status.ok());
    CHECK(run.status.error().message().find("cannot be read") != std::string::npos);
    CHECK(run.losses.size() == 2);
  }
}

TEST_CASE("what one layout saves another goes on with") {
  char name[] = "/tmp/longhaul-layouts-XXXXXX";
  const std::string folder = ::mkdtemp(name);
  const SystemClock clock;
  const RankRun whole = train_one_rank(curve_steps, DType::f32);
  const auto layout = [](int tp, bool sp, int dp, int pp = 1, int shard = 1) {
    ParallelDims dims;
    dims.tp = tp, dims.sp = sp, dims.dp_replicate = dp, dims.pp = pp, dims.dp_shard = shard, dims.zero = shard > 1;
    return dims;
  };
  const auto with_zero = [](ParallelDims dims, int zero) {
    dims.zero = zero;
    return dims;
  };
  for (const ParallelDims& written :
       {layout(2, false, 2), layout(1, false, 4), layout(2, true, 1, 2), layout(2, false, 2, 1, 2),
        layout(1, false, 1, 2, 4), with_zero(layout(1, false, 1, 2, 2), 3)}) {
    CAPTURE(written.to_string());
    std::atomic<int> saved{0};
    on_threads(written, [&](int, Mesh& mesh) {
      TrainingSetup setup(16, curve_steps, 2, &mesh, DType::f32, 32);
      for (int i = 0; i < half_way; ++i)
        if (!setup.trainer.step().ok()) return;
      saved += CheckpointStore(clock, folder, 1).save(mesh.world(), state_of(setup)).ok();
    });
    CHECK(saved == written.world_size());
    for (const ParallelDims& read :
         {layout(1, false, 1), layout(2, false, 1, 2), layout(2, true, 2), layout(1, false, 2),
          layout(1, false, 1, 1, 4), layout(2, true, 1, 2, 2), with_zero(layout(1, false, 2, 1, 2), 2)}) {
      CAPTURE(read.to_string());
      std::atomic<int> good{0};
      on_threads(read, [&](int, Mesh& mesh) {
        TrainingSetup setup(16, curve_steps, 2, &mesh, DType::f32, 32);
        TrainingState state = state_of(setup);
        const auto loaded = CheckpointStore(clock, folder, 1).load_newest(mesh.world(), state);
        if (!loaded.ok() || !loaded->has_value()) return;
        setup.trainer.progress() = state.progress;
        const ComputeContext context(1);
        setup.store.refresh_compute_copy(context);
        std::vector<double> losses(whole.losses.begin(), whole.losses.begin() + half_way);
        for (int i = half_way; i < curve_steps; ++i) losses.push_back(setup.trainer.step()->loss);
        good += worst_relative(whole.losses, losses) <= 1e-5;
      });
      CHECK(good == read.world_size());
    }
    CHECK(remove_tree(folder).ok());
  }
}
