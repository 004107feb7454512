#include "autotune/search/replan.h"

#include <doctest/doctest.h>

namespace longhaul {
namespace {

namespace replan_test {

SearchRequest question(std::int64_t batch) {
  const auto constants = read_time_constants(std::string(LONGHAUL_SOURCE_DIR) + "/autotune/constants.toml").value();
  const GpuType gpu = constants.gpu_named("H100").value();
  SearchRequest q;
  q.place = {{gpu, 4, 4, gpu.nic_rate}, constants.framework("longhaul").value(), constants.common};
  q.memory = memory_profile("longhaul").value(), q.memory_limit = gpu.memory * 0.94, q.space.gpus = 64;
  ModelShape& s = q.task.shape;
  s.num_hidden_layers = 32, s.num_attention_heads = 32, s.num_key_value_heads = 8, s.head_dim = 128;
  s.hidden_size = 4096, s.intermediate_size = 14336, s.vocab_size = 128256, s.tie_word_embeddings = false;
  q.task.sequence_length = 4096, q.task.global_batch_size = batch;
  return q;
}

TEST_CASE("with a node less the fastest layout may leave others idle") {
  const SearchRequest q = question(512);
  const auto whole = search_layouts(q).value();
  // 15 nodes are 60 GPUs, whose replicas do not divide 512; 14, 13 and 12 leave some idle as well, or split the model.
  const auto after = layout_after_loss(q, 15, 4);
  REQUIRE_MESSAGE(after.ok(), after.error().message());
  CHECK(after->nodes <= 15);
  CHECK(after->nodes >= 12);
  CHECK(after->best.layout.dims.world_size() == after->nodes * 4);
  CHECK(q.task.global_batch_size % (after->best.layout.micro_batch_size * after->best.layout.dims.dp()) == 0);
  CHECK(after->best.seconds() > whole.best.front().seconds());
}

TEST_CASE("what fits nowhere any more says so") {
  SearchRequest q = question(16);  // few ways to split a batch: more GPUs are asked for the same, again and again
  q.memory_limit = 2e9;
  const auto after = layout_after_loss(q, 1, 4);
  REQUIRE(!after.ok());
  CHECK(after.error().message().find("with 1 node") != std::string::npos);
}

}  // namespace replan_test
}  // namespace
}  // namespace longhaul
