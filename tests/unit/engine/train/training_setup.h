// A tiny training on made-up sequences, everything in one struct.
#pragma once

#include <cmath>

#include "base/digest/philox.h"
#include "engine/checkpoint/state/file_state_place.h"
#include "engine/ops/gpu.h"
#include "engine/train/step/trainer.h"

namespace longhaul::test {

// Sample k is one of `distinct` fixed sequences, in an order that a seed decides.
class MadeUpSource final : public BatchSource {
 public:
  MadeUpSource(std::int64_t length, std::int64_t vocab, std::int64_t distinct)
      : length_(length), vocab_(vocab), distinct_(distinct) {}
  Status fill(std::int64_t first, std::int64_t count, BatchStorage& out) override {
    if (unreadable || first + count > unreadable_from)
      return make_error(ErrorCode::io, "sample " + std::to_string(first) + " cannot be read");
    out.sequences = count, out.length = length_;
    out.ids.clear(), out.targets.clear(), out.weights.clear(), out.first_key.clear(), out.positions.clear();
    for (std::int64_t k = first; k < first + count; ++k) {
      const Philox random{7, static_cast<std::uint64_t>(k % distinct_)};
      const auto token = [&](std::int64_t i) {
        return static_cast<std::int32_t>(random.u64(static_cast<std::uint64_t>(i)) %
                                         static_cast<std::uint64_t>(vocab_));
      };
      for (std::int64_t i = 0; i < length_; ++i) {
        const bool masked = (k + i) % 7 == 0;  // micro-batches differ in what they predict
        out.ids.push_back(token(i));
        out.targets.push_back(masked ? -1 : token(i + 1));
        out.weights.push_back(masked ? 0.0F : 1.0F);
      }
      for (std::int64_t i = 0; padded && i < k % 3 * 4; ++i) {  // at its end; a third of the samples have none
        const auto last = out.ids.size() - 1 - static_cast<std::size_t>(i);
        out.ids[last] = 0, out.targets[last] = padding_target, out.weights[last] = 0.0F;
      }
      const std::size_t first_of_sample = out.ids.size() - static_cast<std::size_t>(length_);
      for (std::size_t i = 0; i < before.size(); ++i) {
        out.ids[first_of_sample + i] = before[i];
        out.targets[first_of_sample + i] = no_target, out.weights[first_of_sample + i] = 0.0F;
      }
      if (bad_sample >= 0 && k == bad_sample) out.weights[out.weights.size() - 3] = NAN;
      std::int32_t begin = 0;
      for (std::int64_t i = 0; packed && i < length_; ++i) {
        if (i > begin && random.u64(static_cast<std::uint64_t>(1000 + i)) % 5 == 0)
          begin = static_cast<std::int32_t>(i);
        out.first_key.push_back(begin);
        out.positions.push_back(static_cast<std::int32_t>(i) - begin);
      }
    }
    return {};
  }
  std::int64_t samples_per_epoch() const override { return distinct_; }
  bool unreadable = false;
  bool packed = false;                                   // several documents in a sequence, which do not see each other
  bool padded = false;                                   // samples are shorter than their row
  std::int64_t unreadable_from = std::int64_t{1} << 60;  // this sample and those behind it
  std::int64_t bad_sample = -1;                          // its loss is no number
  std::vector<std::int32_t> before;                      // in place of the first tokens of each, without a loss

