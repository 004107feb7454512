#include "engine/tasks/rewards/endpoint_reward.h"

#include <algorithm>
#include <cmath>

#include "base/system/clock.h"
#include "base/text/text.h"
#include "base/text/visible_text.h"
#include "base/value/json.h"

namespace longhaul {

namespace {

constexpr std::size_t answer_bytes_max = 16 << 20;
constexpr std::size_t shown_answer_bytes = 80;  // in messages
constexpr std::int64_t retry_wait_ms = 500;     // where the endpoint names no time
constexpr int status_busy = 503;

std::string shown(const std::string& body) {
  return visible_line(std::string_view(body).substr(0, shown_answer_bytes));
}

Reward reward_of(const Value& given) {
  if (given.is_null()) return {std::nullopt, "the endpoint gives it no reward (null)"};
  if (given.is_number() && std::isfinite(given.as_number())) return {given.as_number(), ""};
  return {std::nullopt, format("the endpoint gives it {}, which is no number", shown(to_json(given)))};
}

Result<std::vector<Reward>> rewards_of(const HttpAnswer& answer, std::size_t count) {
  const auto refuse = [](std::string what) { return make_error(ErrorCode::unavailable, std::move(what)); };
  if (answer.status / 100 != 2)
    return refuse(format("the endpoint answers with the status {}: {}", answer.status, shown(answer.body)));
  const Result<Value> parsed = parse_json(answer.body, "the endpoint's answer");
  if (!parsed.ok())
    return refuse(format("the endpoint's answer is {} (a missing reward is null)", parsed.error().what));
  const Value* list = parsed->find("rewards");
  if (list == nullptr || !list->is_array())
    return refuse(format("the endpoint's answer has no list \"rewards\": {}", shown(answer.body)));
  if (list->size() != count) return refuse(format("the endpoint gives {} rewards for {} answers", list->size(), count));
  std::vector<Reward> rewards;
  for (const Value& given : list->as_array()) rewards.push_back(reward_of(given));
  return rewards;
}

}  // namespace

Result<HttpAnswer> EndpointReward::ask(const std::string& body) const {
  SystemClock clock;
  const Deadline deadline(clock, deadline_s_ * 1000);
  HttpPost post;
  post.url = url_, post.body = body;
  post.headers = {{"Content-Type", "application/json"}};
  post.plain = true, post.answer_max = answer_bytes_max;
  post.receiver = "endpoint", post.trust_hint = "its certificate has to be one that this machine trusts";
  for (bool again = false;; again = true) {
    post.timeout_s = static_cast<double>(deadline.left_ms()) * 1e-3;
    auto answer = http_post(post);
    const bool busy = answer.ok() ? answer->status == status_busy : answer.error().code == ErrorCode::unavailable;
    const double asked_ms = answer.ok() ? std::min(answer->retry_after_s, 1e6) * 1000 : 0;
    const std::int64_t wait_ms = std::max(retry_wait_ms, static_cast<std::int64_t>(asked_ms));
    if (again || !busy || wait_ms >= deadline.left_ms()) return answer;
    clock.sleep_ms(wait_ms);
  }
}

std::vector<Reward> EndpointReward::judge(std::span<const RewardQuestion> questions) const {
  Value items = Value::make_array();
  for (const RewardQuestion& question : questions) items.push_back(question_value(question));
  Value body = Value::make_table();
  body.set("items", std::move(items));
  const Result<HttpAnswer> answer = ask(to_json(body));
  auto rewards = answer.ok() ? rewards_of(*answer, questions.size()) : Result<std::vector<Reward>>(answer.error());
  if (rewards.ok()) return std::move(*rewards);
  return std::vector<Reward>(questions.size(), {std::nullopt, rewards.error().message()});
}

}  // namespace longhaul
