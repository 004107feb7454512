#include "contracts/plan/rollout/rollout_memory.h"

#include <doctest/doctest.h>

namespace longhaul {
namespace {

namespace rollout_memory_test {

ModelShape small_shape() {
  ModelShape s;
  s.hidden_size = 128, s.intermediate_size = 256, s.num_hidden_layers = 2, s.num_attention_heads = 4;
  s.num_key_value_heads = 2, s.head_dim = 32, s.vocab_size = 512, s.max_position_embeddings = 256;
  return s;
}

AlignSettings rollout_settings() {
  AlignSettings settings;
  settings.method = "grpo", settings.precision = "f32", settings.sequence_length = 99;
  settings.rollout.max_new_tokens = 20, settings.rollout.slots = 16;
  return settings;
}

TEST_CASE("memory of answers: weights, a cache in each slot, logits; the reference and weights that come add theirs") {
  AlignSettings settings = rollout_settings();
  const ModelShape shape = small_shape();
  const std::int64_t model = 4 * shape.parameter_count(), cache = 2 * 2 * 100 * 64 * 4;
  RolloutMemory memory = plan_rollout_memory(settings, shape, {.answers = 32});
  CHECK(memory.weights == model);
  CHECK(memory.arriving == 0);
  CHECK(memory.reference == 0);
  CHECK(memory.caches == 16 * cache);
  CHECK(memory.logits == 16 * 512 * 4);
  CHECK(memory.total() == model + 16 * cache + 16 * 512 * 4);
  CHECK(plan_rollout_memory(settings, shape, {.answers = 8}).caches == 8 * cache);  // no more than there are answers

  const DrawnByRank all{.answers = 32, .compares = true, .whole_elsewhere = true};
  memory = plan_rollout_memory(settings, shape, all);
  CHECK(memory.arriving == model);
  CHECK(memory.reference == model);
  CHECK(memory.caches == 17 * cache);
  CHECK(memory.logits == 20 * 512 * 4);  // of all tokens of an answer
  settings.precision = "bf16";
  memory = plan_rollout_memory(settings, shape, all);
  CHECK(memory.weights == model / 2);
  CHECK(memory.arriving == model);
  CHECK(memory.caches == 17 * cache / 2);
}

TEST_CASE("memory of answers: ranks that draw together have a part of each model and of each cache") {
  const AlignSettings settings = rollout_settings();
  ModelShape shape = small_shape();
  shape.tie_word_embeddings = false;
  DrawnByRank drawn{.answers = 32, .compares = true};
  const RolloutMemory whole = plan_rollout_memory(settings, shape, drawn);
  drawn.drawing.tp = 2;
  RolloutMemory part = plan_rollout_memory(settings, shape, drawn);
  CHECK(part.caches == whole.caches / 2);
  CHECK(static_cast<double>(part.weights) == doctest::Approx(0.5 * static_cast<double>(whole.weights)).epsilon(0.01));
  CHECK(part.reference == part.weights);
  CHECK(part.logits == whole.logits);  // they are on every rank
  drawn.drawing.pp = 2;
  part = plan_rollout_memory(settings, shape, drawn);
  CHECK(part.caches == whole.caches / 4);
  CHECK(static_cast<double>(part.weights) == doctest::Approx(0.25 * static_cast<double>(whole.weights)).epsilon(0.01));
}

TEST_CASE("memory of answers: all turns of a conversation, as far as sequence_length has room") {
  AlignSettings settings = rollout_settings();
  CHECK(longest_answers(settings).answer == 20);
  CHECK(longest_answers(settings).prompt == 80);
  settings.rollout.turns = 3;
  CHECK(longest_answers(settings).answer == 60);
  settings.rollout.turns = 9;
  CHECK(longest_answers(settings).answer == 99);
  CHECK(longest_answers(settings).prompt == 1);
}

}  // namespace rollout_memory_test

}  // namespace
}  // namespace longhaul
