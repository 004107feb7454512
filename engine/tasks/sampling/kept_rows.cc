#include "engine/tasks/sampling/kept_rows.h"

#include "base/text/text.h"
#include "base/value/json.h"

namespace longhaul {

namespace {

bool may_be_kept(const SampledAnswer& answer) {
  return answer.reward.value && !answer.cut && !trim(answer.text).empty();
}

// As rows of prompts have it: a text, or a list of messages.
Value prompt_value(const PromptExample& prompt) {
  if (prompt.messages.size() == 1) return prompt.question();
  Value list = Value::make_array();
  for (const ChatMessage& message : prompt.messages) {
    Value one = Value::make_table();
    one.set("role", message.role), one.set("content", message.content);
    list.push_back(std::move(one));
  }
  return list;
}

std::string all_rows(const PromptExample& prompt, const SampledGroup& group) {
  std::string text;
  for (std::size_t i = 0; i < group.answers.size(); ++i) {
    const SampledAnswer& answer = group.answers[i];
    Value row = Value::make_table();
    row.set("line", prompt.line), row.set("sample", i);
    row.set("prompt", prompt_value(prompt)), row.set("completion", answer.text);
    if (!prompt.answer.is_null()) row.set("answer", prompt.answer);
    row.set("reward", answer.reward.value ? Value(*answer.reward.value) : Value());
    if (!answer.reward.value) row.set("problem", answer.reward.problem);
    row.set("cut", answer.cut);
    text += to_json(row) + "\n";
  }
  return text;
}

}  // namespace

std::optional<BestAndWorst> best_and_worst(const SampledGroup& group) {
  std::optional<BestAndWorst> found;
  const auto reward = [&](std::size_t i) { return *group.answers[i].reward.value; };
  for (std::size_t i = 0; i < group.answers.size(); ++i) {
    if (!may_be_kept(group.answers[i])) continue;
    if (!found) found = BestAndWorst{i, i};
    if (reward(i) > reward(found->best)) found->best = i;
    if (reward(i) < reward(found->worst)) found->worst = i;
  }
  return found;
}

KeptRows kept_rows(const SampleSettings& settings, const PromptExample& prompt, const SampledGroup& group) {
  if (settings.keep == "all") return {all_rows(prompt, group), static_cast<std::int64_t>(group.answers.size())};
  const auto found = best_and_worst(group);
  if (!found) return {};
  const SampledAnswer &best = group.answers[found->best], &worst = group.answers[found->worst];
  Value row = Value::make_table();
  row.set("prompt", prompt_value(prompt));
  if (settings.keep == "best") {
    if (*best.reward.value <= settings.reward_above) return {};
    row.set("completion", best.text);
  } else {
    if (*best.reward.value - *worst.reward.value <= settings.margin_above || best.text == worst.text) return {};
    row.set("chosen", best.text), row.set("rejected", worst.text);
  }
  return {to_json(row) + "\n", 1};
}

const char* kept_file_name(const SampleSettings& settings) {
  if (settings.keep == "best") return "train.jsonl";
  return settings.keep == "pairs" ? "pairs.jsonl" : "samples.jsonl";
}

}  // namespace longhaul
