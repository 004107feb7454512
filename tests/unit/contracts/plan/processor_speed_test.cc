#include "contracts/plan/processor_speed.h"

#include <doctest/doctest.h>

#include "base/value/json.h"
#include "tests/support/made_up_serving.h"

namespace longhaul {
namespace {

namespace processor_speed_test {

ProcessorSpeed example() {
  ProcessorSpeed speed;
  speed.identity = {"AMD EPYC", 2, "avx2", "avx2", "0f3c"};
  speed.ranks = 2, speed.threads = 1, speed.copy_rate = 9e9, speed.call_seconds = 2e-7, speed.at_ms = 5;
  speed.products = {{ProductPass::weight, 512, 128, 256, 1e-3}};
  speed.steps = {{128, 2, 4, 384, 256, 64, 4, 2, 0.02}};
  speed.serving = testing::made_up_serving(), speed.beside = {1, 2};
  speed.rollouts = {{128, 4, 4, 2, 384, 2048, 64, 12, 24, 8, 0.07, 0.03}};
  return speed;
}

TEST_CASE("a measurement is read as it was written") {
  const Value document = processor_speed_to_value(example());
  const auto read = processor_speed_from_value(*parse_json(to_json(document), "x"), "x");
  REQUIRE(read.ok());
  CHECK(read->identity == example().identity);
  CHECK(to_json(processor_speed_to_value(*read)) == to_json(document));
  CHECK(read->use() == RankUse{2, 1, "bf16", {1, 2}});
  CHECK(read->rollouts.front().kv_heads == 2);
  CHECK(read->serving.cache_far == example().serving.cache_far);
}

TEST_CASE("what a measurement is of is its name, with the ranks that draw beside those that train") {
  CHECK(example().use().text() == "2x1-bf16-beside-1x2");
  CHECK(RankUse{1, 4, "f32"}.text() == "1x4-f32");
}

TEST_CASE("a measurement may have trainings alone") {
  ProcessorSpeed speed = example();
  speed.serving = {}, speed.rollouts.clear(), speed.beside = {};
  const auto read = processor_speed_from_value(processor_speed_to_value(speed), "x");
  REQUIRE(read.ok());
  CHECK(!read->serving.known());
  CHECK(read->beside == RanksBeside{});
}

TEST_CASE("a measurement that is damaged or of another version is refused by name") {
  const auto refused = [](void (*damage)(Value&)) {
    Value document = processor_speed_to_value(example());
    damage(document);
    const auto read = processor_speed_from_value(document, "runs/.machine/a.json");
    REQUIRE(!read.ok());
    CHECK(read.error().code == ErrorCode::corrupt);
    CHECK(read.error().what.find("runs/.machine/a.json") != std::string::npos);
  };
  refused([](Value& v) { v.set("version", 99); });
  refused([](Value& v) { v.set("machine", "fast"); });
  refused([](Value& v) { v.set("ranks", 0); });
  refused([](Value& v) { v.set("precision", "fp8"); });
  refused([](Value& v) { v.set("copy_rate", -1.0); });
  refused([](Value& v) { v.set("steps", Value::make_array()); });
  refused([](Value& v) { v.find("steps")->as_array()[0].set("seconds", 0.0); });
  refused([](Value& v) { v.find("steps")->as_array()[0].set("hidden", 1LL << 40); });
  refused([](Value& v) { v.find("products")->as_array()[0].set("pass", "sideways"); });
  refused([](Value& v) { v.find("serving")->set("call_seconds", 0.0); });
  refused([](Value& v) { v.find("serving")->find("products")->as_array().pop_back(); });
  refused([](Value& v) { v.find("serving")->find("products")->as_array()[3].set("rows", 7); });
  refused([](Value& v) { v.set("serving", "quick"); });
  refused([](Value& v) { v.set("beside_ranks", 0); });  // and two threads of none
  refused([](Value& v) { v.find("rollouts")->as_array()[0].set("reference_seconds", -1.0); });
  refused([](Value& v) { v.find("rollouts")->as_array()[0].set("answers", 0); });
  refused([](Value& v) { v = Value("nothing"); });
}

}  // namespace processor_speed_test

}  // namespace
}  // namespace longhaul
