#include "autotune/calibrate/processor_constants.h"

#include <doctest/doctest.h>

#include "base/files/files.h"
#include "tests/support/made_up_processor.h"

namespace longhaul {
namespace {

namespace processor_constants_test {

ConstantTable shipped() {
  const std::string path = std::string(LONGHAUL_SOURCE_DIR) + "/autotune/constants.toml";
  return ConstantTable::parse(*read_file(path), path).value();
}

TimeConstants with(const std::string& section) {
  return make_time_constants(ConstantTable::parse(shipped().to_toml() + "\n" + section, "constants").value()).value();
}

TEST_CASE("constants fitted to timed steps predict models that were not timed") {
  const TimeConstants truth = with(testing::made_up_section());
  const auto fitted = processor_constants(shipped(), testing::made_up_speed(truth));
  REQUIRE(fitted.ok());
  CHECK(fitted->steps.size() == 7);
  CHECK(fitted->deviation < 0.05);
  const TimeConstants found = with(fitted->section);
  for (const testing::SmallModel& other : {testing::SmallModel{192, 4, 6, 512, 3072, 128, 8, 1},
                                           {256, 6, 8, 768, 8192, 512, 1, 2},
                                           {512, 2, 8, 1536, 1000, 64, 4, 1}})
    CHECK(testing::step_seconds(found, other) == doctest::Approx(testing::step_seconds(truth, other)).epsilon(0.1));
}

TEST_CASE("a machine of half the speed is predicted to take twice as long, whatever the constants ship") {
  const TimeConstants slow = with(testing::made_up_section(2));
  const auto fitted = processor_constants(shipped(), testing::made_up_speed(slow));
  REQUIRE(fitted.ok());
  const testing::SmallModel model{192, 4, 6, 512, 3072, 128, 8, 1};
  CHECK(testing::step_seconds(with(fitted->section), model) ==
        doctest::Approx(2 * testing::step_seconds(with(testing::made_up_section()), model)).epsilon(0.1));
}

TEST_CASE("another use of the cores, or another precision, is not what was measured") {
  const TimeConstants constants = with(testing::made_up_section());
  const auto peak = [&](int threads, int ranks, Precision precision) {
    return processor_place(constants, threads, ranks, precision)->cluster.gpu.peak_bf16;
  };
  const double measured = peak(1, 2, Precision::bf16),
               assumed = constants.gpu_named("one core of a processor")->peak_bf16;
  CHECK(measured == doctest::Approx(0.03e12));
  CHECK(peak(1, 2, Precision::f32) == assumed);
  CHECK(peak(2, 1, Precision::bf16) == doctest::Approx(2 * assumed));
  CHECK(peak(1, 4, Precision::bf16) == assumed);
}

}  // namespace processor_constants_test

}  // namespace
}  // namespace longhaul
