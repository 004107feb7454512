// The step of a stage that learns from its own answers: what drawing them takes, beside what layout_request.h asks of
// its training. Pure, but for what that reads.
#pragma once

#include "autotune/search/training_forecast.h"
#include "orchestrator/forecast/layout_request.h"
#include "orchestrator/forecast/stage_shape.h"

namespace longhaul {

// `training`: of the steps without their answers, as layout_request_of_rollouts() has it, which take `train_seconds`
// where those are drawn beside them all the time, if they are. As if every
// prompt were as long as sequence_length allows and every answer as long as the settings do; what that leaves out is
// said in `notes`. `shapes`: the models that it takes beside its own. unsupported: a critic or a teacher whose shape
// nobody knows yet.
Result<RolloutForecast> rollout_forecast(const PlannedStage& stage, const SiteConfig& site,
                                         const TimeConstants& constants, const LayoutRequest& training,
                                         const ShapesBeside& shapes, int ranks_per_node, double train_seconds,
                                         std::vector<std::string>& notes);

// Bytes that the ranks that only draw need together on the node that holds the last of them; 0: there are none.
double drawing_memory_of_node(const RolloutForecast& rollout, int ranks_per_node);

}  // namespace longhaul
