#include "contracts/settings/stages/alignment.h"

#include <doctest/doctest.h>

#include "base/toml.h"
#include "contracts/tasks/stage_kinds.h"

using namespace longhaul;

TEST_CASE("methods of align are those that its settings name") {
  std::vector<std::string> names;
  for (const AlignMethod& method : align_methods()) names.emplace_back(method.name);
  for (const char* method : rollout_methods()) names.emplace_back(method);
  std::vector<std::string> choices;
  for (const FieldInfo& field : align_fields().describe())
    if (field.name == "method") choices = field.options.choices;
  CHECK(choices == names);
  CHECK(check_alignment(AlignSettings()).ok());
}

TEST_CASE("settings that mean nothing to a method of align are refused by name, all of them at once") {
  AlignSettings s;
  s.method = "orpo", s.label_smoothing = 0.1, s.divergence = "js", s.reward_margin = 0.5, s.sft_weight = 0.2;
  const std::vector<AlignmentProblem> problems = alignment_problems(s);
  std::vector<std::string> keys;
  for (const AlignmentProblem& one : problems) keys.push_back(one.key);
  CHECK(keys ==
        std::vector<std::string>{"label_smoothing", "divergence", "reward_margin", "length_normalized", "sft_weight"});
  const Status status = check_alignment(s);
  REQUIRE(!status.ok());
  for (const std::string& key : keys) CHECK(status.error().what.find(key) != std::string::npos);
}

TEST_CASE("align refuses values at which a method says nothing") {
  const auto refused = [](const AlignSettings& s, const char* key) {
    const std::vector<AlignmentProblem> problems = alignment_problems(s);
    REQUIRE(problems.size() == 1);
    CHECK(problems.front().key == key);
    CHECK(!problems.front().hint.empty());
  };
  AlignSettings s;
  s.method = "ipo", s.beta = 0;
  refused(s, "beta");
  s = {}, s.method = "robust", s.label_smoothing = 0.5;
  refused(s, "label_smoothing");
  s = {}, s.divergence_alpha = 0.7;
  refused(s, "divergence_alpha");
  s = {}, s.divergence = "forward_kl", s.length_normalized = true;
  refused(s, "length_normalized");
  s = {}, s.method = "simpo";
  refused(s, "length_normalized");
  s.length_normalized = true, s.reward_margin = 0.5, s.label_smoothing = 0.1;
  CHECK(alignment_problems(s).empty());
}

TEST_CASE("methods with rewards refuse what belongs to pairs, and the others what belongs to rewards") {
  const auto keys_of = [](const AlignSettings& s) {
    std::vector<std::string> keys;
    for (const AlignmentProblem& one : alignment_problems(s)) keys.push_back(one.key);
    return keys;
  };
  using Keys = std::vector<std::string>;
  AlignSettings s;
  s.rollout.group_size = 4, s.reward.kind = "number";
  CHECK(keys_of(s) == Keys{"rollout", "reward"});
  s.method = "grpo";
  CHECK(keys_of(s).empty());
  s.label_smoothing = 0.1, s.divergence = "js", s.sft_weight = 0.2, s.length_normalized = true;
  CHECK(keys_of(s) == Keys{"label_smoothing", "divergence", "sft_weight", "length_normalized"});
  s = {}, s.method = "rloo", s.global_batch_size = 20, s.rollout.advantage = "centered";
  s.rollout.max_new_tokens = 512, s.reward.kind = "regex", s.reward.command = {"judge"};
  s.corruption.check = "replay";
  CHECK(keys_of(s) == Keys{"global_batch_size", "rollout", "rollout", "corruption", "reward", "reward"});
  s = {}, s.method = "reinforce++", s.reward.kind = "command", s.reward.pattern = "[0-9]+";
  CHECK(keys_of(s) == Keys{"reward", "reward"});
}

TEST_CASE("keys of a reward go with the kinds that read them, and an address or a schema that is none is refused") {
  const auto said = [](const RewardSettings& reward) {
    const Status status = as_one_error(reward_problems(reward));
    return status.ok() ? std::string() : status.error().what;
  };
  RewardSettings s;
  s.kind = "http";
  CHECK(said(s) == "reward.kind = \"http\" without a reward.url");
  for (const char* url : {"https://judge.example.org:8443/reward", "http://[::1]:8080", "http://judge/a?b=c@d"}) {
    s.url = url;
    CHECK(said(s).empty());
  }
  for (const char* url :
       {"judge:8080", "ftp://judge/", "https:///reward", "http://", "http://jud ge/", "http://a\n/"}) {
    CAPTURE(url);
    s.url = url;
    CHECK(said(s) == "reward.url is no address of an endpoint");
  }
  s.url = "https://me:secret@judge/";
  CHECK(said(s) == "reward.url has a name or a password in it, which files of the run would show");
  s = {}, s.kind = "json", s.schema = "{\"properties\": {\"a\": {\"pattern\": \"x\"}}}";
  CHECK(said(s).find("reward.schema: the JSON schema at /properties/a: the keyword \"pattern\"") == 0);
  s = {}, s.url = "http://judge/", s.schema = "{", s.python = "python3.11", s.deadline_s = 5;
  for (const char* key : {"url", "schema", "python", "deadline_s"})
    CHECK(said(s).find(std::string("reward.") + key + " means nothing with reward.kind = \"exact\"") !=
          std::string::npos);
  s = {}, s.kind = "tests", s.python = "python3.11";
  CHECK(said(s).empty());
}

