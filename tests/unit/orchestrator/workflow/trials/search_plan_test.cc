// A search stage as it is planned, what is wrong with one, and what its configurations make of a stage.
#include "orchestrator/workflow/trials/search_plan.h"

#include <doctest/doctest.h>

#include "base/text/text.h"
#include "base/toml.h"
#include "orchestrator/render/plan/plan_text.h"
#include "orchestrator/workflow/planner.h"
#include "orchestrator/workflow/trials/search_trial.h"
#include "orchestrator/workflow/trials/trial_stage.h"
#include "tests/support/plain_files.h"

namespace longhaul {
namespace {

class OneRecipe final : public testing::PlainFiles {
 public:
  Result<std::string> read(const std::string& path) const override {
    if (path == "/recipes/small.toml") return std::string("optimizer = { beta2 = \"${params.beta}\" }\n");
    return make_error(ErrorCode::not_found, path + " does not exist");
  }
};

const std::string search_begin = R"([workflow]
name = "w"
[params]
rate = 1e-3
mix = "web"
beta = 0.95
[stage.search]
kind = "search"
for = "pretrain"
trials = 16
)";
const std::string search_rates = R"([stage.search.space."optimizer.lr"]
min = 1e-4
max = 1e-2
scale = "log"
)";
const std::string search_pretrain = R"(
[stage.pretrain]
kind = "pretrain"
inputs = { tokens = "tokens" }
steps = 1600
threads = 1
sequence_length = 64
micro_batch_size = 2
global_batch_size = 32
optimizer = { lr = "${params.rate}", warmup_steps = 20, lr_schedule = "constant" }
model = { hidden_size = 32, num_hidden_layers = 4, num_attention_heads = 4, num_key_value_heads = 2, max_position_embeddings = 64 }
time_limit = "2h"
job = { account = "me" }
hyperparameters = "@search"
)";

WorkflowOutcome planned_search(const std::string& text, const std::string& only = {}) {
  WorkflowRequest request;
  request.text = text;
  request.path = "w.toml";
  request.folder = "/flow";
  request.site.set("name", "here");
  request.recipe_folders = {"/recipes"};
  request.tune = only;
  request.can_search_layouts = true;
  return plan_workflow(request, OneRecipe());
}

RunPlan good_search(const std::string& text, const std::string& only = {}) {
  auto outcome = planned_search(text, only);
  REQUIRE_MESSAGE(outcome.diagnostics.empty(), outcome.diagnostics.render(""));
  return outcome.plan;
}

std::string search_problems(const std::string& text) {
  return planned_search(text).diagnostics.render("");
}

bool says(const std::string& text, const std::string& part) {
  const bool found = text.find(part) != std::string::npos;
  CHECK_MESSAGE(found, part << " is not in\n" << text);
  return found;
}

// The stage's text with one part replaced.
std::string pretrain_with(const std::string& from, const std::string& to) {
  std::string text = search_pretrain;
  const std::size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

hyper::TrialStart start_with(const char* settings) {
  return {"t0003", *parse_toml(settings, "x"), 1, 100, 400, "for a test"};
}

}  // namespace

TEST_CASE("a search stage takes inputs, resources and the length of a training from the stage that it is for") {
  const RunPlan plan = good_search(search_begin + search_rates + search_pretrain);
  REQUIRE(plan.stages.size() == 2);
  const PlannedStage& search = plan.stages[0];
  CHECK(search.kind == "search");
  CHECK(search.common.time_limit.value == 7200);
  CHECK(search.common.job.account == "me");
  REQUIRE(search.inputs.size() == 1);
  CHECK(search.inputs[0].name == "tokens");
  const auto halving = halving_of(search);
  REQUIRE(halving.ok());
  CHECK(halving->settings().max_steps == 1600);
  CHECK(halving->rungs() == 3);
  CHECK(plan.stages[1].hyperparameters_from == "search");
  CHECK(plan.stages[1].needs == std::vector<std::string>{"search"});
  const auto again = run_plan_from_value(*parse_toml(to_toml(run_plan_to_value(plan)), "plan"));
  REQUIRE(again.ok());
  CHECK(to_toml(again->stages[0].settings) == to_toml(search.settings));
  CHECK(again->stages[1].hyperparameters_from == "search");
  const std::string text = plan_text(plan, false);
  says(text,
       "for pretrain: 16 trials in 3 rungs of 100, 400 and 1600 steps on 1 rank, 1 node each; 5.2 k steps, 20.3 % "
       "of a full grid's");
  says(text, "search: varies of pretrain\n  optimizer.lr: { min = 0.0001, max = 0.01, scale = \"log\" }\n");
  CHECK(good_search(search_begin + search_rates + search_pretrain, "search").stages.size() == 1);
}

