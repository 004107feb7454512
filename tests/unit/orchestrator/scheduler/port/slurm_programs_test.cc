// Slurm's commands by the paths that a site gives, and what they say when they fail.
#include <doctest/doctest.h>

#include <cstdlib>

#include "base/files/files.h"
#include "base/text/text.h"
#include "base/text/visible_text.h"
#include "orchestrator/scheduler/port/cli_port.h"
#include "orchestrator/scheduler/port/open_slurm_port.h"
#include "tests/support/scratch.h"

namespace longhaul {

TEST_CASE("trust: commands that a site names are not looked for in PATH") {
  const testing::Scratch scratch;
  const std::string path = scratch.file("their-sbatch");
  REQUIRE(write_file_atomic(path, "#!/bin/sh\necho slurm 24.05.1 of $1\n", 0755).ok());
  const auto output = run_slurm_query({"sbatch", "--version"}, 20'000, {{"sbatch", path}});
  REQUIRE(output.ok());
  CHECK(output->out == "slurm 24.05.1 of --version\n");
  CHECK(CliPort(20'000, {{"sbatch", path}}).description().find("--version") != std::string::npos);
  const auto missing = run_slurm_query({"sbatch", "--version"}, 20'000, {{"sbatch", scratch.file("none")}});
  REQUIRE_FALSE(missing.ok());
  CHECK(missing.error().what.find(scratch.file("none")) != std::string::npos);
}

TEST_CASE("trust: what a wrapper of Slurm writes to stderr comes out visible") {
  const testing::Scratch scratch;
  const std::string path = scratch.file("scancel");
  REQUIRE(write_file_atomic(path, "#!/bin/sh\nprintf '\\033[2J\\302\\2330m gone\\n' >&2\nexit 1\n", 0755).ok());
  CliPort port(20'000, {{"scancel", path}});
  const Status status = port.cancel("7");
  REQUIRE_FALSE(status.ok());
  CHECK(visible(status.error().message()).find("\\u001b[2J\\u009b0m gone") != std::string::npos);
}

// As scontrol of 22.05.8 and 26.05.5 prints it.
TEST_CASE("what Slurm shows less of is read from its configuration") {
  const testing::Scratch scratch;
  const auto private_data_of = [&](const std::string& written) {
    const std::string path = scratch.file("scontrol");
    REQUIRE(write_file_atomic(
                path, "#!/bin/sh\necho 'ClusterName             = alpha\nPrivateData             = " + written + "'\n",
                0755)
                .ok());
    CliPort port(20'000, {{"scontrol", path}});
    const auto configuration = port.configuration();
    REQUIRE(configuration.ok());
    CHECK(configuration->cluster == "alpha");
    return *configuration;
  };
  CHECK(private_data_of("none").private_data.empty());
  const SlurmConfiguration slurm = private_data_of("jobs,reservations");
  CHECK(slurm.private_data == "jobs,reservations");
  CHECK(shows_less(slurm, "reservations"));
  CHECK(!shows_less(slurm, "reservation"));
  CHECK(!shows_less(slurm, "nodes"));
}

TEST_CASE("squeue's exit codes, as releases write them") {
  struct Case {
    const char* text;
    int code, signal;
  };
  // 22.05.8; 24.11.5 and 26.05.5
  for (const Case& one : {Case{"0", 0, 0},
                          {"768", 3, 0},
                          {"15", 0, 15},
                          {"53", 0, 53},
                          {"0:0", 0, 0},
                          {"3:0", 3, 0},
                          {"0:15", 0, 15},
                          {"0:53", 0, 53},
                          {"1:9", 1, 9}}) {
    CAPTURE(one.text);
    const SlurmExit end = read_slurm_exit(one.text);
    CHECK(end.code == one.code);
    CHECK(end.signal == one.signal);
  }
}

namespace {

// A program in the place of one of Slurm's: `body` is a shell's.
std::string write_program(const testing::Scratch& scratch, const std::string& name, const std::string& body) {
  const std::string path = scratch.file(name);
  REQUIRE(write_file_atomic(path, "#!/bin/sh\n" + body, 0755).ok());
  return path;
}

Result<std::string> submit_through(const std::string& sbatch, const std::vector<std::string>& environment = {}) {
  CliPort port(20'000, {{"sbatch", sbatch}}, {}, environment);
  return port.submit({SlurmSubmission{"/job.sbatch", {}, {}}}).front();
}

}  // namespace

TEST_CASE("the number of a job is the last line that is not blank, whatever a wrapper prints before it") {
  // As sbatch of a centre prints it, in the words of a field report.
  const std::string banner =
      "-----------------------------------------------------------------\n"
      "          Welcome to the Vista Supercomputer                     \n"
      "-----------------------------------------------------------------\n\n"
      "No reservation for this job\n--> Verifying valid submit host (login2)...OK\n"
      "--> Verifying valid jobname...OK\n--> Checking available allocation (ABC123)...OK\n";
  CHECK(submitted_job_id("718911\n") == "718911");
  CHECK(submitted_job_id(banner + "718911\n") == "718911");
  CHECK(submitted_job_id(banner + "718911;vista\n\n  \n") == "718911");
  CHECK(submitted_job_id(" 42 ; c \r\n") == "42");
  for (const char* none : {"", "\n", "Submitted batch job 7", "7x", ";vista", "12 34"}) {
    CAPTURE(none);
    CHECK(submitted_job_id(none) == "");
  }
  CHECK(submitted_job_id("7\nSee you soon\n") == "");  // two words, and which of them is the number is a guess
  const testing::Scratch scratch;
  REQUIRE(write_file_atomic(scratch.file("banner"), banner).ok());
  const auto id = submit_through(write_program(scratch, "sbatch", "cat " + scratch.file("banner") + "\necho 718911\n"));
  REQUIRE_MESSAGE(id.ok(), (id.ok() ? "" : id.error().message()));
  CHECK(*id == "718911");
}

TEST_CASE("an error of a wrapper has what it said on both streams, the end of it where that is long") {
  const testing::Scratch scratch;
  const auto refused = submit_through(write_program(scratch, "sbatch",
                                                    "echo '--> Checking allocation ABC...FAILED'\n"
                                                    "echo 'sbatch: error: Batch job submission failed' >&2\nexit 1\n"));
  REQUIRE_FALSE(refused.ok());
  CHECK(refused.error().what ==
        "cannot submit /job.sbatch: --> Checking allocation ABC...FAILED; sbatch: error: Batch job submission failed");
  const auto silent = submit_through(write_program(scratch, "sbatch", "echo 'come back later'\n"));
  REQUIRE_FALSE(silent.ok());
  CHECK(silent.error().code == ErrorCode::unavailable);
  CHECK(silent.error().what.find("answered no number of a job") != std::string::npos);
  CHECK(silent.error().what.find("come back later") != std::string::npos);
}

TEST_CASE("jobs are submitted with the environment that the run keeps, and Slurm is reached as it is from here") {
  const testing::Scratch scratch;
  const std::string sbatch = write_program(scratch, "sbatch", "env >" + scratch.file("seen") + "\necho 7\n");
  ::setenv("LONGHAUL_TEST_OF_THE_LEAD", "1", 1);
  ::setenv("SLURM_CONF", "/here/slurm.conf", 1);
  const auto seen = [&](const std::string& entry) {
    return ("\n" + read_file(scratch.file("seen")).value()).find("\n" + entry + "\n") != std::string::npos;
  };
  REQUIRE(submit_through(sbatch, {"PATH=/usr/bin:/bin", "MINE=two words = one value"}).ok());
  CHECK(seen("MINE=two words = one value"));
  CHECK(seen("PATH=/usr/bin:/bin"));
  CHECK(seen("SLURM_CONF=/here/slurm.conf"));
  CHECK_FALSE(seen("LONGHAUL_TEST_OF_THE_LEAD=1"));
  REQUIRE(submit_through(sbatch).ok());  // a run without one: that of whoever submits
  CHECK(seen("LONGHAUL_TEST_OF_THE_LEAD=1"));
  ::unsetenv("LONGHAUL_TEST_OF_THE_LEAD");
  ::unsetenv("SLURM_CONF");
}

TEST_CASE("where a cluster has filters of its command line, `auto` takes the command line and says why") {
  const testing::Scratch scratch;
  const std::string sbatch = write_program(scratch, "sbatch", "echo slurm 22.05.8\n");
  const auto helper_of_cluster_with = [&](const std::string& filters) {
    write_program(
        scratch, "longhaul-slurm",
        "while IFS= read -r line; do\n  id=${line##*\\\"id\\\":}; id=${id%%,*}; id=${id%%\\}*}\n  case $line in\n"
        "  *hello*) echo \"{\\\"id\\\":$id,\\\"protocol\\\":1,\\\"library\\\":\\\"22.05.8\\\"}\" ;;\n"
        "  *) echo \"{\\\"id\\\":$id,\\\"version\\\":\\\"22.05.8\\\",\\\"cli_filters\\\":\\\"" +
            filters + "\\\"}\" ;;\n  esac\ndone\n");
  };
  const auto opened = [&](const char* choice, const std::string& program) {
    return open_slurm_port(choice, scratch.path(), {{"sbatch", program}}, 20'000);
  };
  helper_of_cluster_with("");
  CHECK(opened("auto", sbatch)->backend == "libslurm");
  helper_of_cluster_with("lua");
  const auto by_filter = opened("auto", sbatch);
  REQUIRE(by_filter.ok());
  CHECK(by_filter->backend == "cli");
  CHECK(by_filter->why.find("CliFilterPlugins=lua") != std::string::npos);
  CHECK(opened("libslurm", sbatch)->backend == "libslurm");  // as it was asked for
  const auto without = opened("auto", scratch.file("no-sbatch"));
  REQUIRE(without.ok());
  CHECK(without->backend == "libslurm");
  CHECK(without->why.find("CliFilterPlugins=lua are passed by") != std::string::npos);
}

TEST_CASE("an sbatch that is there and does not answer may answer later; one that is not there will not") {
  const testing::Scratch scratch;
  const auto opened = [&](const std::string& choice, const std::string& program) {
    return open_slurm_port(choice, scratch.path(), {{"sbatch", program}}, 20'000).error().code;
  };
  const std::string killed = write_program(scratch, "sbatch", "kill -9 $$\n");
  for (const char* choice : {"cli", "auto"}) {
    CHECK(opened(choice, killed) == ErrorCode::unavailable);
    CHECK(opened(choice, scratch.file("no-sbatch")) == ErrorCode::not_found);
  }
}

TEST_CASE("a job whose nodes are configured has not begun") {
  CHECK(read_slurm_state("CONFIGURING") == "PENDING");
  CHECK(read_slurm_state("RUNNING") == "RUNNING");
}

}  // namespace longhaul
