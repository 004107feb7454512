// mpirun/srun -n 2 overlap_step [--zero 0|1|2|3] [--pp N] [--tp N [--sp 1]] [--ep N] [--rows N] [--hidden N] [--steps
// N]: the same training steps with communication in its turn and beside computation, by turns; and without
// communication. Started by overlap.py between hosts whose network is limited. The first rank prints JSON.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>

#include "base/text/text.h"
#include "engine/comm/mpi_communicator.h"
#include "engine/train/step/trainer.h"

using namespace longhaul;

namespace {

constexpr std::int64_t length = 256;

class FixedTokens final : public BatchSource {
 public:
  explicit FixedTokens(std::int64_t vocabulary) : vocabulary_(vocabulary) {}
  Status fill(std::int64_t first, std::int64_t count, BatchStorage& out) override {
    out.sequences = count, out.length = length;
    const auto tokens = static_cast<std::size_t>(count * length);
    out.ids.resize(tokens), out.targets.resize(tokens), out.weights.assign(tokens, 1.0F);
    for (std::size_t i = 0; i < tokens; ++i) {
      const auto at = first * length + static_cast<std::int64_t>(i);
      out.ids[i] = static_cast<std::int32_t>(at * 7919 % vocabulary_);
      out.targets[i] = static_cast<std::int32_t>((at + 1) * 7919 % vocabulary_);
    }
    return {};
  }
  std::int64_t samples_per_epoch() const override { return 1 << 20; }

