// A tune stage as it is planned, what is wrong with one, and what a layout makes of a stage.
#include "orchestrator/workflow/trials/tune_plan.h"

#include <doctest/doctest.h>

#include <utility>

#include "base/text/text.h"
#include "base/toml.h"
#include "orchestrator/render/plan/plan_text.h"
#include "orchestrator/workflow/planner.h"
#include "orchestrator/workflow/trials/trial_stage.h"
#include "tests/support/plain_files.h"

namespace longhaul {
namespace {

const std::string tune_begin = R"([workflow]
name = "w"
[stage.layout]
kind = "tune"
for = "pretrain"
)";
const std::string tune_pretrain = R"(
[stage.pretrain]
kind = "pretrain"
inputs = { tokens = "tokens" }
steps = 1000
threads = 1
nodes = 2
sequence_length = 64
micro_batch_size = 2
global_batch_size = 32
optimizer = { lr = 1e-2, warmup_steps = 100, lr_schedule = "wsd", lr_decay_steps = 300 }
checkpoint = { every_steps = 100 }
model = { hidden_size = 32, num_hidden_layers = 4, num_attention_heads = 4, num_key_value_heads = 2, max_position_embeddings = 64 }
job = { account = "me" }
resiliency = { spares = 1 }
)";
const std::string tune_laid_out = tune_pretrain + "parallel = \"@layout\"\n";

WorkflowOutcome planned_tune(const std::string& text, const std::string& only = {}, bool can_search = false) {
  WorkflowRequest request;
  request.text = text;
  request.path = "w.toml";
  request.folder = "/flow";
  request.site.set("name", "here");
  request.tune = only;
  request.can_search_layouts = can_search;
  return plan_workflow(request, testing::PlainFiles());
}

RunPlan good_tune(const std::string& text, const std::string& only = {}, bool can_search = false) {
  auto outcome = planned_tune(text, only, can_search);
  REQUIRE_MESSAGE(outcome.diagnostics.empty(), outcome.diagnostics.render(""));
  return outcome.plan;
}

std::string tune_problems(const std::string& text) {
  return planned_tune(text).diagnostics.render("");
}

std::string with_candidates(const std::string& candidates) {
  return tune_begin + "candidates = [" + candidates + "]\n" + tune_laid_out;
}

std::string in_phases(const std::string& tune, const std::string& candidates) {
  std::string text = tune_begin + tune + candidates + tune_laid_out;
  text.replace(text.find("steps = 1000\n"), 13, "");
  const std::string schedule = ", warmup_steps = 100, lr_schedule = \"wsd\", lr_decay_steps = 300";
  text.replace(text.find(schedule), schedule.size(), "");
  return text + "[stage.pretrain.phase.short]\nsteps = 900\nsequence_length = 32\n" +
         "[stage.pretrain.phase.long]\nsteps = 100\nsequence_length = 64\nlr = 5e-3\n";
}

}  // namespace

TEST_CASE("of a training in phases one is tried: the longest, or the one that is named") {
  const std::string two = "candidates = [{ parallel = { tp = 2 } }, { parallel = { dp_shard = 2 } }]\n";
  const auto tried = [&](const std::string& tune) {
    const RunPlan plan = good_tune(in_phases(tune, two));
    const PlannedStage target = target_of(plan.stages[0]).value();
    CHECK(!target.settings.find("phase"));
    return target.settings.get_integer("sequence_length");
  };
  CHECK(tried("") == 64);
  CHECK(tried("phase = \"short\"\n") == 32);
  const std::string none = tune_problems(in_phases("phase = \"shortest\"\n", two));
  CHECK_MESSAGE(none.find("w.toml:6:9: error: stage.layout.phase = \"shortest\": 'pretrain' has no such phase; phases: "
                          "short, long") == 0,
                none);
  const std::string alone = tune_problems(tune_begin + "phase = \"main\"\n" + two + tune_laid_out);
  CHECK_MESSAGE(alone.find("w.toml:6:9: error: stage.layout.phase = \"main\": 'pretrain' has no phases") == 0, alone);
}

