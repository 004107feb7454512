#include "autotune/memory/fit_advice.h"

#include <doctest/doctest.h>

#include "autotune/memory/memory_profiles.h"

using namespace longhaul;

namespace {

// A model of 70 billion parameters on so many GPUs of 80 GB.
FitRequest question_of(int tp, int pp, int dp) {
  ModelShape s;
  s.vocab_size = 128256, s.hidden_size = 8192, s.intermediate_size = 28672, s.num_hidden_layers = 80;
  s.num_attention_heads = 64, s.num_key_value_heads = 8, s.tie_word_embeddings = false;
  FitRequest q;
  q.profile = megatron_memory();
  q.model = framework_model(resolve_shape(s).value());
  q.training.dims.tp = tp, q.training.dims.sp = tp > 1, q.training.dims.pp = pp, q.training.dims.dp_shard = dp;
  q.training.dims.zero = 1;
  q.training.micro_batches = 16, q.training.sequence_length = 8192;
  q.device_bytes = 80e9;
  return q;
}

bool has(const FitAdvice& advice, const char* what) {
  for (const FitChange& change : advice.changes)
    if (change.what.find(what) != std::string::npos) return true;
  return false;
}

}  // namespace

TEST_CASE("a training that fits needs no advice") {
  const FitAdvice advice = advise_fit(question_of(8, 8, 8));
  CHECK(advice.fits());
  CHECK(advice.changes.empty());
  CHECK(advice.text().find("fits") == 0);
}

TEST_CASE("of one that does not it is said by how much, and every change makes it fit by itself") {
  FitRequest q = question_of(8, 1, 8);
  q.host_bytes = 200e9;
  const FitAdvice advice = advise_fit(q);
  CAPTURE(advice.text());
  REQUIRE_FALSE(advice.fits());
  const double needed = worst_stage_memory(q.profile, q.model, q.training).memory.total();
  CHECK(advice.missing_bytes == doctest::Approx(needed - 80e9));
  REQUIRE_FALSE(advice.changes.empty());
  for (const FitChange& change : advice.changes) {
    CAPTURE(change.what);
    const double bytes = worst_stage_memory(q.profile, q.model, change.training).memory.total();
    CHECK(bytes == doctest::Approx(change.bytes));
    CHECK(bytes <= 80e9);
    CHECK(change.gpus == change.training.dims.world_size());
  }
  CHECK(has(advice, "GPUs instead of 64"));
  CHECK(advice.text().find("more than it has") != std::string::npos);
}

TEST_CASE("where activations are too many recomputation is named, where states are it is not") {
  FitRequest long_sequences = question_of(8, 4, 8);
  long_sequences.training.sequence_length = 65536;
  CHECK(has(advise_fit(long_sequences), "recompute.modules"));
  FitRequest states = question_of(1, 4, 8);
  const FitAdvice advice = advise_fit(states);
  REQUIRE_FALSE(advice.fits());
  CHECK_FALSE(has(advice, "recompute.modules"));
  CHECK(has(advice, "parallel.tp"));
}

TEST_CASE("how many GPUs: one fewer multiple does not fit") {
  FitRequest q = question_of(8, 2, 1);
  q.may_recompute = q.may_offload = q.may_relayout = false;
  const FitAdvice advice = advise_fit(q);
  REQUIRE(advice.changes.size() == 1);
  const FrameworkTraining& t = advice.changes.front().training;
  CAPTURE(advice.text());
  FrameworkTraining fewer = q.training;
  const int times = t.dims.world_size() / q.training.dims.world_size();
  REQUIRE(times >= 2);
  if (t.dims.dp_shard > q.training.dims.dp_shard) CHECK(t.micro_batches * times == q.training.micro_batches);
  for (int less = 2; less < times; ++less) {
    if (q.training.micro_batches % less != 0) continue;  // another batch
    fewer.dims.dp_shard = q.training.dims.dp_shard * less, fewer.micro_batches = q.training.micro_batches / less;
    CHECK(worst_stage_memory(q.profile, q.model, fewer).memory.total() > 80e9);
  }
}

TEST_CASE("what nothing makes fit says so") {
  FitRequest q = question_of(8, 1, 1);
  q.device_bytes = 0.5e9;
  const FitAdvice advice = advise_fit(q);
  CHECK(advice.changes.empty());
  CHECK(advice.text().find("no single change") != std::string::npos);
}
