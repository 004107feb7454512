// Sites of several clusters: every command is given the one that is meant.
#include <doctest/doctest.h>

#include "base/files/files.h"
#include "base/text/text.h"
#include "orchestrator/scheduler/port/cli_port.h"
#include "orchestrator/scheduler/port/open_slurm_port.h"
#include "tests/support/scratch.h"

namespace longhaul {
namespace {

// Programs that write down their arguments, and say `answers`.
ProgramPaths recorders(const testing::Scratch& scratch, const std::string& answer) {
  ProgramPaths programs;
  for (const char* name : {"sbatch", "squeue", "scontrol", "scancel", "sacct"}) {
    programs[name] = scratch.file(name);
    const std::string text =
        format("#!/bin/sh\necho \"{} $*\" >> {}\necho '{}'\n", name, scratch.file("calls"), answer);
    REQUIRE(write_file_atomic(programs[name], text, 0755).ok());
  }
  return programs;
}

}  // namespace

TEST_CASE("slurm cluster: each of Slurm's commands names the site's cluster, and none where there is one only") {
  for (const std::string cluster : {"far", ""}) {
    CAPTURE(cluster);
    const testing::Scratch scratch;
    const auto opened = open_slurm_port("cli", "/nowhere", recorders(scratch, "12;far"), 20'000, cluster);
    REQUIRE(opened.ok());
    SlurmPort& port = *opened->port;
    const SlurmSubmission job{scratch.file("job.sbatch"), {}, {}};
    const auto ids = port.submit({job});
    REQUIRE(ids[0].ok());
    CHECK(*ids[0] == "12");
    (void)port.jobs();
    (void)port.job("12");
    (void)port.accounted({"12"});
    (void)port.signal("12", 10, true).ok();
    (void)port.cancel("12").ok();
    (void)port.requeue("12", true).ok();
    (void)port.release("12").ok();
    (void)port.update("12", {{"comment", "k"}}).ok();
    (void)port.will_run(job);
    (void)port.nodes();
    (void)port.partitions();
    (void)port.reservations();
    (void)port.configuration();
    const auto calls = read_file(scratch.file("calls"));
    REQUIRE(calls.ok());
    int count = 0;
    for (const std::string& call : split(trim(*calls), '\n')) {
      CAPTURE(call);
      const bool of_the_program = call == "sbatch --version";
      const std::string rest = call.substr(call.find(' ') + 1);
      CHECK((starts_with(rest, "-M far ") == !cluster.empty() || of_the_program));
      if (starts_with(call, "squeue")) CHECK(rest.find("--all ") != std::string::npos);  // hidden partitions as well
      ++count;
    }
    CHECK(count >= 15);
  }
}

TEST_CASE("slurm cluster: a wrapper that prints nothing, or for ever, has given no number, and is ended") {
  const testing::Scratch scratch;
  const std::string silent = scratch.file("silent"), endless = scratch.file("endless"), hangs = scratch.file("hangs");
  REQUIRE(write_file_atomic(silent, "#!/bin/sh\nexit 0\n", 0755).ok());
  REQUIRE(write_file_atomic(endless, "#!/bin/sh\nexec yes 12\n", 0755).ok());
  REQUIRE(write_file_atomic(hangs, "#!/bin/sh\nsleep 60\n", 0755).ok());
  for (const std::string& sbatch : {silent, endless, hangs}) {
    CAPTURE(sbatch);
    CliPort port(sbatch == hangs ? 300 : 20'000, {{"sbatch", sbatch}});
    const auto ids = port.submit({SlurmSubmission{scratch.file("job.sbatch"), {}, {}}});
    REQUIRE_FALSE(ids[0].ok());
    CHECK(ids[0].error().code == ErrorCode::unavailable);  // it may have submitted: the job is looked for
  }
}

}  // namespace longhaul
