// The rows of the table, by what they are about. Only feature_table.cc asks for them.
#pragma once

#include "contracts/settings/training/feature_table.h"

namespace longhaul {

void add_model_features(std::vector<EngineFeature>& rows);      // families, heads, precision
void add_layout_features(std::vector<EngineFeature>& rows);     // replicas, ZeRO, tp, pp, cp, experts
void add_practice_features(std::vector<EngineFeature>& rows);   // memory, corruption, what ranks send to each other
void add_adapter_features(std::vector<EngineFeature>& rows);    // what is trained in place of the weights
void add_inference_features(std::vector<EngineFeature>& rows);  // answering, quantized weights

namespace feature_rows {

using F = ModelFamily;
inline const std::vector<ModelFamily> dense_and_experts = {F::llama, F::mixtral};
inline const FeatureSupport refused{FeatureState::refused}, none{FeatureState::none};
inline FeatureSupport slow(std::string note) {
  return {FeatureState::slow, std::move(note)};
}
inline FeatureSupport runs(std::string note) {
  return {FeatureState::runs, std::move(note)};
}

}  // namespace feature_rows
}  // namespace longhaul
