#include <algorithm>
#include <cmath>

#include "engine/tasks/rollout_ranks/rollout_messages.h"
#include "tests/unit/engine/tasks/stages/rollout_folder.h"
#include "tests/unit/engine/tasks/stages/stage_ranks.h"

using namespace longhaul;

namespace {

void check_all_well(const std::vector<Status>& ranks) {
  for (const Status& one : ranks) REQUIRE_MESSAGE(one.ok(), one.error().message());
}

bool speaks_of(const Status& status, const char* text) {
  return status.error().message().find(text) != std::string::npos;
}

Task ahead_task(const RolloutFolder& folder) {
  Task task = folder.grpo();
  task.settings.set("steps", 4), task.settings.set("checkpoint", *parse_json(R"({"every_steps": 1, "keep_last": 9})"));
  task.settings.find("rollout")->set("ahead", true), task.settings.find("rollout")->set("redraws", 1);
  return task;
}

void check_same_steps(const std::vector<Value>& some, const std::vector<Value>& others, double tolerance) {
  REQUIRE(some.size() == others.size());
  for (std::size_t i = 0; i < some.size(); ++i)
    for (const char* name : {"loss", "reward", "kl", "answer_tokens", "entropy", "redrawn_groups", "clip_fraction"}) {
      CAPTURE(i);
      CAPTURE(name);
      CHECK(std::abs(some[i].get_number(name) - others[i].get_number(name)) <= tolerance);
    }
}

}  // namespace

TEST_CASE("ranks that only draw: the bits of a training that draws ahead by itself, also after a restart") {
  const RolloutFolder folder;
  Task task = ahead_task(folder);
  const ParallelDims two = stage_layout(1, 1, 2, 0);
  task.settings.find("rollout")->set("threads", 1);
  run_on_ranks(folder, task, "thread", two);
  task.settings.find("rollout")->set("threads", 0), task.settings.find("rollout")->set("ranks", 1);
  check_all_well(run_in_layout(folder, task, "rank", two, {.drawing = 1}));
  CHECK(folder.weights("rank") == folder.weights("thread"));
  check_same_steps(folder.metrics("rank"), folder.metrics("thread"), 0);
  for (const Value& step : folder.metrics("rank")) CHECK(step.get_number("generate_s") > 0);
  CHECK(folder.checkpoints("rank", "ahead") == folder.checkpoints("thread", "ahead"));

  // All ranks end in the same way where the training was asked to stop.
  for (const Status& one : run_in_layout(folder, task, "parts", two, {.drawing = 1, .stops = true})) {
    REQUIRE(!one.ok());
    CHECK(one.error().code == ErrorCode::aborted);
  }
  CHECK(folder.checkpoints("parts", "ahead").size() == 1);
  check_all_well(run_in_layout(folder, task, "parts", two, {.drawing = 1}));
  CHECK(folder.weights("parts") == folder.weights("thread"));

  // Weights come from ranks that have a part of them, and more ranks may draw than train.
  const ParallelDims parts[] = {stage_layout(2, 1, 1, 0), stage_layout(1, 1, 2, 3)};
  for (const ParallelDims& dims : parts) {
    CAPTURE(dims.to_string());
    const std::string out = replace_all(dims.to_string(), " ", "-");
    task.settings.find("rollout")->set("ranks", 3);
    check_all_well(run_in_layout(folder, task, out, dims, {.drawing = 3}));
    check_same_steps(folder.metrics(out), folder.metrics("thread"), 1e-5);
  }
}

TEST_CASE("ranks that only draw: one that cannot ends the stage with its name, and too few of them are refused") {
  const RolloutFolder folder;
  Task task = ahead_task(folder);
  task.settings.find("rollout")->set("ranks", 1);
  Task lost = task;
  for (TaskInput& input : lost.inputs)
    if (input.name == "data") input.paths = {folder.at("nothing.jsonl")};
  const ParallelDims two = stage_layout(1, 1, 2, 0);
  const std::vector<Status> ranks = run_in_layout(folder, task, "lost", two, {.drawing = 1, .task = &lost});
  for (const Status& one : ranks) {
    REQUIRE(!one.ok());
    CHECK_MESSAGE(speaks_of(one, "nothing.jsonl"), one.error().message());
  }
  CHECK_MESSAGE(speaks_of(ranks[0], "rollout rank 2: "), ranks[0].error().message());

  for (const Status& one : run_in_layout(folder, task, "none", two)) {
    REQUIRE(!one.ok());
    CHECK_MESSAGE(speaks_of(one, "rollout.ranks = 1, and the launch has 0 ranks beside"), one.error().message());
  }
}

TEST_CASE("ranks that only draw: orders and replies come out as they went in") {
  RolloutOrder order;
  order.tasks.resize(3), order.batches = {0, 1, 0};
  order.tasks[2].prompt = 7, order.tasks[2].sampling.stream = 1234567890123456789u;
  const RolloutOrder read = unpack_order(pack_order(order));
  REQUIRE(read.tasks.size() == 3);
  CHECK(read.batches == order.batches);
  CHECK(read.tasks[2].prompt == 7);
  CHECK(read.tasks[2].sampling.stream == order.tasks[2].sampling.stream);

  order.tasks.clear();
  CHECK(unpack_order(pack_order(order)).training.ok());
  order.training = make_error(ErrorCode::aborted, "stopped after step 3");
  CHECK(unpack_order(pack_order(order)).training.error().code == ErrorCode::aborted);

  RolloutReply reply;
  reply.times.reward = 1.5;
  reply.rollouts.resize(2);
  reply.rollouts[1].drawn = {-0.25, -1.5}, reply.rollouts[1].cut = true;
  const auto same = unpack_reply(pack_reply(reply));
  REQUIRE(same.ok());
  CHECK(same->times.reward == 1.5);
  REQUIRE(same->rollouts.size() == 2);
  CHECK(same->rollouts[1].drawn == reply.rollouts[1].drawn);
  CHECK(same->rollouts[1].cut);
  const auto failed = unpack_reply(pack_reply(make_error(ErrorCode::timeout, "no answer within 60 s")));
  REQUIRE(!failed.ok());
  CHECK(failed.error().code == ErrorCode::timeout);
  CHECK(failed.error().message() == "no answer within 60 s");
}
