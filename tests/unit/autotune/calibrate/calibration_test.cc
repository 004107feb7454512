// A calibration of synthetic machines: times that the time model itself makes with other constants, with and without
// noise, must lead back to predictions of trainings that were not among them. Random draws print their seed.
#include "autotune/calibrate/calibration.h"

#include <doctest/doctest.h>

#include <cmath>
#include <set>

#include "autotune/calibrate/calibration_plan.h"
#include "autotune/time/processor_place.h"
#include "autotune/time/step_time.h"
#include "base/digest/philox.h"
#include "base/files/files.h"
#include "base/text/text.h"
#include "tests/support/sanitized.h"

namespace longhaul {
namespace {

namespace calibration_test {

ConstantTable shipped() {
  const std::string path = std::string(LONGHAUL_SOURCE_DIR) + "/autotune/constants.toml";
  return ConstantTable::parse(*read_file(path), path).value();
}

// Another machine: slower products, much slower memory and attention, dear calls.
TimeConstants machine() {
  ConstantTable table = shipped();
  for (const auto& [path, value] : {std::pair<const char*, double>{"gpu.cpu-core.gemm_bf16", 0.45},
                                    {"gpu.cpu-core.attention", 0.04},
                                    {"common-cpu.memory_share", 0.2},
                                    {"common-cpu.kernel_latency", 12},
                                    {"common-cpu.step_overhead", 2},
                                    {"common-cpu.link_latency", 40},
                                    {"framework.longhaul-cpu.tensor_exposed", 2.5}})
    REQUIRE(table.own(path, value, "made up").ok());
  return make_time_constants(table).value();
}

double seconds(const TrainingTask& task, const TrainingLayout& layout, const TimeConstants& constants) {
  const auto place = processor_place(constants, 1, layout.dims.world_size(), layout.precision);
  TrainingTask resolved = task;
  resolved.shape = resolve_shape(task.shape).value();
  return step_time(resolved, layout, *place)->seconds();
}

SiteMeasurements measured(double noise, std::uint64_t seed, int ranks = 2) {
  const TimeConstants truth = machine();
  const Philox random{seed, 0};
  SiteMeasurements out;
  const CalibrationPlan plan = plan_calibration({ranks, 1, 1}).value();
  for (const CalibrationModel& model : plan.models)
    for (const CalibrationLayout& one : model.layouts) {
      const auto predicted = [task = model.task, layout = one.layout](const TimeConstants& c) {
        return seconds(task, layout, c);
      };
      const double factor = std::exp(noise * random.normal(out.trainings.size()));
      out.trainings.push_back(
          {format("{} {}", model.name, out.trainings.size()), predicted(truth) * factor, 1, predicted});
    }
  for (const double size : {128.0, 512.0, 1024.0}) {
    const auto predicted = [size](const TimeConstants& c) {
      return product_time(*processor_place(c, 1, 2, Precision::bf16), Precision::bf16, size, 512, 512);
    };
    out.parts.push_back({format("product {}", size), predicted(truth), 1, predicted});
  }
  return out;
}

TEST_CASE("the plan covers what a step is made of, the same each time, and divides what it splits") {
  for (const int ranks : {1, 2, 4}) {
    CAPTURE(ranks);
    const CalibrationPlan plan = plan_calibration({ranks, 1, ranks}).value();
    std::set<std::string> seen;
    std::size_t trainings = 0;
    for (const CalibrationModel& model : plan.models) {
      for (const CalibrationLayout& one : model.layouts) {
        const ParallelDims& d = one.layout.dims;
        const ModelShape& s = model.task.shape;
        CHECK(s.num_attention_heads % d.tp == 0);
        CHECK(s.num_key_value_heads % d.tp == 0);
        CHECK(d.pp <= s.num_hidden_layers);
        CHECK(model.task.global_batch_size % (one.layout.micro_batch_size * d.dp()) == 0);
        CHECK(d.world_size() <= ranks);
        if (d.tp > 1) seen.insert("tp");
        if (d.pp > 1) seen.insert("pp");
        if (d.dp_replicate > 1) seen.insert("dp");
        if (d.zero > 0) seen.insert(format("zero {}", d.zero));
        if (one.layout.recompute.any()) seen.insert("recompute");
        if (one.layout.precision == Precision::f32) seen.insert("f32");
        ++trainings;
      }
    }
    CHECK(trainings >= 9);
    CHECK(seen.contains("recompute"));
    CHECK(seen.contains("f32"));
    for (const char* way : {"tp", "pp", "dp", "zero 1", "zero 3"}) CHECK(seen.contains(way) == (ranks > 1));
    CHECK(plan.benchmarks.size() == (ranks > 1 ? 2 : 1));
  }
  CHECK(!plan_calibration({3, 1, 1}).ok());
  CHECK(!plan_calibration({2, 1, 4}).ok());
  CHECK(!plan_calibration({2, 0, 1}).ok());
}

TEST_CASE("predictions of trainings that were not in the fit become those of the machine") {
  for (const std::uint64_t seed : {11ULL, 12ULL}) {
    for (const double noise : {0.0, 0.04}) {
      if (noise == 0 && seed != 11) continue;  // the same runs
      if (testing::sanitized && (seed != 11 || noise == 0)) continue;
      CAPTURE(seed);
      CAPTURE(noise);
      ConstantTable table = shipped();
      const auto parameters = processor_parameters(table).value();
      SiteMeasurements runs = measured(noise, seed);
      // Each is left out once, so the time is quadratic.
      if (testing::sanitized || seed != 11 || noise == 0) runs.trainings.resize(10);
      const auto calibration = calibrate(table, runs, parameters, "test");
      REQUIRE_MESSAGE(calibration.ok(), calibration.error().message());
      const double allowed = noise > 0 ? 0.10 : 0.06;
      CHECK(prediction_error(calibration->trainings, &CalibratedRun::before).mean > 0.3);
      CHECK(prediction_error(calibration->trainings, &CalibratedRun::after).mean < allowed);
      CHECK(prediction_error(calibration->trainings, &CalibratedRun::left_out).mean < 1.5 * allowed);
      // A model of another size, laid out in ways that the plan has not.
      TrainingTask task;
      task.shape.hidden_size = 512, task.shape.num_hidden_layers = 3, task.shape.num_attention_heads = 8;
      task.shape.vocab_size = 1000, task.sequence_length = 128, task.global_batch_size = 32;
      const TimeConstants after = make_time_constants(table).value(), truth = machine();
      const TimeConstants before = make_time_constants(shipped()).value();
      for (const int tp : {1, 2}) {
        TrainingLayout layout;
        layout.dims.tp = tp, layout.micro_batch_size = 2;
        const double right = seconds(task, layout, truth);
        CHECK(std::abs(std::log(seconds(task, layout, after) / right)) < 0.15);
        CHECK(std::abs(std::log(seconds(task, layout, before) / right)) > 0.25);
      }
    }
  }
}

TEST_CASE("what the runs do not determine stays and is named; rates are taken as they were measured") {
  ConstantTable table = shipped();
  SiteMeasurements one_rank = measured(0, 5, 1);
  one_rank.rates = {{"gpu.cpu-core.memory_rate", 31.5}};
  const auto calibration = calibrate(table, one_rank, processor_parameters(table).value(), "measured on here");
  REQUIRE(calibration.ok());
  std::set<std::string> unknown;
  for (const CalibratedConstant& c : calibration->constants)
    if (c.unknown) unknown.insert(c.path);
  for (const char* path : {"common-cpu.link_share", "common-cpu.nic_latency", "framework.longhaul-cpu.tensor_exposed"})
    CHECK_MESSAGE(unknown.contains(path), path);
  CHECK(!unknown.contains("common-cpu.memory_share"));
  CHECK(table.find("gpu.cpu-core.memory_rate")->value == 31.5);
  const std::string text = calibrated_constants_text(table, *calibration, {"a head"});
  CHECK(text.find("# a head") == 0);
  CHECK(text.find("link_share") == std::string::npos);
  CHECK(text.find("source = \"measured on here\"") != std::string::npos);
  // The file says the same over the constants that ship.
  ConstantTable again = shipped();
  REQUIRE(again.take_over(ConstantTable::parse(text, "site.toml").value()).ok());
  CHECK(again.find("common-cpu.memory_share")->value == table.find("common-cpu.memory_share")->value);
  CHECK(make_time_constants(again)->gpu_named("one core of a processor")->measured);
  CHECK(make_time_constants(again)->common.memory_share == make_time_constants(shipped())->common.memory_share);
}

TEST_CASE("the spread of predictions is what trainings show that were left out") {
  ConstantTable table = shipped();
  SiteMeasurements runs = measured(0.1, 9);
  if (runs.trainings.size() > 8) runs.trainings.resize(8);  // each is left out once, and all others fitted anew
  const auto calibration = calibrate(table, runs, processor_parameters(table).value(), "test");
  REQUIRE(calibration.ok());
  const double shown = prediction_error(calibration->trainings, &CalibratedRun::left_out).deviation;
  CHECK(shown > 0.05);
  CHECK(make_time_constants(table)->processors.spread_seen == doctest::Approx(shown).epsilon(0.01));
}

TEST_CASE("too few trainings are refused, and all the same ones are no error") {
  ConstantTable table = shipped();
  const auto parameters = processor_parameters(table).value();
  SiteMeasurements few = measured(0, 1);
  few.trainings.resize(2);
  CHECK(calibrate(table, few, parameters, "test").error().message().find("fewer than 3") != std::string::npos);
  SiteMeasurements same = measured(0, 1);
  same.trainings = {same.trainings[0], same.trainings[0], same.trainings[0]}, same.parts.clear();
  const auto calibration = calibrate(table, same, parameters, "test");
  REQUIRE(calibration.ok());
  CHECK(prediction_error(calibration->trainings, &CalibratedRun::after).mean < 0.1);
}

}  // namespace calibration_test
}  // namespace
}  // namespace longhaul