TEST_CASE("a tune stage takes inputs and resources of the stage that it is for, and each candidate in full") {
  const RunPlan plan = good_tune(with_candidates(
      "{ parallel = { tp = 2 } }, { name = \"dp4\", parallel = { dp_shard = 4 }, micro_batch_size = 4 }"));
  REQUIRE(plan.stages.size() == 2);
  const PlannedStage& tune = plan.stages[0];
  CHECK(tune.id() == "layout");
  REQUIRE(tune.inputs.size() == 1);
  CHECK(tune.inputs[0].paths == std::vector<std::string>{"/flow/tokens"});
  CHECK(tune.common.nodes == 2);
  CHECK(tune.common.threads == 1);
  CHECK(tune.common.ranks == 4);
  CHECK(tune.common.job.account == "me");
  CHECK(tune.common.time_limit.value == 1800);
  const auto candidates = written_candidates(tune);
  REQUIRE(candidates.size() == 2);
  CHECK(candidates[0].name == "tp=2");
  CHECK(candidates[0].steps == 20);
  CHECK(candidates[0].settings == *parse_toml("parallel = { tp = 2 }\nranks = 2\n", ""));
  CHECK(candidates[1].settings == *parse_toml("parallel = { dp_shard = 4 }\nranks = 4\nmicro_batch_size = 4\n", ""));

  const PlannedStage& pretrain = plan.stages[1];
  CHECK(pretrain.layout_from == "layout");
  CHECK(pretrain.needs == std::vector<std::string>{"layout"});
  CHECK(pretrain.common.ranks == 4);  // the most that a candidate has
  const std::string text = plan_text(plan, false);
  CHECK(text.find("@layout") != std::string::npos);
  CHECK(text.find(
            "for pretrain: up to 2 trials of 2 candidates, 20 steps on 3 nodes, each at most 30m 00s (3 node-hours)") !=
        std::string::npos);
  // A run keeps all of it.
  const auto read = run_plan_from_value(run_plan_to_value(plan));
  REQUIRE_MESSAGE(read.ok(), (read.ok() ? "" : read.error().message()));
  CHECK(read->stages[1].layout_from == "layout");
  CHECK(written_candidates(read->stages[0])[1].settings == candidates[1].settings);
}

TEST_CASE("a training whose layout is sought takes any number of nodes, each with several GPUs") {
  for (const auto& [nodes, gpus] : {std::pair{1, 4}, {2, 4}, {3, 2}, {3, 4}, {5, 2}}) {
    CAPTURE(nodes);
    CAPTURE(gpus);
    std::string text = tune_begin + tune_laid_out;
    const std::string job = "job = { account = \"me\" }", two = "nodes = 2";
    text.replace(text.find(job), job.size(), format("job = {{ account = \"me\", gpus_per_node = {} }}", gpus));
    text.replace(text.find(two), two.size(), format("nodes = {}", nodes));
    CHECK(good_tune(text, {}, true).stages[1].common.nodes == nodes);
  }
}

TEST_CASE("a trial is short, saves nothing, and fails at once; the layout makes the stage what pasting it would") {
  const RunPlan plan = good_tune(
      with_candidates("{ parallel = { tp = 2, pp = 2 }, micro_batch_size = 4, pipeline = { schedule = \"1f1b\" } }"));
  const PlannedStage& tune = plan.stages[0];
  const auto target = target_of(tune);
  REQUIRE(target.ok());
  const Trial trial = written_candidates(tune)[0];
  const auto made = trial_stage(*target, tune, trial, {{"tokens", {"/made/tokens"}, "tokens", "d"}});
  REQUIRE_MESSAGE(made.ok(), (made.ok() ? "" : made.error().message()));
  CHECK(made->id() == "trial/" + trial.name);
  CHECK(made->dims.tp == 2);
  CHECK(made->dims.pp == 2);
  CHECK(made->common.ranks == 4);
  CHECK(made->common.retries == 0);
  CHECK(made->common.resiliency.spares == 0);
  CHECK(made->common.resiliency.restarts == 0);
  CHECK(made->common.on_failure == "continue");
  CHECK(made->common.time_limit.value == 1800);
  CHECK(made->common.resiliency.startup.value == 900);  // of its time half, of a training's start all
  CHECK(plan.stages[1].common.resiliency.startup.value == 1800);
  CHECK(made->inputs[0].paths == std::vector<std::string>{"/made/tokens"});
  CHECK(made->settings.get_integer("steps") == 20);
  CHECK(made->settings.get_integer("micro_batch_size") == 4);
  CHECK(made->settings.get_integer("global_batch_size") == 32);
  CHECK(made->settings.find("checkpoint")->get_integer("every_steps") == 0);
  CHECK_FALSE(made->settings.find("checkpoint")->get_bool("at_end"));
  CHECK(made->settings.find("optimizer")->get_string("lr_schedule") == "constant");
  CHECK(made->settings.find("optimizer")->get_number("lr") == doctest::Approx(1e-5));

  const auto laid_out = stage_with(plan.stages[1], trial.settings);
  REQUIRE_MESSAGE(laid_out.ok(), (laid_out.ok() ? "" : laid_out.error().message()));
  const RunPlan pasted = good_tune("[workflow]\nname = \"w\"\n" + tune_pretrain +
                                   "parallel = { tp = 2, pp = 2 }\npipeline = { schedule = \"1f1b\" }\n");
  CHECK(laid_out->dims == pasted.stages[0].dims);
  CHECK(laid_out->common.ranks == pasted.stages[0].common.ranks);
  CHECK(laid_out->common.resiliency.spares == 1);
  CHECK(laid_out->layout_from.empty());
  Value settings = laid_out->settings;
  settings.set("micro_batch_size", 2);
  CHECK(settings == pasted.stages[0].settings);
}

