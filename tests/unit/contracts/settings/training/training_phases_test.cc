// Phases and the ramp-up of the batch are arithmetic: what a step trains on follows from its number alone.
#include "contracts/settings/training/training_phases.h"

#include <doctest/doctest.h>

#include "base/files/files.h"
#include "base/value/json.h"

using namespace longhaul;

TEST_CASE("the global batch grows as the reference's, sample for sample, and the steps add up") {
  const std::string path = std::string(LONGHAUL_SOURCE_DIR) + "/tests/parity/golden/data_order.json";
  const Value golden = *parse_json(read_file(path).value(), path).value().find("batch_rampup");
  REQUIRE(golden.size() == 5);
  for (const Value& row : golden.as_array()) {
    const BatchRampup rampup{row.get_integer("start"), row.get_integer("increment"), row.get_integer("samples")};
    const std::int64_t full = row.get_integer("full");
    CAPTURE(rampup.start);
    REQUIRE(check_batch_rampup(rampup, full, 1).ok());
    std::int64_t consumed = 0, steps = 0;
    for (const Value& batch : row.find("batches")->as_array()) {
      CAPTURE(consumed);
      CHECK(global_batch_size_at(rampup, full, consumed) == batch.as_integer());
      CHECK(samples_of_steps(rampup, full, steps) == consumed);
      CHECK(steps_of_samples(rampup, full, consumed) == steps);
      CHECK(steps_of_samples(rampup, full, consumed + 1) == steps + 1);
      consumed += batch.as_integer();
      ++steps;
    }
    CHECK(global_batch_size_at(rampup, full, 1'000'000) == full);
    CHECK(samples_of_steps(rampup, full, steps + 1'000'000'000) == consumed + 1'000'000'000 * full);
    CHECK(steps_of_samples(rampup, full, consumed + 1'000'000'000 * full) == steps + 1'000'000'000);
  }
}

TEST_CASE("without a ramp-up every batch is the full one; a ramp-up that cannot be is refused by its key") {
  CHECK(global_batch_size_at({}, 32, 0) == 32);
  CHECK(samples_of_steps({}, 32, 10) == 320);
  CHECK(steps_of_samples({}, 32, 321) == 11);
  CHECK(check_batch_rampup({}, 32, 4).ok());
  CHECK(check_batch_rampup({8, 8, 100}, 32, 8).ok());
  const auto refused = [](BatchRampup rampup, std::int64_t divisor, const std::string& part) {
    const Status status = check_batch_rampup(rampup, 32, divisor);
    REQUIRE_FALSE(status.ok());
    CAPTURE(status.error().message());
    CHECK(status.error().message().find(part) != std::string::npos);
  };
  refused({64, 8, 100}, 1, "batch_rampup.start = 64 is larger than global_batch_size = 32");
  refused({8, 7, 100}, 1, "in steps of increment = 7");
  refused({8, 0, 100}, 1, "batch_rampup.increment = 0");
  refused({8, 8, 0}, 1, "batch_rampup.samples = 0");
  refused({0, 8, 100}, 1, "without a start");
  refused({8, 4, 100}, 8, "must both divide by 8");
  refused({-8, 8, 100}, 1, "batch_rampup.start = -8");
}

namespace {

PhaseDefaults phase_defaults() {
  PhaseDefaults defaults;
  defaults.sequence_length = 128, defaults.max_position_embeddings = 1024, defaults.lr = 1e-3;
  defaults.global_batch_size = 16;
  defaults.inputs = {"web", "code", "books"};
  return defaults;
}

TrainingPhase phase_of_steps(std::string name, std::int64_t steps) {
  TrainingPhase phase;
  phase.name = std::move(name);
  phase.steps = steps;
  return phase;
}

}  // namespace

TEST_CASE("phases follow one another; what a phase does not say is as in the one before") {
  TrainingPhase warmup = phase_of_steps("warmup", 10), main = phase_of_steps("main", 0),
                long_end = phase_of_steps("long", 5);
  warmup.lr_shape = "linear";
  main.tokens = 100 * 16 * 128 - 5;  // not whole: rounded up to 100 steps
  main.blend = {"web", "code"}, main.blend_weights = {3, 1};
  long_end.sequence_length = 1024, long_end.lr = 1e-4, long_end.lr_shape = "cosine";
  const PhasePlan plan = plan_phases({warmup, main, long_end}, phase_defaults()).value();
  REQUIRE(plan.phases.size() == 3);
  CHECK(plan.steps == 115);
  CHECK(plan.samples == 115 * 16);
  CHECK(plan.tokens == 110 * 16 * 128 + 5 * 16 * 1024);
  CHECK(plan.at(1).name == "warmup");
  CHECK(plan.at(10).name == "warmup");
  CHECK(plan.at(11).name == "main");
  CHECK(plan.at(110).name == "main");
  CHECK(plan.at(111).name == "long");
  CHECK(plan.at(115).name == "long");
  CHECK(plan.phases[0].blend.size() == 3);
  CHECK(plan.phases[0].blend_weights.empty());
  CHECK(plan.phases[1].blend_weights == std::vector<double>{0.75, 0.25});
  CHECK(plan.phases[2].blend == plan.phases[1].blend);
  CHECK(plan.phases[2].blend_weights == plan.phases[1].blend_weights);
  CHECK(plan.phases[0].lr_begin == 0);
  CHECK(plan.phases[0].lr_end == 1e-3);
  CHECK(plan.phases[1].lr_end == 1e-3);
  CHECK(plan.phases[2].lr_begin == 1e-3);
  CHECK(plan.phases[2].lr_end == 1e-4);
  CHECK(plan.phases[1].sequence_length == 128);
  CHECK(plan.phases[2].sequence_length == 1024);
  CHECK(plan.phases[2].first_sample == 110 * 16);
}

TEST_CASE("tokens of a phase are counted through the ramp-up") {
  PhaseDefaults defaults = phase_defaults();
  defaults.rampup = {4, 4, 120};
  TrainingPhase one = phase_of_steps("one", 0);
  one.tokens = 400 * 128;
  const PhasePlan plan = plan_phases({one, phase_of_steps("two", 3)}, defaults).value();
  const std::int64_t steps = plan.phases[0].steps();
  CHECK(samples_of_steps(defaults.rampup, 16, steps) >= 400);
  CHECK(samples_of_steps(defaults.rampup, 16, steps - 1) < 400);
  CHECK(steps > 400 / 16);
  CHECK(plan.phases[1].first_sample == samples_of_steps(defaults.rampup, 16, steps));
}

TEST_CASE("a phase that cannot be is refused by its name and key") {
  const auto refused = [](std::vector<TrainingPhase> phases, const std::string& part) {
    const auto plan = plan_phases(phases, phase_defaults());
    REQUIRE_FALSE(plan.ok());
    CHECK(plan.error().code == ErrorCode::invalid_input);
    CAPTURE(plan.error().message());
    CHECK(plan.error().message().find(part) != std::string::npos);
  };
  refused({}, "without phases");
  refused({phase_of_steps("a", 0)}, "phase.a: steps = 0 and tokens = 0");
  refused({phase_of_steps("a", 1), phase_of_steps("a", 1)}, "phase.a: there are two");
  TrainingPhase phase = phase_of_steps("b", 4);
  phase.tokens = 5;
  refused({phase}, "phase.b: steps = 4 and tokens = 5; give exactly one");
  phase.tokens = 0, phase.sequence_length = 2048;
  refused({phase}, "max_position_embeddings = 1024");
  phase.sequence_length = 0, phase.blend = {"web", "cod"};
  refused({phase}, "\"cod\", which is no input; the inputs are: web, code, books");
  phase.blend = {"web", "web"};
  refused({phase}, "names web twice");
  phase.blend = {"web", "code"}, phase.blend_weights = {1};
  refused({phase}, "1 blend_weights for 2");
  phase.blend_weights = {1, 0};
  refused({phase}, "blend_weights has 0, which is not positive");
  phase.blend = {}, phase.blend_weights = {1};
  refused({phase}, "blend_weights without blend");
}

TEST_CASE("phases are read from tables by their field table") {
  Value table = Value::make_table();
  table.set("tokens", 1000000);
  table.set("lr_shape", "one_minus_sqrt");
  Value names;
  names.push_back("web");
  table.set("blend", names);
  const TrainingPhase phase = training_phase_fields().parse(table, "phase.x").value();
  CHECK(phase.tokens == 1000000);
  CHECK(phase.blend == std::vector<std::string>{"web"});
  table.set("lr_shape", "wave");
  CHECK_FALSE(training_phase_fields().parse(table, "phase.x").ok());
}
