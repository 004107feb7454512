// gpu_training_bench on an emulated GPU, with models of a few thousand weights: all of it but the speed.
#ifndef __SANITIZE_ADDRESS__  // which does not know the stacks of the emulation's fibers
#include "tests/gpu/training/training_bench.h"

#include <doctest/doctest.h>

#include "base/files/files.h"
#include "base/text/text.h"
#include "base/value/json.h"
#include "tests/gpu/bench/bar.h"
#include "tests/gpu/training/training_run.h"
#include "tests/support/emulated_gpu/emulated_device.h"
#include "tests/support/scratch.h"

using namespace longhaul;
using namespace longhaul::gpu_bench;

namespace {

TrainingCase named(const std::vector<TrainingCase>& cases, const std::string& name) {
  for (const TrainingCase& training : cases)
    if (training.name == name) return training;
  FAIL("no case ", name);
  return cases.front();
}

struct Reported {
  int code = 0;
  Value json;
  const Value& training(std::size_t i) const { return json.find("trainings")->as_array().at(i); }
  const Value& bar(std::size_t i) const { return json.find("bars")->as_array().at(i); }
};

Reported run(Gpu& gpu, std::vector<std::string> arguments) {
  const testing::Scratch scratch;
  const std::string json = scratch.path() + "/bench.json";
  for (const char* more : {"--tiny", "--json", json.c_str(), "--folder", scratch.path().c_str()})
    arguments.emplace_back(more);
  Reported reported;
  reported.code = training_bench(gpu, arguments);
  if (const auto text = read_file(json); text.ok()) reported.json = parse_json(*text).value();
  return reported;
}

}  // namespace

