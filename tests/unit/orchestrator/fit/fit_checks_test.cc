// What does not fit is refused with its figure and a number that would fit, which does when it is written; what may not
// fit is a warning; what was allowed goes on.
#include <algorithm>

#include "orchestrator/fit/saved_bytes.h"
#include "orchestrator/fit/stage_cost.h"
#include "tests/unit/orchestrator/fit/fitted_workflow.h"

namespace longhaul {
namespace {

// Llama 3 8B on 256 GPUs of a cluster whose jobs last 12 hours.
const std::string cluster_training =
    "[workflow]\nname = \"w\"\n"
    "[stage.pretrain]\nkind = \"pretrain\"\ninputs = { tokens = \"tokens\" }\nrecipe = \"llama3-8b\"\n"
    "model = { vocab_size = 128256 }\nnodes = 64\nranks = 256\nparallel = { dp_shard = 256, zero = 2 }\n"
    "global_batch_size = 1024\nsteps = 100_000\n";
// A small one for this machine.
const std::string small_training =
    "[workflow]\nname = \"w\"\n"
    "[stage.pretrain]\nkind = \"pretrain\"\ninputs = { tokens = \"tokens\" }\nrecipe = \"quickstart-tiny\"\n"
    "model = { vocab_size = 512 }\nglobal_batch_size = 32\nmicro_batch_size = 4\nsteps = 100\n";

FittedWorkflow on_cluster(const std::string& more, std::vector<std::string> sets = {}) {
  sets.emplace_back("site.account=\"a-x01\"");
  return {cluster_training + more, "w.toml", "alps-clariden", sets};
}

FittedWorkflow here(const std::string& more, int cores = 2) {
  FittedWorkflow fitted(small_training + more, "w.toml", "local");
  fitted.machine.cores = cores;
  return fitted;
}

bool says(const std::string& text, const std::vector<std::string>& parts) {
  for (const std::string& part : parts)
    if (text.find(part) == std::string::npos) {
      MESSAGE(text);
      MESSAGE("lacks: " << part);
      return false;
    }
  return true;
}

// What stands in `text` between these two.
std::string between(const std::string& text, const std::string& before, const std::string& behind) {
  const std::size_t begin = text.find(before);
  if (begin == std::string::npos) return {};
  const std::size_t from = begin + before.size();
  return text.substr(from, text.find(behind, from) - from);
}

}  // namespace

TEST_CASE("fit: what fits says nothing, wherever it is to run") {
  CHECK(on_cluster("").report().nothing_found());
  CHECK(here("ranks = 2\n").report().nothing_found());
}

TEST_CASE("fit: more ranks and threads than this machine has cores") {
  CHECK(says(here("ranks = 4\nthreads = 64\n").refused(),
             {"w.toml:11:", "stage.pretrain: 4 ranks of 64 threads need 256 cores, and this machine has 2",
              "ranks = 2 with threads = 1 fit (--set stage.pretrain.ranks=2 --set stage.pretrain.threads=1) here",
              "--allow cores goes on all the same", "1 error"}));
  CHECK(says(here("ranks = 8\n", 5).refused(),
             {"8 ranks of 1 thread need 8 cores", "ranks = 4 fits (--set stage.pretrain.ranks=4) here"}));
  // What is a parameter is set as one, for all stages at once.
  FittedWorkflow parameter(replace_all(small_training, "[stage.pretrain]", "[params]\nranks = 2\n[stage.pretrain]") +
                               "ranks = \"${params.ranks}\"\n",
                           "w.toml", "local");
  parameter.machine.cores = 1;
  CHECK(says(parameter.refused(), {"ranks = 1 fits (--set params.ranks=1) here"}));
  const FittedWorkflow tensor = here("ranks = 4\nparallel = { tp = 4 }\n", 3);
  CHECK(says(tensor.refused(), {"a layout of at most 3 ranks: tp=4"}));
  CHECK(tensor.report({"cores"}).refused().empty());
  CHECK(says(tensor.report({"cores"}).warnings_text(), {"w.toml:11:", "warning: ", "allowed by --allow cores"}));
  FittedWorkflow cluster = on_cluster("");
  CHECK(cluster.machine.cores == 0);  // its nodes are judged with their jobs
  FittedWorkflow known = here("ranks = 8\n");
  known.cached = {"pretrain"};
  CHECK(known.report().nothing_found());
}

TEST_CASE("fit: steps that take longer than their time limit, also over a chain of jobs") {
  const FittedWorkflow fitted = on_cluster("time_limit = \"14h\"\n");
  CHECK(fitted.jobs.front().chain);
  const std::string refused = fitted.refused();
  CHECK(says(refused, {"w.toml:13:", "stage.pretrain: 100000 steps take ", "time_limit = 14h 00m has ",
                       "--allow wall goes on all the same"}));
  CHECK(fitted.report({"wall"}).refused().empty());
  // Both numbers that it names fit.
  const std::string limit = between(refused, "time_limit = \"", "\""), steps = between(refused, "and steps = ", " fit");
  CHECK(on_cluster("time_limit = \"" + limit + "\"\n").report().nothing_found());
  const FittedWorkflow fewer = on_cluster("time_limit = \"14h\"\n", {"stage.pretrain.steps=" + steps});
  CHECK(fewer.report().refused().empty());
  // A limit within the interval is a warning.
  const double middle = fitted.forecasts.front().duration();
  const FittedWorkflow close = on_cluster(format("time_limit = \"{:.0f}min\"\n", middle / 60 * 1.02));
  CHECK(close.report().refused().empty());
  CHECK(says(close.report().warnings_text(), {"warning: stage.pretrain", "it may end before them"}));
  CHECK(on_cluster("time_limit = \"90d\"\n").report().nothing_found());
}

TEST_CASE("fit: a job that is shorter than one step is refused by name") {
  const FittedWorkflow fitted = on_cluster("time_limit = \"3s\"\n");
  CHECK(says(fitted.refused(),
             {"w.toml:13:", "stage.pretrain: a job of 3.0s is shorter than one step, which takes at least",
              "holds one step", "1 error"}));
  CHECK(!fitted.report({"wall"}).warnings().empty());
}

TEST_CASE("fit: what a training saves, by hand: bytes, files, seconds, and how many of them lie there at once") {
  const double weights = 8'030'261'248;  // Llama 3 8B's
  const std::vector<std::string> rates = {"site.network.storage_write_gbyte=1", "site.network.storage_read_gbyte=2"};
  const auto saved = [&](const std::string& more) {
    const FittedWorkflow f = on_cluster(more, rates);
    const FitCase fit{f.site, f.planned.plan, f.planned.written, f.jobs, f.forecasts, f.servers};
    return saved_bytes(fit, f.planned.plan.stages.front()).value();
  };
  const std::string keys = "checkpoint = { every_steps = 500, keep_every = 10000, keep_last = 3, keep_best = 1";
  const SavedBytes s = saved(keys + " }\nmilestone_every = 25000\n");
  CHECK(s.checkpoint == doctest::Approx(12 * weights).epsilon(1e-9));  // f32 and two moments of f32
  CHECK(s.model_low == doctest::Approx(2 * weights).epsilon(1e-9));
  CHECK(s.model == doctest::Approx(4 * weights).epsilon(1e-9));
  CHECK(s.files_low == 257);  // a share of each of 256 ranks, and what names them
  CHECK(s.files == 258);
  CHECK(s.write_s == doctest::Approx(12 * weights / 1e9));
  CHECK(s.read_s == doctest::Approx(12 * weights / 2e9));
  CHECK(s.made == 199);          // behind steps 500 to 99,500
  CHECK(s.kept_for_good == 10);  // every twentieth
  CHECK(s.kept_low == 11);
  CHECK(s.kept == 10 + 3 + 1 + 1);
  CHECK(s.milestones == 3);
  CHECK(s.low() == doctest::Approx((11 * 12 + 4 * 2) * weights));
  CHECK(s.high() == doctest::Approx((15 * 12 + 4 * 4) * weights));
  CHECK(s.with_saves(1e6) == 1e6);
  CHECK(s.with_saves(100) == doctest::Approx(199 * s.write_s));
  CHECK(saved(keys + ", asynchronous = false }\n").with_saves(1e6) == doctest::Approx(1e6 + 199 * s.write_s));
}

TEST_CASE("fit: what a stage costs is its forecast with both ends, or its limit, for all of its nodes and GPUs") {
  const FittedWorkflow f = on_cluster(
      "resiliency = { spares = 2 }\n[stage.look]\nkind = \"command\"\nargv = [\"x\"]\nnodes = 2\nranks = 2\n"
      "time_limit = \"10h\"\n");
  const TrainingForecast& training = f.forecasts.front();
  std::vector<StageCost> costs =
      stage_costs({f.site, f.planned.plan, f.planned.written, f.jobs, f.forecasts, f.servers});
  std::ranges::sort(costs, std::ranges::greater(), &StageCost::nodes);
  REQUIRE(costs.size() == 2);
  const StageCost &trained = costs.front(), &limited = costs.back();
  CHECK(trained.nodes == 66);
  CHECK(trained.gpus == 264);
  CHECK(trained.steps == 100'000);
  CHECK(trained.step_low == training.low);
  CHECK(trained.low == doctest::Approx(100'000 * training.low));
  CHECK(trained.middle == doctest::Approx(100'000 * training.seconds()));
  CHECK(trained.high == doctest::Approx(100'000 * training.high));
  CHECK(limited.nodes == 2);
  CHECK(limited.low == 0);
  CHECK(limited.middle == 36'000);
  CHECK(limited.high == 36'000);
}

TEST_CASE("fit: a checkpoint that takes longer than the time before a job's end") {
  // 8 billion weights with moments are 96 GB.
  const FittedWorkflow slow = on_cluster("", {"site.network.storage_write_gbyte=0.2"});
  CHECK(says(slow.refused(),
             {"a checkpoint of 89.7 GiB takes at least 8m 02s by the site's storage, 0.2 GB/s, and the end of a job",
              "job.stop_before = \"11min\""}));
  CHECK(on_cluster("job = { stop_before = \"11min\" }\n", {"site.network.storage_write_gbyte=0.2"})
            .report()
            .nothing_found());
  // Jobs that go on read one first.
  const FittedWorkflow reads = on_cluster("", {"site.network.storage_read_gbyte=0.002"});
  CHECK(says(reads.refused(), {"is shorter than one step"}));
}

TEST_CASE("fit: saves take their part of the time limit, by the rates of storage and network cards") {
  const FittedWorkflow free = on_cluster("");
  const TrainingForecast& f = free.forecasts.front();
  const double slowest = f.duration() * f.high / f.seconds(), written_s = 96.4;  // 96.4 GB at 1 GB/s
  const std::string limit = format("time_limit = \"{:.0f}min\"\n", 1.3 * slowest / 60);
  const auto with = [&](const std::string& keys, const std::string& rate) {
    return on_cluster(limit + "checkpoint = { " + keys + " }\n", {"site.network." + rate});
  };
  const std::string storage = "storage_write_gbyte=1";
  CHECK(with("every_steps = 10000", storage).report().nothing_found());
  // As many that the training waits for as fill the rest of the limit twice.
  const auto every = static_cast<std::int64_t>(100'000 * written_s / slowest);
  const std::string waits = format("every_steps = {}, asynchronous = false", every);
  const std::string refused = with(waits, storage).report().refused().render("");
  CHECK(says(refused,
             {"w.toml:13:14", "stage.pretrain: 100000 steps with ",
              " saves of 89.7 GiB, each at least 1m 36s by the site's storage, 1 GB/s", "checkpoint.every_steps = "}));
  const std::string fewer = between(refused, "checkpoint.every_steps = ", " ");
  CHECK(with("asynchronous = false, every_steps = " + fewer, storage).report().refused().empty());
  // Beside the steps they take none of the time, as long as one is done before the next begins.
  CHECK(with(format("every_steps = {}", every), storage).report().nothing_found());
  const auto often = static_cast<std::int64_t>(100'000 * written_s / (2 * slowest));
  const std::string waiting = with(format("every_steps = {}", often), storage).report().refused().render("");
  CHECK(says(waiting, {"100000 steps with ", " saves of 89.7 GiB", "none waits for the one before"}));
  const std::string apart = between(waiting, "checkpoint.every_steps = ", " ");
  CHECK(with("every_steps = " + apart, storage).report().refused().empty());
}

TEST_CASE("fit: a budget that is smaller than the run, or than one step") {
  const auto with = [](const std::string& budget, std::vector<std::string> sets = {}) {
    sets.emplace_back("site.account=\"a-x01\"");
    return FittedWorkflow(replace_all(cluster_training, "name = \"w\"\n", "name = \"w\"\n" + budget), "w.toml",
                          "alps-clariden", sets);
  };
  CHECK(says(with("budget = 0.001\n").refused(),
             {"w.toml:3:10", "budget = 0.001 node-hours is less than one step of stage.pretrain, which costs at least",
              "holds all its steps", "--allow budget goes on all the same"}));
  const std::string refused = with("budget = 1000\n").refused();
  CHECK(says(refused, {"w.toml:3:10", "the stages cost ", "node-hours by the forecast (pretrain), and budget = 1000",
                       "of stage.pretrain fit"}));
  const std::string enough = between(refused, "; budget = ", " holds"),
                    steps = between(refused, "steps = ", " of stage");
  CHECK(with("budget = " + enough + "\n").report().nothing_found());
  CHECK(with("budget = 1000\n", {"stage.pretrain.steps=" + steps}).report().refused().empty());
  CHECK(says(with("", {"site.budget_gpu_hours=100"}).refused(),
             {"GPU-hours by the forecast (pretrain), and budget_gpu_hours = 100"}));
  FittedWorkflow done = with("budget = 1\n");
  done.cached = {"pretrain"};
  CHECK(done.report().nothing_found());
}

TEST_CASE("fit: a budget counts all stages, and says which part is forecast and which is limits") {
  const auto with = [](const std::string& budget, const std::string& stages, std::vector<std::string> sets = {}) {
    sets.emplace_back("site.account=\"a-x01\"");
    return FittedWorkflow("[workflow]\nname = \"w\"\n" + budget + stages, "w.toml", "alps-clariden", sets);
  };
  // Two programs of which nobody knows more than when they end.
  const std::string limited =
      "[stage.look]\nkind = \"command\"\nargv = [\"x\"]\nnodes = 2\nranks = 2\ntime_limit = \"10h\"\n"
      "[stage.after]\nkind = \"command\"\nargv = [\"y\"]\ntime_limit = \"3h\"\n";
  CHECK(with("budget = 24\n", limited).report().nothing_found());
  const FittedWorkflow close = with("budget = 22\n", limited);
  CHECK(close.report().refused().empty());
  CHECK(says(close.report().warnings_text(),
             {"w.toml:3:10", "the stages cost up to 23.0 node-hours by their limits (look, after), and budget = 22",
              "it may be used up before they end", "budget = 24 holds all of them"}));
  FittedWorkflow done = with("budget = 22\n", limited);
  done.cached = {"look"};
  CHECK(done.report().nothing_found());
  // Beside a training: its forecast alone is what refuses.
  const std::string training = cluster_training.substr(cluster_training.find("[stage.pretrain]"));
  const FittedWorkflow first = with("budget = 1\n", training + limited);
  const TrainingForecast& f = first.forecasts.front();
  const double hours = 64 * f.duration() * f.high / f.seconds() / 3600;
  CHECK(says(with("budget = 1000\n", training + limited).refused(),
             {"node-hours by the forecast (pretrain), up to 23.0 by their limits (look, after), and budget = 1000"}));
  const FittedWorkflow both = with(format("budget = {:.0f}\n", hours + 5), training + limited);
  CHECK(both.report().refused().empty());
  CHECK(says(both.report().warnings_text(), {"up to 23.0 by their limits (look, after)", "it may be used up"}));
  CHECK(with(format("budget = {:.0f}\n", hours + 25), training + limited).report().nothing_found());
  // Of work on processors there is a forecast, which its job's wall time comes from.
  FittedWorkflow work = with("budget = 2\n", "[stage.corpus]\nkind = \"curate\"\ninputs = { documents = \"pages\" }\n");
  work.planned.plan.stages.front().forecast_s = 4 * 3600;
  work.jobs.front().wall_s = 8 * 3600;
  CHECK(says(work.report().warnings_text(), {"the stages cost 1.3 to 8.0 node-hours by the forecast (corpus)"}));
  work.planned.plan.stages.front().forecast_s = 12 * 3600;
  CHECK(says(work.refused(), {"the stages cost 4.0 to 8.0 node-hours by the forecast (corpus)"}));
  // What has neither is named.
  FittedWorkflow unknown = with("budget = 22\n", limited + training);
  unknown.forecasts.front().problem = "a model that nobody knows";
  CHECK(unknown.jobs[unknown.planned.plan.stages.size() - 1].chain);
  CHECK(says(unknown.report().warnings_text(), {"(not counted: pretrain, without forecast and limit)"}));
  // So it is where the budget holds all that is known, and trials, whose cost nobody knows before, are never left out.
  unknown.planned.plan.budget_node_hours = 24;
  CHECK(unknown.report().nothing_found());
  CHECK(says(unknown.report().warnings_text(),
             {"note: budget = 24: the stages cost up to 23.0 node-hours by their limits (look, after) (not counted: "
              "pretrain, without forecast and limit)"}));
  const std::string tuned = "[stage.layout]\nkind = \"tune\"\nfor = \"pretrain\"\n" + training;
  for (const char* budget : {"budget = 1000000\n", "budget = 1000\n"})
    CHECK(says(with(budget, tuned).report().warnings_text() + with(budget, tuned).refused(),
               {"(not counted: the trials of layout)"}));
  CHECK(says(with("", tuned, {"site.budget_gpu_hours=10000000"}).report().warnings_text(),
             {"note: budget_gpu_hours = 1e+07: ", "(not counted: the trials of layout)"}));
}

TEST_CASE("fit: a workflow for several nodes of which nobody said where it runs is not judged by this machine") {
  FittedWorkflow wide(replace_all(small_training, "steps = 100\n", "steps = 100\nnodes = 8\nranks = 8\n"), "w.toml",
                      "local");
  wide.machine.cores = 1, wide.machine.memory = 1, wide.machine.free_bytes = 1;
  CHECK(!wide.report().refused().empty());
  wide.no_site = true;
  const FitFindings report = wide.report();
  CHECK(report.nothing_found());
  CHECK(says(report.warnings_text(), {"note: no site was given, and stage.pretrain asks for 8 nodes: ", "cores, memory",
                                      "are not checked; --site NAME checks them"}));
}

TEST_CASE("fit: checkpoints that are more than the quota, or than what is free") {
  const std::vector<std::string> quota = {"site.paths.scratch_quota=\"4TiB\""};
  CHECK(on_cluster("checkpoint = { every_steps = 500 }\n", quota).report().nothing_found());
  const std::string refused = on_cluster("checkpoint = { every_steps = 500, keep_every = 1000 }\n", quota).refused();
  CHECK(says(refused, {"w.toml:13:48", "what the trainings save takes at least ",
                       "most of it stage.pretrain: 101 checkpoints of 89.7 GiB",
                       "the site's paths.scratch_quota is 4.0 TiB", "--allow space goes on all the same"}));
  const std::string keys = between(refused, "; checkpoint = { ", " } fits");
  CHECK(on_cluster("checkpoint = { every_steps = 500, " + keys + " }\n", quota).report().refused().empty());
  CHECK(says(on_cluster("milestone_every = 1000\n", {"site.paths.scratch_quota=\"1TiB\""}).refused(),
             {"99 milestones of", "milestone_every = "}));
  CHECK(says(on_cluster("", {"site.paths.scratch_quota=\"50GiB\""}).refused(), {"optimizer.moments = \"bf16\""}));
  // Nobody set how often: on 64 nodes it is chosen, and two are kept while the third is written.
  CHECK(says(on_cluster("", {"site.paths.scratch_quota=\"200GiB\""}).refused(),
             {"most of it stage.pretrain: 3 checkpoints of 89.7 GiB (every ", ", as it is expected to be chosen)",
              "checkpoint.keep_last = 1 fits"}));
  CHECK(on_cluster("checkpoint = { keep_last = 1 }\n", {"site.paths.scratch_quota=\"200GiB\""})
            .report()
            .refused()
            .empty());
  CHECK(on_cluster("", {"site.paths.scratch_quota=\"320GiB\""}).report().nothing_found());
  CHECK(says(on_cluster("checkpoint = { every_steps = 500, keep_every = 500 }\n", {"site.paths.scratch_inodes=1000"})
                 .refused(),
             {"checkpoints are at least ", "scratch_inodes is 1000"}));
  FittedWorkflow full = here("");
  full.machine.free_bytes = 1 << 20, full.machine.runs = "/data/runs";
  CHECK(says(full.refused(), {"1.0 MiB are free on the file system of /data/runs"}));
  const FittedWorkflow purged =
      on_cluster("checkpoint = { every_steps = 500, keep_every = 10000 }\n", {"site.paths.scratch_purge=\"1d\""});
  CHECK(purged.report().refused().empty());
  CHECK(says(purged.report().warnings_text(), {"paths.scratch_purge", "would not last"}));
  const FitFindings short_enough = on_cluster("", {"site.paths.scratch_purge=\"99d\""}).report();
  CHECK(short_enough.nothing_found());
  CHECK(
      says(short_enough.warnings_text(), {"note: files of the folder of runs that nobody uses for 99d 00h are removed",
                                          "copy in time what is to stay, or set `runs`"}));
  CHECK(here("").report().notes().empty());
}

TEST_CASE("fit: prompts and answers that are longer than the model's context") {
  const auto deploy = [](const std::string& keys) {
    return FittedWorkflow(
        small_training + "[stage.deploy]\nkind = \"deploy\"\ninputs = { model = \"@pretrain\" }\n" + keys, "w.toml",
        "local");
  };
  CHECK(deploy("").report().nothing_found());  // the default ends where the context does
  CHECK(deploy("max_tokens = 100\nprompts = [\"one two three\"]\n").report().nothing_found());
  CHECK(
      says(deploy("max_tokens = 126\nprompts = [\"one two three\"]\n").refused(),
           {"w.toml:14:14",
            "stage.deploy: max_tokens = 126 and a prompt of at least 3 tokens are more than the model's context of 128",
            "max_tokens = 125 fits", "--allow context goes on all the same"}));
  std::string words = "word";
  for (int i = 1; i < 128; ++i) words += " a";
  CHECK(says(deploy("prompts = [\"short\", \"" + words + "\"]\n").refused(),
             {"w.toml:14:11", "prompt 2 has 128 words, so at least as many tokens", "shorten it to 127 tokens"}));
  const FittedWorkflow perhaps = deploy("prompts = [\"" + std::string(600, 'x') + "\"]\n");
  CHECK(perhaps.report().refused().empty());
  CHECK(says(perhaps.report().warnings_text(), {"prompt 1 has 600 bytes, about 150 tokens"}));
  const FittedWorkflow evaluated(
      small_training +
          "[stage.look]\nkind = \"evaluate\"\ntasks = []\ninputs = { model = \"@pretrain\" }\n"
          "prompts = [\"" +
          words + "\"]\n",
      "w.toml", "local");
  CHECK(says(evaluated.refused(), {"stage.look: prompt 1 has 128 words"}));
}

TEST_CASE("fit: memory of ranks on processors, and of a server's slots") {
  const std::string large =
      "[workflow]\nname = \"w\"\n[stage.pretrain]\nkind = \"pretrain\"\ninputs = { tokens = \"tokens\" }\n"
      "recipe = \"llama3-8b\"\nmodel = { vocab_size = 128256 }\nranks = 2\nglobal_batch_size = 16\nsteps = 10\n";
  const FittedWorkflow laptop(large, "w.toml", "local", {}, std::int64_t{16} << 30);
  CHECK(says(laptop.refused(), {"w.toml:3:", "too little memory: the 2 ranks of a node need",
                                "there are 16.0 GiB (this machine)", "--allow memory goes on all the same"}));
  const std::string small =
      small_training +
      "ranks = 2\n[stage.deploy]\nkind = \"deploy\"\nslots = 1000\ninputs = { model = \"@pretrain\" }\n";
  CHECK(FittedWorkflow(small, "w.toml", "local", {}, std::int64_t{16} << 30).report().nothing_found());
  const std::string refused = FittedWorkflow(small, "w.toml", "local", {}, std::int64_t{240} << 20).refused();
  CHECK(says(refused, {"w.toml:14:9", "stage.deploy does not fit: a server with slots = 1000 needs", "slots = "}));
}

TEST_CASE("fit: memory of ranks that only draw answers") {
  const std::string drawn = small_training +
                            "[stage.learn]\nkind = \"align\"\nmethod = \"grpo\"\nreward = { kind = \"exact\" }\n"
                            "inputs = { model = \"@pretrain\", data = \"rows\" }\nsequence_length = 128\n"
                            "micro_batch_size = 8\nglobal_batch_size = 64\n"
                            "rollout = { ahead = true, ranks = 2, max_new_tokens = 32 }\n";
  CHECK(FittedWorkflow(drawn, "w.toml", "local", {}, std::int64_t{64} << 30).report().nothing_found());
  const std::string refused = FittedWorkflow(drawn, "w.toml", "local", {}, std::int64_t{1} << 20).refused();
  CHECK(says(refused, {"stage.learn does not fit: each rank that only draws needs", "fewer rollout.slots"}));
}

TEST_CASE("fit: all of it is reported at once, sorted by place, and every check has a name of its own") {
  FittedWorkflow fitted = here(
      "ranks = 8\ntime_limit = \"10s\"\n[stage.deploy]\nkind = \"deploy\"\nmax_tokens = 4000\n"
      "inputs = { model = \"@pretrain\" }\n");
  fitted.machine.free_bytes = 1 << 20;
  const std::string refused = fitted.refused();
  CHECK(says(refused, {"--allow cores", "--allow space", "--allow context"}));
  CHECK(refused.find("cores") < refused.find("--allow context"));
  std::vector<std::string> names;
  for (const FitSubjectText& one : fit_subject_texts()) {
    CHECK(one.name == to_string(one.check));
    names.push_back(one.name);
  }
  CHECK(fitted.report(names).refused().empty());
}

}  // namespace longhaul