TEST_CASE("ranks that are written are those of every candidate without its own") {
  const RunPlan plan =
      good_tune(with_candidates("{ parallel = { tp = 2 } }, { parallel = {}, ranks = 2 }") + "ranks = 8\n");
  const auto candidates = written_candidates(plan.stages[0]);
  CHECK(candidates[0].settings.get_integer("ranks") == 8);
  CHECK(candidates[0].settings.find("parallel")->get_integer("dp_replicate") == 4);
  CHECK(candidates[1].settings.get_integer("ranks") == 2);
  CHECK(plan.stages[0].common.ranks == 8);
}

TEST_CASE("what is wrong with a tune stage, its candidates and who takes its layout, each at its place") {
  const auto has = [](const std::string& text, const std::string& wanted) {
    const std::string said = tune_problems(text);
    CHECK_MESSAGE(said.find(wanted) != std::string::npos, said);
  };
  has(with_candidates("{ parallel = { tp = 3 } }"), "w.toml:6:28: error: stage.pretrain");
  has(with_candidates("{ paralel = { tp = 2 } }"),
      "w.toml:6:17: error: stage.layout.candidates: 'paralel' is no part of a layout; did you mean 'parallel'?");
  has(with_candidates("{ sequence_length = 32 }"), "'sequence_length' is no part of a layout");
  has(with_candidates("{ optimizer = { lr = 1.0 } }"), "'optimizer.lr' is no part of a layout");
  has(with_candidates("{ parallel = { tp = 2 } }, { parallel = { tp = 2 } }"),
      "stage.layout has two candidates 'tp=2'");
  has(with_candidates("{ name = \"a/b\", parallel = {} }"), "this cannot name a candidate");
  has(with_candidates(""), "stage.layout.candidates is not a list of tables");
  has(tune_begin + tune_laid_out,
      "w.toml:3:1: error: stage.layout: no candidates given and this version has no search");
  has(tune_begin + "ranks = 4\ncandidates = [{ parallel = {} }]\n" + tune_laid_out,
      "w.toml:6:9: error: stage.layout.ranks: trials have that of the stage that they are for");
  has(tune_begin + "steps = 6\ncandidates = [{ parallel = {} }]\n" + tune_laid_out,
      "w.toml:6:9: error: stage.layout: steps = 6 leaves 1 to measure behind warmup_steps = 5");
  has("[workflow]\nname = \"w\"\n[stage.t]\nkind = \"tune\"\n", "w.toml:3:1: error: stage.t.for names no stage");
  has("[workflow]\nname = \"w\"\n" + tune_laid_out,
      "stage.pretrain.parallel names the stage 'layout', which does not exist");
  has(with_candidates("{ parallel = {} }") +
          "[stage.other]\nkind = \"command\"\nargv = [\"x\"]\nparallel = \"@layout\"\n",
      "but the kind 'command' does not train");
  has(tune_begin + "candidates = [{ parallel = {} }]\n" + tune_pretrain + "parallel = \"layout\"\n",
      "stage.pretrain.parallel = \"layout\" is not a layout");
  has("[workflow]\nname = \"w\"\n[stage.t]\nkind = \"tune\"\nfor = \"c\"\ncandidates = [{ parallel = {} }]\n"
      "[stage.c]\nkind = \"command\"\nargv = [\"x\"]\n",
      "stage.t.for names 'c', a command stage");
  has(with_candidates("{ parallel = {} }") + "matrix = { seed = [1, 2] }\n", "a matrix of several trainings");
}

