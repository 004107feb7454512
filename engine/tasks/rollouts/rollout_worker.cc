#include "engine/tasks/rollouts/rollout_worker.h"

#include <algorithm>
#include <cmath>

#include "base/digest/hash.h"
#include "base/text/text.h"
#include "base/value/json.h"

namespace longhaul {

namespace {

// Of a turn of the model, from 1: the first has that of its answer.
SamplingParameters sampling_of_turn(SamplingParameters sampling, std::int64_t turn) {
  if (turn > 1) sampling.stream = xxh3_64(format("{} {}", sampling.stream, turn), 0x7475726e);
  return sampling;
}

// Tokens of the model, which are learnt, or of others.
void append_tokens(std::span<const std::int32_t> ids, bool learnt, ChatTokens& tokens) {
  tokens.ids.insert(tokens.ids.end(), ids.begin(), ids.end());
  tokens.loss_mask.resize(tokens.ids.size(), learnt ? 1 : 0);
}

std::string pack_replies(const std::vector<EnvironmentReply>& replies) {
  Value packed = Value::make_array();
  for (const EnvironmentReply& reply : replies) {
    Value one = Value::make_table();
    one.set("content", reply.content), one.set("done", reply.done), one.set("problem", reply.problem);
    packed.push_back(std::move(one));
  }
  return to_json(packed);
}

// Of what pack_replies() has made.
std::vector<EnvironmentReply> unpack_replies(const std::string& packed) {
  std::vector<EnvironmentReply> replies;
  const Result<Value> all = parse_json(packed);
  LH_ASSERT(all.ok(), packed);
  for (const Value& one : all->as_array())
    replies.push_back({one.get_string("content"), one.get_bool("done"), one.get_string("problem")});
  return replies;
}

RewardQuestion question_of(const PromptExample& example, std::vector<ChatMessage> turns, bool several) {
  const auto last = std::ranges::find(turns.rbegin(), turns.rend(), "assistant", &ChatMessage::role);
  RewardQuestion question{example.question(), last->content, example.answer};
  if (several) question.turns = std::move(turns);
  return question;
}

}  // namespace

RolloutWorker::RolloutWorker(const Clock& clock, const AlignSettings& settings, const ConversationTokens& tokens,
                             const ModelShape& shape, TextModelInfo info, Judges judges, const Place& place,
                             DrawingTeam& team)
    : clock_(clock),
      settings_(settings),
      compute_(place.gpu ? ComputeContext(place.gpu->device(), place.gpu->ops(), place.threads)
                         : ComputeContext(place.threads, place.level)),
      encoder_(tokens.encoder),
      team_(team),
      model_(compute_, tokens.tokenizer, shape, std::move(info), team.ranks()),
      environment_(settings.rollout),
      judges_(std::move(judges)) {}

std::vector<RolloutWorker::Talk> RolloutWorker::begin_talks(const TokenizedPrompts& prompts,
                                                            std::span<const RolloutTask> tasks,
                                                            std::span<const int> whose) const {
  LH_ASSERT(whose.empty() ? team_.is_one() : whose.size() == tasks.size(), std::to_string(whose.size()));
  std::vector<Talk> talks(tasks.size());
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    append_tokens(prompts.ids[tasks[i].prompt], false, talks[i].rollout.tokens);
    talks[i].sampling = tasks[i].sampling, talks[i].rollout.turns = 0;
    talks[i].whose = whose.empty() ? team_.rank() : whose[i];
  }
  return talks;
}

Status RolloutWorker::generate(const TokenizedPrompts& prompts, std::span<const RolloutTask> tasks,
                               InferenceWeights weights, std::vector<Talk>& talks, RolloutTimes& times,
                               const Says& says) {
  std::size_t longest = 0;
  for (const Talk& talk : talks) longest = std::max(longest, talk.rollout.tokens.ids.size());
  const RolloutSettings& rollout = settings_.rollout;
  const auto slots = std::min<std::int64_t>(rollout.slots, static_cast<std::int64_t>(tasks.size()));
  const bool several = rollout.turns > 1;
  model_.begin(std::move(weights), static_cast<int>(slots),
               several ? settings_.sequence_length + 1 : static_cast<std::int64_t>(longest) + rollout.max_new_tokens,
               several, rollout.guesses());
  Status drawn = draw_turn(1, talks, says);
  for (std::int64_t turn = 1; drawn.ok() && turn < rollout.turns; ++turn) {
    if (std::ranges::none_of(talks, &Talk::open)) break;
    const std::int64_t asked_ns = clock_.monotonic_ns();
    drawn = ask_environment(turn, prompts, tasks, talks, says);
    times.environment += static_cast<double>(clock_.monotonic_ns() - asked_ns) * 1e-9;
    if (drawn.ok()) drawn = draw_turn(turn + 1, talks, says);
  }
  model_.end();
  return drawn;
}

