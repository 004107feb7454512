// Who waits for inputs to be read learns so after two seconds, once.
#include "orchestrator/controller/jobs/ready_inputs.h"

#include <doctest/doctest.h>

#include "base/files/files.h"
#include "tests/support/scratch.h"

namespace longhaul {
namespace {

// A second passes whenever somebody looks.
class SlowClock final : public Clock {
 public:
  std::int64_t wall_ms() const override { return 1'700'000'000'000; }
  std::int64_t monotonic_ns() const override { return seconds_++ * 1'000'000'000; }
  void sleep_ms(std::int64_t) override {}

 private:
  mutable std::int64_t seconds_ = 0;
};

// What is said while a stage with so many files is made ready.
std::vector<std::string> notices_of(int files) {
  const testing::Scratch scratch;
  for (int i = 0; i < files; ++i) {
    REQUIRE(make_directories(scratch.file("texts")).ok());
    REQUIRE(write_file_atomic(scratch.file("texts/" + std::to_string(i)), "x").ok());
  }
  FrozenRun frozen;
  frozen.parent = "trials";  // no sentence about why it runs
  frozen.artifact_root = scratch.file("artifacts");
  PlannedStage planned;
  planned.stage = "corpus";
  planned.kind = "command";
  planned.settings = Value::make_table();
  PlannedInput input;
  input.name = "documents";
  input.paths = {scratch.file("texts")};
  planned.inputs = {input};
  frozen.plan.stages = {planned};
  const RunLedger ledger({"corpus"});
  const std::optional<Site> site;
  const SchedulingRules rules;
  const int cores = 1;
  const std::string programs, faults;
  std::vector<std::string> said;
  const std::function<void(const std::string&)> notice = [&](const std::string& one) { said.push_back(one); };
  SlowClock clock;
  Logger log("controller", "run=x", LogLevel::error);
  const std::string folder = scratch.file("run");
  ReadyInputs inputs({folder, frozen, ledger, site, rules, cores, programs, faults, notice, clock, log},
                     artifact_trust(""), EarlierRuns(scratch.file("runs"), "w", "x"));
  Observations seen;
  inputs.look(frozen.plan.stages.front(), seen);
  CHECK(!seen.prepared.at("corpus").key.empty());
  return said;
}

}  // namespace

TEST_CASE("inputs that are read for two seconds are spoken of once, and quick ones not at all") {
  CHECK(notices_of(1).empty());
  const auto said = notices_of(9);
  REQUIRE(said.size() == 1);
  CHECK(said[0] == "corpus: reading its inputs, 2 files so far");
}

}  // namespace longhaul