TEST_CASE("the shapes that are measured are those of the models they are named after") {
  const std::vector<TrainingCase> cases = training_cases();
  CHECK(named(cases, "llama2-7b-bf16").shape.parameter_count() == 6'738'415'616);
  CHECK(named(cases, "gpt2-124m").shape.parameter_count() == 124'439'808);
  CHECK(named(cases, "gpt2-1.5b").shape.parameter_count() == 1'557'611'200);
  CHECK(named(cases, "llama2-7b-fp8").low_precision.on());
  for (const TrainingCase& training : cases) CHECK(training.sequences % training.micro_batch == 0);
}

TEST_CASE("a 7B step with f32 gradients does not fit into 80 GB: said with the numbers, and how many layers do") {
  const TrainingCase training = named(training_cases(), "llama2-7b-bf16");
  constexpr std::int64_t h100 = 84'000'000'000, h200 = 149'000'000'000;
  const Fit on_h100 = fit(training, h100).value(), on_h200 = fit(training, h200).value();
  CHECK(on_h200.fits(training));
  CHECK(!on_h100.fits(training));
  const MemoryTable& planned = on_h100.planned;
  const std::int64_t state = planned[MemoryCategory::weights] + planned[MemoryCategory::master] +
                             planned[MemoryCategory::gradients] + planned[MemoryCategory::optimizer];
  CHECK(state == doctest::Approx(18.0 * 6'738'415'616).epsilon(0.001));
  // So many and no more.
  const auto needed = [&](std::int64_t layers) { return fit(training.with_layers(layers), h200).value().needed; };
  CHECK(on_h100.layers > 8);
  CHECK(needed(on_h100.layers) <= h100);
  CHECK(needed(on_h100.layers + 1) > h100);
  CHECK_MESSAGE(on_h100.said.find(format("{} layers of the same shape do", on_h100.layers)) != std::string::npos,
                on_h100.said);
  CHECK(fit(training, 1 << 30).value().layers == 0);
}

TEST_CASE("what does not fit with all activations kept is computed again before it is made shallower") {
  const TrainingCase training = named(training_cases(), "gpt2-124m");
  const std::int64_t all = fit(training, std::int64_t{1} << 40).value().needed;
  const Fit tight = fit(training, all - 1).value();
  CHECK(tight.fits(training));
  CHECK(tight.recompute.any());
  CHECK(tight.needed < all);
}

TEST_CASE("a step of more layers is extrapolated along a straight line") {
  CHECK(extrapolated_seconds(10, 1.2, 5, 0.7, 32).value() == doctest::Approx(3.4));
  CHECK_FALSE(extrapolated_seconds(10, 0.7, 5, 0.7, 32));
}

TEST_CASE("bars: at least, at most, none, and what was not measured misses nothing") {
  Bar bar{.figure = "rate", .least = 10, .value = 9};
  CHECK(bar.missed());
  bar.value = 10;
  CHECK(std::string(bar.outcome()) == "met");
  bar.at_most = true, bar.value = 11;
  CHECK(std::string(bar.outcome()) == "missed");
  bar.why_not = "no time";
  CHECK(!bar.missed());
  CHECK(bar.to_value().get_string("why") == "no time");
  CHECK(bar.to_value().find("value") == nullptr);
}

TEST_CASE("peaks are known by the chip's name") {
  CHECK(peak_bf16_flops("NVIDIA H100 80GB HBM3, GPU 0") == 989.4e12);
  CHECK(peak_bf16_flops("NVIDIA H100 PCIe, GPU 0") == 756e12);
  CHECK(!peak_bf16_flops("a GPU emulated on the processor"));
}

TEST_CASE("the whole benchmark on an emulated GPU: speeds, memory as planned, phases, kernels, a checkpoint") {
  testing::EmulatedGpu gpu;
  const std::int64_t before = gpu.device().free_bytes();
  const Reported reported = run(gpu, {"--steps", "2", "--limit-s", "600"});
  CHECK(before - gpu.device().free_bytes() < 1 << 20);  // scratch of single operations stays
  REQUIRE(reported.json.is_table());
  CHECK(reported.json.get_number("product_flops") > 0);
  const std::vector<TrainingCase> cases = tiny_training_cases();
  REQUIRE(reported.json.find("trainings")->as_array().size() == cases.size() + 1);
  for (std::size_t i = 0; i < cases.size(); ++i) {
    const Value& training = reported.training(i);
    CAPTURE(to_json(training));
    CHECK(training.get_string("name") == cases[i].name);
    CHECK(training.get_bool("fits"));
    CHECK(training.get_integer("steps") == 2);
    CHECK(training.get_number("tokens_per_s") > 0);
    CHECK(training.get_number("last_loss") < 1.5 * training.get_number("first_loss"));
    // The plan of what the engine counts is exact but for scratch, here as on a GPU.
    for (const char* exact : {"weights", "master", "gradients", "optimizer", "activations"})
      CHECK_MESSAGE(training.find("planned")->get_integer(exact) == training.find("held")->get_integer(exact), exact);
    CHECK(training.get_integer("taken_on_device") > training.find("held")->get_integer("master"));
    for (const char* phase : {"forward", "backward", "sums and norm", "optimizer"})
      CHECK_MESSAGE(training.find("phases")->get_number(phase) > 0, phase);
    const auto& kernels = training.find("kernels")->as_array();
    CHECK(kernels.size() > 5);
    CHECK(kernels.size() <= 20);
    CHECK(kernels.front().get_integer("ns") >= kernels.back().get_integer("ns"));
  }
  const Value& checkpoint = reported.training(cases.size());
  CHECK(checkpoint.get_string("error").empty());
  CHECK(checkpoint.get_integer("bytes") >= 12 * cases.front().shape.parameter_count());
  CHECK(checkpoint.get_number("step_s") > 0);
  REQUIRE(reported.json.find("bars")->as_array().size() == cases.size() + 1);
  CHECK(reported.bar(0).get_string("outcome") == "met");
  CHECK(reported.bar(2).get_string("outcome") == "no bar");
  CHECK(reported.bar(3).get_number("bar") == 0.02);
  CHECK(reported.code == (reported.bar(3).get_string("outcome") == "missed" ? 1 : 0));
}

TEST_CASE(
    "too little memory: the depth that fits is measured, the figure of all layers extrapolated and without a bar") {
  const TrainingCase training = tiny_training_cases().front();
  const std::int64_t room = fit(training.with_layers(2), std::int64_t{1} << 40).value().needed;
  testing::EmulatedGpu gpu(room + 1);
  const Reported reported = run(gpu, {"--case", training.name, "--steps", "1"});
  CHECK(reported.code == 0);
  CAPTURE(to_json(reported.training(0)));
  CHECK(!reported.training(0).get_bool("fits"));
  CHECK(reported.training(0).get_integer("layers") == 2);
  const Value& extrapolated = *reported.training(0).find("extrapolated");
  CHECK(extrapolated.get_integer("shallow_layers") == 1);
  CHECK((extrapolated.find("tokens_per_s") == nullptr || extrapolated.get_number("tokens_per_s") > 0));
  CHECK(reported.bar(0).get_string("outcome") == "not measured");
  CHECK(reported.bar(0).get_string("why").find("does not fit") != std::string::npos);
}

TEST_CASE("a part whose time is over says so and fails; --fits takes one step and holds it against nothing") {
  testing::EmulatedGpu gpu;
  const Reported late = run(gpu, {"--case", "tiny-gpt2", "--limit-s", "0.000001"});
  CHECK(late.code == 1);
  CHECK(late.training(0).get_string("error").find("no step could be timed") != std::string::npos);
  CHECK(late.bar(0).get_string("outcome") == "not measured");
  const Reported fits = run(gpu, {"--case", "tiny-gpt2", "--fits"});
  CHECK(fits.code == 0);
  CHECK(fits.training(0).get_number("first_step_s") > 0);
  CHECK(fits.training(0).get_number("first_loss") > 1);
  CHECK(fits.training(0).find("tokens_per_s") == nullptr);
  CHECK(fits.training(0).find("held")->get_integer("master") ==
        fits.training(0).find("planned")->get_integer("master"));
  CHECK(fits.training(0).find("phases") == nullptr);
  CHECK(fits.json.find("bars")->as_array().empty());
  CHECK(run(gpu, {"--case", "tiny-gpt3"}).code == 2);
  CHECK(run(gpu, {"--steps", "0"}).code == 2);
}
#endif