TEST_CASE("a search by a figure that its trainings do not report is refused") {
  says(search_problems(search_begin + "metric = \"validation_loss\"\n" + search_rates + search_pretrain),
       "w.toml:11:10: error: stage.search.metric = \"validation_loss\": a pretrain stage reports no such figure; ");
  CHECK(search_problems(search_begin + "metric = \"loss\"\n" + search_rates + search_pretrain) == "0 errors");
}

TEST_CASE("a configuration makes of the stage what it would be with the values pasted in") {
  const RunPlan plan = good_search(search_begin + search_rates + search_pretrain);
  const Value found = as_settings(*parse_toml("\"optimizer.lr\" = 0.0025\nglobal_batch_size = 64\n", "x"), {});
  const auto taken = with_found(plan.stages[1], found);
  REQUIRE_MESSAGE(taken.ok(), (taken.ok() ? "" : taken.error().message()));
  std::string pasted = pretrain_with("\"${params.rate}\"", "0.0025");
  pasted.replace(pasted.find("global_batch_size = 32"), 22, "global_batch_size = 64");
  pasted.replace(pasted.find("hyperparameters = \"@search\"\n"), 28, "");
  const RunPlan other = good_search("[workflow]\nname = \"w\"\n" + pasted);
  CHECK(taken->settings == *parse_toml(to_toml(other.stages[0].settings), "x"));  // as read from the plan's file
  CHECK(taken->dims == other.stages[0].dims);
}

TEST_CASE("a trial trains to the end of its rung, saves there, and is tried once") {
  const RunPlan plan = good_search(search_begin + search_rates + search_pretrain);
  const auto trial =
      search_trial(plan.stages[0], start_with("\"optimizer.lr\" = 0.002\n"), {{"tokens", {"/t"}, "", "d"}});
  REQUIRE_MESSAGE(trial.ok(), (trial.ok() ? "" : trial.error().message()));
  CHECK(trial->id() == "trial/t0003");
  CHECK(trial->settings.get_integer("steps") == 400);
  CHECK(trial->settings.find("optimizer")->get_number("lr") == 0.002);
  CHECK(trial->settings.find("checkpoint")->get_bool("at_end"));
  CHECK(trial->common.retries == 0);
  CHECK(trial->common.infrastructure_retries == 0);
  CHECK(trial->common.job.account == "me");
  REQUIRE(trial->inputs.size() == 1);
  CHECK(trial->inputs[0].paths == std::vector<std::string>{"/t"});
  CHECK(!search_trial(plan.stages[0], start_with("global_batch_size = 33\n"), {}).ok());
}

TEST_CASE("trials keep the layout of their stage, and settings of their own") {
  const std::string own = "[stage.search.trial]\noptimizer = { lr_schedule = \"constant\" }\n";
  std::string pretrain =
      pretrain_with("lr_schedule = \"constant\"", "lr_schedule = \"cosine\"") + "parallel = { tp = 2 }\n";
  const RunPlan plan = good_search(search_begin + search_rates + own + pretrain);
  const auto trial = search_trial(plan.stages[0], start_with("\"optimizer.lr\" = 0.002\n"), {});
  REQUIRE_MESSAGE(trial.ok(), (trial.ok() ? "" : trial.error().message()));
  CHECK(trial->dims.tp == 2);
  CHECK(trial->common.ranks == 2);
  CHECK(trial->settings.find("optimizer")->get_string("lr_schedule") == "constant");
  CHECK(plan.stages[1].settings.find("optimizer")->get_string("lr_schedule") == "cosine");
}

TEST_CASE("a search waits for the layout that its trials have") {
  const std::string tune =
      "[stage.layout]\nkind = \"tune\"\nfor = \"pretrain\"\ncandidates = [{ parallel = { tp = 2 } }]\n";
  const RunPlan plan = good_search(search_begin + search_rates + tune + search_pretrain + "parallel = \"@layout\"\n");
  REQUIRE(plan.stages.size() == 3);
  CHECK(plan.stages[0].id() == "layout");
  CHECK(plan.stages[1].id() == "search");
  CHECK(plan.stages[1].layout_from == "layout");
  CHECK(plan.stages[2].needs == std::vector<std::string>{"layout", "search"});
  const auto search = with_found(plan.stages[1], *parse_toml("parallel = { tp = 2 }\nranks = 2\n", "x"));
  REQUIRE_MESSAGE(search.ok(), (search.ok() ? "" : search.error().message()));
  CHECK(search->common.ranks == 2);
  const auto trial = search_trial(*search, start_with("\"optimizer.lr\" = 0.002\n"), {});
  REQUIRE_MESSAGE(trial.ok(), (trial.ok() ? "" : trial.error().message()));
  CHECK(trial->dims.tp == 2);
  CHECK(trial->common.ranks == 2);
}