// Number `turn` of the model, in conversations that are open.
Status RolloutWorker::draw_turn(std::int64_t turn, std::vector<Talk>& talks, const Says& says) {
  const RolloutSettings& rollout = settings_.rollout;
  AnswerBatchOptions options;
  options.max_tokens = rollout.max_new_tokens;
  options.prefill_tokens = RolloutModel::prefill_tokens;  // nobody waits for the next token of an answer
  options.draft_tokens = rollout.guesses();
  options.between = [&] { says("rollout"); };
  std::vector<AnswerRequest> requests;
  for (const Talk& talk : talks) {
    if (!talk.open) continue;
    const std::vector<std::int32_t>& ids = talk.rollout.tokens.ids;
    AnswerRequest& request = requests.emplace_back(AnswerRequest{ids, sampling_of_turn(talk.sampling, turn)});
    request.max_tokens = settings_.sequence_length + 1 - static_cast<std::int64_t>(ids.size());
  }
  if (requests.empty()) return {};
  LH_TRY(std::vector<GeneratedAnswer> answers, generate_answers(model_, clock_, requests, options));
  auto next = answers.begin();
  for (Talk& talk : talks) {
    if (!talk.open) continue;
    GeneratedAnswer& answer = *next++;
    Rollout& of = talk.rollout;
    append_tokens(answer.tokens, true, of.tokens);
    of.drawn.insert(of.drawn.end(), answer.logprobs.begin(), answer.logprobs.end());
    of.cut = answer.cut, of.turns += 1, of.read += answer.read;
    of.drafted += answer.drafted, of.accepted += answer.accepted, of.decode_steps += answer.decode_steps;
    talk.turns.push_back({.role = "assistant", .content = std::move(answer.text)});
    talk.open = !answer.cut;
  }
  return {};
}

// What it says behind the model's turn `turn`: each rank of a team asks for its conversations, and has the replies of
// all.
Status RolloutWorker::ask_environment(std::int64_t turn, const TokenizedPrompts& prompts,
                                      std::span<const RolloutTask> tasks, std::vector<Talk>& talks, const Says& says) {
  says("environment");
  std::vector<OpenConversation> asked;
  for (std::size_t i = 0; i < talks.size(); ++i) {
    if (!talks[i].open || talks[i].whose != team_.rank()) continue;
    const PromptExample& example = prompts.examples[tasks[i].prompt];
    OpenConversation& one = asked.emplace_back(OpenConversation{example.messages, turn, example.answer});
    one.messages.insert(one.messages.end(), talks[i].turns.begin(), talks[i].turns.end());
  }
  std::vector<std::vector<EnvironmentReply>> replies{environment_.ask(asked)};
  if (!team_.is_one()) {
    LH_TRY(const std::vector<std::string> all, team_.all_gather_text(pack_replies(replies.front())));
    replies.clear();
    for (const std::string& packed : all) replies.push_back(unpack_replies(packed));
  }
  std::vector<std::size_t> next(replies.size());
  for (Talk& talk : talks) {
    if (!talk.open) continue;
    const std::size_t of = team_.index_of(talk.whose);
    take_reply(replies[of][next[of]++], talk);
  }
  return {};
}

void RolloutWorker::take_reply(const EnvironmentReply& given, Talk& talk) const {
  Rollout& rollout = talk.rollout;
  const auto fail = [&](std::string problem) {
    rollout.environment_failed = true, rollout.reward = {std::nullopt, std::move(problem)}, talk.open = false;
  };
  if (!given.problem.empty()) return fail(given.problem);
  const ChatMessage message{.role = settings_.rollout.environment_role, .content = given.content};
  talk.open = !given.done;
  if (talk.open) {
    const auto ids = encoder_.encode_reply(message, model_.info().end_tokens);
    if (!ids.ok()) return fail("what the environment says has no place: " + ids.error().message());
    if (std::ssize(rollout.tokens.ids) + std::ssize(*ids) > settings_.sequence_length) {  // or one token behind it
      rollout.cut = true, talk.open = false;
      return;
    }
    append_tokens(*ids, false, rollout.tokens);
  }
  if (talk.open || !given.content.empty()) talk.turns.push_back(message);
}

