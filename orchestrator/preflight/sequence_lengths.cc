#include "orchestrator/preflight/sequence_lengths.h"

#include <algorithm>

#include "base/text/text.h"
#include "contracts/settings/job/resumable.h"
#include "contracts/settings/stages/alignment.h"
#include "orchestrator/forecast/layout_request.h"
#include "orchestrator/workflow/layout/feature_check.h"

namespace longhaul {
namespace {

// What stands before every text is part of a sequence, whose default has just become shorter.
bool leaves_room(const WrittenStages& written, const PlannedStage& stage, std::int64_t before, std::int64_t longest,
                 Diagnostics& diagnostics) {
  if (before < longest) return true;
  diagnostics.add(written.place(stage, {"adapter.virtual_tokens", "adapter"}),
                  format("stage.{}: adapter.virtual_tokens = {} leave no room for a text in the model's "
                         "max_position_embeddings = {}, which count them",
                         stage.stage, before, longest),
                  "use fewer");
  return false;
}

// And so are answers of rollouts.
void check_answers(const WrittenStages& written, const PlannedStage& stage, std::int64_t before, std::int64_t longest,
                   Diagnostics& diagnostics) {
  const Value* rollout = stage.settings.find("rollout");
  if (rollout == nullptr || !learns_from_rollouts(stage.settings.get_string("method"))) return;
  const std::int64_t answer = rollout->get_integer("max_new_tokens");
  if (answer < longest - before) return;
  diagnostics.add(
      written.place(stage, {"rollout.max_new_tokens", "rollout"}),
      format("stage.{}: rollout.max_new_tokens = {} leaves no room for a prompt in the model's "
             "max_position_embeddings = {}{}",
             stage.stage, answer, longest,
             before > 0 ? format(", of which adapter.virtual_tokens = {} stand before it", before) : ""),
      format("use for example rollout = {{ max_new_tokens = {} }}", std::max<std::int64_t>(1, (longest - before) / 2)));
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
    const std::int64_t before = left_by_adapter(stage.settings).virtual_tokens;
    if (leaves_room(written, stage, before, longest, diagnostics))
      check_answers(written, stage, before, longest, diagnostics);
  }
}

}  // namespace longhaul
