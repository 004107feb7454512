// Stages that take the milestones of a training: what becomes of them in the plan, and what is refused, where.
#include "orchestrator/workflow/milestone_inputs.h"

#include <doctest/doctest.h>

#include "base/text/text.h"
#include "base/toml.h"
#include "contracts/records/milestone.h"
#include "orchestrator/render/plan/plan_text.h"
#include "orchestrator/workflow/planner.h"
#include "tests/support/plain_files.h"

namespace longhaul {
namespace {

const std::string milestone_training = R"([workflow]
name = "w"
[stage.pretrain]
kind = "pretrain"
inputs = { tokens = "tokens" }
steps = 100
milestone_every = 30
)";  // seven lines; what follows starts at line 8

WorkflowOutcome plan_milestones(const std::string& more, const std::string& training = milestone_training) {
  WorkflowRequest request;
  request.text = training + more;
  request.path = "w.toml";
  request.folder = "/flow";
  return plan_workflow(request, testing::PlainFiles());
}

RunPlan milestone_plan(const std::string& more) {
  auto outcome = plan_milestones(more);
  REQUIRE_MESSAGE(outcome.diagnostics.empty(), outcome.diagnostics.render(""));
  return outcome.plan;
}

std::string milestone_problems(const std::string& more, const std::string& training = milestone_training) {
  return plan_milestones(more, training).diagnostics.render("");
}

std::string evaluate_of(const std::string& model, const std::string& more = "") {
  return "[stage.evaluate]\nkind = \"evaluate\"\ninputs = { model = \"" + model +
         "\", data = \"questions\" }\ntasks = [\"preference\"]\n" + more;
}

std::vector<std::string> ids_of(const RunPlan& plan) {
  std::vector<std::string> ids;
  for (const PlannedStage& stage : plan.stages) ids.push_back(stage.id());
  return ids;
}

using Ids = std::vector<std::string>;

}  // namespace

TEST_CASE("every milestone becomes a variant of what takes it, and is all that the variant waits for") {
  const RunPlan plan = milestone_plan(evaluate_of("@pretrain@every"));
  CHECK(ids_of(plan) == Ids{"pretrain", "evaluate/step=30", "evaluate/step=60", "evaluate/step=90"});
  for (std::size_t i = 1; i < plan.stages.size(); ++i) {
    const PlannedStage& stage = plan.stages[i];
    CHECK(stage.needs == Ids{"pretrain"});
    CHECK(stage.edge_to("pretrain") == NeedEdge::milestone);
    CHECK(stage.milestones_of("pretrain") == std::vector<std::int64_t>{30 * static_cast<std::int64_t>(i)});
    CHECK(stage.inputs[0].stages == Ids{"pretrain"});
  }
  CHECK(plan_text(plan, false).find("pretrain@60") != std::string::npos);
  CHECK(plan_text(plan, false).find("3 milestones") != std::string::npos);
}

TEST_CASE("the variants of milestones combine with a matrix") {
  CHECK(ids_of(milestone_plan(evaluate_of("@pretrain@every", "matrix = { prompt_tokens = [4, 8] }\n"))) ==
        Ids{"pretrain", "evaluate/prompt_tokens=4,step=30", "evaluate/prompt_tokens=4,step=60",
            "evaluate/prompt_tokens=4,step=90", "evaluate/prompt_tokens=8,step=30", "evaluate/prompt_tokens=8,step=60",
            "evaluate/prompt_tokens=8,step=90"});
}

TEST_CASE("one milestone makes no variants; a stage that takes the whole training as well waits for its end") {
  const RunPlan plan = milestone_plan(
      "[stage.one]\nkind = \"command\"\nscript = \"x\"\ninputs = { a = \"@pretrain@60/config.json\" }\n"
      "[stage.two]\nkind = \"command\"\nscript = \"x\"\ninputs = { a = \"@pretrain@30\", b = \"@pretrain@60\" }\n"
      "[stage.both]\nkind = \"command\"\nscript = \"x\"\ninputs = { a = \"@pretrain@60\", b = \"@pretrain\" }\n"
      "[stage.named]\nkind = \"command\"\nscript = \"x\"\ninputs = { a = \"@pretrain@60\" }\nneeds = [\"pretrain\"]\n");
  CHECK(plan.find("one")->inputs[0].milestone == 60);
  CHECK(plan.find("one")->inputs[0].within == "config.json");
  CHECK(plan.find("one")->edge_to("pretrain") == NeedEdge::milestone);
  CHECK(plan.find("two")->milestones_of("pretrain") == std::vector<std::int64_t>{30, 60});
  CHECK(plan.find("both")->edge_to("pretrain") == NeedEdge::afterok);
  CHECK(plan.find("named")->edge_to("pretrain") == NeedEdge::afterok);
  CHECK(plan.find("named")->inputs[0].milestone == 60);
}

TEST_CASE("what stands behind the variants takes the best of them") {
  const RunPlan plan =
      milestone_plan(evaluate_of("@pretrain@every", "best = { metric = \"preference_accuracy\", mode = \"max\" }\n") +
                     "[stage.use]\nkind = \"command\"\nscript = \"x\"\ninputs = { a = \"@evaluate\" }\n");
  const PlannedInput& input = plan.find("use")->inputs[0];
  CHECK(input.stages == Ids{"evaluate/step=30", "evaluate/step=60", "evaluate/step=90"});
  CHECK(input.best_metric == "preference_accuracy");
  CHECK(input.milestone == 0);
}

