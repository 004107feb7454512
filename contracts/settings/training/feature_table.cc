#include "contracts/settings/training/feature_table.h"

#include "base/text/text.h"
#include "contracts/settings/training/feature_rows.h"

namespace longhaul {
namespace {

std::vector<EngineFeature> make_features() {
  std::vector<EngineFeature> rows;
  add_model_features(rows);
  add_layout_features(rows);
  add_practice_features(rows);
  add_adapter_features(rows);
  add_inference_features(rows);
  for (const EngineFeature& row : rows) {
    const bool refused = row.processor.state == FeatureState::refused || row.gpu.state == FeatureState::refused;
    LH_ASSERT(row.ask != nullptr && !row.families.empty(), row.name);
    LH_ASSERT(!refused || (row.is_asked != nullptr && row.refusal != nullptr && !row.hint.empty()), row.name);
  }
  return rows;
}

// Those that are refused on the kind of device.
const std::vector<const EngineFeature*>& refused_on(bool gpu) {
  const auto made = [](bool on_gpu) {
    std::vector<const EngineFeature*> rows;
    for (const EngineFeature& row : engine_features())
      if (row.on(on_gpu).state == FeatureState::refused) rows.push_back(&row);
    return rows;
  };
  static const std::vector<const EngineFeature*> of_processors = made(false), of_gpus = made(true);
  return gpu ? of_gpus : of_processors;
}

const char* state_text(FeatureState state) {
  switch (state) {
    case FeatureState::runs: return "runs";
    case FeatureState::slow: return "slow";
    case FeatureState::refused: return "**refused**";
    case FeatureState::none: break;
  }
  return "–";
}

std::string cell_of(const EngineFeature& row, bool gpu) {
  const FeatureSupport& support = row.on(gpu);
  std::string text = state_text(support.state);
  if (support.state == FeatureState::refused && gpu && row.processor.state == FeatureState::refused)
    text += ": as on processors";
  else if (support.state == FeatureState::refused)
    text += ": " + row.refusal(engine_case_for(row, row.families.front(), gpu)) + "; " + row.hint;
  else if (!support.note.empty())
    text += ": " + support.note;
  return replace_all(text, "|", "\\|");
}

}  // namespace

const char* to_string(ModelFamily family) {
  switch (family) {
    case ModelFamily::llama: return "llama";
    case ModelFamily::mistral: return "mistral";
    case ModelFamily::gpt2: return "gpt2";
    case ModelFamily::mixtral: return "mixtral";
    case ModelFamily::experts: break;
  }
  return "experts";
}

const std::vector<EngineFeature>& engine_features() {
  static const std::vector<EngineFeature> rows = make_features();
  return rows;
}

EngineCase plain_engine_case(ModelFamily family, bool gpu) {
  EngineCase plain;
  plain.gpu = gpu, plain.sequence_length = 16;
  ModelShape& s = plain.shape;
  s.vocab_size = 37, s.hidden_size = 32, s.intermediate_size = 64, s.num_hidden_layers = 2;
  s.num_attention_heads = 4, s.num_key_value_heads = 2, s.head_dim = 8, s.max_position_embeddings = 32;
  s.initializer_range = 0.05;
  if (family == ModelFamily::mistral) s.sliding_window = 5;
  if (family == ModelFamily::gpt2) s.architecture = "gpt2", s.num_key_value_heads = 4;
  if (family != ModelFamily::mixtral && family != ModelFamily::experts) return plain;
  s.architecture = "mixtral", s.num_local_experts = 8, s.num_experts_per_tok = 2;
  s.intermediate_size = s.moe_intermediate_size = 32;
  if (family == ModelFamily::mixtral) return plain;
  s.router_score = "sigmoid", s.router_bias = true, s.n_shared_experts = 1;
  s.n_group = 4, s.topk_group = 2, s.routed_scaling_factor = 1.5;
  plain.moe.balance = "bias";
  return plain;
}

EngineCase engine_case_for(const EngineFeature& feature, ModelFamily family, bool gpu) {
  EngineCase asked = plain_engine_case(family, gpu);
  feature.ask(asked);
  return asked;
}

std::vector<EngineRefusal> engine_refusals(const EngineCase& asked) {
  std::vector<EngineRefusal> refusals;
  for (const EngineFeature* row : refused_on(asked.gpu))
    if (row->is_asked(asked)) refusals.push_back({row, row->refusal(asked), row->hint});
  return refusals;
}

Status check_engine(const EngineCase& asked) {
  const std::vector<EngineRefusal> refusals = engine_refusals(asked);
  if (refusals.empty()) return {};
  std::vector<std::string> texts;
  for (const EngineRefusal& refusal : refusals) texts.push_back(refusal.what);
  return make_error(ErrorCode::unsupported, join(texts, "; "), refusals.front().hint);
}

bool engine_refuses(const EngineCase& asked) {
  for (const EngineFeature* row : refused_on(asked.gpu))
    if (row->is_asked(asked)) return true;
  return false;
}

std::string engine_features_markdown() {
  std::string text;
  std::string area;
  for (const EngineFeature& row : engine_features()) {
    if (row.area != area) {
      area = row.area;
      text += "\n## " + area + "\n\n| feature | models | processors | GPUs |\n|---|---|---|---|\n";
    }
    std::vector<std::string> families;
    for (const ModelFamily family : row.families) families.emplace_back(to_string(family));
    text += format("| {} | {} | {} | {} |\n", replace_all(row.name, "|", "\\|"), join(families, ", "),
                   cell_of(row, false), cell_of(row, true));
  }
  return text;
}

}  // namespace longhaul
