// The process of a job's script: how long it waits for whom.
#include "worker/lead/failover/lead_holder.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <functional>
#include <tuple>

#include "base/files/files.h"
#include "base/process/process.h"
#include "base/text/text.h"
#include "contracts/records/record.h"
#include "tests/support/scratch.h"
#include "worker/lead/failover/leader_lease.h"
#include "worker/protocol/wire/lead_address.h"

namespace longhaul {
namespace {

constexpr std::int64_t test_deadline_ms = 20'000;

// A holder in a process of its own, because it blocks signals; its lead is a shell's command.
class HolderRig {
 public:
  HolderRig() {
    attempt.key = "work.1.x";
    attempt.attempt_dir = scratch.path();
  }
  ~HolderRig() {
    if (pid_ > 0) ::kill(pid_, SIGKILL);
  }

  std::string address_path() const { return lead_address_path(attempt.attempt_dir, 0); }
  void led_by(std::int64_t epoch) {
    REQUIRE(write_lead_address(address_path(), {attempt.key, epoch, "node2", 4000}).ok());
  }
  void record(const std::string& outcome, const std::string& ended_by = {}) {
    JobRecord record;
    record.key = attempt.key;
    record.outcome = outcome;
    record.ended_by = ended_by;
    REQUIRE(write_record(attempt.record_path(0), record).ok());
  }
  void start(const std::string& lead, const HolderPatience& patience) {
    pid_ = ::fork();
    REQUIRE(pid_ >= 0);
    if (pid_ > 0) return;
    Logger log("holder", "");
    const auto end = hold_lead({"/bin/sh", "-c", lead}, attempt, {}, clock, log, patience);
    ::_exit(end.ok() ? *end : 100);
  }
  bool runs() {
    const auto exit = poll_exit(pid_);
    REQUIRE(exit.ok());
    if (*exit) ended_ = **exit;
    return !*exit;
  }
  // Exit code; a signal counts as one that no holder returns.
  int wait() {
    for (const Deadline deadline(clock, test_deadline_ms); runs(); clock.sleep_ms(5))
      REQUIRE_MESSAGE(!deadline.passed(), "the holder waits");
    pid_ = -1;
    return ended_.signal ? 1000 + ended_.signal : ended_.code;
  }
  void signal_it(int signal_number) { ::kill(pid_, signal_number); }
  void until(const std::function<bool()>& condition) {
    for (const Deadline deadline(clock, test_deadline_ms); !condition(); clock.sleep_ms(5)) REQUIRE(!deadline.passed());
  }

  testing::Scratch scratch;
  Attempt attempt;
  SystemClock clock;

