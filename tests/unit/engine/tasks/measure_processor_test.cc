#include "engine/tasks/measure_processor.h"

#include <doctest/doctest.h>

#include "base/json.h"

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
