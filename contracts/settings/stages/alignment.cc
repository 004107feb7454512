#include "contracts/settings/stages/alignment.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "base/error/result.h"
#include "base/text/text.h"
#include "base/value/json_schema.h"

namespace longhaul {

const std::vector<AlignMethod>& align_methods() {
  static const std::vector<AlignMethod> methods = {
      {.name = "dpo", .reference = true, .label_smoothing = true, .divergence = true},
      {.name = "robust", .reference = true, .label_smoothing = true, .divergence = true},
      {.name = "ipo", .reference = true, .divergence = true},
      {.name = "hinge", .reference = true, .divergence = true},
      {.name = "simpo", .label_smoothing = true, .reward_margin = true, .per_token_only = true},
      {.name = "orpo", .per_token_only = true, .has_cross_entropy = true},
      {.name = "kto", .reference = true, .labels = true}};
  return methods;
}

const AlignMethod& align_method(std::string_view name) {
  const std::vector<AlignMethod>& methods = align_methods();
  const auto found = std::ranges::find_if(methods, [&](const AlignMethod& one) { return one.name == name; });
  LH_ASSERT(found != methods.end(), std::string(name));
  return *found;
}

const std::vector<const char*>& rollout_methods() {
  static const std::vector<const char*> methods = {"grpo", "rloo", "reinforce++", "ppo", "distill"};
  return methods;
}

bool learns_from_rollouts(std::string_view method) {
  return std::ranges::any_of(rollout_methods(), [&](const char* one) { return method == one; });
}

bool has_critic(std::string_view method) {
  return method == "ppo";
}

bool has_teacher(std::string_view method) {
  return method == "distill";
}

int rollout_ranks_of(std::string_view kind, const Value& settings) {
  if (kind != "align" || !learns_from_rollouts(settings.get_string("method"))) return 0;
  const Value* rollout = settings.find("rollout");
  return rollout && rollout->is_table() ? static_cast<int>(rollout->get_integer("ranks")) : 0;
}

namespace {

using Unless = std::function<void(bool fine, const char* key, std::string what, std::string hint)>;

// A key of the reward that goes with some kinds alone.
struct RewardKey {
  const char* name;
  std::vector<std::string_view> kinds;
  bool given;
  const char* missing = nullptr;  // the hint where one of those kinds is without it; null: it may be
};

// What may be written into files that others read, and a program elsewhere can be asked by.
void check_url(const std::string& url, const char* key, const std::string& name, const std::string& program,
               const Unless& unless) {
  const bool secure = url.starts_with("https://"), known = secure || url.starts_with("http://");
  const std::string rest = url.substr(known ? (secure ? 8 : 7) : 0);
  const bool blank = std::ranges::any_of(url, [](char c) { return static_cast<unsigned char>(c) <= ' ' || c == 127; });
  unless(known && !blank && !rest.empty() && rest.front() != '/', key, name + " is no address of an endpoint",
         "https://HOST:PORT/PATH, or http:// where nobody else is on the way");
  unless(rest.substr(0, rest.find('/')).find('@') == std::string::npos, key,
         name + " has a name or a password in it, which files of the run would show",
         "leave it out; an endpoint that asks for one is asked by a program, with " + program);
}

void check_reward(const RewardSettings& reward, const Unless& unless) {
  const RewardSettings plain;
  const RewardKey keys[] = {{"pattern", {"regex"}, !reward.pattern.empty(), "give the regular expression"},
                            {"command", {"command"}, !reward.command.empty(), "give the program and its arguments"},
                            {"url", {"http"}, !reward.url.empty(), "give the address of the endpoint"},
                            {"schema", {"json"}, !reward.schema.empty()},
                            {"python", {"tests"}, reward.python != plain.python},
                            {"deadline_s", {"command", "http"}, reward.deadline_s != plain.deadline_s}};
  for (const RewardKey& key : keys) {
    const bool meant = std::ranges::find(key.kinds, reward.kind) != key.kinds.end();
    unless(!meant || key.given || key.missing == nullptr, "reward",
           format("reward.kind = \"{}\" without a reward.{}", reward.kind, key.name), key.missing ? key.missing : "");
    unless(meant || !key.given, "reward",
           format("reward.{} means nothing with reward.kind = \"{}\"", key.name, reward.kind),
           format("leave it out, or set reward.kind = \"{}\"", key.kinds.front()));
  }
  if (!reward.url.empty()) check_url(reward.url, "reward", "reward.url", "reward.kind = \"command\"", unless);
  if (reward.schema.empty()) return;
  if (const auto schema = JsonSchema::compile(reward.schema); !schema.ok())
    unless(false, "reward", format("reward.schema: {}", schema.error().what),
           schema.error().hint.empty() ? "the text of the schema itself stands here, no path" : schema.error().hint);
}

// What is said of pairs, where there are none.
void check_no_pairs(const AlignSettings& s, const char* learns_from, const Unless& unless) {
  const AlignSettings plain;
  const auto only_pairs = [&](bool asked, const char* key) {
    unless(!asked, key,
           format("{} means nothing with method = \"{}\", which learns from {}", key, s.method, learns_from),
           "leave it out; it goes with losses of preferences");
  };
  only_pairs(s.label_smoothing != plain.label_smoothing, "label_smoothing");
  only_pairs(s.divergence != plain.divergence, "divergence");
  only_pairs(s.divergence_alpha != plain.divergence_alpha, "divergence_alpha");
  only_pairs(s.reward_margin != plain.reward_margin, "reward_margin");
  only_pairs(s.sft_weight != plain.sft_weight, "sft_weight");
  only_pairs(s.length_normalized != plain.length_normalized, "length_normalized");
}

// Answers that are good or bad by themselves.
void check_labels(const AlignSettings& s, const Unless& unless) {
  check_no_pairs(s, "labels", unless);
  unless(s.desirable_weight > 0 || s.undesirable_weight > 0, "desirable_weight",
         "desirable_weight and undesirable_weight are both 0: nothing is learnt", "1 for both is usual");
}

// Of methods whose advantages are those of tokens.
void check_no_groups(const AlignSettings& s, const Unless& unless) {
  const auto no_group = [&](bool asked, const char* what) {
    unless(!asked, "rollout",
           format("{} with method = \"{}\", whose advantages are those of tokens and not of groups", what, s.method),
           "leave it out; it goes with grpo");
  };
  no_group(s.rollout.redraws > 0, "rollout.redraws");
  no_group(s.rollout.ratio != "token", "rollout.ratio = \"sequence\"");
}

// Answers near the longest one.
void check_overlong(const AlignSettings& s, const Unless& unless) {
  const RolloutSettings& rollout = s.rollout;
  const RolloutSettings plain;
  const bool shape = rollout.overlong == "shape";
  unless(rollout.overlong == "none" || !has_teacher(s.method), "rollout",
         format("rollout.overlong = \"{}\" with method = \"{}\", which has no rewards", rollout.overlong, s.method),
         "leave it out; a teacher judges every token of an answer that was cut, too");
  unless(shape || rollout.overlong_tokens == plain.overlong_tokens, "rollout",
         format("rollout.overlong_tokens means nothing with rollout.overlong = \"{}\"", rollout.overlong),
         "write overlong = \"shape\" beside it");
  unless(shape || rollout.overlong_penalty == plain.overlong_penalty, "rollout",
         format("rollout.overlong_penalty means nothing with rollout.overlong = \"{}\"", rollout.overlong),
         "write overlong = \"shape\" beside it");
  unless(!shape || (rollout.overlong_tokens >= 1 && rollout.overlong_tokens <= rollout.max_new_tokens), "rollout",
         format("rollout.overlong = \"shape\" with rollout.overlong_tokens = {}, which is not from 1 to "
                "rollout.max_new_tokens = {}",
                rollout.overlong_tokens, rollout.max_new_tokens),
         format("{} would be DAPO's fifth", std::max<std::int64_t>(1, rollout.max_new_tokens / 5)));
  unless(!shape || rollout.overlong_penalty > 0, "rollout",
         "rollout.overlong = \"shape\" with rollout.overlong_penalty = 0, which costs nothing",
         "1 is usual, or leave overlong out");
}

// The policy before a step's first update is that of the step's own forward only where a rollout has one update; there
// the ratio to it is 1, and bounds of it never count.
void check_importance(const AlignSettings& s, const Unless& unless) {
  const RolloutSettings& rollout = s.rollout;
  const RolloutSettings plain;
  if (rollout.importance_cap == 0) return;
  unless(
      rollout.updates() == 1, "rollout",
      format("rollout.importance_cap with {} steps from a rollout: the probabilities before the first of them are not "
             "kept for the others",
             rollout.updates()),
      "set rollout.minibatches = 1 and rollout.epochs = 1, or leave importance_cap out");
  const auto without_ratio = [&](bool asked, const char* what, const char* why) {
    unless(!asked, "rollout", format("{} with rollout.importance_cap, {}", what, why), "leave one of them out");
  };
  without_ratio(rollout.ratio != plain.ratio, "rollout.ratio = \"sequence\"", "which weighs tokens");
  without_ratio(rollout.surrogate == "cispo", "rollout.surrogate = \"cispo\"",
                "whose bound of the same ratio is 1 + clip_high");
  constexpr const char* one_update = "where the ratio that it bounds is 1";
  without_ratio(rollout.clip_low != plain.clip_low, "rollout.clip_low", one_update);
  without_ratio(rollout.clip_high != plain.clip_high && rollout.surrogate != "cispo", "rollout.clip_high", one_update);
  without_ratio(rollout.dual_clip != plain.dual_clip, "rollout.dual_clip", one_update);
}

// Conversations of several turns, and who speaks between them.
void check_turns(const AlignSettings& s, const Unless& unless) {
  const RolloutSettings& rollout = s.rollout;
  const RolloutSettings plain;
  const bool several = rollout.turns > 1, program = !rollout.environment.empty(),
             endpoint = !rollout.environment_url.empty();
  unless(!several || program || endpoint, "rollout",
         format("rollout.turns = {} without a rollout.environment: nobody speaks between two turns", rollout.turns),
         "give the program and its arguments, or rollout.environment_url");
  unless(!program || !endpoint, "rollout", "rollout.environment and rollout.environment_url: one of them speaks",
         "leave one of them out");
  unless(!program || !rollout.environment.front().empty(), "rollout", "rollout.environment begins with an empty text",
         "the program stands first");
  const auto only_several = [&](bool asked, const char* key) {
    unless(several || !asked, "rollout", format("{} means nothing with rollout.turns = 1", key),
           "write turns = 4 beside it, say, or leave it out");
  };
  only_several(program, "rollout.environment");
  only_several(endpoint, "rollout.environment_url");
  only_several(rollout.environment_role != plain.environment_role, "rollout.environment_role");
  only_several(rollout.environment_deadline_s != plain.environment_deadline_s, "rollout.environment_deadline_s");
  unless(
      !several || !has_teacher(s.method), "rollout",
      format("rollout.turns = {} with method = \"{}\", which has no rewards of conversations", rollout.turns, s.method),
      "leave it out, or use grpo, rloo, reinforce++ or ppo");
  unless(!several || rollout.overlong != "shape", "rollout",
         format("rollout.overlong = \"shape\" with rollout.turns = {}: its penalty is of the length of one answer",
                rollout.turns),
         "leave it out, or write overlong = \"filter\"");
  if (endpoint) check_url(rollout.environment_url, "rollout", "rollout.environment_url", "rollout.environment", unless);
}

// Of ppo, and that others say nothing of it.
void check_critic(const AlignSettings& s, const Unless& unless) {
  if (!has_critic(s.method)) {
    unless(s.rollout.group_size >= 2 || has_teacher(s.method), "rollout",
           format("rollout.group_size = 1 with method = \"{}\", which compares answers to one prompt", s.method),
           "8 is usual");
    unless(s.ppo == PpoSettings(), "ppo", format("ppo means nothing with method = \"{}\"", s.method), "leave it out");
    return;
  }
  check_no_groups(s, unless);
  unless(s.ppo.critic != "reward" || s.reward.kind == "model", "ppo",
         format("ppo.critic = \"reward\" with reward.kind = \"{}\": there is no reward model to begin with",
                s.reward.kind),
         "set reward.kind = \"model\" and inputs.reward, or ppo.critic = \"policy\"");
  unless(s.ppo.kl_target == 0 || s.beta > 0, "ppo", "ppo.kl_target with beta = 0, which stays 0 by any factor",
         "give beta a value to begin with, or leave ppo.kl_target out");
  unless(s.ppo.kl_target > 0 || s.ppo.kl_horizon == PpoSettings().kl_horizon, "ppo",
         "ppo.kl_horizon means nothing without ppo.kl_target", "leave it out");
  unless(s.ppo.kl == PpoSettings().kl || s.beta > 0, "ppo",
         format("ppo.kl = \"{}\" with beta = 0: no divergence is in the reward", s.ppo.kl), "leave one of them out");
  unless(s.checkpoint.local_every_steps == 0, "checkpoint",
         "checkpoint.local_every_steps with method = \"ppo\": the critic is not among the copies on nodes",
         "leave it out; checkpoint.every_steps saves both models");
}

// The divergence from the teacher is all that is learnt from.
void check_teacher(const AlignSettings& s, const Unless& unless) {
  check_no_groups(s, unless);
  unless(s.beta == AlignSettings().beta, "beta",
         format("beta means nothing with method = \"{}\", which is tied to its teacher alone", s.method),
         "leave it out");
  unless(s.reward == RewardSettings(), "reward",
         format("reward means nothing with method = \"{}\", which learns from a teacher", s.method),
         "leave it out; a stage of the kind sample measures answers by a reward");
}

// Ranks that draw together wait for each other token by token, so that nothing else may go on between them.
void check_drawing_together(const RolloutSettings& rollout, const Unless& unless) {
  const std::string asked =
      format("rollout.{}", rollout.tp > 1 ? format("tp = {}", rollout.tp) : format("pp = {}", rollout.pp));
  unless(!rollout.in_parts() || !rollout.ahead || rollout.ranks > 0, "rollout",
         asked + " with rollout.ahead: ranks that draw together would send each other tokens beside a step's sums",
         "leave rollout.ahead out, or write ranks = 2 beside it: ranks that only draw may do it together");
}

void check_rollouts(const AlignSettings& s, const Unless& unless) {
  check_no_pairs(s, has_teacher(s.method) ? "a teacher" : "rewards", unless);
  const std::int64_t group = s.rollout.group_size, batch = s.global_batch_size;
  unless(batch % group == 0, "global_batch_size",
         format("global_batch_size = {} answers are no whole groups of rollout.group_size = {}", batch, group),
         format("use {}", std::max<std::int64_t>(1, batch / group) * group));
  const std::int64_t before = s.adapter.tokens_before();
  unless(s.rollout.max_new_tokens < s.sequence_length - before, "rollout",
         format("rollout.max_new_tokens = {} leaves no room for a prompt in sequence_length = {}{}",
                s.rollout.max_new_tokens, s.sequence_length,
                before > 0 ? format(", of which adapter.virtual_tokens = {} stand before it", before) : ""),
         "use a longer sequence_length or shorter answers");
  unless(s.rollout.advantage == "scaled" || s.method == "grpo", "rollout",
         format("rollout.advantage means nothing with method = \"{}\"", s.method), "leave it out; it goes with grpo");
  unless(!s.rollout.ahead || !has_critic(s.method), "rollout",
         format("rollout.ahead with method = \"{}\", whose critic is trained between answers and steps", s.method),
         "leave it out, or use a method without a critic");
  unless(s.rollout.ahead || s.rollout.threads == 0, "rollout", "rollout.threads means nothing without rollout.ahead",
         "leave it out: answers are drawn by the threads that train");
  unless(s.rollout.ahead || s.rollout.ranks == 0, "rollout",
         format("rollout.ranks = {} without rollout.ahead: ranks that only draw have nothing to do while others learn",
                s.rollout.ranks),
         "write ahead = true beside it");
  unless(s.rollout.ranks == 0 || s.rollout.threads == 0, "rollout",
         "rollout.threads means nothing with rollout.ranks, whose threads are the stage's", "leave it out");
  check_drawing_together(s.rollout, unless);
  unless(s.rollout.speculate != "none" || s.rollout.draft_tokens == RolloutSettings().draft_tokens, "rollout",
         "rollout.draft_tokens means nothing without rollout.speculate", "write speculate = \"ngram\" beside it");
  unless(s.corruption.check != "replay", "corruption",
         format("corruption.check = \"replay\" with method = \"{}\": a neighbour has answers of its own", s.method),
         "leave it out, or use another check");
  unless(s.adapter.dropout == 0, "adapter",
         format("adapter.dropout = {:g} with method = \"{}\": answers are drawn by all of the adapter, and a step that "
                "drops some of it would compare another model with it",
                s.adapter.dropout, s.method),
         "leave adapter.dropout out; methods that learn from pairs have it");
  const bool cispo = s.rollout.surrogate == "cispo";
  unless(!cispo || s.rollout.dual_clip == 0, "rollout", "rollout.dual_clip means nothing with surrogate = \"cispo\"",
         "leave it out: no token's weight is above 1 + clip_high");
  unless(!cispo || s.rollout.clip_low == RolloutSettings().clip_low, "rollout",
         "rollout.clip_low means nothing with surrogate = \"cispo\"", "leave it out: ratios have no lower bound there");
  unless(s.rollout.dual_clip == 0 || s.rollout.dual_clip > 1, "rollout",
         format("rollout.dual_clip = {:g} is no bound above 1", s.rollout.dual_clip), "3 is usual, 0 has none");
  check_overlong(s, unless);
  check_importance(s, unless);
  check_turns(s, unless);
  check_critic(s, unless);
  if (has_teacher(s.method)) return check_teacher(s, unless);
  check_reward(s.reward, unless);
}

// "dpo, robust"
std::string methods_with(bool AlignMethod::* trait) {
  std::vector<std::string> names;
  for (const AlignMethod& one : align_methods())
    if (one.*trait) names.emplace_back(one.name);
  return join(names, ", ");
}

}  // namespace

std::vector<AlignmentProblem> alignment_problems(const AlignSettings& s) {
  const AlignSettings plain;
  std::vector<AlignmentProblem> problems;
  const auto unless = [&](bool fine, const char* key, std::string what, std::string hint) {
    if (!fine) problems.push_back({key, std::move(what), std::move(hint)});
  };
  const bool rollouts = learns_from_rollouts(s.method), labels = !rollouts && align_method(s.method).labels;
  for (const auto& [key, asked] : {std::pair{"desirable_weight", s.desirable_weight != plain.desirable_weight},
                                   std::pair{"undesirable_weight", s.undesirable_weight != plain.undesirable_weight}})
    unless(!asked || labels, key, format("{} means nothing with method = \"{}\"", key, s.method),
           "leave it out; it goes with kto");
  if (rollouts) return check_rollouts(s, unless), problems;
  for (const auto& [key, asked] : {std::pair{"rollout", s.rollout != plain.rollout},
                                   std::pair{"reward", s.reward != plain.reward}, std::pair{"ppo", s.ppo != plain.ppo}})
    unless(!asked, key, format("{} means nothing with method = \"{}\"", key, s.method),
           std::string_view(key) == "rollout" ? "leave it out; it goes with grpo, rloo, reinforce++, ppo and distill"
                                              : "leave it out; it goes with grpo, rloo, reinforce++ and ppo");
  if (labels) return check_labels(s, unless), problems;
  const AlignMethod& method = align_method(s.method);
  const auto only_with = [&](bool AlignMethod::* trait, bool asked, const char* key) {
    unless(!asked || method.*trait, key, format("{} means nothing with method = \"{}\"", key, s.method),
           format("leave it out; it goes with {}", methods_with(trait)));
  };
  only_with(&AlignMethod::label_smoothing, s.label_smoothing != plain.label_smoothing, "label_smoothing");
  only_with(&AlignMethod::divergence, s.divergence != plain.divergence, "divergence");
  only_with(&AlignMethod::reward_margin, s.reward_margin != plain.reward_margin, "reward_margin");
  unless(!method.per_token_only || s.length_normalized, "length_normalized",
         format("length_normalized = false with method = \"{}\", which is defined per token", s.method),
         "write length_normalized = true");
  unless(s.divergence == plain.divergence || !s.length_normalized, "length_normalized",
         format("length_normalized = true with divergence = \"{}\": its rewards are of whole answers", s.divergence),
         "leave one of them out");
  unless(s.divergence_alpha == plain.divergence_alpha || s.divergence == "alpha", "divergence_alpha",
         format("divergence_alpha goes with divergence = \"alpha\", not with \"{}\"", s.divergence), "leave it out");
  unless(s.method != "robust" || s.label_smoothing < 0.5, "label_smoothing",
         "label_smoothing = 0.5 with method = \"robust\": labels that are as often wrong as right say nothing",
         "take the share that is wrong, below 0.5");
  unless(s.method != "ipo" || s.beta > 0, "beta", "beta = 0 with method = \"ipo\", which divides by it",
         "0.1 is usual");
  unless(!method.has_cross_entropy || s.sft_weight == 0, "sft_weight",
         format("sft_weight with method = \"{}\", which has the chosen answer's cross-entropy in it", s.method),
         "leave it out; beta is the weight of the other term");
  return problems;
}

Status check_reward_input(const AlignSettings& settings, bool has_reward_model) {
  const bool asked =
      learns_from_rollouts(settings.method) && !has_teacher(settings.method) && settings.reward.kind == "model";
  if (asked == has_reward_model) return {};
  if (asked)
    return make_error(ErrorCode::invalid_input, "reward.kind = \"model\" without the input 'reward'",
                      "give inputs.reward, the artifact of a stage of the kind reward or a folder with one");
  return make_error(ErrorCode::invalid_input, "the input 'reward' means nothing without reward.kind = \"model\"",
                    "leave it out, or set method = \"grpo\" and reward.kind = \"model\"");
}

Status check_teacher_input(const AlignSettings& settings, bool has_teacher_model) {
  const bool asked = has_teacher(settings.method);
  if (asked == has_teacher_model) return {};
  if (asked)
    return make_error(ErrorCode::invalid_input, format("method = \"{}\" without the input 'teacher'", settings.method),
                      "give inputs.teacher, a model with the tokenizer of the one that learns");
  return make_error(ErrorCode::invalid_input,
                    format("the input 'teacher' means nothing with method = \"{}\"", settings.method),
                    "leave it out, or set method = \"distill\"");
}

std::vector<AlignmentProblem> reward_problems(const RewardSettings& reward) {
  std::vector<AlignmentProblem> problems;
  check_reward(reward, [&](bool fine, const char* key, std::string what, std::string hint) {
    if (!fine) problems.push_back({key, std::move(what), std::move(hint)});
  });
  return problems;
}

Status as_one_error(std::vector<AlignmentProblem> problems) {
  std::vector<std::string> what, hints;
  for (AlignmentProblem& one : problems) what.push_back(std::move(one.what)), hints.push_back(std::move(one.hint));
  if (what.empty()) return {};
  return make_error(ErrorCode::invalid_input, join(what, "; "), join(hints, "; "));
}

Status check_alignment(const AlignSettings& settings) {
  return as_one_error(alignment_problems(settings));
}

}  // namespace longhaul
