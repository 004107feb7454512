#include "engine/tasks/commands/measure_processor.h"

#include <sched.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <thread>

#include "base/digest/philox.h"
#include "base/files/file_hash.h"
#include "base/files/files.h"
#include "base/process/process.h"
#include "base/text/text.h"
#include "contracts/pipeline/pipeline_stages.h"
#include "engine/comm/threads_communicator.h"
#include "engine/ops/cpu/gemm/gemm_onednn.h"
#include "engine/ops/cpu/simd/kernels.h"
#include "engine/ops/linear/gemm.h"
#include "engine/ops/pointwise/elementwise.h"
#include "engine/tasks/commands/measure_drawing.h"
#include "engine/train/step/trainer.h"

namespace longhaul {
namespace {

constexpr std::int64_t copied_floats = 4 << 20;  // of each of two arrays: beyond the caches of most cores
constexpr int calls = 500;
constexpr double product_flops_least = 1e7;  // a smaller one is repeated

struct ProductCase {
  std::int64_t m, n, k;
};
// Sides as models of up to a hundred million parameters have them.
constexpr ProductCase product_cases[] = {{512, 128, 128},  {512, 256, 256},  {512, 512, 512}, {512, 1024, 256},
                                         {512, 256, 1024}, {2048, 128, 128}, {512, 4096, 128}};

// Steps that spend their time differently: layers, width, vocabulary, long sequences, next to nothing, several
// micro-batches, and weights and moments that no cache holds.
constexpr TimedStep step_cases[] = {
    {128, 2, 4, 384, 256, 128, 4, 1},  {128, 6, 4, 384, 256, 128, 2, 1},  {256, 1, 4, 768, 256, 128, 2, 1},
    {128, 1, 4, 384, 4096, 128, 2, 1}, {128, 2, 2, 384, 256, 512, 1, 1},  {64, 1, 2, 192, 256, 32, 1, 1},
    {128, 2, 4, 384, 1024, 64, 1, 4},  {256, 2, 4, 768, 8192, 128, 1, 1},
};

// Made-up sequences, the same for ever.
class MadeUpTokens final : public BatchSource {
 public:
  MadeUpTokens(std::int64_t length, std::int64_t vocabulary) : length_(length), vocabulary_(vocabulary) {}
  Status fill(std::int64_t first, std::int64_t count, BatchStorage& out) override {
    out.sequences = count, out.length = length_;
    out.ids.clear(), out.targets.clear();
    PhiloxSequence random(1, static_cast<std::uint64_t>(first));
    for (std::int64_t i = 0; i < count * length_; ++i) {
      out.ids.push_back(static_cast<std::int32_t>(random.next_below(static_cast<std::uint64_t>(vocabulary_))));
      out.targets.push_back(static_cast<std::int32_t>(random.next_below(static_cast<std::uint64_t>(vocabulary_))));
    }
    out.weights.assign(out.ids.size(), 1.0F);
    return {};
  }
  std::int64_t samples_per_epoch() const override { return 1 << 20; }

 private:
  std::int64_t length_, vocabulary_;
};

// A small training of this rank, ready to make steps.
class SmallTraining {
 public:
  static Result<std::unique_ptr<SmallTraining>> create(const ComputeContext& context, Mesh& mesh,
                                                       const TimedStep& sizes, DType dtype) {
    ModelShape shape;
    shape.hidden_size = sizes.hidden, shape.num_hidden_layers = sizes.layers;
    shape.num_attention_heads = shape.num_key_value_heads = sizes.heads;
    shape.intermediate_size = sizes.feed_forward, shape.vocab_size = sizes.vocabulary;
    shape.max_position_embeddings = sizes.sequence_length;
    LH_TRY(shape, resolve_shape(shape));
    MeshPlace place{mesh.dims(), mesh.at()};
    LH_TRY(place.stages, resolve_stages(static_cast<int>(sizes.layers), 1, 1, {}));
    TrainerOptions options;
    options.steps = 1 << 20;
    options.micro_batch_size = sizes.micro_batch_size;
    options.global_batch_size = sizes.micro_batch_size * sizes.micro_batches * mesh.dims().dp();
    options.tokens_max = sizes.micro_batch_size * sizes.sequence_length;
    LH_TRY(const TrainingSchedules schedules, training_schedules(options, mesh));
    LlamaOptions model = stage_options(schedules, options, mesh, 0);
    model.tokens_max = options.tokens_max, model.length_max = sizes.sequence_length;
    return std::unique_ptr<SmallTraining>(new SmallTraining(context, mesh, sizes, shape, dtype, place, options, model));
  }
  Status step() {
    LH_CHECK(trainer_.step());
    return {};
  }

