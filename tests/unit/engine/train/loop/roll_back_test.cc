// A training that rolled back and was killed afterwards, at any place: the next launch ends with the bits of the one
// that was not killed, though what the loss was bad for does not come again, and though copies of the steps that were
// abandoned are still on the node.
#include <doctest/doctest.h>

#include <chrono>
#include <csignal>
#include <thread>

#include "base/process/fault_point.h"
#include "base/text/text.h"
#include "engine/train/loop/training_loop.h"
#include "tests/unit/engine/checkpoint/checkpoint_tests.h"

using namespace longhaul;
using namespace longhaul::test;

namespace {
namespace roll_back {

constexpr int roll_back_steps = 12, saved_every = 4, bad_step = 7;  // and a copy on the node of every step between

struct Ended {
  std::vector<float> weights;
  std::int64_t skipped_samples = 0, rollbacks = 0;
  Value spikes, ready;
  std::string error;
};

struct RollBackRun {
  CheckpointFolder folder;
  std::string node() const { return folder.path + "/node"; }
  std::string checkpoints() const { return folder.path + "/state/checkpoints"; }
  std::string line() const { return checkpoints() + "/time-line.json"; }

  // One launch with this plan of faults; what is found in the folder, it goes on from.
  Ended launch(const std::string& plan) const {
    Ended ended;
    SetupOptions with;
    with.on_spike.action = "rollback";
    TrainingSetup setup(4, roll_back_steps, 2, nullptr, DType::f32, 64, with);
    const SystemClock clock;
    if (!write_file_atomic(folder.path + "/plan", plan).ok() || !load_fault_plan(folder.path + "/plan").ok() ||
        !make_directories(node()).ok())
      return ended;
    CheckpointStore store(clock, checkpoints(), 100);
    LocalCopiesOptions here;
    here.folder = node();
    const auto copies = LocalCopies::create(clock, setup.mesh.world(), folder.path + "/state", here);
    EventWriter events(clock, folder.path + "/events.jsonl", 0);
    const std::atomic<bool> stop{false};
    TrainingLoopOptions options;
    options.checkpoint_every_steps = saved_every, options.saver.asynchronous = false;
    options.local_every_steps = 1, options.local_copies = copies->get();
    // Steps are faster than the disk: each waits for the copy of the one before, so that none is left out.
    options.milestone_every_steps = 1;
    options.on_milestone = [&](const MilestoneReached&) -> Status {
      const std::int64_t until_ns = clock.monotonic_ns() + 60'000'000'000;
      while (!(*copies)->ready() && clock.monotonic_ns() < until_ns)
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      return {};
    };
    TrainingLoop loop(clock, setup.trainer, setup.objective, store, events, stop, nullptr, options);
    const auto restored = loop.restore(setup.context);
    const auto outcome = restored.ok() ? loop.run(nullptr) : Result<TrainingOutcome>(restored.error());
    ended.error = outcome.ok() ? "" : outcome.error().message();
    ended.weights = weights_of(setup);
    ended.skipped_samples = setup.trainer.skipped_samples();
    if (outcome.ok()) ended.rollbacks = outcome->rollbacks;
    ended.spikes = setup.trainer.spike_guard().state();
    for (const Event& event : reported("ready")) ended.ready = event.fields;
    return ended;
  }
  std::vector<Event> reported(const std::string& kind) const {
    std::uint64_t offset = 0;
    std::vector<Event> found;
    const auto events = read_events(folder.path + "/events.jsonl", offset);
    if (!events.ok()) return found;
    for (const Event& event : *events)
      if (event.kind == kind) found.push_back(event);
    return found;
  }
};

std::string bad_at(std::initializer_list<int> passages) {
  std::string plan;
  for (const int nth : passages) plan += format("engine_loss error nth={}\n", nth);
  return plan;
}

void check_same_end(const Ended& whole, const Ended& after) {
  CHECK(after.error == "");
  CHECK(after.weights == whole.weights);
  CHECK(after.skipped_samples == whole.skipped_samples);
  CHECK(after.spikes == whole.spikes);
}

}  // namespace roll_back
}  // namespace

TEST_CASE("a roll-back is reported when it is done: to which step, what was lost, left out and how long it took") {
  using namespace roll_back;
  const RollBackRun run;
  const Ended ended = run.launch(bad_at({bad_step}));
  REQUIRE(ended.error == "");
  CHECK(ended.rollbacks == 1);
  const auto reported = run.reported("rolled_back");
  REQUIRE(reported.size() == 1);
  const Value& fields = reported[0].fields;
  CHECK(fields.get_integer("step") == 7);
  CHECK(fields.get_integer("to_step") == 4);
  CHECK(fields.get_integer("lost_steps") == 2);
  CHECK(fields.get_integer("samples_left_out") == 12);
  CHECK(fields.get_string("problem").find("the loss is nan") != std::string::npos);
  CHECK(fields.get_string("path").find("step-") != std::string::npos);
  CHECK(fields.get_number("total_s") >= fields.get_number("load_s"));
  CHECK(fields.get_number("load_s") > 0);
  CHECK(ended.skipped_samples == 12);
}

