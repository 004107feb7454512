#include "engine/tasks/common/training_check.h"

#include <utility>

#include "base/text/text.h"
#include "contracts/model/adapter_list.h"
#include "contracts/model/weight_decay.h"
#include "contracts/plan/layout_check.h"
#include "contracts/settings/training/feature_table.h"

namespace longhaul {

Result<std::vector<std::int32_t>> ids_before_texts(ModelShape shape, const AdapterShape& adapter,
                                                   std::int64_t sequence_length) {
  if (const std::int64_t before = adapter.tokens_before(); before >= sequence_length && before > 0)
    return make_error(
        ErrorCode::invalid_input,
        format("adapter.virtual_tokens = {} leave no room for a text in sequence_length = {}", before, sequence_length),
        "raise sequence_length, which counts them, or use fewer");
  shape.adapter = adapter;
  return virtual_token_ids(frozen_shape(std::move(shape)));
}

Status check_training(const std::string& kind, const TrainingStageSettings& s, const ParallelDims& dims) {
  if (s.sequence_length > s.shape.max_position_embeddings)
    return make_error(ErrorCode::invalid_input,
                      format("sequence_length = {} is longer than the model's max_position_embeddings = {}",
                             s.sequence_length, s.shape.max_position_embeddings),
                      "raise model.max_position_embeddings or shorten the sequences");
  LH_CHECK(check_no_decay(s.optimizer.no_decay, parameter_list(s.shape)));
  LH_CHECK(check_moments(s.optimizer));
  if (s.adapter.on() && s.start_model.empty())
    return make_error(ErrorCode::invalid_input,
                      format("adapter.kind = \"{}\" of random weights, which nobody has trained", s.adapter.kind),
                      "give inputs.model, or leave adapter out");
  LH_CHECK(ids_before_texts(s.shape, s.adapter, s.sequence_length));
  ModelShape adapted = s.shape;
  adapted.adapter = s.adapter;
  LH_CHECK(adapted_matrices(adapted));
  LH_CHECK(check_batch_sizes(s.micro_batch_size, s.global_batch_size, dims.dp()));
  LH_CHECK(check_batch_rampup(s.batch_rampup, s.global_batch_size, s.micro_batch_size * dims.dp()));
  std::vector<std::int64_t> lengths = {s.sequence_length};
  for (const PlannedPhase& phase : s.phases) lengths.push_back(phase.sequence_length);
  for (const std::int64_t length : lengths)
    LH_CHECK(check_layout_of({s.shape, dims, s.micro_batch_size * s.sequences_per_sample, length, s.cp_attention}));
  const std::int64_t one_length = s.one_length && s.phases.empty() ? s.sequence_length : 0;
  LH_CHECK(check_engine(engine_case_of(kind, s, s.shape, dims, one_length)));
  LH_CHECK(check_moe_settings(s.moe, s.shape, dims));
  LH_CHECK(check_low_precision(s.low_precision, s.shape, dims, one_length));
  return {};
}

}  // namespace longhaul
