// Slurm's commands by the paths that a site gives, and what they say when they fail.
#include <doctest/doctest.h>

#include "base/files.h"
#include "base/text.h"
#include "base/visible_text.h"
#include "orchestrator/scheduler/cli_port.h"
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

}  // namespace longhaul
