#include "autotune/inference/processor_serving.h"

#include <doctest/doctest.h>

#include <cmath>

#include "autotune/calibrate/processor_constants.h"
#include "autotune/inference/rollout_time.h"
#include "autotune/inference/serving_forecast.h"
#include "autotune/time/processor_place.h"
#include "base/files/files.h"
#include "tests/support/made_up_processor.h"
#include "tests/support/made_up_serving.h"
#include "tests/support/relative.h"

namespace longhaul {
namespace {

namespace processor_serving_test {

ModelShape small_model() {
  ModelShape s;
  s.hidden_size = 128, s.intermediate_size = 256, s.num_hidden_layers = 2, s.num_attention_heads = 4;
  s.num_key_value_heads = 2, s.head_dim = 32, s.vocab_size = 512, s.max_position_embeddings = 256;
  s.tie_word_embeddings = true;
  return s;
}

ServingPlace measured_place() {
  ServingPlace place;
  place.processor = testing::made_up_serving();
  return place;
}

TEST_CASE("a product costs what was timed at its rows and bytes, and what lies between elsewhere") {
  const ServingSpeed speed = testing::made_up_serving();
  for (const ServedProduct& one : speed.products)
    CHECK(weight_seconds(speed, static_cast<double>(one.rows), static_cast<double>(one.set_bytes)) ==
          testing::relative(one.seconds));
  const auto small = static_cast<double>(serving_sets[0]), large = static_cast<double>(serving_sets[1]);
  const double low = weight_seconds(speed, 16, small), high = weight_seconds(speed, 32, small);
  CHECK(weight_seconds(speed, 20, small) == testing::relative(low + (high - low) / 4));
  CHECK(weight_seconds(speed, 16, std::sqrt(small * large)) ==
        testing::relative((low + weight_seconds(speed, 16, large)) / 2));
  // Beyond what was timed: no less than one row, no slower than memory, and a row more costs what rows cost.
  CHECK(weight_seconds(speed, 0.5, 1) == weight_seconds(speed, 1, small));
  CHECK(weight_seconds(speed, 1, 1e12) == weight_seconds(speed, 1, static_cast<double>(*std::rbegin(serving_sets))));
  CHECK(weight_seconds(speed, 448, small) ==
        testing::relative(2 * weight_seconds(speed, 256, small) - weight_seconds(speed, 64, small)));
}

TEST_CASE("keys and values cost what was timed of caches so large, and what lies between elsewhere") {
  const ServingSpeed speed = testing::made_up_serving();
  CHECK(cache_seconds(speed, 1) == speed.cache_near);
  CHECK(cache_seconds(speed, 1 << 18) == speed.cache_near);
  CHECK(cache_seconds(speed, 1 << 20) == testing::relative((speed.cache_near + speed.cache_shared) / 2));
  CHECK(cache_seconds(speed, 1 << 22) == testing::relative(speed.cache_shared));
  CHECK(cache_seconds(speed, 1e12) == speed.cache_far);
}

TEST_CASE("a head of keys and values for each head of queries costs more than one for four of them") {
  ModelShape own = small_model();
  own.num_key_value_heads = 4;
  const ServingPlace place = measured_place();
  const StepWork work{16, 4096, 0, 0, 0};
  const double shared = serving_step_time(small_model(), {}, place, work).attention;
  CHECK(serving_step_time(own, {}, place, work).attention > 1.5 * shared);
}

TEST_CASE("a step is the sum of its operations, each as it was timed") {
  const ServingPlace place = measured_place();
  const ServingSpeed& speed = place.processor;
  const ServingStepTime t = serving_step_time(small_model(), {}, place, {4, 100, 0, 0, 0});
  const double of_layer = 256.0 * 128 + 128 * 128 + 512.0 * 128 + 256 * 128, head = 512.0 * 128;
  const double caches = 2.0 * 2 * 4 * 100 * 64, bytes = 2 * (2 * of_layer + head + caches);  // keys and values
  const double weight = weight_seconds(speed, 4, bytes);
  CHECK(t.products == testing::relative((2 * of_layer + head) * weight + 9 * speed.call));
  CHECK(t.attention == testing::relative(2 * 4 * 100 * (128 * speed.attention + 64 * cache_seconds(speed, bytes))));
  CHECK(t.streams == testing::relative(2 * (speed.layer + 4 * (8 * 128 + 3 * (256 + 256)) * speed.element)));
  CHECK(t.host == testing::relative(4 * 512 * speed.logit));
  // A piece of a prompt: no answer, one row of logits.
  const ServingStepTime prompt = serving_step_time(small_model(), {}, place, {0, 0, 64, 32, 1});
  CHECK(prompt.host == testing::relative(512 * speed.logit));
  CHECK(prompt.attention == testing::relative(2 * 64 * 32 * 128 * speed.prompt_attention));
  CHECK(prompt.products > t.products);
}

TEST_CASE("of a mixture only the experts that rows come to are read") {
  const ServingPlace place = measured_place();
  ModelShape moe = small_model();
  moe.num_local_experts = 16, moe.num_experts_per_tok = 1, moe.moe_intermediate_size = 256;
  const auto products = [&](double decodes) {
    return serving_step_time(moe, {}, place, {decodes, 10, 0, 0, 0}).products;
  };
  CHECK(products(1) < 1.5 * serving_step_time(small_model(), {}, place, {1, 10, 0, 0, 0}).products);
  CHECK(products(8) > 3 * products(1));
}

TEST_CASE("what was not timed is not forecast from what was: quantized weights, a rank of other threads") {
  const ServingPlace place = measured_place();
  ServingLayout layout;
  CHECK(is_timed_there(place, layout));
  layout.weights = WeightFormat::int8;
  CHECK(!is_timed_there(place, layout));
  CHECK(!is_timed_there({}, {}));
}

TEST_CASE("what a measurement timed comes through the constants, for such ranks alone") {
  const std::string path = std::string(LONGHAUL_SOURCE_DIR) + "/autotune/constants.toml";
  const ConstantTable shipped = ConstantTable::parse(*read_file(path), path).value();
  const auto with = [&](const std::string& section) {
    return make_time_constants(ConstantTable::parse(shipped.to_toml() + "\n" + section, "c").value()).value();
  };
  ProcessorSpeed speed = testing::made_up_speed(with(testing::made_up_section()));
  speed.serving = testing::made_up_serving();
  CHECK(!processor_serving(with(processor_constants(shipped, speed)->section), 1, Precision::bf16).known());  // 2 ranks
  speed.ranks = 1;
  speed.rollouts = {{128, 2, 4, 2, 256, 512, 64, 12, 24, 8, 0.5, 0.25}};
  const TimeConstants constants = with(processor_constants(shipped, speed)->section);
  const ServingSpeed read = processor_serving(constants, 1, Precision::bf16);
  REQUIRE(read.known());
  CHECK(read.logit == testing::relative(speed.serving.logit).epsilon(1e-3));
  CHECK(read.cache_far == testing::relative(speed.serving.cache_far).epsilon(1e-3));
  const MeasuredProcessor* rank = measured_processor(constants, {1, 1, "bf16"});
  REQUIRE(rank != nullptr);
  const RolloutFactors factors = rollout_factors(speed.serving, speed.rollouts, false);
  CHECK(rank->drawing == testing::relative(factors.drawing).epsilon(1e-3));
  CHECK(rank->scoring == testing::relative(factors.scoring).epsilon(1e-3));
  CHECK(measured_processor(constants, {1, 1, "bf16", {1, 1}}) == nullptr);
  REQUIRE(read.products.size() == speed.serving.products.size());
  for (std::size_t i = 0; i < read.products.size(); ++i)
    CHECK(read.products[i].seconds == testing::relative(speed.serving.products[i].seconds).epsilon(1e-3));
  CHECK(!processor_serving(constants, 2, Precision::bf16).known());
  CHECK(!processor_serving(constants, 1, Precision::f32).known());

  ServingPlace place;
  place.cluster = processor_place(constants, 1, 1, Precision::bf16)->cluster, place.cluster.gpu.memory = 1e12;
  place.serving = constants.serving, place.common = constants.processors;
  ServingTask task;
  task.prompt_tokens = task.answer_tokens = 64;
  const double guessed = forecast_serving(small_model(), task, {}, place)->sigma;
  place.processor = read;
  CHECK(forecast_serving(small_model(), task, {}, place)->sigma < guessed);
}

}  // namespace processor_serving_test

}  // namespace
}  // namespace longhaul
