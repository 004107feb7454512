#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <thread>

#include "engine/comm/threads_communicator.h"
#include "engine/ops/pointwise/elementwise.h"
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

// Both ranks do it at the same time, as threads, and both succeed.
void on_two_ranks(const std::function<Status(CollectiveGroup&)>& work) {
  const SystemClock clock;
  const ThreadsWorld world(2);
  CommOptions options;
  options.clock = &clock;
  std::vector<Status> ends(2);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 2; ++rank)
    threads.emplace_back([&, rank] {
      const std::unique_ptr<Communicator> communicator = world.communicator(rank, 1, options);
      CollectiveGroup ranks(*communicator, 20'000);
      ends[static_cast<std::size_t>(rank)] = work(ranks);
    });
  for (std::thread& thread : threads) thread.join();
  check_all_well(ends);
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

TEST_CASE("ranks that only draw: weights come out as they went in, however many go in one message") {
  ModelShape shape;
  shape.hidden_size = 8, shape.num_hidden_layers = 2, shape.num_attention_heads = 2, shape.intermediate_size = 12;
  shape.vocab_size = 20, shape.max_position_embeddings = 16;
  shape = resolve_shape(shape).value();
  const ComputeContext context(1);
  for (const DType dtype : {DType::f32, DType::bf16})
    for (const std::int64_t together : {std::int64_t{0}, std::int64_t{150}, weights_together}) {
      CAPTURE(together);
      ParameterStore sent(shape, dtype), taken(shape, DType::f32);
      initialize_parameters(context, sent, 3);
      sent.refresh_compute_copy(context);
      on_two_ranks([&](CollectiveGroup& ranks) {
        return ranks.is_first() ? send_weights(context, sent, ranks, nullptr, together)
                                : take_weights(context, taken, ranks, together);
      });
      for (const FlatParameter& p : sent.layout().parameters()) {
        CAPTURE(p.spec.name);
        std::vector<float> computes(static_cast<std::size_t>(p.end - p.begin));
        cast(context, sent.vector(p.begin, p.end - p.begin), computes);
        const std::span<const float> came = taken.vector(p.begin, p.end - p.begin).span<float>();
        CHECK(std::ranges::equal(came, computes));
      }
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