TEST_CASE("a plan with milestones survives being written as TOML and read again") {
  const RunPlan plan = milestone_plan(evaluate_of("@pretrain@every"));
  auto parsed = parse_toml(to_toml(run_plan_to_value(plan)), "resolved.toml");
  REQUIRE(parsed.ok());
  const auto again = run_plan_from_value(*parsed);
  REQUIRE(again.ok());
  CHECK(to_toml(run_plan_to_value(*again)) == to_toml(run_plan_to_value(plan)));
  CHECK(again->find("evaluate/step=60")->edge_to("pretrain") == NeedEdge::milestone);
  CHECK(again->find("evaluate/step=60")->inputs[0].milestone == 60);
}

TEST_CASE("milestones that cannot be are refused at their place") {
  const auto without = [](const std::string& line, const std::string& instead = "") {
    return replace_all(milestone_training, line, instead);
  };
  CHECK(milestone_problems(evaluate_of("@pretrain@40")) ==
        "w.toml:10:20: error: stage.evaluate.inputs.model names milestones of 'pretrain', which has none of step 40; "
        "there will be: 30, 60, 90\n1 error");
  CHECK(milestone_problems(evaluate_of("@pretrain@100")) ==
        "w.toml:10:20: error: stage.evaluate.inputs.model names milestones of 'pretrain', and 100 is its last step; "
        "that is its artifact: write \"@pretrain\"\n1 error");
  for (const char* wrong : {"@pretrain@", "@pretrain@0", "@pretrain@-1", "@pretrain@often", "@pretrain@30x"}) {
    CAPTURE(wrong);
    CHECK(milestone_problems(evaluate_of(wrong)).find("does not name a milestone; write \"@stage@STEP\"") !=
          std::string::npos);
  }
  CHECK(milestone_problems(evaluate_of("@pretrain@every"), without("milestone_every = 30\n")) ==
        "w.toml:9:20: error: stage.evaluate.inputs.model names milestones of 'pretrain', which publishes none; add "
        "milestone_every = N to [stage.pretrain]: it then publishes its model every N steps\n1 error");
  CHECK(milestone_problems(evaluate_of("@pretrian@every")) ==
        "w.toml:10:20: error: stage.evaluate.inputs.model names the stage 'pretrian', which does not exist; did you "
        "mean 'pretrain'?\n1 error");
  CHECK(milestone_problems("[stage.quantize]\nkind = \"quantize\"\ninputs = { model = \"@pretrain\" }\n" +
                           evaluate_of("@quantize@every"))
            .find("w.toml:13:20: error: stage.evaluate.inputs.model names milestones of 'quantize', a quantize stage; "
                  "stages of kind pretrain, sft and align publish milestones") == 0);
  // Said once, of the training: what takes its milestones would only repeat the news.
  CHECK(milestone_problems(evaluate_of("@pretrain@every"), without("steps = 100\n")) ==
        "w.toml:6:19: error: stage.pretrain: milestone_every = 30, but its steps follow from the size of the data; "
        "give steps instead of epochs\n1 error");
  CHECK(milestone_problems("", without("= 30", "= 100")) ==
        "w.toml:7:19: error: stage.pretrain: milestone_every = 100 leaves no milestone before its last step, 100; use "
        "fewer steps in between, or 0\n1 error");
  CHECK(milestone_problems("", without("steps = 100\nmilestone_every = 30", "steps = 5000\nmilestone_every = 1")) ==
        "w.toml:7:19: error: stage.pretrain: milestone_every = 1 makes 4999 milestones, each with all weights; at most "
        "1000: use 5 or more\n1 error");
}

TEST_CASE("variants of milestones that no rule covers are refused") {
  // Each milestone's own conversion cannot be named by what comes after it.
  const std::string narrow =
      "[stage.narrow]\nkind = \"convert\"\ninputs = { model = \"@pretrain@every\" }\ndtype = \"bf16\"\n";
  CHECK(milestone_problems(narrow + evaluate_of("@narrow"))
            .find("w.toml:14:20: error: stage.evaluate.inputs.model names 'narrow', a matrix of several results") == 0);
  CHECK(milestone_problems(evaluate_of("@pretrain@every"), milestone_training + "matrix = { seed = [1, 2] }\n")
            .find("w.toml:11:20: error: stage.evaluate.inputs.model names milestones of 'pretrain', a matrix") == 0);
  const std::string sft =
      "[stage.sft]\nkind = \"sft\"\ninputs = { model = \"@pretrain\", data = \"d\" }\nsteps = 20\nmilestone_every = "
      "5\n";
  CHECK(milestone_problems(sft + evaluate_of("@pretrain@every\", baseline = \"@sft@every"))
            .find("names every milestone of 'sft', and inputs.model those of 'pretrain'") != std::string::npos);
  CHECK(plan_milestones(sft + evaluate_of("@sft@every\", baseline = \"@pretrain@60")).diagnostics.empty());
}

}  // namespace longhaul