TEST_CASE("killed after a roll-back, wherever: the bits of the training that was not killed") {
  using namespace roll_back;
  const RollBackRun undisturbed;
  const Ended whole = undisturbed.launch(bad_at({bad_step}));
  REQUIRE(whole.error == "");
  CHECK(whole.rollbacks == 1);
  // Steps begun: 1 to 7, and then 5 again: the eighth. Copies of 5 and perhaps 6 were made before.
  for (const int begun : {8, 9, 10, 11, 12, 15}) {
    CAPTURE(begun);
    const RollBackRun run;
    const std::string kill = format("engine_step_begin kill nth={}\n", begun);
    REQUIRE(in_child([&] { (void)run.launch(bad_at({bad_step}) + kill); }) == -SIGKILL);
    REQUIRE(run.reported("rolled_back").size() == 1);
    const Ended after = run.launch("");
    check_same_end(whole, after);
    CHECK(after.rollbacks == 0);  // it was bad once
  }
}

TEST_CASE(
    "killed before the roll-back is written down, it has not been; killed between that and the first step, it has") {
  using namespace roll_back;
  const RollBackRun undisturbed, untouched;
  const Ended whole = undisturbed.launch(bad_at({bad_step})), calm = untouched.launch("");
  REQUIRE(whole.weights != calm.weights);
  const RollBackRun run, later;
  REQUIRE(in_child([&] { (void)run.launch(format("engine_step_begin kill nth={}\n", bad_step)); }) == -SIGKILL);
  REQUIRE(in_child([&] { (void)later.launch(bad_at({bad_step}) + "engine_step_begin kill nth=8\n"); }) == -SIGKILL);
  REQUIRE_FALSE(file_exists(run.line()));
  // The folder of a rank that was killed when the line was written down, and no copy on its node was removed yet.
  const auto text = read_file(later.line());
  REQUIRE(text.ok());
  REQUIRE(write_file_atomic(run.line(), *text).ok());
  const Ended after = run.launch("");
  check_same_end(whole, after);
  CHECK(after.ready.get_integer("step") == 4);
  CHECK(after.ready.get_string("from") == "checkpoint");
  const Value* why = after.ready.find("passed_over");
  REQUIRE(why);
  REQUIRE(why->size() > 0);
  CHECK(why->as_array().front().as_string().find("was abandoned by a roll-back") != std::string::npos);
  // Without that line they are the newest.
  const RollBackRun before;
  REQUIRE(in_child([&] { (void)before.launch(format("engine_step_begin kill nth={}\n", bad_step)); }) == -SIGKILL);
  const Ended as_if_nothing = before.launch("");
  CHECK(as_if_nothing.ready.get_string("from") == "copies");
  CHECK(as_if_nothing.weights == calm.weights);
}

TEST_CASE("rolled back twice and killed, also where the newest checkpoint is damaged since") {
  using namespace roll_back;
  // Step 7, and then, as the tenth loss, step 7 again; or step 10 of the new line, back to step 8.
  for (const int second : {10, 13}) {
    CAPTURE(second);
    const RollBackRun undisturbed;
    const Ended whole = undisturbed.launch(bad_at({bad_step, second}));
    REQUIRE(whole.error == "");
    CHECK(whole.rollbacks == 2);
    for (const bool damage : {false, true}) {
      CAPTURE(damage);
      const RollBackRun run;
      const std::string kill = format("engine_step_begin kill nth={}\n", second + 2);
      REQUIRE(in_child([&] { (void)run.launch(bad_at({bad_step, second}) + kill); }) == -SIGKILL);
      if (damage) {  // the steps before the target are done again as they were, and the jump is made where it was
        REQUIRE(remove_tree(run.node()).ok());
        const std::string newest = run.checkpoints() + "/" + checkpoint_folder_name(second == 10 ? 4 : 8);
        const auto files = list_tree(newest);
        for (const std::string& file : *files)
          if (ends_with(file, ".safetensors")) REQUIRE(write_file_atomic(join_path(newest, file), "damaged").ok());
        // Of step 4 no checkpoint is older: then nothing good is left, which is an error as ever.
        if (second == 10) continue;
      }
      check_same_end(whole, run.launch(""));
    }
  }
}

TEST_CASE("copies on the node of steps that were abandoned are gone after a roll-back, and their number stays small") {
  using namespace roll_back;
  const RollBackRun run;
  REQUIRE(in_child([&] { (void)run.launch(bad_at({bad_step}) + "engine_step_begin kill nth=8\n"); }) == -SIGKILL);
  const auto files = list_tree(run.node());
  REQUIRE(files.ok());
  for (const std::string& file : *files) {
    CHECK(file.find(checkpoint_folder_name(5)) == std::string::npos);
    CHECK(file.find(checkpoint_folder_name(6)) == std::string::npos);
  }
}
