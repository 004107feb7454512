// An endpoint of the user that says what answers are worth (reward.kind = "http"): one request for all answers of a
// step on a rank, in the form in which a command is asked.
//
//   POST reward.url   {"items": [{"prompt": ..., "completion": ..., "answer": ...}, ...]}
//   2xx               {"rewards": [0.5, null, ...]}   a number for each item, in their order; null: it has none
#pragma once

#include <string>

#include "engine/align/reward.h"

namespace longhaul {

class EndpointReward final : public RewardBackend {
 public:
  // deadline_s: for the answer and both tries together.
  EndpointReward(std::string url, std::int64_t deadline_s) : url_(std::move(url)), deadline_s_(deadline_s) {}
  // Asked as endpoint.h says. What goes wrong then (no answer, another status than 2xx, no JSON, another number of
  // rewards) is the problem of all answers, and what is no number that of its own answer.
  std::vector<Reward> judge(std::span<const RewardQuestion> questions) const override;

 private:
  std::string url_;
  std::int64_t deadline_s_;
};

}  // namespace longhaul
