// The fake passes what the real ones pass (tests/cluster/slurm_ports_test.cc).
#include "tests/unit/orchestrator/scheduler/slurm_port_contract.h"

#include "tests/support/scratch.h"
#include "tests/unit/orchestrator/scheduler/fake_slurm.h"

using namespace longhaul;

namespace {

class FakePortRig final : public testing::SlurmPortRig {
 public:
  FakePortRig() : slurm_(clock_, {}) {
    port_ = slurm_.port();
    slurm_.play = [this](const std::string& comment, int) { return plays_[comment]; };
    REQUIRE(write_file_atomic(scratch_.file("job.sbatch"), "#!/bin/sh\n").ok());
    slurm_.refuse = [](const SlurmSubmission& submission) -> std::optional<Error> {
      if (file_exists(submission.script)) return std::nullopt;
      return make_error(ErrorCode::invalid_input, "no such script");
    };
  }
  SlurmPort& port() override { return *port_; }
  Clock& clock() override { return clock_; }
  bool accounting() override { return false; }
  SlurmSubmission job(const std::string& comment, std::int64_t ms, int code) override {
    FakeSlurm::Play play;
    play.duration_ms = ms;
    play.exit_code = code;
    if (code != 0) play.state = "FAILED";
    plays_[comment] = play;
    SlurmSubmission submission;
    submission.script = scratch_.file("job.sbatch");
    submission.options = {{"comment", comment}};
    return submission;
  }

 private:
  ManualClock clock_;
  testing::Scratch scratch_;
  FakeSlurm slurm_;
  std::map<std::string, FakeSlurm::Play> plays_;
  std::unique_ptr<SlurmPort> port_;
};

}  // namespace

TEST_CASE("slurm port contract: fake") {
  FakePortRig rig;
  testing::slurm_port_contract(rig);
}

TEST_CASE("array indices: compressed and expanded") {
  CHECK(compress_indices({5, 0, 1, 2, 7, 8, 2}) == "0-2,5,7-8");
  CHECK(compress_indices({}) == "");
  CHECK(expand_indices("3-5,12%4") == std::vector<int>{3, 4, 5, 12});
  CHECK(expand_indices("0-10:5") == std::vector<int>{0, 5, 10});
  CHECK(expand_indices("N/A").empty());
  CHECK(expand_indices("9-3,x,1-").empty());
}
