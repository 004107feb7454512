#include "orchestrator/preflight/sequence_lengths.h"

#include "base/text/text.h"
#include "contracts/settings/job/resumable.h"
#include "contracts/settings/stages/alignment.h"
#include "orchestrator/forecast/layout_request.h"

namespace longhaul {
namespace {

// Answers of rollouts are part of a sequence, whose default has just become shorter than theirs.
void check_answers(const WrittenStages& written, const PlannedStage& stage, std::int64_t longest,
                   Diagnostics& diagnostics) {
  const Value* rollout = stage.settings.find("rollout");
  if (rollout == nullptr || !learns_from_rollouts(stage.settings.get_string("method"))) return;
  const std::int64_t answer = rollout->get_integer("max_new_tokens");
  if (answer < longest) return;
  diagnostics.add(written.place(stage, {"rollout.max_new_tokens", "rollout"}),
                  format("stage.{}: rollout.max_new_tokens = {} leaves no room for a prompt in the model's "
                         "max_position_embeddings = {}",
                         stage.stage, answer, longest),
                  format("use for example rollout = {{ max_new_tokens = {} }}", longest / 2));
}

}  // namespace

void decide_sequence_lengths(const WrittenStages& written, RunPlan& plan, Diagnostics& diagnostics) {
  for (PlannedStage& stage : plan.stages) {
    const std::int64_t length = stage.settings.get_integer("sequence_length");
    if (length <= 0 || !trains(stage.kind) || written.says(stage, "sequence_length")) continue;
    bool begins_with_a_model = false;
    for (const PlannedInput& input : stage.inputs) begins_with_a_model |= input.name == "model";
    const StageOrigins origins = begins_with_a_model ? origins_of(plan, stage) : StageOrigins();
    const std::int64_t longest = origins.model ? origins.model->max_position_embeddings : 0;
    if (longest <= 0 || length <= longest) continue;
    stage.settings.set("sequence_length", static_cast<long long>(longest));
    check_answers(written, stage, longest, diagnostics);
  }
}

}  // namespace longhaul
