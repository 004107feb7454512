#include "engine/tasks/rewards/stage_reward.h"

#include "engine/tasks/rewards/endpoint_reward.h"

namespace longhaul {

Result<RewardFunction> stage_reward(const RewardSettings& settings) {
  std::shared_ptr<const RewardBackend> backend;
  if (settings.kind == "http") backend = std::make_shared<EndpointReward>(settings.url, settings.deadline_s);
  return RewardFunction::create(settings, std::move(backend));
}

}  // namespace longhaul
