#include "engine/tasks/rewards/stage_reward.h"

#include "engine/tasks/rewards/endpoint_reward.h"
#include "engine/tasks/rewards/program_reward.h"

namespace longhaul {

Result<RewardFunction> stage_reward(TaskRun& run, const RewardSettings& settings, std::function<void()> between) {
  std::shared_ptr<const RewardBackend> backend;
  if (settings.kind == "http") backend = std::make_shared<EndpointReward>(settings.url, settings.deadline_s);
  if (settings.kind == "tests") {
    auto tests = ProgramTests::create(settings.python).with_context("reward.kind = \"tests\"");
    LH_CHECK(run.group.agree(tests.ok() ? Status() : Status(tests.error())));
    report_missing_limits(run.events);
    backend = std::make_shared<ProgramReward>(std::move(*tests), run.compute.threads(), std::move(between));
  }
  return RewardFunction::create(settings, std::move(backend));
}

}  // namespace longhaul
