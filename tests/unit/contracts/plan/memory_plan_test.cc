// The plans of memory and communication as functions: what makes which category larger, and what is refused. That they
// are true is shown beside the engine: tests/parallel/memory_layouts_test.cc.
#include "contracts/plan/memory_plan.h"

#include <doctest/doctest.h>

#include "contracts/plan/collective_kind.h"
#include "tests/support/communication/communication_plan.h"

using namespace longhaul;

namespace {

using Category = MemoryCategory;

TrainingOutline planned_training() {
  TrainingOutline o;
  o.shape.vocab_size = 32000, o.shape.hidden_size = 1024, o.shape.num_hidden_layers = 8;
  o.shape.num_attention_heads = 16, o.shape.num_key_value_heads = 4, o.shape.max_position_embeddings = 4096;
  o.shape = resolve_shape(o.shape).value();
  o.micro_batch_size = 2, o.sequence_length = 2048, o.micro_batches = {8};
  return o;
}

MemoryTable planned_bytes(const TrainingOutline& o, RankCoordinates at = {}) {
  return plan_training_memory(o, at).value().bytes;
}

}  // namespace

TEST_CASE("weights, masters, gradients and moments are so many bytes of every parameter") {
  TrainingOutline o = planned_training();
  o.deterministic = false;
  const std::int64_t n = ParameterLayout(o.shape).flat_size();
  CHECK(n - o.shape.parameter_count() < 32 * 100);  // padding
  const MemoryTable bytes = planned_bytes(o);
  CHECK(bytes[Category::weights] == 2 * n);
  CHECK(bytes[Category::master] == 4 * n);
  CHECK(bytes[Category::gradients] == 4 * n);
  CHECK(bytes[Category::optimizer] == 8 * n);
  o.deterministic = true;  // a tree of 8 micro-batches has three levels
  CHECK(planned_bytes(o)[Category::gradients] == 4 * 4 * n);
  o.bf16 = false;
  CHECK(planned_bytes(o)[Category::weights] == 0);
}

TEST_CASE("each axis makes its own categories smaller") {
  const TrainingOutline one = planned_training();
  const MemoryTable whole = planned_bytes(one);
  const auto with = [&](auto change) {
    TrainingOutline o = one;
    change(o);
    return planned_bytes(o);
  };
  const MemoryTable tp = with([](TrainingOutline& o) { o.dims.tp = 4, o.dims.sp = true; });
  CHECK(tp[Category::master] < whole[Category::master] / 3);
  CHECK(tp[Category::logits] == whole[Category::logits] / 4);
  CHECK(tp[Category::activations] < whole[Category::activations] / 2);
  const MemoryTable zero1 = with([](TrainingOutline& o) { o.dims.dp_shard = 4, o.dims.zero = 1; });
  CHECK(zero1[Category::optimizer] < whole[Category::optimizer] / 3);
  CHECK(zero1[Category::gathered_weights] > 0);
  const MemoryTable zero3 = with([](TrainingOutline& o) { o.dims.dp_shard = 4, o.dims.zero = 3; });
  CHECK(zero3[Category::gathered_weights] < 4 * zero1[Category::gathered_weights]);
  CHECK(zero3[Category::gradients] < whole[Category::gradients]);
  const MemoryTable again = with([](TrainingOutline& o) { o.recompute = recompute_from({{"block"}, 0}).value(); });
  CHECK(again[Category::activations] < whole[Category::activations] / 3);
  const MemoryTable cp = with([](TrainingOutline& o) { o.dims.cp = 4; });
  CHECK(cp[Category::activations] < whole[Category::activations] / 3);
  CHECK(cp[Category::attention] > 0);
}

TEST_CASE("the worst rank of a pipeline is the one that the schedule keeps most micro-batches on") {
  TrainingOutline o = planned_training();
  o.dims.pp = 4;
  o.shape.tie_word_embeddings = false;
  const WorstRank worst = plan_worst_rank(o).value();
  CHECK(worst.rank == 0);
  RankCoordinates last;
  last.pp = 3;
  CHECK(planned_bytes(o, last)[Category::activations] < worst.plan.bytes[Category::activations]);
  CHECK(planned_bytes(o, last)[Category::logits] > 0);
  CHECK(worst.plan.bytes[Category::logits] == 0);
}

TEST_CASE("too little memory is refused with the sum, the largest category, and what would help") {
  TrainingOutline o = planned_training();
  o.dims.dp_replicate = 2;
  const std::int64_t each = planned_bytes(o).total();
  const std::vector<int> both = {0, 1};
  CHECK(check_memory(o, both, 2 * each, "test").ok());
  const Status refused = check_memory(o, both, 2 * each - 1, "the limit of a test");
  REQUIRE_FALSE(refused.ok());
  CHECK(refused.error().code == ErrorCode::unavailable);
  const std::string text = refused.error().message();
  CAPTURE(text);
  for (const char* said : {"too little memory", "2 ranks of a node", "the limit of a test", "gradients", "zero = 1"})
    CHECK(text.find(said) != std::string::npos);
  o.deterministic = false, o.micro_batch_size = 64;
  const Status activations = check_memory(o, both, each, "test");
  REQUIRE_FALSE(activations.ok());
  CHECK(activations.error().message().find("most of it for activations") != std::string::npos);
  CHECK(activations.error().message().find("recompute") != std::string::npos);
}