 private:
  pid_t pid_ = -1;
  ExitStatus ended_;
};

constexpr const char* dies = "kill -9 $$";

}  // namespace

TEST_CASE("holder: a lead that ends by itself ends the script with its code") {
  HolderRig rig;
  rig.start("exit 7", {});
  CHECK(rig.wait() == 7);
}

TEST_CASE("holder: signals of the script's process reach the lead") {
  HolderRig rig;
  const std::string said = join_path(rig.scratch.path(), "said"), ready = join_path(rig.scratch.path(), "ready");
  rig.start("trap 'echo soon > " + said + "' USR1; trap 'exit 4' TERM; : > " + ready + "; while :; do sleep 0.01; done",
            {});
  rig.until([&] { return file_exists(ready); });
  rig.signal_it(SIGUSR1);
  rig.until([&] { return file_exists(said); });
  rig.signal_it(SIGTERM);
  CHECK(rig.wait() == 4);
}

TEST_CASE("holder: nobody takes over from a lead that died, and the job ends") {
  HolderRig rig;
  rig.led_by(1);
  rig.start(dies, {300, 60'000});
  CHECK(rig.wait() == 1);
}

TEST_CASE("holder: it waits for the lead that has taken over, until that one is done") {
  for (const auto& [outcome, ended_by, code] :
       {std::tuple("succeeded", "", 0), std::tuple("failed", "wall_time", 0), std::tuple("failed", "", 1)}) {
    CAPTURE(outcome);
    HolderRig rig;
    rig.led_by(1);
    rig.start(dies, {2'000, 60'000});
    rig.clock.sleep_ms(100);
    rig.led_by(2);
    rig.clock.sleep_ms(2'500);  // longer than anybody may take to take over
    CHECK(rig.runs());
    rig.record(outcome, ended_by);
    rig.clock.sleep_ms(600);  // the address is there: the new lead still has a round to wait for
    CHECK(rig.runs());
    REQUIRE(remove_tree(rig.address_path()).ok());
    CHECK(rig.wait() == code);
  }
}

TEST_CASE("holder: a lead that was followed says so, and the other one is waited for") {
  HolderRig rig;
  rig.led_by(2);
  rig.start(format("exit {}", lead_superseded_exit), {100, 60'000});
  rig.clock.sleep_ms(800);
  CHECK(rig.runs());
  rig.record("succeeded");
  REQUIRE(remove_tree(rig.address_path()).ok());
  CHECK(rig.wait() == 0);
}

TEST_CASE("holder: when the second lead shows no life any more, the job ends; as long as it does, it is waited for") {
  HolderRig rig;
  rig.led_by(2);
  {
    const LeaderLease life({rig.address_path(), 50});
    rig.start(format("exit {}", lead_superseded_exit), {100, 1'000});
    rig.clock.sleep_ms(2'500);
    CHECK(rig.runs());
  }
  CHECK(rig.wait() == 1);
}

TEST_CASE("holder: a second lead that died with its record written keeps nobody waiting") {
  HolderRig rig;
  rig.led_by(2);
  rig.record("succeeded");
  rig.start(format("exit {}", lead_superseded_exit), {100, 700});
  CHECK(rig.wait() == 0);
}

TEST_CASE("holder: a lead that stands still keeps nobody waiting once another one has done its work, and not before") {
  HolderRig rig;
  rig.led_by(1);
  rig.start("kill -STOP $$; exit 9", {100, 60'000, 200});
  rig.clock.sleep_ms(1'500);
  CHECK(rig.runs());
  rig.record("succeeded");
  CHECK(rig.wait() == 0);
}

TEST_CASE("holder: a lead that has written its record and is at work is waited for") {
  HolderRig rig;
  rig.led_by(1);
  rig.record("failed");
  rig.start("i=0; while [ $i -lt 20 ]; do sleep 0.1; i=$((i + 1)); done; exit 9", {100, 60'000, 200});
  CHECK(rig.wait() == 9);
}

TEST_CASE("holder: SIGTERM means the job, also while another lead is waited for") {
  HolderRig rig;
  rig.led_by(2);
  rig.start(format("exit {}", lead_superseded_exit), {60'000, 60'000});
  rig.clock.sleep_ms(300);
  rig.signal_it(SIGTERM);
  CHECK(rig.wait() == 1);
}

TEST_CASE("holder: who has taken over and cannot say so, for the disk is full, is waited for as long as it lives") {
  HolderRig rig;
  rig.led_by(1);
  {
    const LeaderLease life({rig.address_path(), 50});
    rig.start("exit 3; kill -9 $$", {400, 60'000});
    CHECK(rig.wait() == 3);  // a lead that ends by itself is nobody's to follow
  }
  HolderRig killed;
  killed.led_by(1);
  {
    const LeaderLease life({killed.address_path(), 50});
    killed.start("kill -9 $$", {400, 60'000});
    killed.clock.sleep_ms(2'000);
    CHECK(killed.runs());
  }
  CHECK(killed.wait() == 1);
}

TEST_CASE("the lease writes the address that could not be written before, as soon as there is room") {
  const testing::Scratch scratch;
  SystemClock clock;
  const std::string folder = join_path(scratch.path(), "later"), path = join_path(folder, "lead-address");
  const LeaderLease life({path, 5, LeadAddress{"work.1.x", 4, "n2", 4711}, false});
  clock.sleep_ms(50);
  CHECK(!file_exists(path));
  REQUIRE(make_directories(folder).ok());
  for (const Deadline deadline(clock, test_deadline_ms); !file_exists(path); clock.sleep_ms(2))
    REQUIRE(!deadline.passed());
  const auto address = read_lead_address(path);
  REQUIRE(address.ok());
  CHECK(address->epoch == 4);
  CHECK(address->port == 4711);
}

TEST_CASE("the lease touches the file, ends at once, and makes no file that is gone") {
  const testing::Scratch scratch;
  SystemClock clock;
  const std::string path = join_path(scratch.path(), "lead-address");
  REQUIRE(write_file_atomic(path, "x").ok());
  const timespec old[2] = {{1, 0}, {1, 0}};
  REQUIRE(::utimensat(AT_FDCWD, path.c_str(), old, 0) == 0);
  const std::int64_t begun_ns = clock.monotonic_ns();
  {
    const LeaderLease life({path, 60'000});
    for (const Deadline deadline(clock, test_deadline_ms);; clock.sleep_ms(2)) {
      struct stat seen{};
      REQUIRE(::stat(path.c_str(), &seen) == 0);
      if (seen.st_mtim.tv_sec > 1) break;
      REQUIRE(!deadline.passed());
    }
  }
  CHECK(clock.monotonic_ns() - begun_ns < 10'000'000'000);
  REQUIRE(remove_tree(path).ok());
  {
    const LeaderLease life({path, 5});
  }
  CHECK(!file_exists(path));
}

TEST_CASE("the lease writes an address again that somebody has removed, but not beside the record of the job's end") {
  const testing::Scratch scratch;
  SystemClock clock;
  const std::string path = join_path(scratch.path(), "lead-address"), record = join_path(scratch.path(), "record.json");
  const LeadAddress address{"work.1.x", 2, "n2", 4711};
  REQUIRE(write_lead_address(path, address).ok());
  const LeaderLease life({path, 5, address, true, record});
  REQUIRE(remove_tree(path).ok());
  for (const Deadline deadline(clock, test_deadline_ms); !read_lead_address(path).ok(); clock.sleep_ms(2))
    REQUIRE(!deadline.passed());
  CHECK(read_lead_address(path)->epoch == 2);
  REQUIRE(write_file_atomic(record, "{}").ok());
  clock.sleep_ms(100);  // a sign that was under way
  REQUIRE(remove_tree(path).ok());
  clock.sleep_ms(200);
  CHECK(!file_exists(path));
}

TEST_CASE("the lease writes no address again while it is not known whether the job has its record") {
  const testing::Scratch scratch;
  SystemClock clock;
  const std::string path = join_path(scratch.path(), "lead-address"), loop = join_path(scratch.path(), "loop");
  const LeadAddress address{"work.1.x", 2, "n2", 4711};
  REQUIRE(::symlink(loop.c_str(), loop.c_str()) == 0);  // every question below it is answered by an error
  REQUIRE(write_lead_address(path, address).ok());
  const LeaderLease life({path, 5, address, true, join_path(loop, "record.json")});
  REQUIRE(remove_tree(path).ok());
  clock.sleep_ms(200);
  CHECK(!file_exists(path));
  REQUIRE(::unlink(loop.c_str()) == 0);
  for (const Deadline deadline(clock, test_deadline_ms); !read_lead_address(path).ok(); clock.sleep_ms(2))
    REQUIRE(!deadline.passed());
  CHECK(read_lead_address(path)->epoch == 2);
}

TEST_CASE("the lease writes an address again that an earlier lead has written late, and none of a later lead") {
  const testing::Scratch scratch;
  SystemClock clock;
  const std::string path = join_path(scratch.path(), "lead-address"), record = join_path(scratch.path(), "record.json");
  const LeadAddress address{"work.1.x", 3, "n2", 4711};
  REQUIRE(write_lead_address(path, address).ok());
  const LeaderLease life({path, 5, address, true, record});
  REQUIRE(write_lead_address(path, {"work.1.x", 2, "n9", 4712}).ok());
  for (const Deadline deadline(clock, test_deadline_ms);; clock.sleep_ms(2)) {
    const auto named = read_lead_address(path);
    if (named.ok() && named->lead_epoch() == address.lead_epoch()) break;
    REQUIRE(!deadline.passed());
  }
  clock.sleep_ms(100);  // a sign that was under way
  REQUIRE(write_lead_address(path, {"work.1.x", 3, "n3", 4713}).ok());
  clock.sleep_ms(200);
  CHECK(read_lead_address(path)->port == 4713);
}

}  // namespace longhaul
