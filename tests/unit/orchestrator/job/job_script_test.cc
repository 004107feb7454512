#include <doctest/doctest.h>

#include "base/digest/hash.h"
#include "base/files/files.h"
#include "base/process/process.h"
#include "base/text/text.h"
#include "orchestrator/job/job_plan.h"
#include "orchestrator/job/request/sbatch_text.h"

namespace longhaul {
namespace {

// What a user might bring that a careless script would run, split or lose.
const std::string odd_value = "a b \"q\" 'x' \\ $(touch pwned) `touch pwned` ; touch pwned # \xc3\xb1 *\nsecond line";

struct ScriptFolder {
  // The folder's own name is odd, too.
  std::string path = "/tmp/longhaul script test 'q' $(touch pwned) \xc3\xb1 50% " + random_hex(6).value();
  std::string worker = join_path(path, "worker");
  ScriptFolder() {
    make_directories(path).value();
    write_file_atomic(worker,
                      "#!/bin/bash\nprintf '%s\\n' \"$@\"\nprintf '<%s>\\n' \"${ODD-unset}\" \"$SRUN_CPUS_PER_TASK\" "
                      "\"${SLURM_NO_KILL-unset}\"\n",
                      0755)
        .value();
  }
  ~ScriptFolder() { (void)remove_tree(path); }

