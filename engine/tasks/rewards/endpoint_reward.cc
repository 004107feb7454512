#include "engine/tasks/rewards/endpoint_reward.h"

#include <cmath>

#include "base/text/text.h"
#include "base/text/visible_text.h"
#include "base/value/json.h"
#include "engine/tasks/rewards/endpoint.h"

namespace longhaul {

namespace {

constexpr std::size_t shown_reward_bytes = 80;  // in messages

Reward reward_of(const Value& given) {
  if (given.is_null()) return {std::nullopt, "the endpoint gives it no reward (null)"};
  if (given.is_number() && std::isfinite(given.as_number())) return {given.as_number(), ""};
  const std::string shown = visible_line(std::string_view(to_json(given)).substr(0, shown_reward_bytes));
  return {std::nullopt, format("the endpoint gives it {}, which is no number", shown)};
}

}  // namespace

std::vector<Reward> EndpointReward::judge(std::span<const RewardQuestion> questions) const {
  Value items = Value::make_array();
  for (const RewardQuestion& question : questions) items.push_back(question_value(question));
  const auto given = ask_endpoint(url_, deadline_s_, std::move(items), "rewards");
  if (!given.ok()) return std::vector<Reward>(questions.size(), {std::nullopt, given.error().message()});
  std::vector<Reward> rewards;
  for (const Value& one : *given) rewards.push_back(reward_of(one));
  return rewards;
}

}  // namespace longhaul
