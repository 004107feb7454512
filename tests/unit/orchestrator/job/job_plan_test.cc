#include "orchestrator/job/job_plan.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "base/digest/hash.h"
#include "base/files/files.h"
#include "base/process/process.h"
#include "base/text/text.h"
#include "base/toml.h"
#include "orchestrator/job/request/sbatch_text.h"

namespace longhaul {
namespace {

struct JobFolder {
  std::string path = "/tmp/longhaul-job-test-" + random_hex(6).value();
  JobFolder() { make_directories(path).value(); }
  ~JobFolder() { (void)remove_tree(path); }
};

// A cluster with nodes of 80 cores and 4 GPUs, one QOS for each class, and a submit filter.
const std::string acc_site = R"(
name = "acc"
scheduler = "slurm"
account_required = true
account = "proj1"
default_class = "prod"
partitions = ["acc", "gpp"]
stop_before = "10min"
[node]
cores = 80
gpus = 4
[ask]
gpu_request = "gres"
cpus_per_gpu = 20
forbid = ["mem", "nodelist"]
[can]
exclude = "no"
no_kill = "no"
requeue = "no"
[classes.debug]
partition = "acc"
qos = "acc_debug"
max_wall = "2h"
max_nodes = 4
[classes.prod]
partition = "acc"
qos = "acc_ehpc"
max_wall = "3d"
max_nodes = 64
[classes.cpu]
kinds = ["curate", "tokenize"]
partition = "gpp"
gpus_per_node = 0
cores = 112
default_wall = "1h"
max_wall = "2d"
)";

Site job_site(const std::string& text) {
  JobFolder folder;
  const std::string path = join_path(folder.path, "acc.toml");
  write_file_atomic(path, text).value();
  auto site = load_site(path, {});
  REQUIRE_MESSAGE(site.ok(), site.error().message());
  return *site;
}

// A stage as the planner makes it of [stage.s] with these keys; its first key stands in line 1.
PlannedStage job_stage(const std::string& kind, const std::string& text) {
  PlannedStage stage;
  stage.stage = "s";
  stage.kind = kind;
  stage.where = {"w.toml", 100, 1};
  auto table = parse_toml(text, "w.toml");
  REQUIRE_MESSAGE(table.ok(), table.error().message());
  Diagnostics diagnostics;
  stage.common = stage_common_fields().parse(*table, "stage.s", diagnostics);
  REQUIRE_MESSAGE(diagnostics.empty(), diagnostics.render(""));
  stage.asked = *table;
  return stage;
}

std::string directive_of(const JobPlan& plan, const std::string& option) {
  for (const Directive& directive : plan.directives)
    if (directive.option == option) return directive.value + "  # " + directive.origin;
  return "none";
}

JobPlan good_plan(const Site& site, const PlannedStage& stage) {
  Diagnostics diagnostics;
  JobPlan plan = plan_job(site, stage, diagnostics);
  REQUIRE_MESSAGE(diagnostics.empty(), diagnostics.render(""));
  return plan;
}

std::string refusal(const Site& site, const PlannedStage& stage) {
  Diagnostics diagnostics;
  (void)plan_job(site, stage, diagnostics);
  return diagnostics.empty() ? "accepted" : diagnostics.render("");
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("a job of several nodes: every directive with its value and where it comes from") {
  const Site site = job_site(acc_site);
  const JobPlan plan = good_plan(site, job_stage("pretrain", "ranks = 16\nnodes = 4\ntime_limit = \"5h\"\n"));
  CHECK(plan.job_class == "prod");
  CHECK(plan.partition == "acc");
  CHECK(directive_of(plan, "account") == "proj1  # site acc: account");
  CHECK(directive_of(plan, "partition") == "acc  # site acc: classes.prod.partition");
  CHECK(directive_of(plan, "qos") == "acc_ehpc  # site acc: classes.prod.qos");
  CHECK(directive_of(plan, "nodes") == "4  # workflow: stage.s.nodes");
  CHECK(directive_of(plan, "ntasks") == "16  # workflow: stage.s.ranks");
  CHECK(directive_of(plan, "ntasks-per-node") == "4  # ranks / nodes");
  CHECK(directive_of(plan, "cpus-per-task") == "20  # site acc: ask.cpus_per_gpu");
  CHECK(directive_of(plan, "gres") == "gpu:4  # site acc: node.gpus; site acc: ask.gpu_request");
  CHECK(directive_of(plan, "time") == "05:00:00  # workflow: stage.s.time_limit");
  CHECK(directive_of(plan, "signal") == "B:USR1@600  # site acc: stop_before");
  CHECK(directive_of(plan, "no-requeue") == "  # default: ask.requeue");
  CHECK(directive_of(plan, "mem") == "none");
  CHECK(plan.launcher == std::vector<std::string>{"srun", "--mpi=pmix", "--nodes=4", "--ntasks=16",
                                                  "--ntasks-per-node=4", "--cpus-per-task=20", "--gres=gpu:4",
                                                  "--kill-on-bad-exit=1"});
  CHECK(plan.agent_launcher == std::vector<std::string>{"srun", "--job-name=agents", "--overlap", "--mpi=none",
                                                        "--nodes=4", "--ntasks=4", "--ntasks-per-node=1",
                                                        "--cpus-per-task=1", "--mem=0", "--no-kill",
                                                        "--kill-on-bad-exit=0", "--wait=0", "--gres=gpu:4"});
  CHECK(plan.resumable);
  CHECK(!plan.chain);
  CHECK(plan.gpu_hours() == doctest::Approx(5 * 4 * 4));
}

TEST_CASE("every step says its GPUs by node, however the job asked for them, and inherits none") {
  const std::string outlives = replace_all(acc_site, "no_kill = \"no\"", "no_kill = \"yes\"");
  const std::string with_spare = "ranks = 8\nnodes = 2\nresiliency = { spares = 1 }\n";
  struct Row {
    const char *request, *directive, *word;
  };
  for (const Row& row : {Row{"gres", "gres", "--gres=gpu:h100:4"}, Row{"gpus", "gpus", "--gpus-per-node=h100:4"},
                         Row{"gpus_per_node", "gpus-per-node", "--gpus-per-node=h100:4"},
                         Row{"gpus_per_task", "gpus-per-task", "--gpus-per-node=h100:4"}, Row{"none", "", ""}}) {
    CAPTURE(row.request);
    const Site site = job_site(replace_all(outlives, "gpu_request = \"gres\"",
                                           format("gpu_request = \"{}\"\ngpu_type = \"h100\"", row.request)));
    const JobPlan plan = good_plan(site, job_stage("pretrain", with_spare));
    if (*row.directive) CHECK(directive_of(plan, row.directive) != "none");
    for (const std::vector<std::string>& launcher : {plan.launcher, plan.agent_launcher}) {
      const auto about_gpus = [](const std::string& word) { return has(word, "gpu") || has(word, "gres"); };
      CHECK(std::count_if(launcher.begin(), launcher.end(), about_gpus) == (*row.word ? 1 : 0));
      if (*row.word) CHECK(std::find(launcher.begin(), launcher.end(), row.word) != launcher.end());
    }
    JobScriptContext context{"r", "s", "/runs/r", "/bin/worker", "/runs/r/stages/s/attempts/1", false, {}, {}};
    const std::string script = job_script(plan, context).value();
    for (const char* variable : {" SLURM_GPUS ", " SLURM_GPUS_PER_NODE ", " SLURM_GPUS_PER_TASK ",
                                 " SLURM_GPUS_PER_SOCKET ", " SLURM_NTASKS_PER_GPU ", " SLURM_TRES_PER_TASK "}) {
      CAPTURE(variable);
      CHECK(has(script, variable));
    }
    CHECK(has(script, " SLURM_GPU_BIND\n"));
  }
  const JobPlan cpu = good_plan(job_site(acc_site), job_stage("curate", "ranks = 2\nnodes = 2"));
  CHECK(!has(join(cpu.launcher, " ") + join(cpu.agent_launcher, " "), "gres"));
}

TEST_CASE("ranks on GPUs that talk by NCCL are started without the plugin of the site's MPI") {
  const Site site = job_site(acc_site);
  const auto mpi_of = [&](const std::string& kind, const std::string& settings) {
    PlannedStage stage = job_stage(kind, "ranks = 8\nnodes = 2");
    stage.settings = *parse_toml(settings, "w.toml");
    const JobPlan plan = good_plan(site, stage);
    for (const std::string& word : plan.launcher)
      if (starts_with(word, "--mpi=")) return word.substr(6);
    return std::string("not said");
  };
  CHECK(mpi_of("pretrain", "device = \"gpu\"\ncommunicator = \"nccl\"") == "none");
  CHECK(mpi_of("pretrain", "device = \"gpu\"") == "none");
  CHECK(mpi_of("pretrain", "device = \"gpu\"\ncommunicator = \"staged\"") == "pmix");
  CHECK(mpi_of("pretrain", "device = \"cpu\"\ncommunicator = \"nccl\"") == "pmix");
  CHECK(mpi_of("command", "device = \"gpu\"") == "pmix");  // of a user's program nobody knows
}

TEST_CASE("mpirun starts the ranks of several nodes in blocks, and agents are there as below srun") {
  const std::string outlives = replace_all(acc_site, "no_kill = \"no\"", "no_kill = \"yes\"");
  const Site site = job_site(outlives + "[launcher]\nkind = \"mpirun\"\n");
  const JobPlan plan = good_plan(site, job_stage("pretrain", "ranks = 8\nnodes = 2\nresiliency = { spares = 1 }\n"));
  CHECK(starts_with(join(plan.launcher, " "), "mpirun -np 8 --map-by ppr:4:node --bind-to none"));
  CHECK(has(join(plan.launcher, "|"), "|--overlap --mem=0 --cpus-per-task=80 --gres=gpu:4"));
  CHECK(has(join(plan.agent_launcher, " "), "--ntasks=3"));
  const JobPlan on_one = good_plan(site, job_stage("pretrain", "ranks = 4\nnodes = 1\n"));
  CHECK(on_one.launcher.empty());  // the lead's own mpirun
}

TEST_CASE("spares are nodes of the job like the others, and ranks are started on the nodes that work") {
  const Site site = job_site(replace_all(acc_site, "no_kill = \"no\"", "no_kill = \"yes\""));
  const JobPlan plan = good_plan(site, job_stage("pretrain", "ranks = 16\nnodes = 4\nresiliency = { spares = 2 }\n"));
  CHECK(directive_of(plan, "nodes") == "6  # workflow: stage.s.resiliency.spares");
  CHECK(directive_of(plan, "ntasks") == "24  # room for ranks on spares, too");
  CHECK(directive_of(plan, "ntasks-per-node") == "4  # ranks / nodes");
  CHECK(directive_of(plan, "no-kill") == "  # workflow: stage.s.resiliency.spares");
  const auto says = [](const std::vector<std::string>& words, const char* word) {
    return std::find(words.begin(), words.end(), word) != words.end();
  };
  CHECK(says(plan.launcher, "--nodes=4"));
  CHECK(says(plan.launcher, "--ntasks=16"));
  CHECK(says(plan.launcher, "--no-kill"));
  CHECK(says(plan.agent_launcher, "--nodes=6"));
  CHECK(plan.gpu_hours() == doctest::Approx(plan.wall_s / 3600 * 6 * 4));
  CHECK(has(refusal(site, job_stage("pretrain", "ranks = 8\nnodes = 2\nresiliency = { spares = 3 }\n")),
            "w.toml:3:25: error: stage.s.resiliency.spares = 3: more spares than the 2 nodes that work"));
  CHECK(has(refusal(site, job_stage("pretrain", "ranks = 248\nnodes = 62\nresiliency = { spares = 3 }\n")),
            "stage.s.nodes = 62 and 3 of spares: a job of the class 'prod' of site 'acc' has at most 64 nodes"));
}

TEST_CASE("a training that may shrink outlives the loss of a node, on the nodes that it asked for") {
  const std::string text = "ranks = 16\nnodes = 4\nresiliency = { shrink = true }\n";
  const Site site = job_site(replace_all(acc_site, "no_kill = \"no\"", "no_kill = \"yes\""));
  const JobPlan plan = good_plan(site, job_stage("pretrain", text));
  CHECK(directive_of(plan, "nodes") == "4  # workflow: stage.s.nodes");
  CHECK(directive_of(plan, "no-kill") == "  # workflow: stage.s.resiliency.shrink");
  CHECK(std::find(plan.launcher.begin(), plan.launcher.end(), "--no-kill") != plan.launcher.end());
  CHECK(!plan.agent_launcher.empty());
  CHECK(has(refusal(job_site(acc_site), job_stage("pretrain", text)),
            "ends every job that loses a node; remove resiliency.shrink"));
}

TEST_CASE("the class of a stage: asked for, by its kind, by default") {
  const Site site = job_site(acc_site);
  CHECK(good_plan(site, job_stage("tokenize", "")).job_class == "cpu");
  CHECK(good_plan(site, job_stage("tokenize", "job = { class = \"debug\" }")).job_class == "debug");
  CHECK(good_plan(site, job_stage("evaluate", "")).job_class == "prod");
  const JobPlan cpu = good_plan(site, job_stage("curate", ""));
  CHECK(cpu.gpus_per_node == 0);
  CHECK(directive_of(cpu, "gres") == "none");
  CHECK(directive_of(cpu, "cpus-per-task") == "112  # an even share of the node's CPUs");
  CHECK(directive_of(cpu, "time") == "01:00:00  # site acc: classes.cpu.default_wall");
  CHECK(directive_of(cpu, "signal") == "B:USR1@60  # site acc: stop_before, 60 s at most where nothing is saved");
  CHECK(refusal(site, job_stage("tokenize", "job = { class = \"debg\" }"))
            .find("w.toml:1:17: error: site 'acc' has no class 'debg'; did you mean 'debug'?") == 0);
}

TEST_CASE("no job is without a wall time: where no class has a limit, trainings go on in the next job after a day") {
  const Site site = job_site("name = \"a\"\nscheduler = \"slurm\"\n");
  const JobPlan training = good_plan(site, job_stage("pretrain", ""));
  CHECK(training.chain);
  CHECK(directive_of(training, "time") == "1-00:00:00  # default: default_wall");
  CHECK(directive_of(training, "signal") == "B:USR1@300  # default: stop_before");
  const JobPlan weeks = good_plan(site, job_stage("pretrain", "time_limit = \"21d\""));
  CHECK(weeks.chain);
  CHECK(weeks.wall_s == 86'400);
  const JobPlan day = good_plan(site, job_stage("pretrain", "time_limit = \"20h\""));
  CHECK(!day.chain);
  CHECK(directive_of(day, "time") == "20:00:00  # workflow: stage.s.time_limit");
  // What cannot go on is not cut short of what it asked for.
  const JobPlan command = good_plan(site, job_stage("command", "time_limit = \"21d\""));
  CHECK(directive_of(command, "time") == "21-00:00:00  # workflow: stage.s.time_limit");
  CHECK(directive_of(good_plan(site, job_stage("command", "")), "time") == "1-00:00:00  # default: default_wall");
  const Site own =
      job_site("name = \"a\"\nscheduler = \"slurm\"\ndefault_wall = \"6h\"\n[classes.b]\nmax_wall = \"12h\"\n");
  CHECK(directive_of(good_plan(own, job_stage("pretrain", "")), "time") == "12:00:00  # site a: classes.b.max_wall");
}

TEST_CASE("where a class counts node-minutes, more nodes run shorter") {
  const Site site = job_site(replace_all(acc_site, "max_wall = \"2h\"", "max_wall = \"90min\"\nmax_node_minutes = 90"));
  const auto time_of = [&](const char* nodes, const char* more) {
    return directive_of(good_plan(site, job_stage("pretrain", format("nodes = {}\nranks = {}\n{}\njob = {{ class = "
                                                                     "\"debug\" }}",
                                                                     nodes, nodes, more))),
                        "time");
  };
  CHECK(time_of("1", "") == "01:30:00  # site acc: classes.debug.max_wall");
  CHECK(time_of("2", "") == "00:45:00  # site acc: classes.debug.max_node_minutes");
  CHECK(time_of("4", "") == "00:22:00  # site acc: classes.debug.max_node_minutes");
  CHECK(time_of("4", "time_limit = \"10min\"") == "00:10:00  # workflow: stage.s.time_limit");
  CHECK(time_of("4", "time_limit = \"90min\"") == "00:22:00  # site acc: classes.debug.max_node_minutes");
}

TEST_CASE("a class may have an account of its own, and how many of its jobs run at once") {
  const Site site = job_site(acc_site + "account = \"cpu1\"\nmax_running = 3\n");  // of the class cpu
  const JobPlan cpu = good_plan(site, job_stage("tokenize", ""));
  CHECK(directive_of(cpu, "account") == "cpu1  # site acc: classes.cpu.account");
  CHECK(cpu.running_max == 3);
  CHECK(directive_of(good_plan(site, job_stage("tokenize", "job = { account = \"mine\" }")), "account") ==
        "mine  # workflow: stage.s.job.account");
  CHECK(directive_of(good_plan(site, job_stage("pretrain", "")), "account") == "proj1  # site acc: account");
}

TEST_CASE("a stage longer than a job may be becomes a chain, or is refused where it cannot go on") {
  const Site site = job_site(acc_site);
  const JobPlan weeks = good_plan(site, job_stage("pretrain", "time_limit = \"30d\""));
  CHECK(weeks.chain);
  CHECK(weeks.wall_s == 3 * 86400);
  CHECK(directive_of(weeks, "time") == "3-00:00:00  # site acc: classes.prod.max_wall");
  const JobPlan open = good_plan(site, job_stage("pretrain", ""));
  CHECK(open.chain);
  CHECK(open.wall_s == 3 * 86400);
  CHECK(!good_plan(site, job_stage("evaluate", "")).chain);
  CHECK(good_plan(site, job_stage("command", "time_limit = \"30d\"\njob = { resumable = \"yes\" }")).chain);
  CHECK(!good_plan(site, job_stage("command", "time_limit = \"3d\"")).chain);
  const std::string reported = refusal(site, job_stage("command", "time_limit = \"30d\""));
  CHECK(has(reported,
            "w.toml:1:14: error: stage.s.time_limit = 30-00:00:00: a job of the class 'prod' of site 'acc' ends "
            "after 3-00:00:00"));
  CHECK(has(reported, "job.resumable = \"yes\""));
  CHECK(has(refusal(site, job_stage("pretrain", "time_limit = \"30d\"\njob = { resumable = \"no\" }")),
            "cannot go on in another job"));
  CHECK(has(refusal(site, job_stage("tokenize", "job = { resumable = \"yes\" }")), "keeps no state between jobs"));
  CHECK(has(refusal(site, job_stage("pretrain", "time_limit = \"5min\"\njob = { stop_before = \"5min\" }")),
            "w.toml:2:23: error: stage.s.job.stop_before = 00:05:00 of a job of 00:05:00"));
  CHECK(directive_of(good_plan(site, job_stage("pretrain", "time_limit = \"4min\"")), "signal") ==
        "B:USR1@60  # site acc: stop_before, a quarter of the job at most");
}

TEST_CASE("GPUs are asked for as the site wants it") {
  const auto with = [](const std::string& request, const std::string& more) {
    return job_site("name = \"x\"\nscheduler = \"slurm\"\n[node]\ncores = 64\ngpus = 4\n[ask]\ngpu_request = \"" +
                    request + "\"\n" + more);
  };
  const PlannedStage whole = job_stage("pretrain", "ranks = 8\nnodes = 2\n");
  const PlannedStage half = job_stage("pretrain", "ranks = 2\n");
  const auto asked = [](const JobPlan& plan) {
    std::string text;
    for (const Directive& d : plan.directives)
      if (starts_with(d.option, "g")) text += d.option + "=" + d.value + " ";
    return text;
  };
  CHECK(asked(good_plan(with("none", ""), whole)) == "");
  CHECK(good_plan(with("none", ""), half).gpus_per_node == 4);  // nodes come with theirs
  CHECK(asked(good_plan(with("gres", "gpu_type = \"a100\"\n"), whole)) == "gres=gpu:a100:4 ");
  CHECK(asked(good_plan(with("gpus_per_node", ""), whole)) == "gpus-per-node=4 ");
  CHECK(asked(good_plan(with("gpus", ""), whole)) == "gpus=8 ");
  CHECK(asked(good_plan(with("gpus_per_task", ""), whole)) == "gpus-per-task=1 ");
  CHECK(asked(good_plan(with("gpus_per_node", ""), half)) == "gpus-per-node=2 ");  // nodes are shared
  CHECK(good_plan(with("gpus_per_node", ""), half).cpus_per_rank == 16);
  CHECK(asked(good_plan(with("gpus_per_node", "exclusive = true\n"), half)) == "gpus-per-node=4 ");
  CHECK(good_plan(with("gpus_per_node", "exclusive = true\n"), half).cpus_per_rank == 32);
  const JobPlan disk = good_plan(with("gres", "options = [\"--gres=tmpfs:100g\", \"--hint=nomultithread\"]\n"), half);
  CHECK(asked(disk) == "gres=gpu:2,tmpfs:100g ");
  CHECK(has(directive_of(disk, "hint"), "nomultithread"));
  CHECK(has(refusal(with("gpus_per_task", "exclusive = true\n"), job_stage("pretrain", "ranks = 3\n")),
            "4 GPUs of a node cannot be given evenly to 3 ranks"));
}

TEST_CASE("what the user says wins over the site, and says so") {
  const Site site = job_site(acc_site + "[container]\nruntime = \"pyxis\"\n");
  const JobPlan plan = good_plan(
      site, job_stage("command",
                      "ranks = 8\nnodes = 2\nthreads = 20\n[job]\npartition = \"gpp\"\nqos = \"q\"\naccount = \"b\"\n"
                      "reservation = \"r\"\nconstraint = \"a&b\"\nlicenses = \"lic:1\"\nexclusive = \"yes\"\n"
                      "switches = \"1@01:00:00\"\nsegment = 2\ncontainer = \"nvcr.io#nvidia/x:24\"\nmounts = "
                      "[\"/data:/data\"]\noptions = [\"--mail-type=END\", \"--spread-job\"]\n"));
  CHECK(directive_of(plan, "partition") == "gpp  # workflow: stage.s.job.partition");
  CHECK(directive_of(plan, "account") == "b  # workflow: stage.s.job.account");
  CHECK(directive_of(plan, "exclusive") == "  # workflow: stage.s.job.exclusive");
  CHECK(directive_of(plan, "constraint") == "a&b  # workflow: stage.s.job.constraint");
  CHECK(directive_of(plan, "switches") == "1@01:00:00  # workflow: stage.s.job.switches");
  CHECK(directive_of(plan, "segment") == "2  # workflow: stage.s.job.segment");
  CHECK(directive_of(plan, "mail-type") == "END  # workflow: stage.s.job.options");
  CHECK(directive_of(plan, "spread-job") == "  # workflow: stage.s.job.options");
  CHECK(directive_of(plan, "cpus-per-task") == "20  # workflow: stage.s.threads");
  CHECK(plan.container == std::vector<std::string>{"--container-image=nvcr.io#nvidia/x:24",
                                                   "--container-mounts=/data:/data,/dev/shm:/dev/shm",
                                                   "--container-workdir=@"});
}

TEST_CASE("an account with the suffix of its class") {
  const Site site =
      job_site("name = \"jz\"\nscheduler = \"slurm\"\naccount = \"abc\"\n[classes.prod]\naccount_suffix = \"@h100\"\n");
  CHECK(directive_of(good_plan(site, job_stage("sft", "")), "account") ==
        "abc@h100  # site jz: account; '@h100': site jz: classes.prod.account_suffix");
  CHECK(directive_of(good_plan(site, job_stage("sft", "job = { account = \"abc@h100\" }")), "account") ==
        "abc@h100  # workflow: stage.s.job.account");
}

TEST_CASE("one rank needs no launcher, but a container of srun does") {
  const Site site = job_site(
      acc_site + "[container]\nruntime = \"pyxis\"\n[launcher]\ncpu_bind = \"cores\"\noptions = [\"--unbuffered\"]\n");
  CHECK(good_plan(site, job_stage("command", "")).launcher.empty());
  const JobPlan plan = good_plan(site, job_stage("command", "job = { container = \"image\" }"));
  REQUIRE(plan.launcher.size() > 2);
  CHECK(plan.launcher[1] == "--mpi=none");
  CHECK(plan.launcher.back() == "--unbuffered");
  CHECK(std::find(plan.launcher.begin(), plan.launcher.end(), "--cpu-bind=cores") != plan.launcher.end());
  const Site own = job_site(
      "name = \"a\"\nscheduler = \"slurm\"\n[node]\ngpus = 1\n[container]\nruntime = \"apptainer\"\nmounts = "
      "[\"/a:/b\"]\noptions = [\"--no-home\"]\n");
  CHECK(good_plan(own, job_stage("command", "job = { container = \"docker://x\" }")).container ==
        std::vector<std::string>{"apptainer", "exec", "--nv", "--bind", "/a:/b", "--no-home", "docker://x"});
  const Site local = job_site("name = \"here\"\n");
  CHECK(good_plan(local, job_stage("pretrain", "ranks = 4")).directives.empty());
}

TEST_CASE("jobs that a site would refuse are refused first, with place and remedy") {
  const Site site = job_site(acc_site);
  const auto reported = [&](const std::string& text) { return refusal(site, job_stage("pretrain", text)); };
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"ranks = 260\nnodes = 65",
       "w.toml:2:9: error: stage.s.nodes = 65: a job of the class 'prod' of site 'acc' has at most 64 nodes"},
      {"ranks = 6\nnodes = 4", "stage.s.ranks = 6 on 4 nodes is not 1 a node"},
      {"ranks = 8\njob = { ranks_per_node = 4 }", "stage.s.ranks = 8 on 1 node is not 4 a node; use nodes = 2"},
      {"job = { gpus_per_node = 8 }", "w.toml:1:25: error: stage.s.job.gpus_per_node = 8: nodes of site 'acc' have 4"},
      {"job = { memory = \"200G\" }", "w.toml:1:18: error: site 'acc' refuses jobs with --mem; remove it"},
      {"job = { memory = \"lots\" }", "'lots' is not an amount of memory"},
      {"job = { options = [\"--nodelist=n1\"] }", "site 'acc' refuses jobs with --nodelist"},
      {"job = { exclude = \"n1\" }", "site 'acc' refuses jobs that name nodes"},
      {"job = { no_kill = true }", "ends every job that loses a node"},
      {"resiliency = { spares = 1 }", "ends every job that loses a node; remove resiliency.spares"},
      {"job = { requeue = \"yes\" }", "lets no job be requeued"},
      {"job = { partition = \"ac\" }", "site 'acc' has no partition 'ac'; did you mean 'acc'?"},
      {"job = { switches = \"one\" }", "'one' is not a number of switches"},
      {"ranks = 8\nnodes = 2\njob = { segment = 3 }", "2 nodes are not whole segments of 3"},
      {"ranks = 4\nthreads = 40", "4 ranks x 40 CPUs on a node: nodes of site 'acc' have 80"},
      {"job = { container = \"x\" }", "site 'acc' says no container runtime"},
      {"job = { mounts = [\"/a:/b\"] }", "without job.container"},
      {"job = { modules = [\"a b\"] }", "'a b' cannot name a module"},
      {"job = { modules = [\"-x\"] }", "'-x' cannot name a module"},
      {"job = { environment = { \"A B\" = \"1\" } }", "'A B' cannot name a variable"},
      {"job = { environment = { SLURM_X = \"1\" } }", "the variable SLURM_X cannot be set here"},
      {"job = { environment = { X = \"a\\u0000b\" } }", "zero byte"},
      {"job = { options = [\"-p acc\"] }", "'-p acc' is not an sbatch option"},
      {"job = { options = [\"--partition=acc\"] }", "--partition cannot be set by options; use job.partition"},
      {"job = { options = [\"--comment=x\"] }",
       "--comment cannot be set by options; it is set for every job by the controller, unless site.identity is"},
      {"job = { options = [\"--hint=a\", \"--hint=b\"] }", "--hint is set already"},
      {"job = { options = [\"--hint=a\\nb\"] }", "holds a newline or a control character"},
      {"job = { partition = \"a\\nb\" }", "has no partition 'a?b'"},
      {"job = { qos = \"a\\nb\" }", "w.toml:1:15: error: --qos: 'a?b' holds a newline or a control character"},
      {"job = { constraint = \"a\\u001bb\" }", "control character"},
  };
  for (const auto& [text, says] : cases) {
    CAPTURE(text);
    const std::string answer = reported(text);
    CHECK_MESSAGE(has(answer, says), answer);
  }
  const Site whole = job_site(replace_all(acc_site, "forbid", "exclusive = true\nforbid"));
  CHECK(has(refusal(whole, job_stage("pretrain", "ranks = 3")),
            "3 ranks cannot share 4 GPUs with 20 CPUs each evenly on nodes of 80 CPUs"));
  const Site poor = job_site("name = \"p\"\nscheduler = \"slurm\"\naccount_required = true\n");
  CHECK(has(refusal(poor, job_stage("pretrain", "")),
            "acc.toml: error: site 'p' takes no job without an account; add --set "
            "'site.account=\"NAME\"'"));
  RunPlan plan;
  plan.stages = {job_stage("pretrain", ""), job_stage("sft", ""), job_stage("evaluate", "")};
  Diagnostics diagnostics;
  CHECK(plan_jobs(poor, plan, diagnostics).size() == 3);
  CHECK(diagnostics.size() == 1);  // reported once
}

}  // namespace longhaul