TEST_CASE("what is made of long answers, and of how they were drawn, is refused where it would mean nothing") {
  const auto said = [](const AlignSettings& s) {
    const Status status = check_alignment(s);
    return status.ok() ? std::string() : status.error().what;
  };
  AlignSettings s;
  s.method = "grpo", s.rollout.overlong = "shape", s.rollout.overlong_tokens = 13;
  CHECK(said(s).empty());
  s.rollout.overlong_tokens = 0;
  CHECK(said(s).find("rollout.overlong_tokens = 0, which is not from 1 to rollout.max_new_tokens = 64") !=
        std::string::npos);
  s.rollout.overlong_tokens = 65, s.rollout.overlong_penalty = 0;
  CHECK(said(s).find("= 65, which is not") != std::string::npos);
  CHECK(said(s).find("costs nothing") != std::string::npos);
  s = {}, s.method = "ppo", s.rollout.overlong = "filter";
  CHECK(said(s).empty());
  s.rollout.overlong_tokens = 5, s.rollout.overlong_penalty = 2;
  for (const char* key : {"overlong_tokens", "overlong_penalty"})
    CHECK(said(s).find(std::string("rollout.") + key + " means nothing with rollout.overlong = \"filter\"") !=
          std::string::npos);
  s = {}, s.method = "distill", s.rollout.overlong = "filter";
  CHECK(said(s).find("which has no rewards") != std::string::npos);

  for (const char* method : {"grpo", "rloo", "reinforce++", "ppo", "distill"}) {
    s = {}, s.method = method, s.rollout.importance_cap = 2;
    CHECK(said(s).empty());
  }
  s.rollout.epochs = 2, s.rollout.minibatches = 3;
  CHECK(said(s).find("rollout.importance_cap with 6 steps from a rollout") == 0);
  s = {}, s.method = "grpo", s.rollout.importance_cap = 2, s.rollout.ratio = "sequence", s.rollout.clip_low = 0.1;
  s.rollout.clip_high = 0.28, s.rollout.dual_clip = 3;
  for (const char* what :
       {"rollout.ratio = \"sequence\"", "rollout.clip_low", "rollout.clip_high", "rollout.dual_clip"})
    CHECK(said(s).find(std::string(what) + " with rollout.importance_cap") != std::string::npos);
  s = {}, s.method = "grpo", s.rollout.importance_cap = 2, s.rollout.surrogate = "cispo";
  CHECK(said(s).find("rollout.surrogate = \"cispo\" with rollout.importance_cap") == 0);
}

TEST_CASE("an adapter that drops some of its input goes with pairs, and not with answers that all of it drew") {
  AlignSettings s;
  s.adapter.kind = "lora", s.adapter.dropout = 0.1;
  CHECK(check_alignment(s).ok());
  for (const char* method : {"grpo", "distill"}) {
    s.method = method;
    const Status status = check_alignment(s);
    REQUIRE(!status.ok());
    CHECK(status.error().what.find(std::string("adapter.dropout = 0.1 with method = \"") + method) == 0);
  }
}

