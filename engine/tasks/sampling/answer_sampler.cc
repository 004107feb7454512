#include "engine/tasks/sampling/answer_sampler.h"

#include <algorithm>
#include <cmath>

#include "base/digest/hash.h"
#include "base/files/files.h"
#include "base/text/text.h"
#include "engine/infer/generate/answer_batch.h"
#include "engine/infer/generate/inference_text_model.h"

namespace longhaul {

namespace {

constexpr std::size_t answers_of_block = 256;

std::uint64_t stream_of(int line, std::int64_t sample) {
  return xxh3_64(format("{} {}", line, sample), 0x73616d70);
}

std::size_t prompts_of_block(const SampleSettings& settings) {
  return std::max<std::size_t>(1, answers_of_block / static_cast<std::size_t>(settings.samples));
}

}  // namespace

Result<std::unique_ptr<AnswerSampler>> AnswerSampler::create(TaskRun& run, const SampleSettings& settings,
                                                             const TokenizedPrompts& prompts, RewardFunction reward) {
  std::unique_ptr<AnswerSampler> made(new AnswerSampler(run, settings, prompts, std::move(reward)));
  LH_TRY(const std::string folder, run.task.input_path("model"));
  std::size_t longest = 0;
  for (const auto& ids : prompts.ids) longest = std::max(longest, ids.size());
  InferenceTextModelOptions options;
  options.precision = settings.precision, options.threads = run.compute.threads();
  options.context_length = static_cast<std::int64_t>(longest) + settings.max_new_tokens;
  const std::size_t at_once = prompts_of_block(settings) * static_cast<std::size_t>(settings.samples);
  options.slots = static_cast<int>(std::min(settings.slots, static_cast<std::int64_t>(at_once)));
  LH_TRY(made->model_, load_inference_text_model(folder, options));
  if (settings.reward.kind == "model") {
    LH_TRY(const std::string judge, run.task.input_path("reward"));
    LH_TRY(made->reward_model_, RewardModel::load(run, judge, settings.precision, options.context_length, folder));
  }
  if (settings.reward.kind == "judge") {
    LH_TRY(const std::string judge, run.task.input_path("judge"));
    std::string constitution;
    if (run.task.input("constitution")) {
      LH_TRY(const std::string path, run.task.input_path("constitution"));
      LH_TRY(const std::string text, read_file(path));
      constitution = trim(text);
      if (constitution.empty())
        return make_error(ErrorCode::invalid_input, path + " is empty", "a constitution is a text of principles");
    }
    LH_TRY(made->judge_, PairwiseJudge::load(run, judge, settings.judge, constitution, settings.precision));
  }
  return made;
}

std::size_t AnswerSampler::blocks() const {
  const std::size_t size = prompts_of_block(settings_);
  return (prompts_.ids.size() + size - 1) / size;
}

Result<std::vector<SampledGroup>> AnswerSampler::draw(std::size_t first, std::size_t end) {
  std::vector<AnswerRequest> requests;
  for (std::size_t prompt = first; prompt < end; ++prompt)
    for (std::int64_t sample = 0; sample < settings_.samples; ++sample) {
      AnswerRequest& request = requests.emplace_back();
      request.prompt = prompts_.ids[prompt];
      request.sampling.temperature = settings_.temperature, request.sampling.top_p = settings_.top_p;
      request.sampling.seed = static_cast<std::uint64_t>(settings_.seed);
      request.sampling.stream = stream_of(prompts_.examples[prompt].line, sample);
    }
  AnswerBatchOptions options;
  options.max_tokens = settings_.max_new_tokens;
  options.between = [&] { run_.section("sample"); };
  LH_TRY(std::vector<GeneratedAnswer> answers, generate_answers(*model_, run_.clock, requests, options));
  std::vector<SampledGroup> groups(end - first);
  for (std::size_t i = 0; i < answers.size(); ++i) {
    const std::size_t group = i / static_cast<std::size_t>(settings_.samples);
    groups[group].prompt = first + group;
    groups[group].answers.push_back({std::move(answers[i].tokens), std::move(answers[i].text), answers[i].cut, {}});
  }
  return groups;
}

void AnswerSampler::check(std::vector<SampledGroup>& groups) const {
  std::vector<RewardQuestion> questions;
  for (const SampledGroup& group : groups)
    for (const SampledAnswer& answer : group.answers) {
      const PromptExample& example = prompts_.examples[group.prompt];
      questions.push_back({example.question(), answer.text, example.answer});
    }
  std::vector<Reward> rewards = reward_.judge(questions);
  auto next = rewards.begin();
  for (SampledGroup& group : groups)
    for (SampledAnswer& answer : group.answers) answer.reward = std::move(*next++);
}

Status AnswerSampler::ask_reward_model(std::vector<SampledGroup>& groups) {
  std::vector<std::vector<std::int32_t>> ids;
  std::vector<JudgedText> texts;
  for (const SampledGroup& group : groups)
    for (const SampledAnswer& answer : group.answers) {
      std::vector<std::int32_t>& text = ids.emplace_back(prompts_.ids[group.prompt]);
      text.insert(text.end(), answer.tokens.begin(), answer.tokens.end());
    }
  auto text = ids.begin();
  for (const SampledGroup& group : groups)
    for (std::size_t i = 0; i < group.answers.size(); ++i)
      texts.push_back({*text++, prompts_.ids[group.prompt].size()});
  LH_TRY(const std::vector<double> rewards,
         reward_model_->rewards(run_.compute, texts, [this] { run_.section("reward"); }));
  auto next = rewards.begin();
  for (SampledGroup& group : groups)
    for (SampledAnswer& answer : group.answers) {
      const double reward = *next++;
      if (std::isfinite(reward))
        answer.reward.value = reward;
      else
        answer.reward.problem = format("the reward model gives it {}", reward);
    }
  return {};
}

// The reward of an answer: how likely it is preferred to another one of its prompt, the mean over all others. Equal
// texts are not asked about.
Status AnswerSampler::ask_judge(Block& block) {
  std::vector<ComparedAnswers> asked;
  for (const SampledGroup& group : block.groups)
    for (std::size_t i = 0; i < group.answers.size(); ++i)
      for (std::size_t j = i + 1; j < group.answers.size(); ++j)
        if (group.answers[i].text != group.answers[j].text)
          asked.push_back(
              {prompt_text(prompts_.examples[group.prompt].messages), group.answers[i].text, group.answers[j].text});
  LH_TRY(const std::vector<Preference> preferences, judge_->compare(asked));
  auto next = preferences.begin();
  for (SampledGroup& group : block.groups) {
    const auto others = static_cast<double>(group.answers.size() - 1);
    for (SampledAnswer& answer : group.answers) answer.reward.value = 0;
    const auto won = [&](std::size_t i, double share) {
      if (auto& value = group.answers[i].reward.value) *value += share / others;
    };
    for (std::size_t i = 0; i < group.answers.size(); ++i)
      for (std::size_t j = i + 1; j < group.answers.size(); ++j) {
        const bool same = group.answers[i].text == group.answers[j].text;
        const Preference preference = same ? Preference{.first = 0.5, .problem = {}} : *next++;
        if (!preference.first) {
          for (const std::size_t k : {i, j}) group.answers[k].reward = {std::nullopt, preference.problem};
          continue;
        }
        won(i, *preference.first), won(j, 1 - *preference.first);
        if (same) continue;
        block.judged.comparisons += 1, block.judged.letters += preference.letters;
        block.judged.order_flips += preference.flips ? 1 : 0;
      }
  }
  return {};
}

Result<AnswerSampler::Block> AnswerSampler::block(std::size_t number) {
  const std::size_t size = prompts_of_block(settings_), first = number * size;
  Block made;
  LH_TRY(made.groups, draw(first, std::min(first + size, prompts_.ids.size())));
  run_.section("reward");
  if (judge_)
    LH_CHECK(ask_judge(made));
  else if (reward_model_)
    LH_CHECK(ask_reward_model(made.groups));
  else
    check(made.groups);
  return made;
}

}  // namespace longhaul
