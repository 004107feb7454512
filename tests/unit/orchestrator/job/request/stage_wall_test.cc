#include "orchestrator/job/request/stage_wall.h"

#include <doctest/doctest.h>

#include "base/digest/hash.h"
#include "base/files/files.h"
#include "base/text/text.h"
#include "orchestrator/job/job_plan.h"
#include "orchestrator/job/job_spec.h"
#include "orchestrator/workflow/planner.h"
#include "tests/support/plain_files.h"

namespace longhaul {
namespace {

Site wall_site() {
  const std::string path = "/tmp/longhaul-wall-test-" + random_hex(6).value() + ".toml";
  write_file_atomic(path,
                    "name = \"walls\"\nscheduler = \"slurm\"\n[node]\ncores = 64\n[classes.prod]\nmax_wall = \"3d\"\n")
      .value();
  auto site = load_site(path, {});
  (void)remove_tree(path);
  REQUIRE_MESSAGE(site.ok(), site.error().message());
  return *site;
}

RunPlan wall_plan(const std::string& more = "") {
  WorkflowRequest request;
  request.path = "w.toml";
  request.folder = "/somewhere";
  request.text =
      "[workflow]\nname = \"w\"\n[stage.corpus]\nkind = \"curate\"\ninputs = { documents = \"pages\" }\n" + more +
      "[stage.tokens]\nkind = \"tokenize\"\ninputs = { corpus = \"@corpus\" }\nvocabulary = 300\n"
      "[stage.pretrain]\nkind = \"pretrain\"\ninputs = { tokens = \"@tokens\" }\nsteps = 10\nsequence_length = 64\n"
      "model = { hidden_size = 64, num_attention_heads = 4, num_key_value_heads = 4, max_position_embeddings = 64 }\n"
      "[stage.small]\nkind = \"quantize\"\ninputs = { model = \"@pretrain\", tokens = \"@tokens\" }\n"
      "[stage.other]\nkind = \"command\"\nargv = [\"true\"]\n";
  WorkflowOutcome planned = plan_workflow(request, testing::PlainFiles());
  REQUIRE_MESSAGE(planned.diagnostics.empty(), planned.diagnostics.render(""));
  for (PlannedStage& stage : planned.plan.stages) stage.device = "cpu";
  return std::move(planned.plan);
}

RawBytes so_many_bytes(double bytes) {
  return [bytes](const std::vector<std::string>&) { return std::optional(bytes); };
}

JobPlan wall_job(const Site& site, const RunPlan& plan, const std::string& stage) {
  Diagnostics diagnostics;
  JobPlan job = plan_job(site, *plan.find(stage), diagnostics);
  REQUIRE_MESSAGE(diagnostics.empty(), diagnostics.render(""));
  return job;
}

std::string wall_of_job(const JobPlan& job) {
  for (const Directive& one : job.directives)
    if (one.option == "time") return one.value + "  # " + one.origin;
  return "none";
}

}  // namespace

TEST_CASE("a stage on processors without a time limit asks for ten times its forecast, and an hour at least") {
  const Site site = wall_site();
  RunPlan plan = wall_plan();
  forecast_walls(site.config, so_many_bytes(1e12), plan);
  // 1 TB at 7 MB/s on each of eight threads.
  CHECK(plan.find("corpus")->forecast_s == doctest::Approx(1e12 / (8 * 7e6)));
  CHECK(plan.find("tokens")->forecast_s == doctest::Approx(1e12 / 12e6));
  CHECK(plan.find("small")->forecast_s > 0);
  CHECK(plan.find("pretrain")->forecast_s == 0);
  CHECK(plan.find("other")->forecast_s == 0);
  CHECK(wall_of_job(wall_job(site, plan, "corpus")) == "2-01:45:00  # a forecast of 4h 57m, times 10, at least 1h 00m");
  CHECK(wall_of_job(wall_job(site, plan, "small")).find("01:00:00  # a forecast of ") == 0);
  // Longer than the class allows, or not known: as the class says.
  CHECK(wall_of_job(wall_job(site, plan, "tokens")) == "3-00:00:00  # site walls: classes.prod.max_wall");
  CHECK(wall_of_job(wall_job(site, plan, "other")) == "3-00:00:00  # site walls: classes.prod.max_wall");
  const auto again = run_plan_from_value(run_plan_to_value(plan));
  REQUIRE(again.ok());
  CHECK(again->find("corpus")->forecast_s == doctest::Approx(plan.find("corpus")->forecast_s));
}

TEST_CASE("a time limit of the stage counts, and input that cannot be counted leaves the class's time") {
  const Site site = wall_site();
  RunPlan limited = wall_plan("time_limit = \"20min\"\n");
  forecast_walls(site.config, so_many_bytes(1e6), limited);
  CHECK(wall_of_job(wall_job(site, limited, "corpus")) == "00:20:00  # workflow: stage.corpus.time_limit");
  RunPlan unknown = wall_plan();
  forecast_walls(site.config, [](const std::vector<std::string>&) { return std::optional<double>(); }, unknown);
  CHECK(unknown.find("corpus")->forecast_s == 0);
  CHECK(wall_of_job(wall_job(site, unknown, "corpus")) == "3-00:00:00  # site walls: classes.prod.max_wall");
}

TEST_CASE("every attempt after the first has the time of its class") {
  const Site site = wall_site();
  RunPlan plan = wall_plan();
  forecast_walls(site.config, so_many_bytes(1e6), plan);
  const JobPlan job = wall_job(site, plan, "corpus");
  LedgerAttempt attempt;
  attempt.number = 1;
  CHECK(attempt_directives(attempt, job).empty());
  attempt.number = 2;
  const auto directives = attempt_directives(attempt, job);
  REQUIRE(directives.size() == 1);
  CHECK(directives[0].option == "time");
  CHECK(directives[0].value == "3-00:00:00");
}

TEST_CASE("sizes of raw input: files and folders, compressed text as more, and not more files than are to be counted") {
  const std::string folder = "/tmp/longhaul-wall-bytes-" + random_hex(6).value();
  make_directories(folder + "/below").value();
  write_file_atomic(folder + "/a.txt", std::string(100, 'a')).value();
  write_file_atomic(folder + "/below/b.txt.gz", std::string(10, 'b')).value();
  CHECK(bytes_on_disk({folder}).value_or(0) == doctest::Approx(180));
  CHECK(bytes_on_disk({folder + "/a.txt"}).value_or(0) == doctest::Approx(100));
  CHECK(!bytes_on_disk({folder}, 1));
  CHECK(!bytes_on_disk({folder + "/nothing"}));
  (void)remove_tree(folder);
}

}  // namespace longhaul