TEST_CASE("what a search could not know when its turn comes is refused when it is planned") {
  const auto said = [](const std::string& kind, const std::string& model) {
    return planned_tune("[workflow]\nname = \"w\"\n[stage.layout]\nkind = \"tune\"\nfor = \"t\"\n[stage.t]\nkind = \"" +
                            kind + "\"\ninputs = { data = \"pairs\", model = \"" + model +
                            "\" }\nparallel = \"@layout\"\n",
                        {}, true)
        .diagnostics.render("");
  };
  const std::string file = said("sft", "model"), align = said("align", "model");
  CHECK_MESSAGE(file.find("'t' begins with a model that no stage of this workflow makes") != std::string::npos, file);
  CHECK_MESSAGE(align.find("layouts of align stages are not searched") != std::string::npos, align);
  const std::string text = tune_begin + tune_laid_out + "[stage.sft-layout]\nkind = \"tune\"\nfor = \"sft\"\n" +
                           "[stage.sft]\nkind = \"sft\"\ninputs = { data = \"pairs\", model = \"@pretrain\" }\n" +
                           "threads = 1\nsequence_length = 64\nparallel = \"@sft-layout\"\n";
  const auto known = planned_tune(text, {}, true);
  CHECK_MESSAGE(known.diagnostics.empty(), known.diagnostics.render(""));
}

TEST_CASE("tune alone: the tune stage and what it needs, one with defaults where there is none") {
  const std::string tokens =
      "[stage.corpus]\nkind = \"curate\"\ninputs = { documents = \"pages\" }\n"
      "[stage.tokens]\nkind = \"tokenize\"\ninputs = { corpus = \"@corpus\" }\n"
      "[stage.later]\nkind = \"command\"\nargv = [\"x\"]\ninputs = { model = \"@pretrain\" }\n";
  std::string text = with_candidates("{ parallel = { tp = 2 } }") + tokens;
  text.replace(text.find("\"tokens\" }"), 10, "\"@tokens\" }");
  for (const char* name : {"pretrain", "layout"}) {
    const RunPlan plan = good_tune(text, name);
    REQUIRE(plan.stages.size() == 3);
    CHECK(plan.stages[2].id() == "layout");
    CHECK(plan.stages[2].needs == std::vector<std::string>{"tokens"});
    CHECK(target_of(plan.stages[2]).ok());
  }
  const RunPlan added =
      good_tune("[workflow]\nname = \"w\"\n" + tune_pretrain + "parallel = { tp = 2 }\n", "pretrain", true);
  REQUIRE(added.stages.size() == 1);
  CHECK(added.stages[0].id() == "pretrain-layout");
  CHECK(written_candidates(added.stages[0]).empty());
  CHECK(planned_tune(text, "nobody").diagnostics.render("").find("the workflow has no stage 'nobody'") !=
        std::string::npos);
}

TEST_CASE("what distinguishes candidates is part of the stage's settings, and thus of its key") {
  const auto settings = [](const std::string& text) { return good_tune(text).stages[0].settings; };
  const std::string text = with_candidates("{ parallel = { tp = 2 } }");
  const auto changed = [&](const std::string& from, const std::string& to) {
    std::string other = text;
    REQUIRE(other.find(from) != std::string::npos);
    return other.replace(other.find(from), from.size(), to);
  };
  const Value as_it_is = settings(text);
  CHECK(settings(text) == as_it_is);
  CHECK_FALSE(settings(changed("tp = 2", "pp = 2")) == as_it_is);
  CHECK_FALSE(settings(changed("global_batch_size = 32", "global_batch_size = 64")) == as_it_is);
  CHECK_FALSE(settings(changed("nodes = 2", "nodes = 1")) == as_it_is);
  CHECK_FALSE(settings(changed("hidden_size = 32", "hidden_size = 64")) == as_it_is);
}

}  // namespace longhaul
