#include "orchestrator/forecast/measured_trainings.h"

#include <doctest/doctest.h>

#include <cmath>

#include "base/files/files.h"
#include "tests/support/scratch.h"

namespace longhaul {
namespace {

namespace measured_trainings_test {

Trial trial(const std::string& name, double predicted, double correction = 1) {
  Trial one;
  one.name = name, one.predicted_seconds = predicted, one.correction = correction;
  one.like = {"tp1 " + name, {1, 2, 3}};
  return one;
}

Status keep(const std::string& runs, const std::string& run, std::int64_t at_ms, const std::vector<Trial>& candidates,
            const std::vector<double>& seconds) {
  const MeasuringStage stage{
      .run = run, .stage = "layout/x=1", .site = "mn5", .constants_text = "a = 1", .at_ms = at_ms};
  return keep_measured(runs, {}, stage, measured_trials(candidates, seconds, "H100"));
}

TEST_CASE("what a tune stage measured is found again at the same site by the same constants") {
  const testing::Scratch folder;
  const std::vector<Trial> candidates = {trial("a", 0.5), trial("b", 0.4, 2), trial("c", 0.6)};
  REQUIRE(keep(folder.path(), "run-1", 1000, candidates, {0.55, 0.44, 0}).ok());
  const MeasuredTrainings found = load_measured(folder.path(), "mn5", "a = 1");
  CHECK(found.set_aside.empty());
  REQUIRE(found.trainings.size() == 2);  // c was not measured
  const auto ratios = found.of("H100");
  REQUIRE(ratios.size() == 2);
  CHECK(ratios[0].log_ratio == doctest::Approx(std::log(1.1)));
  CHECK(ratios[1].log_ratio == doctest::Approx(std::log(2.2)));  // constants alone had predicted 0.2
  CHECK(alike(ratios[0].like, candidates[0].like) == 1);
  CHECK(found.newest_of("H100") == "run-1");
  CHECK(found.of("A100").empty());
  CHECK(load_measured(folder.path(), "leonardo", "a = 1").trainings.empty());
  CHECK(load_measured(folder.path(), "mn5", "a = 2").trainings.empty());
  CHECK(load_measured(folder.path(), "mn5", "a = 1\n\n[processor.2x1-bf16]\npeak_bf16 = 3\n").trainings.size() == 2);
  CHECK(load_measured(folder.path(), "mn5", "a = 1\n[processor.2x1-f32]\nb = 3\n[gpu.x]\nc = 1").trainings.empty());
  CHECK(load_measured(folder.path() + "/nowhere", "mn5", "a = 1").trainings.empty());
}

TEST_CASE("the same stage given twice counts once, and the newest of a device are kept") {
  const testing::Scratch folder;
  const std::vector<Trial> candidates = {trial("a", 0.5)};
  for (int twice = 0; twice < 2; ++twice) REQUIRE(keep(folder.path(), "run-0", 1000, candidates, {0.5}).ok());
  CHECK(load_measured(folder.path(), "mn5", "a = 1").trainings.size() == 1);
  for (int run = 1; run <= measured_max; ++run)
    REQUIRE(keep(folder.path(), std::to_string(run), 1000 + 5000 * run, candidates, {0.5 + run}).ok());
  const MeasuredTrainings found = load_measured(folder.path(), "mn5", "a = 1");
  REQUIRE(found.trainings.size() == measured_max);
  CHECK(found.trainings.front().measured == doctest::Approx(0.5 + measured_max));
  CHECK(found.trainings.back().run == "1");  // run-0's is the oldest
}

TEST_CASE("nothing to keep leaves no file, and files that say nothing are set aside by name") {
  const testing::Scratch folder;
  const std::vector<Trial> unpredicted = {trial("a", 0)};
  REQUIRE(keep(folder.path(), "run-1", 1000, unpredicted, {0.5}).ok());
  CHECK(!file_exists(join_path(folder.path(), measured_folder_name)));
  const std::vector<Trial> candidates = {trial("a", 0.5)};
  REQUIRE(keep(folder.path(), "run-2", 1000, candidates, {0.5}).ok());
  const std::string kept = join_path(folder.path(), measured_folder_name);
  REQUIRE(write_file_atomic(join_path(kept, "half.json"), "{\"format\": 1, \"trainings\": [{").ok());
  REQUIRE(
      write_file_atomic(join_path(kept, "no-time.json"),
                        "{\"format\": 1, \"trainings\": [{\"name\": \"a\", \"device\": \"H100\", \"like_kind\": \"k\", "
                        "\"like_at\": [1], \"predicted_seconds\": 0, \"seconds\": 1}]}")
          .ok());
  const MeasuredTrainings found = load_measured(folder.path(), "mn5", "a = 1");
  CHECK(found.trainings.size() == 1);
  REQUIRE(found.set_aside.size() == 2);
  CHECK(found.set_aside[0].find("no-time.json") != std::string::npos);
  CHECK(found.set_aside[1].find("half.json") != std::string::npos);
}

TEST_CASE("a run keeps what there was when it was made") {
  const testing::Scratch folder;
  const std::string path = join_path(folder.path(), "measured.json");
  CHECK(read_measured_trainings(path).value().trainings.empty());
  MeasuredTrainings measured;
  measured.trainings = {{.name = "a", .device = "H100", .like = {"k", {1}}, .predicted = 1, .measured = 2, .run = "r"}};
  REQUIRE(write_file_atomic(path, measured_trainings_text(measured)).ok());
  const auto again = read_measured_trainings(path);
  REQUIRE(again.ok());
  REQUIRE(again->trainings.size() == 1);
  CHECK(again->of("H100").front().log_ratio == doctest::Approx(std::log(2.0)));
  REQUIRE(write_file_atomic(path, "[]").ok());
  CHECK(read_measured_trainings(path).error().code == ErrorCode::corrupt);
}

}  // namespace measured_trainings_test
}  // namespace
}  // namespace longhaul
