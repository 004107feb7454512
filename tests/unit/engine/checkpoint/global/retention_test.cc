#include "engine/checkpoint/global/retention.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>

#include "base/process/fault_point.h"
#include "base/text/text.h"
#include "engine/checkpoint/global/checkpoint_saver.h"
#include "engine/checkpoint/global/read_back.h"
#include "engine/checkpoint/local/restart_source.h"
#include "tests/unit/engine/checkpoint/checkpoint_tests.h"

using namespace longhaul;
using namespace longhaul::test;

namespace {

using Names = std::vector<std::string>;

Names removed_by(const RetentionPolicy& policy, const std::vector<CheckpointStanding>& standings) {
  return checkpoints_to_remove(standings, policy);
}

}  // namespace

TEST_CASE("old checkpoints are removed, the newest ones kept") {
  CheckpointFolder folder;
  const SystemClock clock;
  const CheckpointStore checkpoints(clock, folder.path, 2);
  TrainingSetup setup(8, 20);
  for (int i = 0; i < 4; ++i) {
    train(setup, 1);
    REQUIRE(checkpoints.save(setup.mesh.world(), state_of(setup.trainer)).ok());
  }
  CHECK(*checkpoints.list() == Names{"step-00000004", "step-00000003"});
  CHECK(*list_directory(folder.path) == Names{"latest.json", "step-00000003", "step-00000004"});
}

TEST_CASE("which checkpoints may go") {
  const std::vector<CheckpointStanding> five = {{"e", 50, false, 1.0, {}},
                                                {"d", 40, false, 5.0, {}},
                                                {"c", 30, true, 4.0, {}},
                                                {"b", 20, false, 3.0, {}},
                                                {"a", 10, false, 2.0, {}}};
  CHECK(removed_by({2, 0, 0}, five) == Names{"b", "a"});  // c is pinned or being read
  CHECK(removed_by({1, 20, 0}, five) == Names{"a"});
  CHECK(removed_by({1, 0, 2}, five) == Names{"d", "b"});  // best: e, a
  CHECK(removed_by({1, 0, 0}, {}).empty());
  // Where a held-out loss was measured it decides, and what has none does not take part.
  std::vector<CheckpointStanding> measured = five;
  measured[1].heldout_loss = 2.5, measured[3].heldout_loss = 2.6;
  CHECK(removed_by({1, 0, 1}, measured) == Names{"b", "a"});
}

TEST_CASE("a checkpoint that is pinned or being read stays, and the best of those behind it") {
  CheckpointFolder folder;
  ManualClock clock;
  const CheckpointStore checkpoints(clock, folder.path, RetentionPolicy{1, 0, 1});
  TrainingSetup setup(8, 20);
  const auto save = [&](double heldout_loss) {
    train(setup, 1);
    TrainingState state = state_of(setup.trainer);
    state.extra.set(checkpoint_heldout_loss_key, heldout_loss);
    REQUIRE(checkpoints.save(setup.mesh.world(), state).ok());
  };
  save(3.0);
  REQUIRE(write_file_atomic(folder.path + "/step-00000001/pinned", "").ok());
  save(1.0);  // the best
  save(2.0);
  {
    const ReadClaim claim(folder.path + "/step-00000003");
    save(2.5);
    CHECK(*checkpoints.list() == Names{"step-00000004", "step-00000003", "step-00000002", "step-00000001"});
  }
  save(2.5);
  CHECK(*checkpoints.list() == Names{"step-00000005", "step-00000002", "step-00000001"});
}