Status RolloutWorker::judge(const std::vector<RewardQuestion>& questions, std::vector<Rollout>& rollouts,
                            const Says& says) {
  says("reward");
  std::vector<Rollout*> judged;
  std::vector<RewardQuestion> asked;
  for (std::size_t i = 0; i < rollouts.size(); ++i)
    if (!rollouts[i].environment_failed) judged.push_back(&rollouts[i]), asked.push_back(questions[i]);
  if (judges_.judge) return judge_by_model(judged, says);
  if (!judges_.reward) {
    for (Rollout* rollout : judged) rollout->reward.value = 0;
    return {};
  }
  std::vector<Reward> rewards = judges_.reward->judge(asked);
  for (std::size_t i = 0; i < judged.size(); ++i) judged[i]->reward = std::move(rewards[i]);
  return {};
}

Status RolloutWorker::judge_by_model(std::span<Rollout* const> rollouts, const Says& says) {
  std::vector<JudgedText> texts;
  for (const Rollout* rollout : rollouts) texts.push_back({rollout->tokens.ids, rollout->answer_begin()});
  LH_TRY(const std::vector<double> rewards, judges_.judge->rewards(compute_, texts, [&] { says("reward"); }));
  for (std::size_t i = 0; i < rollouts.size(); ++i) {
    if (std::isfinite(rewards[i]))
      rollouts[i]->reward.value = rewards[i];
    else
      rollouts[i]->reward.problem = format("the reward model gives it {}", rewards[i]);
  }
  return {};
}

Status RolloutWorker::compare(std::vector<Talk>& talks, const Says& says) {
  if (!judges_.reference) return {};
  InferenceModel& reference = *judges_.reference;
  std::size_t longest = 0;
  for (const Talk& talk : talks) longest = std::max(longest, talk.rollout.tokens.ids.size());
  KvCache cache = reference.make_cache(static_cast<std::int64_t>(longest));
  std::span<const std::int32_t> before;  // what the cache begins with
  std::vector<double> scores;            // of all behind the prompt
  for (Talk& talk : talks) {
    Rollout& rollout = talk.rollout;
    says("rollout");
    const std::span<const std::int32_t> ids = rollout.tokens.ids, prompt = ids.first(rollout.answer_begin());
    const bool same = std::ranges::equal(prompt, before);
    scores.resize(ids.size() - prompt.size());
    LH_CHECK(score_tokens(compute_, reference, cache, ids, prompt.size(), same, scores));
    for (std::size_t i = prompt.size(); i < ids.size(); ++i)
      if (rollout.tokens.loss_mask[i] != 0) rollout.reference.push_back(scores[i - prompt.size()]);
    before = prompt;
  }
  return {};
}

Result<std::vector<Rollout>> RolloutWorker::answer(InferenceWeights weights, const TokenizedPrompts& prompts,
                                                   std::span<const RolloutTask> tasks, std::span<const int> whose,
                                                   RolloutTimes& times, const Says& says) {
  std::int64_t begun = clock_.monotonic_ns();
  const auto seconds = [&] {
    const std::int64_t from = begun;
    begun = clock_.monotonic_ns();
    return static_cast<double>(begun - from) * 1e-9;
  };
  const double environment_before = times.environment;
  std::vector<Talk> talks = begin_talks(prompts, tasks, whose);
  LH_CHECK(generate(prompts, tasks, std::move(weights), talks, times, says));
  times.generate += seconds() - (times.environment - environment_before);
  LH_CHECK(compare(talks, says));
  times.reference += seconds();
  std::vector<Rollout> rollouts;
  std::vector<RewardQuestion> questions;
  for (std::size_t i = 0; i < talks.size(); ++i) {
    if (talks[i].whose != team_.rank()) continue;
    rollouts.push_back(std::move(talks[i].rollout));
    questions.push_back(
        question_of(prompts.examples[tasks[i].prompt], std::move(talks[i].turns), settings_.rollout.turns > 1));
  }
  LH_CHECK(judge(questions, rollouts, says));
  times.reward += seconds();
  return rollouts;
}

}  // namespace longhaul