TEST_CASE("turns need somebody who speaks between them, and go with methods that have rewards") {
  const auto said = [](const AlignSettings& s) {
    const Status status = check_alignment(s);
    return status.ok() ? std::string() : status.error().what;
  };
  AlignSettings s;
  for (const char* method : {"grpo", "rloo", "reinforce++", "ppo"}) {
    s = {}, s.method = method, s.rollout.turns = 4, s.rollout.environment = {"python3", "tool.py"};
    s.rollout.environment_role = "tool", s.rollout.environment_deadline_s = 5, s.rollout.overlong = "filter";
    CHECK(said(s).empty());
    s.rollout.environment.clear(), s.rollout.environment_url = "https://tools.example.org/reply";
    CHECK(said(s).empty());
    s.rollout.environment_url.clear();
    CHECK(said(s).find("rollout.turns = 4 without a rollout.environment") == 0);
  }
  s.rollout.environment = {"a"}, s.rollout.environment_url = "http://b:c@d/e";
  CHECK(said(s).find("rollout.environment and rollout.environment_url: one of them speaks") == 0);
  CHECK(said(s).find("rollout.environment_url has a name or a password in it") != std::string::npos);
  s.rollout.turns = 1;
  for (const char* key : {"environment", "environment_url", "environment_role", "environment_deadline_s"})
    CHECK(said(s).find(std::string("rollout.") + key + " means nothing with rollout.turns = 1") != std::string::npos);
  s = {}, s.method = "grpo", s.rollout.turns = 2, s.rollout.environment = {"a"}, s.rollout.overlong = "shape";
  s.rollout.overlong_tokens = 5;
  CHECK(said(s).find("rollout.overlong = \"shape\" with rollout.turns = 2") == 0);
  s = {}, s.method = "distill", s.rollout.turns = 2, s.rollout.environment = {"a"};
  CHECK(said(s).find("rollout.turns = 2 with method = \"distill\"") == 0);
  s = {}, s.method = "dpo", s.rollout.turns = 2;
  CHECK(said(s).find("rollout means nothing with method = \"dpo\"") == 0);
}

TEST_CASE("ppo refuses what belongs to groups or is not done, and the others what belongs to a critic") {
  const auto keys_of = [](const AlignSettings& s) {
    std::vector<std::string> keys;
    for (const AlignmentProblem& one : alignment_problems(s)) keys.push_back(one.key);
    return keys;
  };
  using Keys = std::vector<std::string>;
  AlignSettings s;
  s.method = "ppo", s.rollout.group_size = 1, s.rollout.minibatches = 4, s.rollout.epochs = 2;
  s.ppo.kl_target = 0.05, s.ppo.kl_horizon = 1000, s.ppo.kl = "k3", s.rollout.dual_clip = 3;
  CHECK(keys_of(s).empty());
  CHECK(s.rollout.updates() == 8);
  s.rollout.redraws = 1, s.rollout.ratio = "sequence", s.rollout.dual_clip = 0.5, s.rollout.advantage = "centered";
  CHECK(keys_of(s) == Keys{"rollout", "rollout", "rollout", "rollout"});
  s = {}, s.method = "ppo", s.beta = 0, s.ppo.kl_target = 0.05, s.ppo.kl = "k2", s.ppo.critic = "reward";
  s.checkpoint.local_every_steps = 5, s.corruption.check = "replay", s.label_smoothing = 0.1;
  CHECK(keys_of(s) == Keys{"label_smoothing", "corruption", "ppo", "ppo", "ppo", "checkpoint"});
  s.reward.kind = "model", s.beta = 0.1, s.checkpoint.local_every_steps = 0, s.corruption.check = "contributions";
  s.label_smoothing = 0;
  CHECK(keys_of(s).empty());
  s.ppo.kl_target = 0, s.ppo.kl_horizon = 1000;
  CHECK(keys_of(s) == Keys{"ppo"});
  for (const char* method : {"grpo", "dpo", "kto"}) {
    s = {}, s.method = method, s.ppo.gamma = 0.9;
    CHECK(keys_of(s) == Keys{"ppo"});
  }
  s = {}, s.method = "grpo", s.rollout.group_size = 1;
  CHECK(keys_of(s) == Keys{"rollout"});
  for (const auto& [method, problems] : {std::pair{"grpo", Keys{}}, {"ppo", Keys{"rollout"}}}) {
    s = {}, s.method = method, s.rollout.ahead = true, s.rollout.threads = 2;
    CHECK(keys_of(s) == problems);
  }
  s = {}, s.method = "grpo", s.rollout.threads = 2;
  CHECK(keys_of(s) == Keys{"rollout"});
  s = {}, s.method = "grpo", s.rollout.ranks = 2;  // which draw ahead, with the stage's threads
  CHECK(keys_of(s) == Keys{"rollout"});
  s.rollout.ahead = true;
  CHECK(keys_of(s).empty());
  s.rollout.threads = 2;
  CHECK(keys_of(s) == Keys{"rollout"});
  CHECK(has_critic("ppo"));
  CHECK(!has_critic("grpo"));
}

TEST_CASE("distill refuses what belongs to groups, rewards or a reference, and learns from one answer to a prompt") {
  const auto keys_of = [](const AlignSettings& s) {
    std::vector<std::string> keys;
    for (const AlignmentProblem& one : alignment_problems(s)) keys.push_back(one.key);
    return keys;
  };
  using Keys = std::vector<std::string>;
  AlignSettings s;
  s.method = "distill", s.rollout.group_size = 1, s.rollout.minibatches = 2, s.rollout.average = "token";
  CHECK(keys_of(s).empty());
  s.rollout.redraws = 1, s.rollout.ratio = "sequence", s.rollout.advantage = "centered", s.beta = 0.05;
  s.reward.kind = "number", s.ppo.gamma = 0.9, s.sft_weight = 0.1, s.corruption.check = "replay";
  CHECK(keys_of(s) == Keys{"sft_weight", "rollout", "corruption", "ppo", "rollout", "rollout", "beta", "reward"});
  CHECK(has_teacher("distill"));
  CHECK(!has_teacher("grpo"));
}