TEST_CASE("retention: a reader holds a checkpoint for as long as it touches its claim, whatever its clock says") {
  CheckpointFolder folder;
  ManualClock clock;
  ReadClaims claims(clock);
  const std::string path = folder.path + "/reading.elsewhere.1.0";
  const auto touched_at = [&](std::int64_t second) {
    REQUIRE(write_file_renamed(path, "").ok());
    const timespec times[] = {{second, 0}, {second, 0}};
    REQUIRE(::utimensat(AT_FDCWD, path.c_str(), times, 0) == 0);
  };
  const Names names = {"checkpoint.json", "reading.elsewhere.1.0"};
  touched_at(1'000);  // by a host whose clock stands in 1970
  CHECK(claims.hold(folder.path, names));
  clock.advance_ms(ReadClaims::unchanged_ms - 1);
  touched_at(1'060);
  CHECK(claims.hold(folder.path, names));
  clock.advance_ms(ReadClaims::unchanged_ms - 1);
  CHECK(claims.hold(folder.path, names));
  clock.advance_ms(2);  // an hour without a change: it has died
  CHECK_FALSE(claims.hold(folder.path, names));
  CHECK_FALSE(claims.hold(folder.path, {"checkpoint.json"}));
  // A reader that lives touches its file.
  const ReadClaim claim(folder.path, 1);
  const auto all = list_directory(folder.path);
  const std::string own = join_path(folder.path, all->back() == "reading.elsewhere.1.0" ? all->front() : all->back());
  struct stat before{}, after{};
  REQUIRE(::stat(own.c_str(), &before) == 0);
  for (int i = 0; i < 2'000 && after.st_mtim.tv_nsec == before.st_mtim.tv_nsec; ++i) {
    ::usleep(1'000);
    REQUIRE(::stat(own.c_str(), &after) == 0);
  }
  CHECK((after.st_mtim.tv_nsec != before.st_mtim.tv_nsec || after.st_mtim.tv_sec != before.st_mtim.tv_sec));
}

TEST_CASE("retention: what cannot be listed is not removed, nor what was never finished and is pinned") {
  CheckpointFolder folder;
  const SystemClock clock;
  const CheckpointStore checkpoints(clock, folder.path, 1);
  TrainingSetup setup(8, 20);
  const auto save = [&] {
    train(setup, 1);
    REQUIRE(checkpoints.save(setup.mesh.world(), state_of(setup.trainer)).ok());
  };
  save();
  const std::string first = folder.path + "/step-00000001", aside = folder.path + "/aside";
  // Also who may read everything cannot list a link to itself; what is behind it is whole.
  REQUIRE(std::rename(first.c_str(), aside.c_str()) == 0);
  REQUIRE(::symlink(first.c_str(), first.c_str()) == 0);
  REQUIRE(make_directories(folder.path + "/step-00000000").ok());
  REQUIRE(write_file_atomic(folder.path + "/step-00000000/pinned", "").ok());
  save();
  struct stat info{};
  CHECK(::lstat(first.c_str(), &info) == 0);
  CHECK(file_exists(folder.path + "/step-00000000/pinned"));
  REQUIRE(::unlink(first.c_str()) == 0);
  REQUIRE(std::rename(aside.c_str(), first.c_str()) == 0);
  save();  // seen to be whole and not needed
  CHECK(*checkpoints.list() == Names{"step-00000003"});
  CHECK(file_exists(folder.path + "/step-00000000/pinned"));
}

TEST_CASE("retention: what is newer than the checkpoint just published is somebody else's, finished or not") {
  CheckpointFolder folder;
  const SystemClock clock;
  const CheckpointStore checkpoints(clock, folder.path, 1);
  TrainingSetup setup(8, 20);
  const auto save = [&](std::int64_t step) {
    setup.trainer.progress().step = step;
    REQUIRE(checkpoints.save(setup.mesh.world(), state_of(setup.trainer)).ok());
  };
  train(setup, 1);
  save(9);
  for (const std::int64_t step : {1, 12}) REQUIRE(make_directories(checkpoints.path_of(step)).ok());
  save(5);
  CHECK(*list_directory(folder.path) == Names{"latest.json", "step-00000005", "step-00000009", "step-00000012"});
}

TEST_CASE("retention: a checkpoint whose folder gives an error once is not taken for one that was never finished") {
  CheckpointFolder folder;
  const SystemClock clock;
  const CheckpointStore checkpoints(clock, folder.path, 2);
  TrainingSetup setup(8, 20);
  for (int step = 1; step <= 2; ++step) {
    train(setup, 1);
    REQUIRE(checkpoints.save(setup.mesh.world(), state_of(setup.trainer)).ok());
  }
  const std::string plan = folder.path + "/plan";
  for (int listing = 1; listing <= 3; ++listing) {  // of all, of step 2, of step 1
    CAPTURE(listing);
    REQUIRE(write_file_atomic(plan, format("checkpoint_list error nth={}\n", listing)).ok());
    CHECK(in_child([&] {
            if (!load_fault_plan(plan).ok()) ::_exit(9);
            ::_exit(checkpoints.confirm(folder.path + "/step-00000002").ok() ? 0 : 1);
          }) == 0);
    CHECK(*checkpoints.list() == Names{"step-00000002", "step-00000001"});
  }
}

TEST_CASE("a folder of checkpoints that gives errors is not taken for an empty one") {
  CheckpointFolder folder;
  const SystemClock clock;
  CheckpointStore checkpoints(clock, folder.path, 2);
  checkpoints.set_retry({3, 1});
  TrainingSetup setup(8, 20);
  train(setup, 1);
  REQUIRE(checkpoints.save(setup.mesh.world(), state_of(setup.trainer)).ok());
  const std::string plan = folder.path + "/plan";
  const auto found_with = [&](const std::string& action) {
    REQUIRE(write_file_atomic(plan, "checkpoint_list " + action + "\n").ok());
    return in_child([&] {
      if (!load_fault_plan(plan).ok()) ::_exit(9);
      TrainingState state = state_of(setup.trainer);
      const auto loaded = load_newest_state(setup.mesh.world(), checkpoints, nullptr, state);
      if (!loaded.ok()) ::_exit(loaded.error().code == ErrorCode::io ? 5 : 6);
      ::_exit(loaded->from.empty() ? 1 : 2);
    });
  };
  CHECK(found_with("error nth=1") == 2);  // of the folder of all
  CHECK(found_with("error nth=2") == 2);  // of the checkpoint's
  CHECK(found_with("error nth=1 always") == 5);
  // The time line as well.
  const TimeLine line = TimeLine().rolled_back(1, 8, Value::make_array());
  REQUIRE(write_time_line(folder.path, line).ok());
  REQUIRE(write_file_atomic(plan, "checkpoint_list error nth=1 always\n").ok());
  CHECK(in_child([&] {
          if (!load_fault_plan(plan).ok()) ::_exit(9);
          ::_exit(read_time_line(folder.path, {3, 1}).ok() ? 1 : 5);
        }) == 5);
  CHECK(*read_time_line(folder.path, {3, 1}) == line);
}

TEST_CASE("a training that has saved a step does not begin below it") {
  LoadedState nothing, older, damaged;
  older.judged_step = 100;
  damaged.judged_step = 240;  // it was read, and its bytes are others
  const TimeLine line;
  CHECK(may_begin_at(0, 0, nothing, line).ok());
  CHECK(may_begin_at(240, 240, older, line).ok());
  CHECK(may_begin_at(100, 240, damaged, line).ok());
  const Status refused = may_begin_at(0, 240, nothing, line);
  REQUIRE_FALSE(refused.ok());
  CHECK(refused.error().message().find("begin at step 0, and a checkpoint of step 240") != std::string::npos);
  CHECK_FALSE(may_begin_at(100, 240, older, line).ok());
  // A roll-back went behind it; one that is long over does not count.
  CHECK(may_begin_at(100, 240, older, line.rolled_back(100, 8, Value::make_array(), 250)).ok());
  CHECK_FALSE(may_begin_at(90, 240, nothing, line.rolled_back(100, 8, Value::make_array(), 250)).ok());
  CHECK_FALSE(may_begin_at(100, 240, older, line.rolled_back(100, 8, Value::make_array(), 150)).ok());
}

TEST_CASE("retention: nothing is removed before one that stays was read back well") {
  CheckpointFolder folder;
  const SystemClock clock;
  const CheckpointStore checkpoints(clock, folder.path, 1);
  TrainingSetup setup(8, 20);
  // Saved; of some a bit changes behind the digests, on the way to the disk.
  const auto save = [&](bool spoilt) {
    train(setup, 1);
    CheckpointSaver saver(clock, checkpoints, {});
    REQUIRE(saver.start(setup.mesh.world(), state_of(setup.trainer)).ok());
    const auto saved = saver.finish(setup.mesh.world());
    REQUIRE(saved.ok());
    if (spoilt) {
      const std::string shard = join_path(saved->path, "shard-00001-of-00001.safetensors");
      std::string bytes = *read_file(shard);
      bytes[bytes.size() - 9] = static_cast<char>(bytes[bytes.size() - 9] ^ 1);
      REQUIRE(write_file_atomic(shard, bytes).ok());
    }
    CheckpointReadBack read_back(clock, checkpoints);
    REQUIRE(read_back.want(setup.mesh.world(), *saved, saver.votes()).ok());
    const auto read = read_back.finish(setup.mesh.world());
    REQUIRE(read.ok());
    std::string damage;
    for (const ReadBack& one : *read) damage += one.damage;
    CHECK((damage.find("do not have the digest") != std::string::npos) == spoilt);
  };
  save(false);
  save(true);
  save(true);
  CHECK(*checkpoints.list() == Names{"step-00000003", "step-00000002", "step-00000001"});
  CHECK_FALSE(CheckpointStore::is_verified(folder.path + "/step-00000003"));
  save(false);
  CHECK(*checkpoints.list() == Names{"step-00000004"});
  CHECK(CheckpointStore::is_verified(folder.path + "/step-00000004"));
  // Of another manifest it says nothing.
  const std::string manifest = folder.path + "/step-00000004/checkpoint.json";
  REQUIRE(write_file_atomic(manifest, *read_file(manifest) + " ").ok());
  CHECK_FALSE(CheckpointStore::is_verified(folder.path + "/step-00000004"));
}