 private:
  std::int64_t vocabulary_;
};

// Large enough where matrices or tokens travel that computation takes about as long as they do at 1 Gbit/s: the bytes
// of a token go with the hidden size, its products with the square of it.
// `hidden`: another size of the latter.
ModelShape shape_of_bench(const ParallelDims& dims, std::int64_t hidden) {
  ModelShape shape;
  shape.vocab_size = 4096, shape.hidden_size = 384, shape.intermediate_size = 1024, shape.num_hidden_layers = 8;
  shape.num_attention_heads = 6, shape.num_key_value_heads = 6, shape.head_dim = 64;
  shape.max_position_embeddings = length;
  if (dims.tp == 1 && dims.ep == 1) return shape;
  shape.hidden_size = hidden, shape.intermediate_size = hidden / 4 * 11, shape.num_hidden_layers = 2;
  shape.num_attention_heads = shape.num_key_value_heads = hidden / 64;
  if (dims.ep == 1) return shape;
  shape.architecture = "mixtral";
  shape.num_local_experts = 4, shape.num_experts_per_tok = 2;
  shape.moe_intermediate_size = shape.intermediate_size;
  return shape;
}

struct Timing {
  std::vector<double> seconds, waited;
};

struct Case {
  std::int64_t sequences = 16;  // of a rank in a step: its backward takes about as long as its gradients travel
  std::int64_t micro_batches = 1;
  std::int64_t hidden = 1024;
  RowPieces pieces;  // of tensor parallelism
};

// `steps` of them after one to get warm.
Result<Timing> run_steps(Mesh& mesh, const ModelShape& shape, bool overlap, int steps, const Case& one) {
  const SystemClock clock;
  const ComputeContext context(1);
  ParameterStore store(shape, DType::bf16, nullptr, MeshPlace{mesh.dims(), mesh.at()});
  TrainerOptions options;
  options.steps = 1000;
  options.micro_batch_size = one.sequences / one.micro_batches;
  options.global_batch_size = one.sequences * mesh.dims().dp();
  options.tokens_max = options.micro_batch_size * length;
  options.overlap_gradients = options.overlap_weights = options.overlap_pipeline = overlap;
  LH_TRY(const TrainingSchedules schedules, training_schedules(options, mesh));
  LlamaOptions model_options = stage_options(schedules, options, mesh, 0);
  model_options.tokens_max = options.tokens_max;
  model_options.overlap_tensor.pieces = one.pieces;
  model_options.overlap_tensor.on = model_options.overlap_experts = overlap;
  Llama model(store, model_options);
  LanguageModelObjective objective;
  FixedTokens source(store.shape().vocab_size);
  Trainer trainer(context, mesh, store, {&model}, objective, source, options);
  initialize_parameters(context, store, 1);
  store.refresh_compute_copy(context);
  Timing timing;
  for (int step = 0; step <= steps; ++step) {
    LH_CHECK(mesh.world().barrier());
    const std::int64_t begin = clock.monotonic_ns();
    LH_TRY(const StepReport report, trainer.step());
    if (step == 0) continue;
    timing.seconds.push_back(static_cast<double>(clock.monotonic_ns() - begin) * 1e-9);
    timing.waited.push_back(report.waited_s);
  }
  return timing;
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

void append(Timing& to, const Timing& more) {
  to.seconds.insert(to.seconds.end(), more.seconds.begin(), more.seconds.end());
  to.waited.insert(to.waited.end(), more.waited.begin(), more.waited.end());
}

Status run_bench(Communicator& world, const ParallelDims& dims, int steps, const Case& one) {
  LH_TRY(const std::unique_ptr<Mesh> mesh, Mesh::create(dims, world));
  const ModelShape shape = shape_of_bench(dims, one.hidden);
  Timing in_turn, beside, alone;
  for (int round = 0; round < 3; ++round) {
    LH_TRY(const Timing off, run_steps(*mesh, shape, false, steps, one));
    append(in_turn, off);
    LH_TRY(const Timing on, run_steps(*mesh, shape, true, steps, one));
    append(beside, on);
    Mesh single;
    LH_TRY(const Timing none, run_steps(single, shape, true, steps, one));
    append(alone, none);
    LH_CHECK(mesh->world().barrier());
  }
  if (world.rank() == 0)
    std::printf(
        "{\"layout\": \"%s\", \"parameters\": %lld, \"step_in_turn_s\": %.4f, \"step_beside_s\": %.4f, "
        "\"step_alone_s\": %.4f, \"waited_in_turn_s\": %.4f, \"waited_beside_s\": %.4f}\n",
        dims.to_string().c_str(), static_cast<long long>(shape.parameter_count()), median(in_turn.seconds),
        median(beside.seconds), median(alone.seconds), median(in_turn.waited), median(beside.waited));
  return {};
}

}  // namespace

int main(int argc, char** argv) {
  std::map<std::string, int> given = {{"--zero", 1},      {"--pp", 1},     {"--tp", 1},
                                      {"--sp", 0},        {"--ep", 1},     {"--steps", 5},
                                      {"--sequences", 8}, {"--rows", 128}, {"--hidden", 1024}};
  for (int i = 1; i + 1 < argc; i += 2) given[argv[i]] = std::atoi(argv[i + 1]);
  auto runtime = MpiRuntime::start(&argc, &argv);
  if (!runtime.ok()) {
    std::fprintf(stderr, "%s\n", runtime.error().message().c_str());
    return 1;
  }
  const SystemClock clock;
  CommOptions options;
  options.clock = &clock;
  options.timeout_ms = 60'000;
  Status done;
  {
    auto world = (*runtime)->world(1, options);
    if (!world.ok()) return 1;
    ParallelDims dims;
    dims.pp = given["--pp"], dims.tp = given["--tp"], dims.sp = given["--sp"] > 0, dims.ep = given["--ep"];
    const int replicas = (*world)->size() / dims.pp / dims.tp;
    dims.zero = replicas > 1 ? given["--zero"] : 0;
    (dims.zero > 0 ? dims.dp_shard : dims.dp_replicate) = replicas;
    Case one;
    one.sequences = given["--sequences"], one.hidden = given["--hidden"];
    one.pieces.rows_min = given["--rows"];
    if (dims.pp > 1) one.micro_batches = 4;
    done = run_bench(**world, dims, given["--steps"], one);
  }
  if (!done.ok()) std::fprintf(stderr, "%s\n", done.error().message().c_str());
  return done.ok() ? 0 : 1;
}