TEST_CASE("a teacher is given to distill and to no other method") {
  AlignSettings s;
  CHECK(check_teacher_input(s, false).ok());
  CHECK(check_teacher_input(s, true).error().what == "the input 'teacher' means nothing with method = \"dpo\"");
  s.method = "distill";
  CHECK(check_teacher_input(s, true).ok());
  CHECK(check_teacher_input(s, false).error().what == "method = \"distill\" without the input 'teacher'");
  const auto said = [](const std::string& inputs) {
    Diagnostics problems;
    find_stage_kind("align")->resolve(*parse_toml(inputs + "method = \"distill\"\n", "a.toml"), "stage.a", {"inputs"},
                                      problems);
    return problems.render("");
  };
  CHECK(said("inputs = { model = \"m\" }\n").find("a.toml:1:10: error: stage.a: method = \"distill\" without") == 0);
  CHECK(said("inputs = { model = \"m\", teacher = \"t\" }\n") == "0 errors");
  CHECK(said("inputs = { model = \"m\", teacher = \"t\", reward = \"@r\" }\n").find("the input 'reward' means") !=
        std::string::npos);
}

TEST_CASE("a method with labels refuses what belongs to pairs or rewards, and the others its weights") {
  const auto keys_of = [](const AlignSettings& s) {
    std::vector<std::string> keys;
    for (const AlignmentProblem& one : alignment_problems(s)) keys.push_back(one.key);
    return keys;
  };
  using Keys = std::vector<std::string>;
  AlignSettings s;
  s.method = "kto", s.desirable_weight = 1.33, s.undesirable_weight = 0;
  CHECK(keys_of(s).empty());
  s.desirable_weight = 0;
  CHECK(keys_of(s) == Keys{"desirable_weight"});
  s = {}, s.method = "kto", s.rollout.group_size = 4, s.label_smoothing = 0.1, s.sft_weight = 0.2;
  CHECK(keys_of(s) == Keys{"rollout", "label_smoothing", "sft_weight"});
  for (const char* method : {"dpo", "grpo"}) {
    s = {}, s.method = method, s.desirable_weight = 2, s.undesirable_weight = 0.5;
    CHECK(keys_of(s) == Keys{"desirable_weight", "undesirable_weight"});
  }
}

TEST_CASE("a workflow learns of every setting that its method of align does not know, where each stands") {
  const StageKind* kind = find_stage_kind("align");
  REQUIRE(kind != nullptr);
  const auto written = parse_toml("method = \"simpo\"\ndivergence = \"js\"\nlength_normalized = false\n", "a.toml");
  REQUIRE(written.ok());
  Diagnostics problems;
  kind->resolve(*written, "stage.a", {}, problems);
  REQUIRE(problems.size() == 2);
  const std::string said = problems.render("");
  CHECK(said.find("a.toml:2:14: error: stage.a: divergence means nothing with method = \"simpo\"") !=
        std::string::npos);
  CHECK(said.find("a.toml:3:21: error: stage.a: length_normalized = false with method = \"simpo\"") !=
        std::string::npos);
}

TEST_CASE("a reward model is given where it is the reward, and nowhere else") {
  AlignSettings s;
  CHECK(check_reward_input(s, false).ok());
  CHECK(check_reward_input(s, true).error().what.find("means nothing without") != std::string::npos);
  s.method = "grpo";
  CHECK(check_reward_input(s, true).error().what.find("means nothing without") != std::string::npos);
  s.reward.kind = "model";
  CHECK(check_reward_input(s, true).ok());
  CHECK(check_reward_input(s, false).error().what.find("without the input 'reward'") != std::string::npos);
  CHECK(alignment_problems(s).empty());
  const auto said = [](const std::string& inputs) {
    const auto written = parse_toml(inputs + "method = \"grpo\"\n[reward]\nkind = \"model\"\n", "a.toml");
    Diagnostics problems;
    find_stage_kind("align")->resolve(*written, "stage.a", {"inputs"}, problems);
    return problems.render("");
  };
  CHECK(said("inputs = { model = \"m\" }\n").find("reward.kind = \"model\" without the input 'reward'") !=
        std::string::npos);
  CHECK(said("inputs = { model = \"m\", reward = \"@r\" }\n").find("reward.kind") == std::string::npos);
}
