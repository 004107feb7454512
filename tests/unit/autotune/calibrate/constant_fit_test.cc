// The fit finds constants that made the times it is given, says which of them the times do not determine, and refuses
// what has no meaning. Random draws print their seed.
#include "autotune/calibrate/constant_fit.h"

#include <doctest/doctest.h>

#include <cmath>

#include "base/digest/philox.h"
#include "base/files/files.h"
#include "base/text/text.h"

namespace longhaul {
namespace {

namespace constant_fit_test {

ConstantTable shipped() {
  const std::string path = std::string(LONGHAUL_SOURCE_DIR) + "/autotune/constants.toml";
  return ConstantTable::parse(*read_file(path), path).value();
}

// A time that is the product of powers of two constants, and one of the other alone.
std::vector<TimedRun> runs_of(double link, double nic, double noise, std::uint64_t seed, int count = 12) {
  const Philox random{seed, 0};
  std::vector<TimedRun> runs;
  for (int i = 0; i < count; ++i) {
    const double a = 1 + i % 4, b = i % 3;
    const auto time = [a, b](const TimeConstants& c) { return a * c.common.link_share + b * c.common.nic_share; };
    TimeConstants truth;
    truth.common.link_share = link, truth.common.nic_share = nic;
    runs.push_back(
        {format("run {}", i), time(truth) * std::exp(noise * random.normal(static_cast<std::uint64_t>(i))), 1, time});
  }
  return runs;
}

const std::vector<FitParameter> wide = {{"common.link_share", 0.8, 1}, {"common.nic_share", 0.8, 1}};

TEST_CASE("constants come back from the times that they made, within what noise allows") {
  for (const std::uint64_t seed : {1ULL, 2ULL, 3ULL}) {
    CAPTURE(seed);
    ConstantTable table = shipped();
    const auto report = fit_constants(table, wide, runs_of(0.31, 1.7, 0, seed), {});
    REQUIRE_MESSAGE(report.ok(), report.error().message());
    CHECK(table.find("common.link_share")->value == doctest::Approx(0.31).epsilon(0.02));
    CHECK(table.find("common.nic_share")->value == doctest::Approx(1.7).epsilon(0.02));
    CHECK(report->after < 0.05 * report->before);
    ConstantTable noisy = shipped();
    REQUIRE(fit_constants(noisy, wide, runs_of(0.31, 1.7, 0.05, seed, 48), {}).ok());
    CHECK(noisy.find("common.link_share")->value == doctest::Approx(0.31).epsilon(0.1));
    CHECK(noisy.find("common.nic_share")->value == doctest::Approx(1.7).epsilon(0.1));
  }
}

TEST_CASE("one time that is wrong by a factor of ten moves the others' constants little") {
  ConstantTable table = shipped();
  auto runs = runs_of(0.31, 1.7, 0.01, 7, 24);
  runs[5].seconds *= 10;
  REQUIRE(fit_constants(table, wide, runs, {}).ok());
  CHECK(table.find("common.link_share")->value == doctest::Approx(0.31).epsilon(0.1));
}

TEST_CASE("a constant that no time depends on stays, and its spread is left whole") {
  ConstantTable table = shipped();
  std::vector<FitParameter> parameters = wide;
  parameters.push_back({"common.ring_latency", table.find("common.ring_latency")->value, 0.5});
  const double before = table.find("common.ring_latency")->value;
  const auto report = fit_constants(table, parameters, runs_of(0.5, 0.5, 0.01, 3), {});
  REQUIRE(report.ok());
  CHECK(report->left[2] == doctest::Approx(1).epsilon(0.01));
  CHECK(table.find("common.ring_latency")->value == doctest::Approx(before));
  CHECK(report->left[0] < 0.2);
}

TEST_CASE("a constant never leaves its bounds") {
  ConstantTable table = shipped();
  std::vector<FitParameter> bound = wide;
  bound[0].low = 0.6, bound[1].high = 1.1;
  REQUIRE(fit_constants(table, bound, runs_of(0.31, 1.7, 0, 1), {}).ok());
  CHECK(table.find("common.link_share")->value == doctest::Approx(0.6));
  CHECK(table.find("common.nic_share")->value <= 1.1 * (1 + 1e-9));
}

TEST_CASE("without runs every constant stays where it was believed to be") {
  ConstantTable table = shipped();
  const auto report = fit_constants(table, wide, {}, {});
  REQUIRE(report.ok());
  CHECK(table.find("common.link_share")->value == doctest::Approx(0.8).epsilon(1e-3));
  CHECK(report->left[0] == doctest::Approx(1));
}

TEST_CASE("times and parameters that mean nothing are refused by name") {
  ConstantTable table = shipped();
  auto runs = runs_of(0.3, 0.3, 0, 1, 3);
  runs[1].seconds = -1;
  CHECK(fit_constants(table, wide, runs, {}).error().message().find("run 1") != std::string::npos);
  runs[1].seconds = std::nan("");
  CHECK(!fit_constants(table, wide, runs, {}).ok());
  runs[1].seconds = 1, runs[1].predicted = [](const TimeConstants&) { return 0.0; };
  CHECK(fit_constants(table, wide, runs, {}).error().message().find("no time for run 1") != std::string::npos);
  const std::vector<FitParameter> unknown = {{"common.link_shore", 1, 1}};
  CHECK(fit_constants(table, unknown, runs_of(1, 1, 0, 1), {}).error().code == ErrorCode::not_found);
  const std::vector<FitParameter> negative = {{"common.link_share", -1, 1}};
  CHECK(!fit_constants(table, negative, runs_of(1, 1, 0, 1), {}).ok());
}

}  // namespace constant_fit_test
}  // namespace
}  // namespace longhaul