 private:
  SmallTraining(const ComputeContext& context, Mesh& mesh, const TimedStep& sizes, const ModelShape& shape, DType dtype,
                const MeshPlace& place, const TrainerOptions& options, const LlamaOptions& model)
      : source_(sizes.sequence_length, sizes.vocabulary),
        store_(shape, dtype, nullptr, place),
        model_(store_, model),
        trainer_(context, mesh, store_, {&model_}, objective_, source_, options) {
    initialize_parameters(context, store_, 1);
    store_.refresh_compute_copy(context);
  }

  MadeUpTokens source_;
  LanguageModelObjective objective_;
  ParameterStore store_;
  Llama model_;
  Trainer trainer_;
};

Tensor filled_tensor_of(const ComputeContext& context, DType dtype, std::int64_t n) {
  std::vector<float> values(static_cast<std::size_t>(n));
  PhiloxSequence random(2, 0);
  for (float& value : values) value = static_cast<float>(random.next_below(1 << 16)) * 0x1p-16F - 0.5F;
  Tensor tensor(dtype, {n});
  cast(context, std::span<const float>(values), tensor);
  return tensor;
}

// What is timed, `repeats` times without a pause.
struct Timed {
  std::function<Status()> once;
  int repeats = 1;
  std::vector<double> seconds;  // of one
};

// Of several times of the same work: the median. A training, too, waits for what interrupts one of its ranks, and takes
// the mean of its steps, so the fastest of them would promise a tenth too much.
double usual(std::vector<double> seconds) {
  const auto at = seconds.begin() + static_cast<std::ptrdiff_t>(seconds.size() / 2);
  std::nth_element(seconds.begin(), at, seconds.end());
  return *at;
}

// One rank: what it times, in the order in which all of them do.
class MeasuringRank {
 public:
  MeasuringRank(const MeasureOptions& options, const Clock& clock, Mesh& mesh)
      : options_(options),
        clock_(clock),
        mesh_(mesh),
        context_(options.threads),
        dtype_(options.precision == "bf16" ? DType::bf16 : DType::f32) {}

  Status measure() {
    add_copy();
    add_call();
    for (const ProductCase& size : product_cases)
      for (const ProductPass pass : {ProductPass::forward, ProductPass::input, ProductPass::weight})
        add_product(size, pass);
    for (const TimedStep& sizes : step_cases) LH_CHECK(add_step(sizes));
    // What the first time costs (compiled products, memory) is no part of any other.
    for (Timed& one : timed_) LH_CHECK(one.once());
    const std::int64_t begun = clock_.monotonic_ns();
    for (;;) {
      for (Timed& one : timed_) LH_CHECK(time(one));
      const bool stopped = options_.stop && options_.stop->load(std::memory_order_relaxed);
      const double spent = static_cast<double>(clock_.monotonic_ns() - begun) * 1e-9;
      LH_TRY(const double most, largest(stopped ? 1e9 : spent));
      if (most >= 1e9) return make_error(ErrorCode::aborted, "the measurement was stopped");
      if (most * with_one_more() > options_.seconds) return {};
    }
  }

  std::vector<double> times() const {
    std::vector<double> all;
    for (const Timed& one : timed_) all.push_back(usual(one.seconds));
    return all;
  }

 private:
  // A round more takes what those before took on average.
  double with_one_more() const {
    const auto rounds = static_cast<double>(timed_.front().seconds.size());
    return (rounds + 1) / rounds;
  }

  Result<double> largest(double value) {
    auto most = static_cast<float>(value);
    if (Communicator* ranks = mesh_.world().communicator())
      LH_CHECK(ranks->wait(ranks->all_reduce_max(std::span<float>(&most, 1))));
    return most;
  }

  Status time(Timed& one) {
    LH_CHECK(mesh_.world().barrier());
    const std::int64_t begun = clock_.monotonic_ns();
    for (int i = 0; i < one.repeats; ++i) LH_CHECK(one.once());
    one.seconds.push_back(static_cast<double>(clock_.monotonic_ns() - begun) * 1e-9 / one.repeats);
    return {};
  }

  const Tensor& keep(Tensor tensor) {
    tensors_.push_back(std::make_unique<Tensor>(std::move(tensor)));
    return *tensors_.back();
  }

