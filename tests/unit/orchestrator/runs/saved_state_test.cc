// What a stage has saved, as files: which checkpoints are whole, and that an error is never "none".
#include "orchestrator/runs/saved_state.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "base/files/files.h"
#include "tests/support/scratch.h"

namespace longhaul {
namespace {

void put_saved(const std::string& path) {
  REQUIRE(make_directories(parent_path(path)).ok());
  REQUIRE(write_file_atomic(path, "{}").ok());
}

}  // namespace

TEST_CASE("only a checkpoint with its checkpoint.json is saved, whatever else changes in the stage's state") {
  const testing::Scratch scratch;
  const std::string run = scratch.file("run"), state = run + "/stages/p/state";
  const auto saved = [&] { return observe_saved(run, "p", std::nullopt, true).value(); };
  CHECK(saved().step == -1);
  CHECK(checkpoint_steps(checkpoints_folder(run, "p"))->empty());
  put_saved(state + "/section-times.json");  // as leads wrote it there once, after every launch
  put_saved(state + "/training-id");
  put_saved(state + "/checkpoints/step-00000010/rank-0.safetensors");
  put_saved(state + "/checkpoints/suspect-step-00000030/checkpoint.json");
  CHECK(saved().step == -1);
  CHECK(saved().contents.empty());
  put_saved(state + "/checkpoints/step-00000010/checkpoint.json");
  put_saved(state + "/checkpoints/step-00000020/checkpoint.json");
  CHECK(saved().step == 20);
  CHECK(*checkpoint_steps(checkpoints_folder(run, "p")) == std::vector<std::int64_t>{10, 20});
  JobRecord record;
  CHECK(observe_saved(run, "p", record, true)->step == 20);  // of a lead that does not say it
  record.saved_step = 10;                                    // it knows what was ruled out
  CHECK(observe_saved(run, "p", record, true)->step == 10);
}

TEST_CASE("a folder of checkpoints that cannot be read is an error and not an empty one") {
  const testing::Scratch scratch;
  const std::string run = scratch.file("run");
  put_saved(checkpoints_folder(run, "p"));  // a file in its place
  REQUIRE_FALSE(checkpoint_steps(checkpoints_folder(run, "p")).ok());
  CHECK(checkpoint_steps(checkpoints_folder(run, "p")).error().code == ErrorCode::io);
  CHECK(observe_saved(run, "p", std::nullopt, true).error().code == ErrorCode::io);
  LedgerStage stage;
  stage.id = "p";
  CHECK(at_least_step(run, stage, LedgerAttempt{}).error().code == ErrorCode::io);
}

TEST_CASE("an attempt begins no lower than the one before has left, which may be less than what there was once") {
  const testing::Scratch scratch;
  const std::string run = scratch.file("run");
  LedgerStage stage;
  stage.id = "p";
  LedgerAttempt next;
  next.number = 1;
  CHECK(*at_least_step(run, stage, next) == 0);
  put_saved(checkpoints_folder(run, "p") + "/step-00000400/checkpoint.json");  // of before a resume, or of a fork
  CHECK(*at_least_step(run, stage, next) == 400);
  stage.attempts.resize(3);
  for (int i = 0; i < 3; ++i) stage.attempts[static_cast<std::size_t>(i)].number = i + 1;
  stage.attempts[0].saved_step = 900;
  stage.attempts[1].saved_step = 700;  // 900 was ruled out
  next.number = 3;
  CHECK(*at_least_step(run, stage, next) == 700);
  next.number = 4, next.after = 3;
  CHECK(*at_least_step(run, stage, next) == 0);  // queued while the third runs: its lead knows more
  next.after = 0, stage.attempts_before_reset = 2;
  CHECK(*at_least_step(run, stage, next) == 400);  // whoever asks to go on means what lies there
}

TEST_CASE("the digest of what a stage keeps differs exactly when something was saved") {
  const testing::Scratch scratch;
  const std::string state = scratch.file("state");
  CHECK(digest_saved_state(state)->empty());
  REQUIRE(make_directories(state + "/step-10").ok());
  CHECK(digest_saved_state(state)->empty());
  REQUIRE(write_file_atomic(state + "/step-10/weights", "1234").ok());
  const std::string first = *digest_saved_state(state);
  CHECK(!first.empty());
  CHECK(*digest_saved_state(state) == first);
  // Written anew with the same size: its time shows it.
  const timespec times[2] = {{1'000'000'000, 0}, {1'000'000'000, 5}};
  REQUIRE(::utimensat(AT_FDCWD, (state + "/step-10/weights").c_str(), times, 0) == 0);
  const std::string touched = *digest_saved_state(state);
  CHECK(touched != first);
  REQUIRE(make_directories(state + "/step-20").ok());
  CHECK(*digest_saved_state(state) == touched);  // an empty folder is no checkpoint
  REQUIRE(write_file_atomic(state + "/step-20/weights", "").ok());
  const std::string second = *digest_saved_state(state);
  CHECK(second != touched);
  REQUIRE(remove_tree(state + "/step-20").ok());
  CHECK(*digest_saved_state(state) == touched);
}

}  // namespace longhaul
