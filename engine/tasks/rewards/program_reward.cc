#include "engine/tasks/rewards/program_reward.h"

#include "base/text/text.h"

namespace longhaul {

std::string program_of_answer(const std::string& answer) {
  constexpr std::string_view fence = "```";
  std::string code;
  bool inside = false;
  for (const std::string& line : split(answer, '\n')) {
    const bool is_fence = line.starts_with(fence);
    if (is_fence && inside) return code;
    if (inside) code += line + "\n";
    inside = inside || is_fence;
  }
  return inside ? code : answer;
}

std::vector<Reward> ProgramReward::judge(std::span<const RewardQuestion> questions) const {
  std::vector<Reward> rewards(questions.size());
  std::vector<TestedProgram> programs;
  std::vector<std::size_t> places;
  for (std::size_t i = 0; i < questions.size(); ++i) {
    const Value& tests = questions[i].answer;
    if (!tests.is_string()) {
      rewards[i].problem = format("the row's answer is no text of tests but {}", tests.kind_name());
      continue;
    }
    programs.push_back({program_of_answer(questions[i].completion), tests.as_string()}), places.push_back(i);
  }
  const auto verdicts = tests_.judge_all(programs, together_, [&](std::size_t) {
    if (between_) between_();
  });
  for (std::size_t k = 0; k < places.size(); ++k) {
    if (verdicts.ok())
      rewards[places[k]].value = (*verdicts)[k].passed ? 1.0 : 0.0;
    else
      rewards[places[k]].problem = verdicts.error().message();
  }
  return rewards;
}

}  // namespace longhaul