  void add_copy() {
    const Tensor& x = keep(filled_tensor_of(context_, DType::f32, copied_floats));
    Tensor& y = *tensors_.emplace_back(std::make_unique<Tensor>(filled_tensor_of(context_, DType::f32, copied_floats)));
    timed_.push_back({[&]() -> Status {
                        axpy(context_, 1e-9F, x.span<float>(), y.span<float>());
                        return {};
                      },
                      1,
                      {}});
  }

  void add_call() {
    Tensor& x = *tensors_.emplace_back(std::make_unique<Tensor>(filled_tensor_of(context_, DType::f32, 16)));
    timed_.push_back({[&]() -> Status {
                        scale(context_, 1.0F, x.span<float>());
                        return {};
                      },
                      calls,
                      {}});
  }

  void add_product(const ProductCase& size, ProductPass pass) {
    const LinearShape shape{size.m, size.k, size.n};
    const Tensor &x = keep(filled_tensor_of(context_, dtype_, size.m * size.k)),
                 &w = keep(filled_tensor_of(context_, dtype_, size.n * size.k)),
                 &dy = keep(filled_tensor_of(context_, dtype_, size.m * size.n));
    const bool weight = pass == ProductPass::weight;
    const std::int64_t elements = weight ? size.n * size.k : size.m * (pass == ProductPass::forward ? size.n : size.k);
    Tensor& out = *tensors_.emplace_back(std::make_unique<Tensor>(Tensor(weight ? DType::f32 : dtype_, {elements})));
    if (weight) fill(context_, out, 0);
    const double flops = 2.0 * static_cast<double>(size.m * size.n) * static_cast<double>(size.k);
    const int repeats = std::max(1, static_cast<int>(product_flops_least / flops));
    timed_.push_back({[this, shape, pass, &x, &w, &dy, &out]() -> Status {
                        if (pass == ProductPass::forward) linear_forward(context_, shape, x, w, out);
                        if (pass == ProductPass::input) linear_backward_input(context_, shape, dy, w, out);
                        if (pass == ProductPass::weight) linear_backward_weight(context_, shape, dy, x, out);
                        return {};
                      },
                      repeats,
                      {}});
  }

  Status add_step(const TimedStep& sizes) {
    LH_TRY(std::unique_ptr<SmallTraining> training, SmallTraining::create(context_, mesh_, sizes, dtype_));
    SmallTraining& one = *trainings_.emplace_back(std::move(training));
    timed_.push_back({[&one] { return one.step(); }, 1, {}});
    return {};
  }

