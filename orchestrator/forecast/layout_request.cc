#include "orchestrator/forecast/layout_request.h"

#include <algorithm>

#include "autotune/time/processor_place.h"
#include "base/text/text.h"
#include "contracts/settings/stages/alignment.h"
#include "contracts/settings/training/training.h"
#include "orchestrator/forecast/checkpoint_forecast.h"
#include "orchestrator/workflow/layout/feature_check.h"
#include "orchestrator/workflow/layout/imported_model.h"

namespace longhaul {
namespace {

// A GPU's memory that a training may take: drivers keep a little of it.
constexpr double usable_memory = 0.97;

GpuType site_gpu(const SiteConfig& site, GpuType gpu) {
  if (site.node.gpu_memory.value > 0) gpu.memory = static_cast<double>(site.node.gpu_memory.value);
  if (site.network.gpu_memory_gbyte > 0) gpu.memory_rate = site.network.gpu_memory_gbyte * 1e9;
  if (site.network.gpu_link_gbyte > 0) gpu.link_rate = site.network.gpu_link_gbyte * 1e9;
  return gpu;
}

Result<GpuType> gpu_of(const SiteConfig& site, const TimeConstants& constants, std::vector<std::string>& notes) {
  const NodeShape& node = site.node;
  auto known = constants.gpu_named(node.gpu);
  if (known.ok()) return site_gpu(site, *known);
  const bool given = node.gpu_tflops > 0 && node.gpu_memory.value > 0 && site.network.gpu_memory_gbyte > 0 &&
                     site.network.gpu_link_gbyte > 0;
  if (!given)
    return make_error(
        ErrorCode::not_found, known.error().what,
        "write into the site file node.gpu_tflops (bf16, dense), node.gpu_memory, network.gpu_memory_gbyte "
        "and network.gpu_link_gbyte; or a name that contains one of those known: " +
            known.error().hint.substr(known.error().hint.rfind("known are ") + 10));
  notes.push_back(format("GPU \"{}\" is known by its data sheet alone", node.gpu));
  return unknown_gpu(constants, node.gpu, node.gpu_tflops, static_cast<double>(node.gpu_memory.value) / 1e9,
                     site.network.gpu_memory_gbyte, site.network.gpu_link_gbyte);
}

Result<TrainingLayout> layout_of(const PretrainSettings& settings, const ParallelDims& dims) {
  TrainingLayout layout;
  layout.dims = dims;
  layout.micro_batch_size = static_cast<int>(settings.micro_batch_size);
  layout.precision = settings.precision == "bf16" ? Precision::bf16 : Precision::f32;
  LH_TRY(layout.recompute, recompute_from(settings.recompute));
  // Replicas may stand for a layout that is still to be found, and be more than the batch has sequences.
  const std::int64_t micro_batches =
      std::max<std::int64_t>(1, settings.global_batch_size / settings.micro_batch_size / std::max(1, dims.dp()));
  LH_TRY(const PipelineScheduleSettings schedule, schedule_settings(settings.pipeline, dims, micro_batches));
  layout.schedule = schedule.kind, layout.group = schedule.group;
  layout.offload_moments = settings.optimizer.offload != "none";
  layout.context = context_kind_of(settings.cp_attention);
  return layout;
}

}  // namespace

Result<Cluster> cluster_of(const SiteConfig& site, const TimeConstants& constants, std::vector<std::string>& notes) {
  LH_TRY(const GpuType gpu, gpu_of(site, constants, notes));
  Cluster cluster;
  cluster.gpu = gpu, cluster.gpus_per_node = std::max(1, site.node.gpus);
  // A rack of NVLink spans nodes; any other domain is a node.
  cluster.domain = gpu.link_domain > 8 ? gpu.link_domain : cluster.gpus_per_node;
  cluster.nic_rate = gpu.nic_rate;
  if (site.network.nics > 0 && site.network.nic_gbit > 0)
    cluster.nic_rate = site.network.nics * site.network.nic_gbit / 8 * 1e9 / cluster.gpus_per_node;
  else
    notes.push_back(format("network cards are not known: {:.0f} GB/s a GPU is assumed", gpu.nic_rate / 1e9));
  return cluster;
}

int rank_threads(const SiteConfig& site, int asked, int ranks_on_node) {
  const int cores = site.node.cores > 0 ? site.node.cores : site.cpu_slots;
  return asked > 0 ? asked : std::max(1, cores / std::max(1, ranks_on_node));
}

namespace {

int drawing_threads(const PlannedStage& stage, int training_threads) {
  const Value* rollout = stage.settings.find("rollout");
  const auto threads = rollout && rollout->is_table() ? static_cast<int>(rollout->get_integer("threads")) : 0;
  return threads > 0 ? threads : training_threads;
}

}  // namespace

RankUse rank_use_of(const PlannedStage& stage, const SiteConfig& site, int ranks_on_node) {
  RankUse use;
  use.ranks = ranks_on_node, use.threads = rank_threads(site, stage.common.threads, ranks_on_node);
  use.precision = stage.settings.get_string("precision") == "f32" ? "f32" : "bf16";
  const Value* rollout = generates_its_rows(stage) ? stage.settings.find("rollout") : nullptr;
  if (rollout == nullptr || !rollout->is_table()) return use;
  const int threads = drawing_threads(stage, use.threads);
  const int drawing = rollout_ranks_of(stage.kind, stage.settings), trains = stage.dims.world_size();
  const int cores = site.node.cores > 0 ? site.node.cores : site.cpu_slots;
  if (drawing > 0 && ranks_on_node == trains + drawing)
    use.ranks = trains, use.beside = {drawing, threads};
  else if (drawing == 0 && rollout->get_bool("ahead") && (cores <= 0 || use.ranks * (use.threads + threads) <= cores))
    use.beside = {use.ranks, threads};
  return use;
}

RankUse drawing_use_of(const PlannedStage& stage, const SiteConfig& site, int ranks_on_node) {
  RankUse use = rank_use_of(stage, site, ranks_on_node);
  if (use.beside.ranks == 0) use.threads = drawing_threads(stage, use.threads);
  return use;
}

UsesAlone uses_alone(const RankUse& use) {
  return {{use.ranks, use.threads, use.precision, {}}, {use.beside.ranks, use.beside.threads, use.precision, {}}};
}

Result<RankPlace> rank_place(const SiteConfig& site, const TimeConstants& constants, bool may_use_gpus,
                             const RankUse& use, std::vector<std::string>& notes) {
  RankPlace rank;
  rank.on_gpus = may_use_gpus && site.node.gpus > 0;
  if (rank.on_gpus) {
    rank.place.common = constants.common;
    LH_TRY(rank.place.cluster, cluster_of(site, constants, notes));
    LH_TRY(rank.place.framework, constants.framework("longhaul"));
    rank.device = format("{} as {}", site.node.gpu, rank.place.cluster.gpu.key);
    rank.memory_limit = rank.place.cluster.gpu.memory * usable_memory;
    rank.source = source_of_constants(rank.place.cluster.gpu);
    return rank;
  }
  const int threads = use.threads;
  LH_TRY(rank.place, processor_place(constants, threads, use.ranks,
                                     use.precision == "f32" ? Precision::f32 : Precision::bf16, use.beside));
  const bool assumed = rank.place.cluster.gpu.key == processor_key;
  rank.source = assumed ? source_of_constants(rank.place.cluster.gpu) : ForecastSource::measured_here;
  rank.device = format("ranks of {} core{}{}", threads, threads == 1 ? "" : "s", assumed ? "" : ", as measured");
  if (site.node.memory.value > 0) rank.memory_limit = static_cast<double>(site.node.memory.value) / use.ranks;
  return rank;
}

namespace {

const PlannedStage* stage_behind(const RunPlan& plan, const PlannedStage& stage, const std::string& input_name) {
  for (const PlannedInput& input : stage.inputs)
    for (const std::string& id : input.stages)
      if (const PlannedStage* source = plan.find(id); source && input.name == input_name) return source;
  return nullptr;
}

// Both answers of a pair are sequences of a step; what the reference model says of them is computed once, before the
// first (engine/tasks/stages/align_stage.cc).
Result<PretrainSettings> alignment_as_pretraining(const PlannedStage& stage) {
  LH_TRY(const AlignSettings align, align_fields().parse(stage.settings, ""));
  PretrainSettings same;
  static_cast<TrainingCommon&>(same) = align, static_cast<ContextChoice&>(same) = align;
  const bool pairs = !learns_from_rollouts(align.method) && !align_method(align.method).labels;
  const std::int64_t answers = pairs ? 2 : 1;
  same.micro_batch_size = answers * align.micro_batch_size, same.global_batch_size = answers * align.global_batch_size;
  return same;
}

// An sft or align stage as the pretraining that it is to processors and messages.
Result<PretrainSettings> as_pretraining(const PlannedStage& stage) {
  if (stage.kind == "pretrain") return pretrain_fields().parse(stage.settings, "");
  if (stage.kind == "align") return alignment_as_pretraining(stage);
  LH_TRY(const SftSettings sft, sft_fields().parse(stage.settings, ""));
  PretrainSettings same;
  static_cast<TrainingCommon&>(same) = sft, static_cast<ComputeChoices&>(same) = sft;
  return same;
}

// On processors moments lie in the host's memory anyway. Those on a node's disk are read and written again in every
// step, by one thread (engine/train/optimizer/moment_stream.h), and the ranks of a node share the disk.
void price_offload(const OptimizerSettings& optimizer, const Bandwidths& rates, int ranks_on_node, LayoutRequest& q) {
  q.layout.offload_moments = false;
  if (optimizer.offload != "node_local") return;
  const double writes = rates.node_local_write_gbyte, reads = rates.node_local_read_gbyte;
  if (writes <= 0 || reads <= 0) {
    q.notes.push_back(
        format("without the way of the moments to {} and back: the site does not say how fast that disk is "
               "(network.node_local_read_gbyte, network.node_local_write_gbyte)",
               optimizer.offload_dir));
    return;
  }
  q.search.place.moment_seconds = moment_bytes(optimizer) * (1 / reads + 1 / writes) * 1e-9 * ranks_on_node;
  q.notes.push_back(format("moments in {}: read at {:.3g} GB/s and written at {:.3g} GB/s by all ranks of a node",
                           optimizer.offload_dir, reads, writes));
}

// Do GPUs of this type multiply the numbers of this recipe? docs/precision.md: those with scales of tensors wherever
// eight bits are multiplied, blocks on Hopper, MX formats where four bits are multiplied as well.
bool multiplies(const GpuType& gpu, const LowPrecisionSettings& low) {
  if (gpu.gemm_rate(Precision::fp8) <= 0) return false;
  const bool multiplies_blocks = gpu.peak_fp4 > 0;
  if (low.recipe == "delayed" || low.recipe == "current") return true;
  return low.recipe == (multiplies_blocks ? "mxfp8" : "blockwise");
}

void price_low_precision(const LowPrecisionSettings& low, LayoutRequest& q) {
  if (!low.on()) return;
  const bool fp8 = q.on_gpus && multiplies(q.search.place.cluster.gpu, low);
  if (!fp8) {
    q.notes.push_back(
        format("products of low_precision.recipe = \"{}\" are emulated there and priced as those of {}: steps take "
               "longer than this",
               low.recipe, to_string(q.layout.precision)));
    return;
  }
  q.layout.precision = Precision::fp8;
  const std::int64_t kept = low.first_layers_bf16 + low.last_layers_bf16;
  if (kept > 0)
    q.notes.push_back(format("all layers priced in fp8, also the {} that low_precision keeps in bf16", kept));
}

// What is assumed of a stage whose rows nobody has seen.
void note_rows(const PlannedStage& stage, LayoutRequest& q) {
  if (stage.kind == "sft") q.notes.emplace_back("as if every row were full: sequence_length tokens");
  if (stage.kind != "align" || generates_its_rows(stage)) return;
  const AlignMethod& method = align_method(stage.settings.get_string("method", AlignSettings().method));
  if (method.labels)
    q.notes.emplace_back("as if every answer were full; without the estimate of the divergence, a forward more");
  else
    q.notes.emplace_back(method.reference
                             ? "as if both answers of each pair were full; without the reference scores, computed once"
                             : "as if both answers of each pair were full");
}

bool begins_with_a_model(const PlannedStage& stage) {
  return stage.kind != "pretrain" || std::any_of(stage.inputs.begin(), stage.inputs.end(),
                                                 [](const PlannedInput& input) { return input.name == "model"; });
}

}  // namespace

StageOrigins origins_of(const RunPlan& plan, const PlannedStage& stage) {
  StageOrigins origins;
  origins.vocabulary = vocabulary_behind(plan, stage);
  const PlannedStage* source = &stage;
  for (std::size_t steps = 0; source && begins_with_a_model(*source) && steps <= plan.stages.size(); ++steps) {
    if (const std::string folder = imported_folder(*source); !folder.empty()) {
      auto shape = imported_shape(folder);
      if (shape.ok())
        origins.model = std::move(*shape);
      else
        origins.problem = shape.error().message();
      return origins;
    }
    source = stage_behind(plan, *source, "model");
  }
  if (!source || source == &stage || source->kind != "pretrain") return origins;
  const auto settings = pretrain_fields().parse(source->settings, "");
  auto shape = settings.ok() ? resolve_shape(settings->model) : Result<ModelShape>(settings.error());
  if (!shape.ok()) return origins;
  if (shape->vocab_size == 0) shape->vocab_size = vocabulary_behind(plan, *source);
  origins.model = std::move(*shape);
  return origins;
}

std::int64_t vocabulary_behind(const RunPlan& plan, const PlannedStage& stage) {
  for (const PlannedInput& input : stage.inputs)
    for (const std::string& id : input.stages)
      if (const PlannedStage* source = plan.find(id); source && source->kind == "tokenize")
        return source->settings.get_integer("vocabulary");
  return 0;
}

PlannedStage with_vocabulary(PlannedStage stage, const RunPlan& plan) {
  Value* model = stage.settings.find("model");
  if (model && model->is_table() && model->get_integer("vocab_size") == 0)
    if (const std::int64_t vocabulary = vocabulary_behind(plan, stage); vocabulary > 0)
      model->set("vocab_size", static_cast<long long>(vocabulary));
  return stage;
}

bool may_use_gpus(const PlannedStage& stage) {
  return stage.device.empty() ? stage.common.job.gpus_per_node != 0 : stage.device == "gpu";
}

bool generates_its_rows(const PlannedStage& stage) {
  return stage.kind == "align" && learns_from_rollouts(stage.settings.get_string("method"));
}

Result<LayoutRequest> layout_request(const PlannedStage& stage, const SiteConfig& site, const PredictionBasis& basis,
                                     int ranks_per_node, const StageOrigins& origins) {
  if (generates_its_rows(stage))
    return make_error(ErrorCode::unsupported, format("stage {} generates what it learns from", stage.id()),
                      "layouts are compared for trainings whose rows are there before");
  return layout_request_of_rollouts(stage, site, basis, ranks_per_node, origins);
}

Result<LayoutRequest> layout_request_of_rollouts(const PlannedStage& stage, const SiteConfig& site,
                                                 const PredictionBasis& basis, int ranks_per_node,
                                                 const StageOrigins& origins) {
  const bool given = begins_with_a_model(stage);
  const bool known = stage.kind == "pretrain" || stage.kind == "sft" || stage.kind == "align";
  if (given && !origins.problem.empty()) return make_error(ErrorCode::invalid_input, origins.problem);
  if (stage.kind == "reward")
    return make_error(ErrorCode::unsupported, format("stage {} trains a reward model", stage.id()),
                      "step times are predicted for pretrain, sft and align");
  if (!known || (given && !origins.model))
    return make_error(ErrorCode::unsupported, format("stage {} takes its model from an input", stage.id()),
                      "step times are predicted for pretrain, sft and align whose model a stage of the workflow makes "
                      "or a folder has");
  LH_TRY(const PretrainSettings settings, as_pretraining(stage));
  LayoutRequest q;
  TrainingTask& task = q.search.task;
  if (given) {
    task.shape = *origins.model;
  } else {
    LH_TRY(task.shape, resolve_shape(settings.model));
  }
  note_rows(stage, q);
  if (task.shape.vocab_size == 0) task.shape.vocab_size = origins.vocabulary;
  if (task.shape.vocab_size == 0) q.notes.emplace_back("the vocabulary is the tokenizer's: its products are left out");
  if (stage.kind == "align") task.output_forwards_more = 1;  // engine/align/preference_objective.cc
  task.sequence_length = settings.sequence_length, task.global_batch_size = settings.global_batch_size;
  LH_TRY(q.layout, layout_of(settings, stage.dims));

  TrainingPlace& place = q.search.place;
  const int ranks = stage.dims.world_size();
  if (stage.device == "gpu" && site.node.gpus == 0)
    return make_error(ErrorCode::not_found, format("site '{}' does not say what its GPUs are", site.name),
                      "write node.gpus and node.gpu into its file");
  const int drawing = rollout_ranks_of(stage.kind, stage.settings);
  const int ranks_on_node = ranks_per_node > 0 ? ranks_per_node : ranks + drawing;
  LH_TRY(RankPlace rank,
         rank_place(site, basis.constants, may_use_gpus(stage), rank_use_of(stage, site, ranks_on_node), q.notes));
  q.on_gpus = rank.on_gpus, q.device = rank.device, place = std::move(rank.place);
  if (!q.on_gpus) price_offload(settings.optimizer, site.network, ranks_on_node, q);
  price_low_precision(settings.low_precision, q);
  q.search.measured = basis.measured.of(q.device);
  const bool here = !q.search.measured.empty() || (basis.calibrated && !q.on_gpus);
  q.source = here ? ForecastSource::measured_here : rank.source;
  q.search.memory_limit = rank.memory_limit > 0 ? rank.memory_limit : 1e18;
  LH_TRY(q.search.memory, memory_profile("longhaul"));
  q.search.space.gpus = ranks;
  q.search.space.precision = {q.layout.precision};
  q.search.space.rampup = settings.batch_rampup;
  q.search.space.engine = engine_case_of_stage(stage.kind, stage.settings, task.shape, stage.dims);
  if (q.search.space.engine) q.search.space.engine->gpu = q.on_gpus;
  return q;
}

}  // namespace longhaul
