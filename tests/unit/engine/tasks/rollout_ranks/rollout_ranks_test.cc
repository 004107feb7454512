#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <thread>
#include <utility>

#include "contracts/plan/rollout/drawing_layout.h"
#include "engine/comm/threads_communicator.h"
#include "engine/ops/pointwise/elementwise.h"
#include "engine/parallel/mesh/box_copy.h"
#include "engine/tasks/rollout_ranks/rollout_messages.h"
#include "engine/tasks/rollout_ranks/weight_messages.h"
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

// What ranks of a launch do with the weights of a training: those of the mesh send what they have, the others take
// theirs.
struct WeightsSent {
  ModelShape shape;
  ParallelDims trains;
  DType dtype = DType::f32;
  RolloutSettings drawn;  // ranks, tp, pp
  std::int64_t together = weights_together;
};

// Of each rank that draws what it has then, by the names of parameters.
std::vector<std::map<std::string, std::vector<float>>> send_over_ranks(const WeightsSent& sent) {
  const int drawing = static_cast<int>(sent.drawn.ranks), ranks = sent.trains.world_size() + drawing;
  const SystemClock clock;
  const ThreadsWorld world(ranks);
  CommOptions options;
  options.clock = &clock;
  const ComputeContext context(1);
  std::vector<std::map<std::string, std::vector<float>>> taken(static_cast<std::size_t>(drawing));
  std::vector<Status> ends(static_cast<std::size_t>(ranks));
  const auto work = [&](int rank) -> Status {
    LH_TRY(const auto parted, LaunchRanks::create(sent.trains, drawing, world.communicator(rank, 1, options), 20'000));
    CollectiveGroup* const between = parted->rollout_ranks();
    if (rank < sent.trains.world_size()) {
      Mesh& mesh = parted->mesh();
      const ParallelDims& dims = mesh.dims();
      ParameterStore store(sent.shape, sent.dtype, nullptr,
                           {dims, mesh.at(), even_stages(static_cast<int>(sent.shape.num_hidden_layers), dims.pp)});
      initialize_parameters(context, store, 3);
      store.refresh_compute_copy(context);
      return send_weights(context, mesh, store, between, nullptr, sent.together);
    }
    const ParallelDims dims = drawing_ranks_dims(sent.drawn, sent.shape);
    ParameterStore store(sent.shape, DType::f32, nullptr, drawing_place(dims, sent.shape, between->rank() - 1, {}));
    LH_CHECK(take_weights(context, store, *between, nullptr, sent.together));
    for (const FlatParameter& p : store.layout().parameters()) {
      const std::span<const float> came = store.vector(p.begin, p.end - p.begin).span<float>();
      taken[static_cast<std::size_t>(between->rank() - 1)][p.spec.name].assign(came.begin(), came.end());
    }
    return {};
  };
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank)
    threads.emplace_back([&, rank] { ends[static_cast<std::size_t>(rank)] = work(rank); });
  for (std::thread& thread : threads) thread.join();
  check_all_well(ends);
  return taken;
}

// Each has of each parameter what its layout says, as a store that nobody parted computes with it.
void check_sent(const WeightsSent& sent) {
  CAPTURE(sent.trains.to_string());
  CAPTURE(sent.drawn.tp);
  CAPTURE(sent.drawn.pp);
  CAPTURE(sent.together);
  const ComputeContext context(1);
  ParameterStore whole(sent.shape, sent.dtype);
  initialize_parameters(context, whole, 3);
  whole.refresh_compute_copy(context);
  const ParameterNames names(whole.layout());
  const auto taken = send_over_ranks(sent);
  for (std::size_t rank = 0; rank < taken.size(); ++rank) {
    CAPTURE(rank);
    const ParameterLayout layout(frozen_shape(sent.shape), drawing_place(drawing_ranks_dims(sent.drawn, sent.shape),
                                                                         sent.shape, static_cast<int>(rank), {}));
    REQUIRE(taken[rank].size() == layout.parameters().size());
    for (const FlatParameter& p : layout.parameters()) {
      CAPTURE(p.spec.name);
      const FlatParameter& all = *names.find_if_held(p.spec.name);
      std::vector<float> computes(static_cast<std::size_t>(all.end - all.begin)),
          wanted(static_cast<std::size_t>(p.end - p.begin));
      cast(context, whole.vector(all.begin, all.end - all.begin), computes);
      copy_between_boxes(std::span<const float>(computes), all.box, 0, std::ssize(computes), p.box,
                         std::span<float>(wanted));
      CHECK(taken[rank].at(p.spec.name) == wanted);
    }
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

TEST_CASE("ranks that only draw together: what one rank learns, for any layouts, with adapters, also after a restart") {
  const RolloutFolder folder;
  Task task = ahead_task(folder);
  Value& rollout = *task.settings.find("rollout");
  run_on_ranks(folder, task, "thread", 1);
  struct Drawn {
    ParallelDims trains;
    int ranks, tp, pp;
  };
  const auto draw = [&](const Drawn& drawn, const std::string& out, bool stops = false) {
    rollout.set("ranks", drawn.ranks), rollout.set("tp", drawn.tp), rollout.set("pp", drawn.pp);
    return run_in_layout(folder, task, out, drawn.trains, {.drawing = drawn.ranks, .stops = stops});
  };
  // Ranks that train draw the first rollout, and groups once more: together, or each by itself.
  const Drawn layouts[] = {
      {stage_layout(1, 1, 2, 0), 4, 2, 1}, {stage_layout(1, 1, 2, 3), 2, 1, 2}, {stage_layout(2, 2, 1, 0), 4, 2, 2}};
  for (const Drawn& drawn : layouts) {
    CAPTURE(drawn.trains.to_string());
    const std::string out = replace_all(drawn.trains.to_string(), " ", "-");
    check_all_well(draw(drawn, out));
    check_same_steps(folder.metrics(out), folder.metrics("thread"), 1e-5);
    // Which of both it is, is said.
    const bool by_itself = drawn.trains.tp * drawn.trains.pp == 1;
    const std::string events = *read_file(folder.at(out + ".events.jsonl"));
    CHECK((events.find("each rank that trains holds the whole model while it draws") != std::string::npos) ==
          by_itself);
  }
  for (const Status& one : draw(layouts[0], "parts", true)) REQUIRE_FALSE(one.ok());
  check_all_well(draw(layouts[0], "parts"));
  CHECK(folder.weights("parts") == folder.weights(replace_all(layouts[0].trains.to_string(), " ", "-")));

  task.settings.set("adapter", *parse_json(R"({"kind": "lora", "rank": 4})"));
  task.settings.set("steps", 2);
  rollout.set("ranks", 0), rollout.set("tp", 1), rollout.set("pp", 1);
  run_on_ranks(folder, task, "lora", 1);
  check_all_well(draw({stage_layout(1, 1, 2, 3), 2, 2, 1}, "lora-apart"));
  check_same_steps(folder.metrics("lora-apart"), folder.metrics("lora"), 1e-5);
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

TEST_CASE("ranks that only draw: each gets its part of the weights, whoever has them, in messages of any size") {
  WeightsSent sent;
  sent.shape.hidden_size = 8, sent.shape.num_hidden_layers = 2, sent.shape.num_attention_heads = 2;
  sent.shape.intermediate_size = 12, sent.shape.vocab_size = 20, sent.shape.max_position_embeddings = 16;
  sent.shape = resolve_shape(sent.shape).value();
  sent.drawn.ranks = 1;
  for (const DType dtype : {DType::f32, DType::bf16})
    for (const std::int64_t together : {std::int64_t{0}, std::int64_t{150}, weights_together}) {
      sent.dtype = dtype, sent.together = together;
      check_sent(sent);
    }
  sent.dtype = DType::f32, sent.drawn.ranks = 4;
  for (const ParallelDims& trains :
       {stage_layout(1, 1, 1, 0), stage_layout(2, 1, 1, 0), stage_layout(1, 2, 2, 0), stage_layout(2, 1, 2, 3)})
    for (const auto& [tp, pp] : {std::pair{2, 1}, std::pair{1, 2}, std::pair{2, 2}})
      for (const std::int64_t together : {std::int64_t{0}, std::int64_t{150}}) {
        sent.trains = trains, sent.drawn.tp = tp, sent.drawn.pp = pp, sent.together = together;
        check_sent(sent);
      }
}

TEST_CASE("ranks that only draw: orders and replies come out as they went in") {
  RolloutOrder order;
  order.tasks.resize(3), order.batches = {0, 1, 0}, order.ranks = {0, 3, 1};
  order.tasks[2].prompt = 7, order.tasks[2].sampling.stream = 1234567890123456789u;
  const RolloutOrder read = unpack_order(pack_order(order));
  REQUIRE(read.tasks.size() == 3);
  CHECK(read.batches == order.batches);
  CHECK(read.ranks == order.ranks);
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
