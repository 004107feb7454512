// Rounds of the controller that a lead starts: when, how many, knowing what, and that the last one sees the record.
#include "worker/lead/next_round.h"

#include <signal.h>

#include <algorithm>

#include "tests/support/scratch.h"
#include "tests/unit/worker/lead_rig.h"

namespace longhaul {
namespace {

struct RoundRig {
  testing::Scratch scratch;
  ManualClock clock;
  Logger log{"test", "", LogLevel::error};
  SystemClock real;

  // The rounds add a line to `file` and then do `more`.
  std::vector<std::string> program(const std::string& more = "true") const {
    return {"/bin/sh", "-c", "echo round >> " + scratch.file("rounds") + "; " + more};
  }
  NextRound rounds(const std::vector<double>& due_s, const std::string& more = "true") {
    return NextRound(program(more), scratch.file("log"), due_s, clock, log);
  }
  int started() const {
    const auto text = read_file(scratch.file("rounds"));
    return text.ok() ? static_cast<int>(std::count(text->begin(), text->end(), '\n')) : 0;
  }
  void wait(NextRound& rounds) {
    const Deadline deadline(real, 20'000);
    while (rounds.running()) {
      REQUIRE(!deadline.passed());
      real.sleep_ms(1);
    }
  }
  void until_started(int count) {
    const Deadline deadline(real, 20'000);
    while (started() < count) {
      REQUIRE(!deadline.passed());
      real.sleep_ms(1);
    }
  }
};

std::int64_t count_of(const std::string& text, const std::string& word) {
  std::int64_t count = 0;
  for (std::size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) ++count;
  return count;
}

}  // namespace

TEST_CASE("next round: started when it is due, once for each time, in whatever order the times are given") {
  RoundRig rig;
  NextRound rounds = rig.rounds({100, 10});
  rounds.look();
  CHECK(!rounds.running());
  rig.clock.advance_ms(9'999);
  rounds.look();
  CHECK(!rounds.running());
  rig.clock.advance_ms(1);
  rounds.look();
  rig.until_started(1);
  rig.wait(rounds);
  for (int i = 0; i < 5; ++i) rounds.look();
  CHECK(rig.started() == 1);
  rig.clock.advance_ms(90'000);
  rounds.look();
  rig.wait(rounds);
  rounds.look();
  CHECK(!rounds.running());
  CHECK(rig.started() == 2);
}

TEST_CASE("next round: one at a time, and times that pass together are one round") {
  RoundRig rig;
  NextRound rounds = rig.rounds({1, 2, 3}, "sleep 60");
  rig.clock.advance_ms(2'000);
  rounds.look();
  rig.until_started(1);
  rig.clock.advance_ms(2'000);
  for (int i = 0; i < 5; ++i) rounds.look();
  CHECK(rounds.running());
  CHECK(rig.started() == 1);
  rounds.end();
  CHECK(rounds.was_killed());
  rounds.look();  // the third time waited for the first round's end
  rig.until_started(2);
}

TEST_CASE("next round: the last one takes the place of whatever is under way, and no other follows") {
  RoundRig rig;
  NextRound rounds = rig.rounds({1, 50}, "test -e " + rig.scratch.file("record") + " || sleep 60");
  rig.clock.advance_ms(1'000);
  rounds.look();
  rig.until_started(1);
  REQUIRE(write_file_atomic(rig.scratch.file("record"), "").ok());
  rounds.start_last();
  rig.wait(rounds);
  CHECK(!rounds.was_killed());
  CHECK(rig.started() == 2);
  rig.clock.advance_ms(100'000);
  rounds.look();
  CHECK(!rounds.running());
}

TEST_CASE("next round: a lead without a controller to call starts nothing; a missing program ends nothing") {
  RoundRig rig;
  NextRound none({}, rig.scratch.file("log"), {0}, rig.clock, rig.log);
  none.look();
  none.start_last();
  CHECK(!none.running());
  NextRound missing({"/nowhere/longhaul"}, rig.scratch.file("log"), {0}, rig.clock, rig.log);
  missing.start_last();
  CHECK(!missing.running());
}

TEST_CASE("rounds at given times run beside the ranks, and the last one when the record is written and the bell rung") {
  LeadRig rig("until test -s \"$LONGHAUL_STATE/../../rounds\"; do sleep 0.01; done");
  const std::string root = rig.root();
  rig.attempt.doorbell = root + "/bell";
  rig.attempt.rounds_at_s = {0.05};
  // What a round finds; it knows nothing of the job that it is started from, but where Slurm's configuration is, and
  // the token that a site without munge asks for.
  rig.attempt.at_end = {"/bin/sh", "-c",
                        "r=running; test -e " + rig.attempt.record_path() + " && test -e " + root +
                            "/bell && r=ended; echo \"$r ${SLURM_JOB_ID:-none} ${SLURM_CONF:-none} "
                            "${SLURM_JWT:-none} ${SBATCH_ACCOUNT:-none}\" >> " +
                            root + "/rounds"};
  // One that Slurm's commands refuse at once; for one that is not there they look again for a minute.
  const std::string slurm_conf = root + "/slurm.conf";
  REQUIRE(make_directories(root).ok());
  REQUIRE(write_file_atomic(slurm_conf, "# nothing\n").ok());
  rig.environment = {
      {"SLURM_JOB_ID", "77"}, {"SLURM_CONF", slurm_conf}, {"SLURM_JWT", "token"}, {"SBATCH_ACCOUNT", "x"}};
  CHECK(rig.wait(rig.start()).success());
  CHECK(rig.text("rounds") == format("running none {} token none\nended none {} token none\n", slurm_conf, slurm_conf));
}

TEST_CASE("the last round is begun again when a signal ends it, a few times, and its failure is not the job's") {
  LeadRig killed("true");
  killed.attempt.at_end = {"/bin/sh", "-c", "echo round >> " + killed.root() + "/rounds; kill -TERM $$"};
  CHECK(killed.wait(killed.start()).success());
  CHECK(count_of(killed.text("rounds"), "round") == 3);
  // The run has ended, another controller drives it, or it is refused for good: that is an answer.
  for (const int code : {2, 3, 4, 5, 7, 9}) {
    CAPTURE(code);
    LeadRig answered("true");
    answered.attempt.at_end = {"/bin/sh", "-c", format("echo round >> {}/rounds; exit {}", answered.root(), code)};
    CHECK(answered.wait(answered.start()).success());
    CHECK(count_of(answered.text("rounds"), "round") == 1);
  }
}

TEST_CASE("a last round that the machine refused is made again after a pause") {
  LeadRig rig("true");
  rig.attempt.at_end = {
      "/bin/sh", "-c",
      "echo round >> " + rig.root() + "/rounds; test $(wc -l < " + rig.root() + "/rounds) = 2 || exit 6"};
  CHECK(rig.wait(rig.start()).success());
  CHECK(count_of(rig.text("rounds"), "round") == 2);
}

TEST_CASE("a job whose record cannot be written has its last round, which is given what the record would say") {
  LeadRig rig("exit 3");
  const std::string in_its_place = rig.attempt.record_path();
  REQUIRE(make_directories(in_its_place).ok());
  rig.attempt.at_end = {"/bin/sh", "-c",
                        "echo \"$0\" >> " + rig.root() + "/rounds; cat >> " + rig.root() + "/reported"};
  CHECK(rig.wait(rig.start()).code == 1);
  CHECK(rig.text("rounds") == std::string(unwritten_record_option) + "\n");
  const auto reported = record_from_text(rig.text("reported"), "reported");
  REQUIRE(reported.ok());
  CHECK(reported->key == rig.attempt.key);
  CHECK(reported->outcome == "failed");
  CHECK(reported->exit_code == 3);
  CHECK(reported->ended_ms > 0);
}

TEST_CASE("room for the record is kept while a job runs, and given up for it") {
  LeadRig rig("test -s \"$LONGHAUL_STATE/../attempts/1/reserve\"");
  CHECK(rig.wait(rig.start()).success());
  CHECK(rig.record().outcome == "succeeded");
  CHECK_FALSE(file_exists(rig.attempt.reserve_path()));
}

}  // namespace longhaul