  const MeasureOptions& options_;
  const Clock& clock_;
  Mesh& mesh_;
  ComputeContext context_;
  DType dtype_;
  std::vector<std::unique_ptr<Tensor>> tensors_;
  std::vector<std::unique_ptr<SmallTraining>> trainings_;
  std::vector<Timed> timed_;
};

// What lscpu calls the model; on Arm there are numbers instead of a name.
std::string processor_name() {
  const auto text = read_file("/proc/cpuinfo");
  std::string implementer, part;
  for (const std::string& line : split(text.ok() ? *text : std::string(), '\n')) {
    const std::size_t colon = line.find(':');
    if (colon == std::string::npos) continue;
    const std::string key(trim(line.substr(0, colon))), value(trim(line.substr(colon + 1)));
    if (key == "model name") return value;
    if (key == "CPU implementer" && implementer.empty()) implementer = value;
    if (key == "CPU part" && part.empty()) part = value;
  }
  return part.empty() ? "a processor without a name" : format("CPU part {} of {}", part, implementer);
}

int usable_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  return ::sched_getaffinity(0, sizeof set, &set) == 0 ? std::max(1, CPU_COUNT(&set)) : 1;
}

// In the order of MeasuringRank::measure.
void put_times(const std::vector<double>& seconds, ProcessorSpeed& speed) {
  auto next = seconds.begin();
  speed.copy_rate = 12.0 * static_cast<double>(copied_floats) / *next++;  // two are read, one is written
  speed.call_seconds = *next++;
  for (const ProductCase& size : product_cases)
    for (const ProductPass pass : {ProductPass::forward, ProductPass::input, ProductPass::weight})
      speed.products.push_back({pass, size.m, size.n, size.k, *next++});
  for (TimedStep step : step_cases) {
    step.seconds = *next++;
    speed.steps.push_back(step);
  }
}

// What ranks that train take, all at once: the slowest one's times.
Status measure_training(const MeasureOptions& options, const Clock& clock, ProcessorSpeed& speed) {
  const auto count = static_cast<std::size_t>(options.ranks);
  std::vector<std::vector<double>> times(count);
  std::vector<Status> ends(count);
  const ThreadsWorld world(options.ranks);
  const auto rank_main = [&](int rank) -> Status {
    std::unique_ptr<Communicator> communicator;
    auto mesh = std::make_unique<Mesh>();
    if (options.ranks > 1) {
      ParallelDims dims;
      dims.dp_replicate = options.ranks;
      CommOptions comm;
      comm.clock = &clock;
      communicator = world.communicator(rank, 1, comm);
      LH_TRY(mesh, Mesh::create(dims, *communicator));
    }
    MeasuringRank measuring(options, clock, *mesh);
    LH_CHECK(measuring.measure());
    times[static_cast<std::size_t>(rank)] = measuring.times();
    return {};
  };
  {
    std::vector<std::jthread> threads;
    for (int rank = 0; rank < options.ranks; ++rank)
      threads.emplace_back([&, rank] { ends[static_cast<std::size_t>(rank)] = rank_main(rank); });
  }
  for (const Status& end : ends) LH_CHECK(end);
  std::vector<double> slowest = times.front();
  for (const std::vector<double>& of_rank : times)
    for (std::size_t i = 0; i < slowest.size(); ++i) slowest[i] = std::max(slowest[i], of_rank[i]);
  put_times(slowest, speed);
  return {};
}

// One after the other, or beside each other.
Result<DrawingTimes> measure_both(const MeasureOptions& options, const Clock& clock, ProcessorSpeed& speed) {
  DrawingMeasure draws;
  draws.dtype = options.precision == "bf16" ? DType::bf16 : DType::f32, draws.stop = options.stop;
  if (options.beside.ranks == 0) {
    MeasureOptions half = options;
    half.seconds = draws.seconds = options.seconds / 2;
    LH_CHECK(measure_training(half, clock, speed));
    draws.ranks = options.ranks, draws.threads = options.threads;
    return measure_drawing(draws, clock);
  }
  std::atomic<bool> trained{false};
  draws.ranks = options.beside.ranks, draws.threads = options.beside.threads;
  draws.seconds = options.seconds, draws.until = &trained;
  std::optional<Result<DrawingTimes>> drawn;
  Status training;
  {
    const std::jthread drawing([&] { drawn = measure_drawing(draws, clock); });
    training = measure_training(options, clock, speed);
    trained = true;
  }
  LH_CHECK(training);
  return std::move(*drawn);
}

}  // namespace

Result<ProcessorIdentity> this_processor() {
  ProcessorIdentity identity;
  identity.processor = processor_name(), identity.cores = usable_cores();
  const ComputeContext context;
  identity.kernels = cpu::kernels_name(context), identity.products = cpu::onednn_level();
  LH_TRY(identity.engine, hash_file(own_program_path()));
  return identity;
}

Result<ProcessorSpeed> measure_processor(const MeasureOptions& options, const Clock& clock) {
  if (options.precision != "bf16" && options.precision != "f32")
    return make_error(ErrorCode::invalid_input, "a processor is measured in bf16 or in f32");
  if (options.ranks < 1 || options.ranks > measured_ranks_max || options.threads < 1 || options.threads > 4096)
    return make_error(ErrorCode::invalid_input,
                      format("{} ranks of {} threads cannot be measured", options.ranks, options.threads));
  const RanksBeside& beside = options.beside;
  if (beside.ranks < 0 || beside.ranks > measured_ranks_max || (beside.ranks == 0) != (beside.threads == 0) ||
      beside.threads > 4096)
    return make_error(ErrorCode::invalid_input,
                      format("{} ranks of {} threads beside cannot be measured", beside.ranks, beside.threads));
  ProcessorSpeed speed;
  LH_TRY(speed.identity, this_processor());
  speed.ranks = options.ranks, speed.threads = options.threads, speed.precision = options.precision;
  speed.beside = beside, speed.at_ms = clock.wall_ms();
  const std::int64_t begun = clock.monotonic_ns();
  LH_TRY(DrawingTimes drawn, measure_both(options, clock, speed));
  speed.serving = std::move(drawn.serving), speed.rollouts = std::move(drawn.rollouts);
  speed.spent_seconds = static_cast<double>(clock.monotonic_ns() - begun) * 1e-9;
  return speed;
}

}  // namespace longhaul
