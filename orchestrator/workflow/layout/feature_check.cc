#include "orchestrator/workflow/layout/feature_check.h"

#include "base/text/text.h"
#include "contracts/settings/stages/alignment.h"
#include "contracts/settings/stages/inference.h"
#include "contracts/settings/training/feature_table.h"
#include "orchestrator/workflow/layout/layout_check.h"

namespace longhaul {
namespace {

template <class Settings>
std::optional<EngineCase> training_case(const std::string& kind, const FieldTable<Settings>& table, const Value& from,
                                        const ModelShape& shape, const ParallelDims& dims) {
  Diagnostics reported;  // by the stage's own check already
  const Settings settings = table.parse(from, "", reported);
  if (!reported.empty()) return {};
  // Examples of sft differ in length, and so may the phases of a pretraining.
  std::int64_t length = 0;
  if constexpr (requires { settings.phases; })
    if (settings.phases.empty()) length = settings.sequence_length;
  return engine_case_of(kind, settings, shape, dims, length);
}

}  // namespace

AdapterLeft left_by_adapter(const Value& settings) {
  const Value* adapter = settings.find("adapter");
  if (!adapter || !adapter->is_table()) return {};
  Diagnostics reported;  // by the stage's own check
  const AdapterShape shape = adapter_fields().parse(*adapter, "adapter", reported);
  if (!reported.empty() || !check_adapter(shape).ok()) return {};
  ModelShape model;
  model.adapter = shape;
  model = frozen_shape(model);
  return {model.virtual_tokens, model.virtual_keys, model.bottleneck};
}

std::optional<EngineCase> engine_case_of_stage(const std::string& kind, const Value& settings,
                                               const std::optional<ModelShape>& shape, const ParallelDims& dims) {
  const ModelShape model = shape.value_or(ModelShape());
  if (kind == "pretrain") return training_case(kind, pretrain_fields(), settings, model, dims);
  if (kind == "sft") return training_case(kind, sft_fields(), settings, model, dims);
  if (kind == "align") {
    std::optional<EngineCase> align = training_case(kind, align_fields(), settings, model, dims);
    if (align) align->draws_answers = learns_from_rollouts(settings.get_string("method"));
    return align;
  }
  if (kind == "reward") return training_case(kind, reward_model_fields(), settings, model, dims);
  EngineCase asked;
  asked.kind = kind, asked.shape = model, asked.dims = dims;
  asked.gpu = settings.get_string("device") == "gpu";
  const Value* prompts = settings.find("prompts");
  asked.generates = kind == "deploy" || kind == "sample" ||
                    (kind == "evaluate" && prompts && prompts->is_array() && prompts->size() > 0);
  if (kind == "quantize") {
    asked.weights = settings.get_string("method");
    asked.quantized_embedding = settings.get_bool("embedding");
  }
  return asked;
}

void check_features(const std::string& stage, const EngineCase& asked, const Value& written, const SourcePos& where,
                    Diagnostics& diagnostics) {
  for (const EngineRefusal& refusal : engine_refusals(asked))
    diagnostics.add(place_of_setting(written, refusal.feature->keys, where), "stage." + stage + ": " + refusal.what,
                    refusal.hint);
}

}  // namespace longhaul
