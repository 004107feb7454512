#include "engine/tasks/stages/answer_memory.h"

#include <doctest/doctest.h>

#include "base/files/files.h"
#include "tests/support/scratch.h"
#include "tests/support/write_model_folder.h"

namespace longhaul {
namespace {

namespace answer_memory_test {

ModelShape judged_shape() {
  ModelShape shape;
  shape.hidden_size = 16, shape.intermediate_size = 32, shape.num_hidden_layers = 1, shape.num_attention_heads = 2;
  shape.vocab_size = 300, shape.max_position_embeddings = 8192;
  return resolve_shape(shape).value();
}

// With a judge that has so many embeddings before every text.
std::int64_t planned_with_judge(std::int64_t before) {
  const testing::Scratch scratch;
  ModelShape judge = with_scalar_head(judged_shape());
  judge.virtual_tokens = before;
  ParameterStore store(judge, DType::f32);
  REQUIRE(testing::write_model_folder(scratch.path(), store, {}).ok());
  AlignSettings settings;
  settings.sequence_length = 6000;  // longer than the texts that share a pass
  return plan_answer_memory(settings, judged_shape(), DType::f32, {}, {"", scratch.path(), ""}).value();
}

TEST_CASE("a judge on a GPU is planned with what stands before its texts: weights, and rows of every pass") {
  const std::int64_t none = planned_with_judge(0), some = planned_with_judge(64);
  const std::int64_t rows = 64 * (16 + 16 + 32) * 4;  // at least: a block's input, its norm's output, its middle
  CHECK(some >= none + 64 * 16 * 4 + rows);
}

}  // namespace answer_memory_test

}  // namespace
}  // namespace longhaul
