#include "engine/tasks/commands/measure_processor.h"

#include <doctest/doctest.h>

#include "base/value/json.h"

namespace longhaul {
namespace {

namespace measure_processor_test {

TEST_CASE("two ranks that measure give what the contract asks for") {
  const SystemClock clock;
  MeasureOptions options;
  options.ranks = 2, options.precision = "f32", options.seconds = 0;  // everything once
  const auto speed = measure_processor(options, clock);
  REQUIRE(speed.ok());
  CHECK(speed->ranks == 2);
  CHECK(speed->precision == "f32");
  CHECK(speed->identity == *this_processor());
  CHECK(!speed->identity.processor.empty());
  const auto read = processor_speed_from_value(*parse_json(to_json(processor_speed_to_value(*speed)), "x"), "x");
  REQUIRE(read.ok());
  CHECK(read->steps.size() == speed->steps.size());
  CHECK(read->products.size() == speed->products.size());
  CHECK(read->serving.known());  // both draw, behind the training
  REQUIRE(read->rollouts.size() > 1);
  for (const TimedRollout& one : read->rollouts) CHECK(one.generate_seconds > one.reference_seconds / 100);
}

TEST_CASE("a rank that draws beside one that trains is timed with it, for as long as that trains") {
  const SystemClock clock;
  MeasureOptions options;
  options.precision = "f32", options.seconds = 0, options.beside = {1, 1};
  const auto speed = measure_processor(options, clock);
  REQUIRE(speed.ok());
  CHECK(speed->use() == RankUse{1, 1, "f32", {1, 1}});
  CHECK(speed->serving.known());
  CHECK(!speed->rollouts.empty());
  options.beside = {1, 0};
  CHECK(measure_processor(options, clock).error().code == ErrorCode::invalid_input);
}

TEST_CASE("a rank alone is timed as a server, too: weights of more bytes and more rows take longer") {
  const SystemClock clock;
  MeasureOptions options;
  options.seconds = 0.6;
  // A product of 64 rows takes longer than twice one of a row; what else runs here may hide that, but not every time.
  const auto rows_show = [](const std::vector<ServedProduct>& all) {
    bool show = all.size() == std::size(serving_rows) * std::size(serving_sets);
    for (std::size_t first = 0; first < all.size(); first += std::size(serving_rows))
      show &= all[first + std::size(serving_rows) - 1].seconds > 2 * all[first].seconds;
    return show;
  };
  auto speed = measure_processor(options, clock);
  for (int again = 0; again < 10 && speed.ok() && !rows_show(speed->serving.products); ++again)
    speed = measure_processor(options, clock);
  REQUIRE(speed.ok());
  const std::vector<ServedProduct>& products = speed->serving.products;
  REQUIRE(products.size() == std::size(serving_rows) * std::size(serving_sets));
  for (std::size_t i = 0; i < products.size(); ++i) {
    CHECK(products[i].rows == serving_rows[i % std::size(serving_rows)]);
    CHECK(products[i].set_bytes == serving_sets[i / std::size(serving_rows)]);
  }
  CHECK(rows_show(products));
  CHECK(speed->serving.attention > 1e-13);
  CHECK(speed->serving.cache_far > 1e-13);
  CHECK(speed->serving.logit < 1e-6);
}

TEST_CASE("a measurement that cannot be is refused, and one that is stopped ends") {
  const SystemClock clock;
  MeasureOptions options;
  options.ranks = 0;
  CHECK(measure_processor(options, clock).error().code == ErrorCode::invalid_input);
  options.ranks = 1, options.precision = "fp8";
  CHECK(measure_processor(options, clock).error().code == ErrorCode::invalid_input);
  const std::atomic<bool> stop{true};
  options.precision = "f32", options.stop = &stop, options.seconds = 1000;
  CHECK(measure_processor(options, clock).error().code == ErrorCode::aborted);
}

}  // namespace measure_processor_test

}  // namespace
}  // namespace longhaul
