#include "autotune/search/tuning_forecast.h"

#include <doctest/doctest.h>

#include "base/value/json.h"

namespace longhaul {
namespace {

namespace tuning_forecast_test {

SearchRequest question() {
  static const TimeConstants constants =
      read_time_constants(std::string(LONGHAUL_SOURCE_DIR) + "/autotune/constants.toml").value();
  SearchRequest q;
  ModelShape s;
  s.hidden_size = 2048, s.intermediate_size = 8192, s.num_hidden_layers = 16, s.num_attention_heads = 16;
  s.num_key_value_heads = 8, s.vocab_size = 32000, s.max_position_embeddings = 4096;
  q.task.shape = resolve_shape(s).value();
  q.task.sequence_length = 4096, q.task.global_batch_size = 64;
  const GpuType gpu = constants.gpu_named("H100").value();
  q.place = {{gpu, 8, 8, gpu.nic_rate}, constants.framework("longhaul").value(), constants.common};
  q.memory = memory_profile("longhaul").value();
  q.memory_limit = 80e9, q.space.gpus = 8, q.best = 4;
  return q;
}

TuningForecast forecast() {
  const SearchRequest q = question();
  const SearchOutcome found = search_layouts(q).value();
  TuningForecast made;
  made.device = "a device", made.memory_limit = q.memory_limit;
  made.source = ForecastSource::measured_elsewhere;
  for (const RankedLayout& ranked : found.best)
    made.candidates.push_back(forecast_layout(q, ranked.layout, layout_text(ranked.layout)).value());
  TrainingLayout piped;
  piped.dims.pp = 4, piped.dims.dp_replicate = 2;
  made.candidates.push_back(forecast_layout(q, piped, "piped").value());
  add_search(made, found);
  return made;
}

TEST_CASE("a layout's forecast is the search's own, and its pipeline's costs give its step") {
  const SearchRequest q = question();
  const SearchOutcome found = search_layouts(q).value();
  const auto one = forecast_layout(q, found.best.front().layout, "best");
  REQUIRE(one.ok());
  CHECK(one->seconds() == found.best.front().seconds());
  CHECK(one->memory == found.best.front().memory.total());
  TrainingLayout piped;
  piped.dims.pp = 4, piped.dims.dp_replicate = 2;
  const LayoutForecast f = forecast_layout(q, piped, "piped").value();
  const auto lists = pipeline_schedules(f.pipeline.schedule);
  REQUIRE(lists.ok());
  const auto timeline = run_pipeline(*lists, 1, f.pipeline.costs);
  REQUIRE(timeline.ok());
  CHECK(f.pipeline.schedule.micro_batches == 32);
  CHECK(timeline->makespan < f.seconds());
  CHECK(timeline->makespan > 0.8 * f.seconds());
}

TEST_CASE("what is written is read again") {
  const TuningForecast made = forecast();
  REQUIRE(!made.front.empty());
  REQUIRE(!made.alternatives.empty());
  const Value written = tuning_forecast_to_value(made);
  const auto read = tuning_forecast_from_value(parse_json(to_json_pretty(written), "p").value(), "p");
  REQUIRE_MESSAGE(read.ok(), read.error().message());
  CHECK(tuning_forecast_to_value(*read) == written);
  CHECK(read->find("piped")->pipeline.schedule.pp == 4);
  CHECK(read->find("piped")->seconds() == doctest::Approx(made.find("piped")->seconds()));
  CHECK(read->find("nobody") == nullptr);
}

TEST_CASE("anything that is missing or of another kind is named") {
  const Value written = tuning_forecast_to_value(forecast());
  const auto refused = [&](const auto& damage, const std::string& named) {
    Value value = written;
    damage(value);
    const auto read = tuning_forecast_from_value(value, "predictions.json");
    REQUIRE(!read.ok());
    CHECK(read.error().code == ErrorCode::corrupt);
    CHECK_MESSAGE(read.error().message().find(named) != std::string::npos, read.error().message());
    CHECK(read.error().message().find("predictions.json") != std::string::npos);
  };
  const auto first = [](Value& v) -> Value& { return v.find("candidates")->as_array().front(); };
  refused([](Value& v) { v.set("format", 2); }, "format");
  refused([](Value& v) { v.erase("candidates"); }, "'candidates' is no list");
  refused([&](Value& v) { first(v).set("name", 3); }, "'name' is no text");
  refused([&](Value& v) { first(v).find("parts")->erase("bubble"); }, "'bubble' of a step is missing");
  refused([&](Value& v) { first(v).find("pipeline")->set("pp", 0); }, "'pp' is no whole number");
  refused([&](Value& v) { first(v).find("pipeline")->set("schedule", "sideways"); }, "sideways");
  refused([&](Value& v) { first(v).find("pipeline")->find("stages")->push_back(Value(1)); }, "four times");
  refused([&](Value& v) { first(v).find("pipeline")->find("stages")->push_back(ValueArray{1, 1, 1, 1}); },
          "another number of stages");
  refused([](Value& v) { v.find("front")->as_array().front().set("seconds", -1); }, "'seconds' is no number");
  refused([](Value& v) { v = Value("text"); }, "format");
}

TEST_CASE("without a limit of memory the front is found all the same") {
  SearchRequest q = question();
  q.memory_limit = 1e18;
  const SearchOutcome found = search_layouts(q).value();
  REQUIRE(found.pareto.size() > 3);
  for (std::size_t i = 1; i < found.pareto.size(); ++i) {
    CHECK(found.pareto[i].seconds() >= found.pareto[i - 1].seconds());
    CHECK(found.pareto[i].memory.total() < found.pareto[i - 1].memory.total());
  }
}

}  // namespace tuning_forecast_test
}  // namespace
}  // namespace longhaul
