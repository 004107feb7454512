#include "worker/lead/recovery/failure_lines.h"

#include <doctest/doctest.h>

#include "base/files/files.h"
#include "base/text/text.h"
#include "tests/support/scratch.h"

namespace longhaul {
namespace {

void put_log(const testing::Scratch& scratch, const std::string& name, const std::string& text) {
  REQUIRE(write_file_atomic(join_path(scratch.path(), name), text).ok());
}

}  // namespace

TEST_CASE("the failure lines of a log are its last line, or all lines of the engine's error") {
  const testing::Scratch scratch;
  const std::string path = join_path(scratch.path(), "log");
  CHECK(failure_lines(path).empty());
  put_log(scratch, "log", "");
  CHECK(failure_lines(path).empty());
  put_log(scratch, "log", "one\n two \n\n");
  CHECK(failure_lines(path) == "two");
  put_log(scratch, "log", "a warning\nlonghaul-engine rank 0: a.jsonl:2: error: what\n1 error; nothing was read\n");
  CHECK(failure_lines(path) == "longhaul-engine rank 0: a.jsonl:2: error: what; 1 error; nothing was read");
  put_log(scratch, "log", "longhaul-engine rank 0: " + std::string(100'000, 'x') + "\n\xff end");
  CHECK(failure_lines(path).size() <= 820);
}

// Recorded of Open MPI 5.0.7 (Debian 13) and of MPICH 4.0.2 (Debian 12), both asked as a lead asks.
TEST_CASE("the launchers of other releases say it in their own way") {
  const testing::Scratch scratch;
  put_log(scratch, "rank-0.log", "[host:1] Read -1, expected 4, errno = 3\n");
  put_log(scratch, "rank-1.log", "");
  const std::string ruler(74, '-');
  const std::string box =
      ruler + "\nprterun noticed that process rank 1 with PID 15500 on node a exited on\nsignal 9 (Killed).\n" + ruler +
      "\n";
  const std::vector<RankLog> ranks = {{0, "a", 0}, {1, "a", 0}};
  FailureLines said;
  for (const char* before : {"", "Warning: Permanently added 'a' (ED25519) to the list of known hosts.\n"}) {
    put_log(scratch, "mpirun.log", before + box);
    said = failure_lines_of_ranks(scratch.path(), ranks);
    CHECK(said.rank == 1);
    CHECK(said.text == "prterun noticed that process rank 1 with PID 15500 on node a exited on signal 9 (Killed).");
  }
  put_log(scratch, "rank-0.log", "");
  put_log(scratch, "mpirun.log",
          "[mpiexec@a] match_arg (utils/args/args.c:163): unrecognized argument mca\n"
          "[mpiexec@a] HYDU_parse_array (utils/args/args.c:178): argument matching returned error\n"
          "[mpiexec@a] main (ui/mpich/mpiexec.c:127): error parsing parameters\n");
  said = failure_lines_of_ranks(scratch.path(), ranks);
  CHECK(said.text.find("unrecognized argument mca; this mpirun is MPICH's or Intel's") != std::string::npos);
  CHECK(said.text.find("launcher.kind = \"srun\"") != std::string::npos);
}

TEST_CASE("of several ranks the one that ended for its own reason speaks") {
  const testing::Scratch scratch;
  put_log(scratch, "rank-0.log", "[host:1] Read -1, expected 4, errno = 3\n");
  put_log(scratch, "rank-1.log", "");
  CHECK(failure_lines_of_ranks(scratch.path(), {{0, "a", 0}, {1, "a", 0}}).text ==
        "[host:1] Read -1, expected 4, errno = 3");
  put_log(scratch, "mpirun.log",
          "-----\nmpirun noticed that process rank 1 with PID 7 on node a exited on signal 9 (Killed).\n-----\n");
  FailureLines said = failure_lines_of_ranks(scratch.path(), {{0, "a", 0}, {1, "a", 0}});
  CHECK(said.rank == 1);
  CHECK(said.text == "mpirun noticed that process rank 1 with PID 7 on node a exited on signal 9 (Killed).");
  put_log(scratch, "rank-2.log", "longhaul-engine rank 2: stage s: no data\n");
  said = failure_lines_of_ranks(scratch.path(), {{0, "a", 0}, {1, "a", 0}, {2, "a", 0}});
  CHECK(said.rank == 2);
  CHECK(said.text == "longhaul-engine rank 2: stage s: no data");
  REQUIRE(said.root);
  CHECK(said.root->finding.fault == FaultClass::exception);
}

TEST_CASE("an error that all ranks agree upon is the one's whom they name") {
  const testing::Scratch scratch;
  for (const int rank : {0, 1, 3})
    put_log(scratch, format("rank-{}.log", rank),
            format("longhaul-engine rank {}: stage s: step 7: rank 2: fault injected\n", rank));
  put_log(scratch, "rank-2.log", "longhaul-engine rank 2: stage s: step 7: fault injected\n");
  const FailureLines said =
      failure_lines_of_ranks(scratch.path(), {{0, "a", 1}, {1, "a", 3}, {2, "b", 4}, {3, "b", 2}});
  CHECK(said.rank == 2);
  REQUIRE(said.root);
  CHECK(said.root->rank == 2);
  CHECK(said.root->host == "b");
  CHECK(!said.root->widespread);
  CHECK(said.text == "longhaul-engine rank 2: stage s: step 7: fault injected");
}

TEST_CASE("ranks that stop together because one of them was asked to: that one is named") {
  const testing::Scratch scratch;
  const std::string stopped = "stage s: rank 2: asked to stop by SIGTERM: stopped after step 20 of 60; a checkpoint";
  for (const int rank : {0, 3})  // the others were ended before they had said so
    put_log(scratch, format("rank-{}.log", rank), format("longhaul-engine rank {}: {}\n", rank, stopped));
  const FailureLines said =
      failure_lines_of_ranks(scratch.path(), {{0, "a", 1}, {1, "a", 3}, {2, "b", 4}, {3, "b", 2}});
  CHECK(said.rank == 2);
  REQUIRE(said.root);
  CHECK(said.root->finding.fault == FaultClass::interrupted);
  CHECK(said.root->host == "b");
  CHECK(!said.root->widespread);
}

TEST_CASE("ranks that were all asked to stop accuse nobody") {
  const testing::Scratch scratch;
  for (const int rank : {0, 1})
    put_log(
        scratch, format("rank-{}.log", rank),
        format(
            "longhaul-engine rank {}: stage s: all ranks were asked to stop by SIGTERM: stopped after step 20 of 60\n",
            rank));
  const FailureLines said = failure_lines_of_ranks(scratch.path(), {{0, "a", 1}, {1, "b", 2}});
  REQUIRE(said.root);
  CHECK(said.root->finding.fault == FaultClass::interrupted);
  CHECK(said.root->widespread);
}

TEST_CASE("a launcher that could not start ranks names the node, or nobody") {
  const testing::Scratch scratch;
  const std::vector<RankLog> ranks = {{0, "n1", 0}, {1, "n12", 0}, {2, "n2", 0}, {3, "n2", 0}};
  put_log(scratch, "rank-0.log", "");
  const std::string rest =
      "srun: error: Application launch failed: Communication connection failure\n"
      "slurmstepd-n1: error: *** STEP 296.1 ON n1 CANCELLED AT 2026-11-22T16:49:54 ***\n"
      "srun: error: n1: task 0: Killed\n";
  put_log(scratch, "mpirun.log",
          "srun: error: Task launch for StepId=296.1 failed on node n2: Communication connection failure\n" + rest);
  FailureLines said = failure_lines_of_ranks(scratch.path(), ranks);
  CHECK(said.rank == 2);
  CHECK(said.text == "srun: error: Task launch for StepId=296.1 failed on node n2: Communication connection failure");
  REQUIRE(said.root);
  CHECK(said.root->finding.fault == FaultClass::ranks_not_started);
  CHECK(said.root->host == "n2");
  for (const char* nobody : {"srun: error: Unable to create step for job 296: Invalid Trackable RESource specification",
                             "srun: error: Task launch for StepId=296.1 failed on node n3: Communication failure",
                             "An ORTE daemon has unexpectedly failed after launch: n1 does not hear of n2"}) {
    put_log(scratch, "mpirun.log", std::string(nobody) + "\n");
    said = failure_lines_of_ranks(scratch.path(), ranks);
    CHECK(said.rank == -1);
    REQUIRE(said.root);
    CHECK(said.root->host.empty());
  }
  put_log(scratch, "rank-2.log", "longhaul-engine rank 2: stage s: no data\n");  // a rank knows better
  CHECK(failure_lines_of_ranks(scratch.path(), ranks).rank == 2);
}

TEST_CASE("where no rank has said anything, the first box of the launcher has the reason") {
  const testing::Scratch scratch;
  const std::string rule(74, '-');
  put_log(scratch, "mpirun.log",
          rule + "\nThe allocator expects:\n\n    SLURM_NODELIST\n\n" + rule + "\n[n3] ORTE_ERROR_LOG: Not found\n" +
              rule + "\nAn internal error\n" + rule + "\n");
  CHECK(failure_lines_of_ranks(scratch.path(), {{0, "a", 0}}).text == "The allocator expects: SLURM_NODELIST");
  put_log(scratch, "mpirun.log", "srun: error: one\nsrun: error: two\n");
  CHECK(failure_lines_of_ranks(scratch.path(), {{0, "a", 0}}).text == "srun: error: two");
}

TEST_CASE("whoever complains of another one is not the one that it began with") {
  const testing::Scratch scratch;
  put_log(scratch, "rank-0.log", "longhaul-engine rank 0: rank 2 left: its connection was closed\n");
  put_log(scratch, "rank-1.log", "longhaul-engine rank 1: asked to stop\n");
  put_log(scratch, "rank-2.log", "longhaul-engine rank 2: a.jsonl:2: error: what\n1 error; nothing was read\n");
  const FailureLines said = failure_lines_of_ranks(scratch.path(), {{0, "a", 1}, {1, "a", 2}, {2, "b", 3}});
  CHECK(said.rank == 2);
  CHECK(said.text == "longhaul-engine rank 2: a.jsonl:2: error: what; 1 error; nothing was read");
  REQUIRE(said.root);
  CHECK(said.root->host == "b");

  put_log(scratch, "rank-2.log", "");  // it was killed
  const FailureLines echo = failure_lines_of_ranks(scratch.path(), {{0, "a", 1}, {1, "a", 2}, {2, "b", 3}});
  CHECK(echo.text == "longhaul-engine rank 0: rank 2 left: its connection was closed");
  CHECK_FALSE(echo.root);
}

TEST_CASE("srun's reports of ends count until it ends the others") {
  const testing::Scratch scratch;
  const std::vector<RankLog> ranks = {{0, "a", 1}, {1, "a", 2}, {2, "b", 3}, {3, "b", 4}};
  put_log(scratch, "mpirun.log",
          "srun: error: b: tasks 2-3: Killed\nsrun: error: a: task 1: Exited with exit code 1\n"
          "srun: Job step aborted: Waiting up to 32 seconds for job step to finish.\nsrun: error: a: task 0: Killed\n");
  const FailureLines said = failure_lines_of_ranks(scratch.path(), ranks);
  CHECK(said.rank == 2);
  CHECK(said.text == "srun: error: b: tasks 2-3: Killed");
  CHECK(said.ended_first == std::vector<int>{2, 3, 1});
  // Of one that exited by itself its last line is taken, of one that was killed it may be any.
  put_log(scratch, "rank-2.log", "step 12\n");
  CHECK(failure_lines_of_ranks(scratch.path(), ranks).text == "srun: error: b: tasks 2-3: Killed");
  put_log(scratch, "rank-1.log", "error: no such word\n");
  put_log(scratch, "mpirun.log", "srun: error: a: task 1: Exited with exit code 1\nsrun: Job step aborted\n");
  CHECK(failure_lines_of_ranks(scratch.path(), ranks).rank == 1);
  CHECK(failure_lines_of_ranks(scratch.path(), ranks).text == "error: no such word");
  put_log(scratch, "mpirun.log",
          "srun: error: b: task x: Killed\nsrun: error: Unable to create step\nsrun: Job step aborted\n");
  CHECK(failure_lines_of_ranks(scratch.path(), ranks).ended_first.empty());
}

TEST_CASE("a fault that the ranks have survived is not what ended them later") {
  const testing::Scratch scratch;
  const auto survived = [](int rank) {
    return format("longhaul-engine rank {}: faulted, waits for an order to restart: a.tmp: No space left on device\n",
                  rank);
  };
  for (const int rank : {0, 1}) put_log(scratch, format("rank-{}.log", rank), survived(rank));
  put_log(scratch, "mpirun.log",
          "mpirun noticed that process rank 2 with PID 7 on node a exited on signal 9 (Killed).\n");
  const std::vector<RankLog> ranks = {{0, "a", 1}, {1, "a", 2}, {2, "b", 3}};
  FailureLines said = failure_lines_of_ranks(scratch.path(), ranks);
  CHECK(said.rank == 2);
  CHECK_FALSE(said.root);
  put_log(scratch, "rank-2.log", "longhaul-engine rank 2: step 9: another fault\n");
  said = failure_lines_of_ranks(scratch.path(), ranks);
  CHECK(said.rank == 2);
  REQUIRE(said.root);
  CHECK(said.root->line == "longhaul-engine rank 2: step 9: another fault");
}

TEST_CASE("of two ranks that say why, the one that ended first speaks") {
  const testing::Scratch scratch;
  put_log(scratch, "rank-0.log", "longhaul-engine rank 0: loss is not finite\n");
  put_log(scratch, "rank-1.log", "CUDA error: uncorrectable ECC error encountered\nand then\n");
  const FailureLines said = failure_lines_of_ranks(scratch.path(), {{0, "a", 2000}, {1, "b", 1000}});
  CHECK(said.rank == 1);
  CHECK(said.text == "CUDA error: uncorrectable ECC error encountered");
  REQUIRE(said.root);
  CHECK(said.root->finding.fault == FaultClass::gpu_memory_error);
}

TEST_CASE("an error that ranks have agreed upon is that of the rank which all the others name") {
  const testing::Scratch scratch;
  put_log(scratch, "rank-0.log", "longhaul-engine rank 0: step 12: rank 2: fault injected at engine_update\n");
  put_log(scratch, "rank-1.log", "longhaul-engine rank 1: step 12: rank 2: fault injected at engine_update\n");
  put_log(scratch, "rank-2.log", "longhaul-engine rank 2: step 12: fault injected at engine_update\n");
  FailureLines said = failure_lines_of_ranks(scratch.path(), {{0, "a", 1}, {1, "a", 2}, {2, "b", 3}});
  CHECK(said.rank == 2);
  REQUIRE(said.root);
  CHECK(said.root->rank == 2);
  CHECK(said.root->host == "b");
  CHECK(said.text == "longhaul-engine rank 2: step 12: fault injected at engine_update");
  // Nobody of that number is in the launch: whoever said so first.
  put_log(scratch, "rank-0.log", "longhaul-engine rank 0: a file of rank 7: rank 9: damaged\n");
  said = failure_lines_of_ranks(scratch.path(), {{0, "a", 1}, {1, "a", 2}, {2, "b", 3}});
  CHECK(said.rank == 0);
}

TEST_CASE("a text that ranks have agreed upon blame one of them") {
  CHECK(blamed_rank("checkpoint /a: rank 2: No space left on device") == 2);
  CHECK(blamed_rank("rank 11: what") == 11);
  CHECK(blamed_rank("rank 1: step 3: rank 0: what") == 0);  // the innermost
  for (const char* nobody :
       {"", "step 12: what", "no rank: what", "rank : what", "rank 2 waits", "a rank 3: what", ": rank 2"})
    CHECK(blamed_rank(nobody) == -1);
}

}  // namespace longhaul