TEST_CASE("a param that the tuned stage alone uses as a whole value is the setting there") {
  const std::string space = "[stage.search.space.\"params.rate\"]\nvalues = [1e-3, 2e-3]\n";
  const RunPlan plan = good_search(search_begin + space + search_pretrain);
  const Value stands_for = stands_for_of(plan.stages[0]);
  REQUIRE(stands_for.find("params.rate"));
  CHECK(stands_for.find("params.rate")->as_array()[0].as_string() == "optimizer.lr");
  const auto trial = search_trial(plan.stages[0], start_with("\"params.rate\" = 0.002\n"), {});
  REQUIRE_MESSAGE(trial.ok(), (trial.ok() ? "" : trial.error().message()));
  CHECK(trial->settings.find("optimizer")->get_number("lr") == 0.002);
  const auto again = halving_of(plan.stages[0]);
  CHECK(again.ok());
}

TEST_CASE("a param of a recipe counts as the stage's that takes it") {
  const std::string space = "[stage.search.space.\"params.beta\"]\nvalues = [0.9, 0.95]\n";
  const RunPlan plan = good_search(search_begin + space + search_pretrain + "recipe = \"small\"\n");
  CHECK(stands_for_of(plan.stages[0]).find("params.beta")->as_array()[0].as_string() == "optimizer.beta2");
}

TEST_CASE("params that others use, or that stand within a text, cannot vary") {
  const auto with = [&](const char* name, const std::string& more) {
    return search_problems(search_begin + "[stage.search.space.\"params." + name + "\"]\nvalues = [\"a\", \"b\"]\n" +
                           search_pretrain + more);
  };
  says(with("mix", ""), "w.toml:11:1: error: stage.search.space.\"params.mix\": nothing uses it");
  says(with("mix", "[stage.other]\nkind = \"curate\"\ninputs = { documents = \"/${params.mix}\" }\n"),
       "stage.search.space.\"params.mix\": stage.other.inputs.documents uses it");
  std::string within = pretrain_with("tokens = \"tokens\"", "tokens = \"tokens-${params.mix}\"");
  says(search_problems(search_begin + "[stage.search.space.\"params.mix\"]\nvalues = [\"a\", \"b\"]\n" + within),
       "stage.pretrain.inputs.tokens uses it within a text");
  within = pretrain_with("tokens = \"tokens\"", "tokens = \"${params.mix}\"");
  says(search_problems(search_begin + "[stage.search.space.\"params.mix\"]\nvalues = [\"a\", \"b\"]\n" + within),
       "stage.search.space.\"inputs.tokens\" is no setting of the stage");
  says(search_problems(search_begin + search_rates + "[stage.search.space.\"params.rate\"]\nvalues = [1e-3, 2e-3]\n" +
                       search_pretrain),
       "stage.search.space.\"params.rate\" is optimizer.lr, which varies already as \"optimizer.lr\"");
}

TEST_CASE("what is wrong with a space is said together, each at its place") {
  const std::string problems = search_problems(search_begin +
                                               "[stage.search.space.optimizer.lrr]\nmin = 1e-4\nmax = 1e-2\n"
                                               "[stage.search.space.epochs]\nvalues = [1, 2]\n"
                                               "[stage.search.space.\"optimizer.beta1\"]\nvalues = [0.9, 1.5]\n"
                                               "[stage.search.trial]\nnodes = 2\nsteps = 5\n" +
                                               search_pretrain);
  says(problems, "w.toml:11:1: error: stage.search.space.\"optimizer.lrr\" is no setting of the stage");
  says(problems, "did you mean optimizer.lr?");
  says(problems, "w.toml:14:1: error: stage.search.space.\"epochs\": how long a trial trains is what the rungs say");
  says(problems, "w.toml:16:1: error: stage.search.space.\"optimizer.beta1\": 1.5 is above");
  says(problems, "stage.search.trial.nodes: trials have that of the stage that they are for");
  says(problems, "stage.search.trial.steps: trials have that of their rung");
  says(problems, "5 errors");
}

