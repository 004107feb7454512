// Ranks that cannot find each other are put down by what the launcher's log says, long before they would count as hung.
#include "worker/lead/recovery/lost_start.h"

#include <doctest/doctest.h>

#include "base/files/files.h"
#include "resiliency/beat/heartbeat_page.h"
#include "tests/support/scratch.h"

using namespace longhaul;

namespace {

constexpr const char* gave_up =
    "slurmstepd-n1: error:  mpi/pmix_v4: pmixp_p2p_send: n1 [0]: pmixp_utils.c:467: send failed, rc=2, exceeded the "
    "retry limit\n"
    "slurmstepd-n1: error:  mpi/pmix_v4: _slurm_send: n1 [0]: pmixp_server.c:1581: Cannot send message to /x, size = "
    "74\n";

std::vector<RankObservation> at_start() {
  std::vector<RankObservation> ranks(2);
  for (RankObservation& rank : ranks)
    rank.seen = true, rank.process = ProcessState::running, rank.beat.section = beat_start;
  return ranks;
}

struct StartRig {
  const longhaul::testing::Scratch scratch;
  ResiliencySettings settings;

  std::optional<GuardFinding> at(std::int64_t ms, const std::vector<RankObservation>& ranks = at_start(),
                                 const std::optional<GuardFinding>& demand = {}, std::int64_t launched_ms = 1'000) {
    return lost_start(demand, scratch.path(), launched_ms * 1'000'000, launched_ms + ms, ranks,
                      LaunchGuard(settings, true));
  }
  void log(const std::string& text) { REQUIRE(write_file_atomic(join_path(scratch.path(), "mpirun.log"), text).ok()); }
};

}  // namespace

TEST_CASE("a launch whose launcher has given up is put down after twenty seconds, and nobody is accused") {
  StartRig rig;
  CHECK(!rig.at(60'000));  // no log yet
  rig.log("srun: Job step creation temporarily disabled, retrying\n");
  CHECK(!rig.at(60'000));
  rig.log(gave_up);
  CHECK(!rig.at(lost_start_ms - 1));
  const auto found = rig.at(lost_start_ms);
  REQUIRE(found);
  CHECK(found->kind == GuardFinding::Kind::hang);
  CHECK(found->rank == -1);
  CHECK(found->host == "");
  CHECK(found->detect_s == 20);
  CHECK(found->cause.find("for 20 s, and the launcher says: slurmstepd-n1: error:  mpi/pmix_v4: _slurm_send") !=
        std::string::npos);
}

TEST_CASE("a launch that has begun to work, that another lead started, or whose hangs are not ended is left alone") {
  StartRig rig;
  rig.log(gave_up);
  auto ranks = at_start();
  ranks[1].beat.section = "micro_batch";
  CHECK(!rig.at(60'000, ranks));
  ranks = at_start();
  ranks[1].process = ProcessState::ended;
  CHECK(!rig.at(60'000, ranks));
  CHECK(!rig.at(60'000, {}));
  CHECK(!rig.at(60'000, at_start(), {}, 0));
  GuardFinding demand;
  demand.kind = GuardFinding::Kind::bad_loss;
  CHECK(rig.at(60'000, at_start(), demand)->kind == GuardFinding::Kind::bad_loss);
  CHECK(rig.at(60'000));
  for (const char* on_hang : {"report", "ignore"}) {
    rig.settings.on_hang = on_hang;
    CHECK(!rig.at(60'000));
  }
}
