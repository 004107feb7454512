#include "orchestrator/controller/inline_stage_runner.h"
#include "orchestrator/trials/search_stages.h"
#include "orchestrator/trials/tune_stages.h"

namespace longhaul {

std::vector<std::unique_ptr<InlineStageRunner>> inline_stage_runners(const InlineStageSetup& setup) {
  std::vector<std::unique_ptr<InlineStageRunner>> runners;
  runners.push_back(std::make_unique<TuneStages>(setup));
  runners.push_back(std::make_unique<SearchStages>(setup));
  return runners;
}

}  // namespace longhaul