  JobScriptContext context() const {
    JobScriptContext context;
    context.run = "demo-1";
    context.stage = "sft/lr=1e-05";
    context.run_dir = path;
    context.worker = worker;
    context.attempt_dir = join_path(path, "attempt");
    return context;
  }
  std::string write(const JobPlan& plan, const JobScriptContext& context) const {
    const auto text = job_script(plan, context);
    REQUIRE_MESSAGE(text.ok(), text.error().message());
    const std::string script = join_path(path, "job.sbatch");
    write_file_atomic(script, *text).value();
    return script;
  }
  // What bash makes of the script, standard error included.
  std::string run(const std::string& script, const std::vector<std::string>& words,
                  const std::string& environment = "") const {
    std::vector<std::string> argv = {"bash", "-c", "cd \"$1\" && shift && " + environment + " exec bash \"$@\" 2>&1",
                                     "bash", path, script};
    argv.insert(argv.end(), words.begin(), words.end());
    const auto output = run_program(argv, 20'000);
    REQUIRE_MESSAGE(output.ok(), output.error().message());
    return output->out;
  }
  bool was_tricked() const { return file_exists(join_path(path, "pwned")); }
};

JobPlan odd_plan() {
  JobPlan plan;
  plan.cpus_per_rank = 20;
  plan.prologue = {"export ODD=" + shell_quote(odd_value)};
  plan.directives = {{"qos", "a b \"q\" 'x' \\ $(touch pwned) # \xc3\xb1", "workflow: stage.s.job.qos"}};
  return plan;
}

}  // namespace

TEST_CASE("a job script hands its values on as data and runs nothing of them") {
  ScriptFolder folder;
  const std::string script = folder.write(odd_plan(), folder.context());
  const std::string environment = "<" + odd_value + ">\n<20>\n<unset>\n";
  CHECK(folder.run(script, {"/an attempt/$(touch pwned)"}, "SLURM_NO_KILL=1") ==
        "lead\n--attempt\n/an attempt/$(touch pwned)\n" + environment);
  CHECK(folder.run(script, {}) == "lead\n--by-hand\n" + folder.path + "/attempt\n" + environment);
  CHECK(!folder.was_tricked());
}

TEST_CASE("a task of an array finds its attempt by its line") {
  ScriptFolder folder;
  JobScriptContext context = folder.context();
  context.array = true;
  make_directories(context.attempt_dir).value();
  write_file_atomic(join_path(context.attempt_dir, "tasks.txt"), "/a/1\n/a b/$(touch pwned)\n").value();
  const std::string script = folder.write(odd_plan(), context);
  const std::string environment = "<" + odd_value + ">\n<20>\n<unset>\n";
  CHECK(folder.run(script, {context.attempt_dir}, "SLURM_ARRAY_TASK_ID=1") ==
        "lead\n--attempt\n/a b/$(touch pwned)\n" + environment);
  CHECK(folder.run(script, {}, "SLURM_ARRAY_TASK_ID=0") == "lead\n--by-hand\n/a/1\n" + environment);
  CHECK(folder.run(script, {}) == "longhaul: this is an array of 2 jobs: sbatch --array=0-1 job.sbatch\n");
  CHECK(folder.run(script, {}, "SLURM_ARRAY_TASK_ID=2").find("task 2 is not among the 2 of") != std::string::npos);
  CHECK(!folder.was_tricked());
}

TEST_CASE("modules are loaded, and a missing one or no module command is said clearly") {
  ScriptFolder folder;
  const std::string site_file = join_path(folder.path, "m.toml");
  write_file_atomic(site_file, "scheduler = \"slurm\"\nmodules = [\"cuda/12.6\", \"$(touch pwned)x\"]\n").value();
  const auto site = load_site(site_file, {});
  REQUIRE(site.ok());
  PlannedStage stage;
  stage.kind = "command";
  stage.stage = "s";
  Diagnostics diagnostics;
  (void)plan_job(*site, stage, diagnostics);
  CHECK(diagnostics.render("").find("'$(touch pwned)x' cannot name a module") != std::string::npos);  // a blank
  write_file_atomic(site_file, "scheduler = \"slurm\"\nmodules = [\"cuda/12.6\", \"$(id)\"]\n").value();
  Diagnostics none;
  const JobPlan plan = plan_job(*load_site(site_file, {}), stage, none);
  REQUIRE_MESSAGE(none.empty(), none.render(""));
  const std::string script = folder.write(plan, folder.context());
  const std::string define =
      "module() { echo \"module $*\"; [ \"$2\" != 'cuda/12.6' ] || [ -z \"$FAIL\" ]; }; export -f module;";
  CHECK(folder.run(script, {"x"}, define).find("module load cuda/12.6\nmodule load $(id)\nlead\n") == 0);
  CHECK(folder.run(script, {"x"}, define + "export FAIL=1;").find("longhaul: module load cuda/12.6 failed on") !=
        std::string::npos);
  const std::string without = folder.run(script, {"x"}, "unset -f module;");
  CHECK(without.find("has no module command") != std::string::npos);
  CHECK(without.find("lead") == std::string::npos);
}

TEST_CASE("modules before 4, which answer 0 whatever came of it, are judged by what they have loaded") {
  ScriptFolder folder;
  const std::string site_file = join_path(folder.path, "m.toml");
  const auto script_with = [&](const std::string& module) {
    write_file_atomic(site_file, "scheduler = \"slurm\"\nmodules = [\"" + module + "\"]\n").value();
    PlannedStage stage;
    stage.kind = "command";
    stage.stage = "s";
    Diagnostics none;
    const JobPlan plan = plan_job(*load_site(site_file, {}), stage, none);
    REQUIRE_MESSAGE(none.empty(), none.render(""));
    return folder.write(plan, folder.context());
  };
  const std::string older = "source " LONGHAUL_SOURCE_DIR "/tests/support/tcl_modules_3.sh; ";
  const auto loads = [&](const std::string& module, const std::string& more = "") {
    return folder.run(script_with(module), {"x"}, older + more).find("lead\n--attempt") != std::string::npos;
  };
  CHECK(loads("cuda/12.6"));
  CHECK(loads("cuda"));                                          // the default version: cuda/12.6 is loaded
  CHECK(loads("toolkit"));                                       // an alias
  CHECK(loads("cuda/12.6", "export LOADEDMODULES=cuda/12.6;"));  // already there
  CHECK_FALSE(loads("cuda/13"));
  CHECK_FALSE(loads("cuda/12.6", "export LOADEDMODULES=cuda/11;"));  // conflicts, and is not loaded
  CHECK_FALSE(loads("cud", "export LOADEDMODULES=cuda/12.6;"));      // a name that another one begins with
  const std::string said = folder.run(script_with("cuda/13"), {"x"}, older);
  CHECK(said.find("ERROR:105: Unable to locate a modulefile for 'cuda/13'") != std::string::npos);
  CHECK(said.find("longhaul: module load cuda/13 failed on") != std::string::npos);
  // Newer ones say it by their status, and may have loaded it under any name.
  CHECK(loads("hidden", "export MODULES_CMD=/usr/lib/modulecmd.tcl;"));
  CHECK(loads("hidden", "unset LOADEDMODULES;"));  // somebody's own `module`
  CHECK_FALSE(loads("hidden"));
}

TEST_CASE("a script reports the launcher, the chain and the origin of each directive") {
  ScriptFolder folder;
  JobPlan plan = odd_plan();
  plan.chain = true;
  plan.job_class = "prod";
  plan.launcher = {"srun", "--mpi=pmix", "--ntasks=8"};
  plan.container = {"apptainer", "exec", "--bind", "/a b:/c", "image.sif"};
  JobScriptContext context = folder.context();
  context.of_attempt = {{"qos", "short", "attempt 2"}, {"exclude", "n[3-4]", "suspect: two failures on n3 and n4"}};
  const std::string text = job_script(plan, context).value();
  for (const std::string& line :
       {std::string("#!/bin/bash\n# Run demo-1, stage sft/lr=1e-05, class prod."), std::string("\n# A chain:"),
        std::string("#SBATCH --job-name=lh-demo-1-sft_lr_1e-05"), std::string("  # run and stage\n"),
        "#SBATCH --output=\"" + replace_all(folder.path, "%", "%%") + "/attempt/slurm-%j.out\"  # the attempt\n",
        std::string("#SBATCH --qos=short"), std::string("#SBATCH --exclude=n[3-4]"),
        std::string("#   srun --mpi=pmix --ntasks=8 apptainer exec --bind '/a b:/c' image.sif PROGRAM\n")})
    CHECK_MESSAGE(text.find(line) != std::string::npos, (line + "\nin\n" + text));
  CHECK(text.find("touch") > text.find("#SBATCH"));
  context.array = true;
  CHECK(job_script(plan, context).value().find("/slurm-%A_%a.out") != std::string::npos);
}

TEST_CASE("what no line can hold is refused") {
  ScriptFolder folder;
  JobScriptContext context = folder.context();
  context.attempt_dir = "/a\nb";
  CHECK(job_script({}, context).error().what == "'/a?b' cannot stand in a job script");
  context = folder.context();
  context.run_dir = "/a\\b";
  CHECK(!job_script({}, context).ok());
  context = folder.context();
  context.of_attempt = {{"exclude", "a\nb", ""}};
  CHECK(job_script({}, context).error().code == ErrorCode::invalid_input);
  CHECK(sbatch_quoted("plain/value-1.2:3@x").value() == "plain/value-1.2:3@x");
  CHECK(sbatch_quoted("a \"b\" \\").value() == R"("a \"b\" \\")");
  CHECK(!sbatch_quoted(std::string(5000, 'x')).ok());
  CHECK(!sbatch_quoted("a\tb").ok());
  CHECK(sbatch_time(59.2) == "00:01:00");
  CHECK(sbatch_time(3 * 86400 + 3661) == "3-01:01:01");
  CHECK(sbatch_job_name("a b/c=\xc3\xb1") == "a_b_c___");
}

}  // namespace longhaul
