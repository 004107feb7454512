#include "orchestrator/workflow/layout/layout_check.h"

#include <algorithm>
#include <set>

#include "base/text/text.h"
#include "contracts/plan/layout_check.h"
#include "contracts/plan/rollout/drawing_layout.h"
#include "contracts/settings/stages/alignment.h"
#include "contracts/settings/training/training.h"
#include "orchestrator/workflow/layout/feature_check.h"

namespace longhaul {
namespace {

struct LayoutContext {
  std::string stage;
  const Value& written;
  const SourcePos& where;
  Diagnostics& diagnostics;

  // At the first of `keys` that the user wrote; a layout in the workflow comes before what only a recipe says.
  void add(const std::vector<std::string>& keys, const std::string& what, const std::string& hint) const {
    const SourcePos found = place_of_setting(written, keys, where);
    const bool layout_is_written = !(where == written.pos) && where.file == written.pos.file;
    const bool in_recipe = !(found.file == written.pos.file);
    diagnostics.add(in_recipe && layout_is_written ? where : found, "stage." + stage + ": " + what, hint);
  }
  // What the engine cannot do (unsupported) has been said by check_features.
  void add_unless_refused(const std::vector<std::string>& keys, const Status& status) const {
    if (!status.ok() && status.error().code != ErrorCode::unsupported)
      add(keys, status.error().what, status.error().hint);
  }
};

BatchRampup rampup_of(const Value& settings) {
  Diagnostics reported;
  const Value* written = settings.find("batch_rampup");
  return written ? batch_rampup_fields().parse(*written, "", reported) : BatchRampup();
}

// Those of the keys that the workflow says come first: a recipe's are not the user's to correct.
std::vector<std::string> written_ones(const LayoutContext& context, std::vector<std::string> keys) {
  std::stable_partition(keys.begin(), keys.end(), [&](const std::string& key) {
    const Value* at = context.written.find(key);
    return at != nullptr && at->pos.file == context.written.pos.file;
  });
  return keys;
}

void check_batches(const LayoutContext& context, const Value& settings, const ParallelDims& dims) {
  const std::int64_t global = settings.get_integer("global_batch_size"),
                     micro = settings.get_integer("micro_batch_size");
  if (global < 1 || micro < 1) return;
  const std::int64_t at_once = micro * dims.dp();
  if (global % at_once != 0)
    context.add(written_ones(context, {"global_batch_size", "micro_batch_size"}),
                format("global_batch_size = {} is not a multiple of micro_batch_size({}) * dp({}) = {}", global, micro,
                       dims.dp(), at_once),
                global < at_once
                    ? format("use global_batch_size = {}, or a smaller micro_batch_size", at_once)
                    : format("use {} or {}", global / at_once * at_once, (global / at_once + 1) * at_once));
  // What it is without a layout has been said already.
  const BatchRampup rampup = rampup_of(settings);
  const Status fits = check_batch_rampup(rampup, global, at_once);
  if (!fits.ok() && check_batch_rampup(rampup, global, 1).ok())
    context.add({"batch_rampup.start", "batch_rampup"}, fits.error().what, fits.error().hint);
}

void check_model(const LayoutContext& context, const Value& settings, const ParallelDims& dims) {
  Diagnostics reported;  // by the stage's own check already
  const PretrainSettings pretrain = pretrain_fields().parse(settings, "", reported);
  if (!reported.empty()) return;
  const auto shape = resolve_shape(pretrain.model);
  if (!shape.ok())
    return context.add({"model.num_attention_heads", "model.hidden_size", "model"}, shape.error().what,
                       shape.error().hint);
  // Phases may have lengths of their own.
  const std::int64_t length = pretrain.phases.empty() ? pretrain.sequence_length : 0;
  check_features(context.stage, engine_case_of("pretrain", pretrain, *shape, dims, length), context.written,
                 context.where, context.diagnostics);
  context.add_unless_refused({"moe.balance", "moe"}, check_moe_settings(pretrain.moe, *shape, dims));
  context.add_unless_refused({"low_precision.recipe", "low_precision"},
                             check_low_precision(pretrain.low_precision, *shape, dims, length));
  std::set<std::string> said;  // once, of however many phases
  const auto check_length = [&](std::int64_t sequence, const std::string& phase) {
    const LayoutCheckInput input{*shape, dims, pretrain.micro_batch_size, sequence, pretrain.cp_attention};
    for (const LayoutProblem& problem : layout_problems(input))
      if (said.insert(problem.what).second) context.add({phase}, problem.what, problem.hint);
  };
  if (!pretrain.phases.empty()) {
    if (!check_pretraining(pretrain, true).ok()) return;  // has been said
    const PhasePlan plan = phases_of(pretrain, true).value();
    for (const PlannedPhase& phase : plan.phases) check_length(phase.sequence_length, "phase." + phase.name);
    return;
  }
  if (pretrain.sequence_length > shape->max_position_embeddings)
    context.add({"sequence_length", "model.max_position_embeddings"},
                format("sequence_length = {} is longer than model.max_position_embeddings = {}",
                       pretrain.sequence_length, shape->max_position_embeddings),
                format("use at most {}, or raise model.max_position_embeddings", shape->max_position_embeddings));
  check_length(pretrain.sequence_length, "");
}

// Whether the ranks of a replica can draw together as asked; whether the model can be split so, the stage knows.
void check_drawing(const LayoutContext& context, const Value& settings, const ParallelDims& dims) {
  Diagnostics reported;  // by the stage's own check
  const AlignSettings align = align_fields().parse(settings, "", reported);
  if (!reported.empty() || !learns_from_rollouts(align.method)) return;
  for (const LayoutProblem& problem : drawing_layout_problems(align.rollout, nullptr, dims))
    context.add({"rollout.tp", "rollout.pp", "rollout"}, problem.what, problem.hint);
}

void check_recompute(const LayoutContext& context, const Value& settings) {
  Diagnostics reported;
  const Value* written = settings.find("recompute");
  if (!written) return;
  const auto known = recompute_from(recompute_fields().parse(*written, "", reported));
  if (!known.ok()) context.add({"recompute.modules", "recompute"}, known.error().what, known.error().hint);
}

void check_pipeline(const LayoutContext& context, const Value& settings, const ParallelDims& dims) {
  Diagnostics reported;
  const Value* written = settings.find("pipeline");
  if (!written) return;
  const PipelineSettings pipeline = pipeline_fields().parse(*written, "", reported);
  if (!reported.empty()) return;
  const std::int64_t at_once = settings.get_integer("micro_batch_size") * dims.dp();
  const std::int64_t global = settings.get_integer("global_batch_size");
  const BatchRampup rampup = rampup_of(settings);
  if (at_once > 0 && global % at_once == 0 && check_batch_rampup(rampup, global, at_once).ok())
    for (const std::int64_t batch : batch_sizes(rampup, global)) {
      const auto fits = schedule_settings(pipeline, dims, batch / at_once);
      if (fits.ok()) continue;
      context.add_unless_refused({"pipeline.schedule", "pipeline.group", "pipeline"}, fits.error());
      break;
    }
  const Value* model = settings.find("model");
  if (!model) return;  // known when the stage runs
  const auto layers = static_cast<int>(model->get_integer("num_hidden_layers"));
  if (const auto stages = resolve_stages(layers, dims.pp, dims.vp, pipeline.stages()); !stages.ok())
    context.add({"pipeline.stage_layers", "pipeline"}, stages.error().what, stages.error().hint);
}

}  // namespace

SourcePos place_of_setting(const Value& written, const std::vector<std::string>& keys, const SourcePos& otherwise) {
  for (const std::string& key : keys) {
    const Value* at = &written;
    for (const std::string& name : split(key, '.'))
      if (at) at = at->find(name);
    if (at && at->pos.line > 0) return at->pos;
  }
  return otherwise;
}

void check_layout(const std::string& stage, const StageKind& kind, const Value& settings, const Value& written,
                  const ParallelDims& dims, const SourcePos& where, Diagnostics& diagnostics) {
  if (kind.name == "command") return;  // the program divides its work itself
  const LayoutContext context{stage, written, where, diagnostics};
  if (kind.name == "pretrain") {
    check_model(context, settings, dims);
  } else if (const auto asked = engine_case_of_stage(kind.name, settings, {}, dims)) {
    check_features(stage, *asked, written, where, diagnostics);
  }
  if (settings.find("global_batch_size")) check_batches(context, settings, dims);
  if (kind.name == "align") check_drawing(context, settings, dims);
  check_recompute(context, settings);
  if (dims.pp > 1 || dims.vp > 1) check_pipeline(context, settings, dims);
}

}  // namespace longhaul