TEST_CASE("every value of a list and both ends of a range are tried on the stage") {
  const std::string problems = search_problems(search_begin +
                                               "[stage.search.space.global_batch_size]\nvalues = [16, 33, 64]\n"
                                               "[stage.search.space.micro_batch_size]\nmin = 2\nmax = 3\n" +
                                               search_pretrain);
  says(problems, "stage.search.space.\"global_batch_size\" = 33: ");
  says(problems, "stage.search.space.\"micro_batch_size\" = 3: ");
  says(problems, "2 errors");
}

TEST_CASE("rungs that are no prefixes of each other are refused, with what to write") {
  says(search_problems(search_begin + search_rates +
                       pretrain_with("lr_schedule = \"constant\"", "lr_schedule = \"cosine\"")),
       "[stage.search.trial] optimizer = { lr_schedule = \"constant\" }; the stage keeps its own");
  says(search_problems(search_begin + search_rates + pretrain_with("warmup_steps = 20", "warmup_steps = 80")),
       "optimizer.warmup_steps = 80 is more than half of the first rung's 100 steps");
  says(search_problems(search_begin + "[stage.search.space.\"optimizer.warmup_steps\"]\nmin = 10\nmax = 60\n" +
                       search_pretrain),
       "optimizer.warmup_steps = 60 is more than half");
  // Twice the batch: half the steps.
  says(search_problems(search_begin + "[stage.search.space.global_batch_size]\nvalues = [32, 128]\n" + search_pretrain),
       "optimizer.warmup_steps = 20 is more than half of the first rung's 25 steps");
  says(search_problems(search_begin +
                       "[stage.search.space.\"optimizer.lr_schedule\"]\nvalues = [\"constant\", \"linear\"]\n" +
                       search_pretrain),
       "optimizer.lr_schedule = \"linear\" depends on the number of steps");
  says(search_problems(search_begin + search_rates + search_pretrain + "sampler = \"megatron\"\n"),
       "sampler = \"megatron\" orders the data by the number of steps");
}

TEST_CASE("stages that cannot be searched for, and names that lead nowhere, are refused") {
  says(search_problems(search_begin + search_pretrain),
       "w.toml:7:1: error: stage.search.space names nothing that may vary");
  const auto with_for = [&](const std::string& name, const std::string& more) {
    std::string text = search_begin;
    text.replace(text.find("\"pretrain\""), 10, "\"" + name + "\"");
    return search_problems(text + search_rates + search_pretrain + more);
  };
  says(with_for("pretrian", ""), "did you mean 'pretrain'?");
  says(with_for("clean", "[stage.clean]\nkind = \"curate\"\ninputs = { documents = \"/d\" }\n"),
       "stage.search.for names 'clean', a curate stage; it finds hyperparameters of pretrain, sft and align");
  says(with_for("search", ""), "stage.search.for names 'search', a search stage");
  says(search_problems(search_begin + search_rates + search_pretrain + "matrix = { seed = [1, 2] }\n"),
       "a matrix of several trainings");
  says(search_problems(search_begin + "nodes = 2\n" + search_rates + search_pretrain),
       "stage.search.nodes: trials have that of the stage that they are for, or their own; remove it");
  says(search_problems(search_begin + search_rates + pretrain_with("\"@search\"", "\"@other\"")),
       "stage.pretrain.hyperparameters names the stage 'other', which does not exist");
  says(search_problems(search_begin + search_rates + pretrain_with("\"@search\"", "{ lr = 1 }")),
       "stage.pretrain.hyperparameters names no search stage");
  says(search_problems(search_begin + search_rates + pretrain_with("steps = 1600", "epochs = 2")),
       "stage.search has no max_steps, and stage.pretrain does not say its steps");
  std::string later = search_begin;
  later.insert(later.find("trials"), "needs = [\"pretrain\"]\n");
  says(search_problems(later + search_rates + search_pretrain), "stages wait for each other");
}

TEST_CASE("uses of a param are found in lists, tables, scripts and other params") {
  const Value root = *parse_toml(R"([workflow]
name = "w"
[params]
a = 1
b = "${params.a}"
[stage.x]
list = [1, "${params.a}", "${params.ab}"]
deep = { er = "x${params.a.member}" }
step.one.script = "echo ${params.a}"
)",
                                 "w");
  std::vector<std::string> texts;
  for (const ParamUse& use : uses_of_param(root, "a")) texts.push_back(use.text() + (use.whole ? " whole" : ""));
  CHECK(join(texts, ", ") == "params.b whole, stage.x.list.[1] whole, stage.x.deep.er, stage.x.step.one.script");
}

}  // namespace longhaul