TEST_CASE("the copy in memory is all that a rank owns, in whole pages, unless its moments lie elsewhere") {
  TrainingOutline o = planned_training();
  const MemoryTable without = planned_bytes(o);
  o.memory_snapshot = true;
  const std::int64_t copy = planned_bytes(o)[Category::checkpoint] - without[Category::checkpoint];
  CHECK(copy % 4096 == 0);
  CHECK(copy >= without[Category::master] + without[Category::optimizer]);
  CHECK(copy < without[Category::master] + without[Category::optimizer] + 3 * 4096);
  o.moments_on_disk = true;
  const std::int64_t with_snapshot = planned_bytes(o)[Category::checkpoint];
  o.memory_snapshot = false;
  CHECK(planned_bytes(o)[Category::checkpoint] == with_snapshot);
}

TEST_CASE("moments on a disk are written to a checkpoint a piece at a time, or all from what the share is staged in") {
  TrainingOutline o = planned_training();
  o.moments_on_disk = true;
  const std::int64_t table = o.shape.vocab_size * o.shape.hidden_size;
  CHECK(planned_bytes(o)[Category::checkpoint] == table * o.second_moment_bytes);
  o.first_moment_bytes = o.second_moment_bytes = 2;
  CHECK(planned_bytes(o)[Category::checkpoint] == table * 2);
  o.staged_checkpoints = true;
  const std::int64_t staged = planned_bytes(o)[Category::checkpoint];
  CHECK(staged > table * (4 + 2 + 2));
  o.moments_on_disk = false;
  CHECK(planned_bytes(o)[Category::checkpoint] == staged);
}

TEST_CASE("experts are planned for an even spread, with a bound for any other") {
  TrainingOutline o = planned_training();
  o.shape.architecture = "mixtral", o.shape.num_local_experts = 8, o.shape.moe_intermediate_size = 512;
  o.shape = resolve_shape(o.shape).value();
  const MemoryPlan alone = plan_training_memory(o, {}).value();
  CHECK(alone.bytes[Category::experts] > 0);
  CHECK(alone.experts_max == alone.bytes[Category::experts]);  // every row is here
  o.dims.dp_shard = 4, o.dims.ep = 4;
  const MemoryPlan distributed = plan_training_memory(o, {}).value();
  CHECK(distributed.experts_max > 2 * distributed.bytes[Category::experts]);
}

TEST_CASE("compiled products are planned where they are compiled, for experts as many as are kept") {
  TrainingOutline dense = planned_training(), experts = dense;
  experts.shape.architecture = "mixtral", experts.shape.num_local_experts = 8,
  experts.shape.moe_intermediate_size = 512;
  experts.shape = resolve_shape(experts.shape).value();
  const auto of_products = [](TrainingOutline o) {
    const MemoryTable with = planned_bytes(o);
    o.compiled_products = false;
    const MemoryTable without = planned_bytes(o);
    CHECK(with.total() - without.total() == with[Category::process] - without[Category::process]);
    return with.total() - without.total();
  };
  CHECK(of_products(dense) > 0);
  CHECK(of_products(experts) > 10 * of_products(dense));
}

TEST_CASE("what an operation sends follows from how many ranks take part") {
  CHECK(bytes_sent(CollectiveKind::send, 4, 1, 100) == 100);
  CHECK(bytes_sent(CollectiveKind::recv, 4, 1, 0) == 0);
  CHECK(bytes_sent(CollectiveKind::all_gather, 4, 1, 100) == 300);
  CHECK(bytes_sent(CollectiveKind::reduce_scatter_sum, 4, 1, 400) == 300);
  CHECK(bytes_sent(CollectiveKind::all_to_all_v, 4, 1, 100, 40) == 60);
  CHECK(bytes_sent(CollectiveKind::all_reduce_sum, 4, 1, 100) == 300);  // one round
  const std::int64_t large = 4 << 20;
  CHECK(bytes_sent(CollectiveKind::all_reduce_sum, 4, 1, large) == large / 4 * 6);  // 2 (n - 1) / n
}

TEST_CASE("with one rank nothing is sent, and data parallelism sends what it sums up") {
  TrainingOutline o = planned_training();
  CHECK(plan_communication(o, {}).value().total().given == 0);
  o.dims.dp_replicate = 2;
  const CommunicationTable two = plan_communication(o, {}).value();
  const std::int64_t n = ParameterLayout(o.shape).flat_size(), losses = 8 * loss_numbers * 8;
  CHECK(two[MeshAxis::dp].given == 4 * n + losses);
  CHECK(two[MeshAxis::tp].given == 0);
}

TEST_CASE("a pipeline with a tied embedding is planned before the vocabulary is known") {
  TrainingOutline o = planned_training();
  o.shape.vocab_size = 0, o.shape.tie_word_embeddings = true;
  o.dims.pp = 2;
  RankCoordinates last;
  last.pp = 1;
  for (const RankCoordinates& at : {RankCoordinates(), last}) CHECK(plan_training_memory(o, at).ok());
}
