#include "contracts/settings/training/training.h"

#include <doctest/doctest.h>

#include "contracts/tasks/stage_kinds.h"

using namespace longhaul;

TEST_CASE("keys of a schedule that do not go together, or with the steps, are refused by name") {
  OptimizerSettings s;
  CHECK(check_lr_schedule(s, 0).ok());
  CHECK(check_lr_schedule(s, 1).ok());
  const auto refused = [](const OptimizerSettings& settings, std::int64_t steps, const std::string& part) {
    const Status status = check_lr_schedule(settings, steps);
    REQUIRE_FALSE(status.ok());
    CHECK(status.error().code == ErrorCode::invalid_input);
    CAPTURE(status.error().message());
    CHECK(status.error().message().find(part) != std::string::npos);
  };
  s.lr_decay_steps = 50;
  refused(s, 0, "optimizer.lr_decay_steps = 50 goes with lr_schedule = \"wsd\", not with \"cosine\"");
  s.lr_schedule = "wsd";
  CHECK(check_lr_schedule(s, 70).ok());  // 20 of warm-up and 50
  refused(s, 69, "optimizer.warmup_steps = 20 and optimizer.lr_decay_steps = 50 together are longer than steps = 69");
  CHECK(check_lr_schedule(s, 0).ok());  // steps are not known yet
  s.rewarm_steps = 10;
  refused(s, 0, "optimizer.rewarm_steps = 10 without rewarm_after");
  s.rewarm_after = 100;
  CHECK(check_lr_schedule(s, 160).ok());
  refused(s, 159,
          "optimizer.rewarm_steps = 10 and optimizer.lr_decay_steps = 50 together are longer than steps - "
          "rewarm_after = 59");
  refused(s, 100, "optimizer.rewarm_after = 100 leaves nothing of steps = 100");
  s.rewarm_after = 69;
  refused(s, 500, "longer than rewarm_after = 69");
}

TEST_CASE("a stage that trains is refused when it is planned, at the place of its optimizer") {
  for (const char* name : {"pretrain", "sft", "align", "reward"}) {
    CAPTURE(name);
    const StageKind* kind = find_stage_kind(name);
    REQUIRE(kind);
    CHECK(kind->parallel);
    Value optimizer = Value::make_table();
    optimizer.set("rewarm_after", 30);
    Value table = Value::make_table();
    table.set("steps", 20);
    table.set("optimizer", optimizer);
    table.find("optimizer")->pos = {"w.toml", 7, 1};
    Diagnostics diagnostics;
    kind->resolve(table, "stage.x", {}, diagnostics);
    REQUIRE(diagnostics.size() == 1);
    CHECK(diagnostics.errors()[0].message().find("w.toml:7:1: stage.x: optimizer.rewarm_after = 30 leaves nothing of "
                                                 "steps = 20") == 0);
    table.set("steps", 40);
    Diagnostics none;
    const Value resolved = kind->resolve(table, "stage.x", {}, none);
    CHECK(none.empty());
    CHECK(resolved.find("optimizer")->get_integer("rewarm_after") == 30);
  }
}

TEST_CASE("a blend names each input once and has one positive weight for each, or none") {
  CHECK(check_blend({}, {}).ok());
  CHECK(check_blend({"web", "code"}, {}).ok());
  CHECK(check_blend({"web", "code"}, {3, 1}).ok());
  CHECK(check_blend({"web", "web"}, {}).error().what == "blend names web twice");
  CHECK(check_blend({"web", "code"}, {3}).error().what == "1 blend_weights for 2 names in blend");
  CHECK(check_blend({}, {3}).error().what == "1 blend_weights for 0 names in blend");
  CHECK(check_blend({"web", "code"}, {3, 0}).error().what == "blend_weights has 0, which is not positive");
}

TEST_CASE("unknown shapes and values out of bounds are refused with the choices") {
  const auto error_of = [](const char* key, Value value) {
    Value table = Value::make_table();
    table.set(key, std::move(value));
    const auto parsed = optimizer_fields().parse(table, "optimizer");
    return parsed.ok() ? std::string() : parsed.error().message();
  };
  CHECK(error_of("lr_schedule", "wsd").empty());
  CHECK(error_of("lr_schedule", "polynomial").find("inverse_sqrt") != std::string::npos);
  CHECK(error_of("lr_decay_shape", "sqrt").find("one_minus_sqrt") != std::string::npos);
  CHECK_FALSE(error_of("lr_start_ratio", 1.5).empty());
  CHECK_FALSE(error_of("rewarm_after", -1).empty());
}

TEST_CASE("how moments are kept is refused where its keys do not go together") {
  OptimizerSettings s;
  CHECK(check_moments(s).ok());
  s.rounding = "stochastic";
  REQUIRE_FALSE(check_moments(s).ok());
  CHECK(check_moments(s).error().message().find("optimizer.rounding = \"stochastic\" with moments = \"f32\"") !=
        std::string::npos);
  for (const char* moments : {"bf16", "mixed"}) {
    s.moments = moments;
    CHECK(check_moments(s).ok());
  }
}