 private:
  std::int64_t length_, vocab_, distinct_;
};

inline ModelShape training_shape(int layers = 2, bool tied = true) {
  ModelShape shape;
  shape.vocab_size = 37, shape.hidden_size = 32, shape.intermediate_size = 64;
  shape.num_hidden_layers = layers, shape.tie_word_embeddings = tied;
  shape.num_attention_heads = 4, shape.num_key_value_heads = 2, shape.head_dim = 8, shape.max_position_embeddings = 32;
  shape.initializer_range = 0.05;
  return shape;
}

inline ModelShape training_gpt2_shape() {
  ModelShape shape = training_shape();
  shape.architecture = "gpt2", shape.num_key_value_heads = 4;
  return shape;
}

inline ModelShape training_mixtral_shape() {
  ModelShape shape = training_shape();
  shape.architecture = "mixtral";
  shape.num_local_experts = 8, shape.num_experts_per_tok = 2;
  shape.intermediate_size = shape.moe_intermediate_size = 32;
  return shape;
}

// What differs from the usual.
struct SetupOptions {
  SetupOptions() = default;
  SetupOptions(const ModelShape& model) : shape(model) {}  // NOLINT: implicit on purpose
  ModelShape shape = training_shape();
  PipelineSettings pipeline;
  bool overlap = true;
  RowPieces pieces = {4, 3};  // of rows that travel by themselves; the batches here are small
  Recompute recompute;
  LowPrecisionSettings low_precision;
  MoeSettings moe;
  double adam_eps = 1e-8;
  bool packed = false;  // several documents in a sequence
  bool padded = false;  // samples are shorter than their row
  ContextAttentionKind context_attention = ContextAttentionKind::ring;
  BatchRampup rampup;
  std::int64_t global_batch = 16;  // of train_rank
  double dropout = 0;
  AdapterShape adapter;  // trained in place of the weights, which are those of the seed
  bool check_contributions = false;
  std::int64_t replay_every = 0;
  SpikeSettings on_spike;
  std::string moments = "f32", rounding = "nearest";
  Gpu* gpu = nullptr;                 // borrowed: computes there
  std::string offload_dir;            // moments in a file there,
  std::int64_t offload_block = 2048;  // in blocks of so many weights
};

struct TrainingSetup {
  explicit TrainingSetup(std::int64_t global_batch, std::int64_t steps, std::int64_t micro_batch = 2,
                         Mesh* ranks = nullptr, DType dtype = DType::f32, std::int64_t distinct = 8,
                         const SetupOptions& setup = {})
      : memory(accounts_of(setup.gpu, own_memory)),
        context(setup.gpu ? ComputeContext(setup.gpu->device(), setup.gpu->ops()) : ComputeContext(1)),
        mesh(ranks ? *ranks : own_mesh),
        store(trained_shape(setup), setup.adapter.on() ? DType::f32 : dtype, &memory, place_of(mesh, setup)),
        frozen(setup.adapter.on() ? std::make_unique<ParameterStore>(
                                        ParameterStore::frozen(frozen_shape(trained_shape(setup)), dtype, &memory,
                                                               place_of(mesh, setup), setup.adapter.base_weights))
                                  : nullptr),
        adapted(frozen ? std::make_unique<AdaptedWeights>(context, *frozen, store, &memory, &mesh) : nullptr),
        options(trainer_options(global_batch, steps, micro_batch, setup)),
        offloaded(offload(setup)),
        stages(make_stages(micro_batch, setup)),
        model(*stages.front()),
        source(16, 37, distinct),
        trainer(context, mesh, store, pointers(), objective, source, options, &memory) {
    source.packed = setup.packed, source.padded = setup.padded;
    source.before = virtual_token_ids(frozen_shape(trained_shape(setup)));
    initialize_parameters(context, frozen ? *frozen : store, 1);
    if (adapted) adapted->initialize(2);
    store.refresh_compute_copy(context);
  }
  static ModelShape trained_shape(const SetupOptions& setup) {
    ModelShape shape = setup.shape;
    shape.adapter = setup.adapter;
    return shape;
  }
  static MemoryAccounts& accounts_of(Gpu* gpu, MemoryAccounts& accounts) {
    if (gpu) accounts.place_on(gpu->device());
    return accounts;
  }
  std::unique_ptr<MomentStream> offload(const SetupOptions& setup) {
    options.adapted = adapted.get();
    if (setup.offload_dir.empty()) return nullptr;
    const StateTypes types = state_types(options.optimizer);
    const std::int64_t elements = store.layout().owned().size();
    MomentStreamOptions stream_options;
    stream_options.account = &memory.of(MemoryCategory::optimizer);
    stream_options.block_elements = setup.offload_block;
    place = FileStatePlace::create(setup.offload_dir, MomentStream::bytes_for(types, elements), stream_options.account)
                .value();
    std::unique_ptr<MomentStream> stream = MomentStream::create(*place, types, elements, stream_options).value();
    options.offloaded = stream.get();
    return stream;
  }
  std::vector<std::unique_ptr<Llama>> make_stages(std::int64_t micro_batch, const SetupOptions& setup) {
    std::vector<std::unique_ptr<Llama>> made;
    const TrainingSchedules schedules = training_schedules(options, mesh).value();
    for (int chunk = 0; chunk < mesh.dims().vp; ++chunk) {
      LlamaOptions o = stage_options(schedules, options, mesh, chunk);
      o.tokens_max = micro_batch * ContextShard(mesh.dims().cp, mesh.at().cp).padded(16);
      o.moe = setup.moe, o.context_attention = setup.context_attention, o.recompute = setup.recompute;
      o.low_precision = setup.low_precision;
      o.dropout = setup.dropout, o.seed = 11, o.memory = &memory;
      o.overlap_tensor = {setup.overlap, setup.pieces}, o.overlap_experts = o.overlap_context = setup.overlap;
      made.push_back(std::make_unique<Llama>(frozen ? *frozen : store, o));
    }
    return made;
  }
  std::vector<Llama*> pointers() {
    std::vector<Llama*> all;
    for (const auto& stage : stages) all.push_back(stage.get());
    return all;
  }
  static MeshPlace place_of(Mesh& mesh, const SetupOptions& setup) {
    MeshPlace place{mesh.dims(), mesh.at()};
    place.stages = resolve_stages(static_cast<int>(setup.shape.num_hidden_layers), place.dims.pp, place.dims.vp,
                                  setup.pipeline.stages())
                       .value();
    return place;
  }
  static TrainerOptions trainer_options(std::int64_t global_batch, std::int64_t steps, std::int64_t micro_batch,
                                        const SetupOptions& setup) {
    TrainerOptions o;
    o.pipeline = setup.pipeline, o.overlap_gradients = o.overlap_weights = o.overlap_pipeline = setup.overlap;
    o.check_contributions = setup.check_contributions, o.replay_every = setup.replay_every;
    o.batch_rampup = setup.rampup, o.on_spike = setup.on_spike;
    o.optimizer.moments = setup.moments, o.optimizer.rounding = setup.rounding, o.seed = 11;
    o.optimizer.lr = 1e-2, o.optimizer.warmup_steps = 5, o.optimizer.eps = setup.adam_eps;
    o.steps = steps, o.global_batch_size = global_batch, o.micro_batch_size = micro_batch,
    o.tokens_max = micro_batch * 16;
    return o;
  }

  MemoryAccounts own_memory;
  MemoryAccounts& memory;
  ComputeContext context;
  Mesh own_mesh;
  Mesh& mesh;
  ParameterStore store;                    // of what is trained
  std::unique_ptr<ParameterStore> frozen;  // where that is an adapter; else null
  std::unique_ptr<AdaptedWeights> adapted;
  TrainerOptions options;
  std::unique_ptr<FileStatePlace> place;
  std::unique_ptr<MomentStream> offloaded;
  std::vector<std::unique_ptr<Llama>> stages;
  Llama& model;  // the first of them
  LanguageModelObjective objective;
  MadeUpSource source;
  Trainer trainer;
};

}  // namespace longhaul::test
