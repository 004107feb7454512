// Progress without a terminal, and on a narrow one.
#include "orchestrator/render/run/progress_view.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "orchestrator/render/draw/text_table.h"

using namespace longhaul;

namespace {

constexpr std::int64_t begun_ms = 1'795'833'761'000;

RunStatus training_at(double done, std::optional<double> loss = {}) {
  RunStatus status;
  status.created_ms = begun_ms;
  StageStatus stage;
  stage.id = "pretrain";
  stage.state = StageState::running;
  stage.attempts = 1;
  stage.started_ms = begun_ms;
  stage.progress_done = done;
  stage.progress_total = 1000;
  stage.progress_rate = 2.5;
  stage.eta_s = 130;
  stage.progress_unit = "steps";
  stage.newest_loss = loss;
  status.stages = {stage};
  return status;
}

std::ptrdiff_t lines_of(const std::string& text) {
  return std::count(text.begin(), text.end(), '\n');
}

}  // namespace

TEST_CASE("without a terminal each tenth of a stage is a line, with its loss, and no step between") {
  ProgressView view(false, 99);
  std::int64_t now = begun_ms;
  CHECK(lines_of(view.update(training_at(0), now)) == 1);  // it runs
  std::string text;
  for (int done = 1; done <= 1000; ++done) text += view.update(training_at(done, 3.25), now += 1'000);
  CHECK(lines_of(text) == 10);
  CHECK(text.find("  pretrain   10 %  100/1000 steps  2.5/s  eta 2m 10s  loss 3.25\n") != std::string::npos);
}

TEST_CASE("tenths that come within ten seconds are not all reported") {
  ProgressView view(false, 99);
  std::int64_t now = begun_ms;
  (void)view.update(training_at(0), now);
  std::string text;
  for (int done = 1; done <= 1000; ++done) text += view.update(training_at(done), now += 20);
  CHECK(lines_of(text) == 2);
}

TEST_CASE("a stage that gets no further, or says nothing, is reported every ten minutes") {
  for (const bool says : {true, false}) {
    CAPTURE(says);
    RunStatus status = training_at(5);
    if (!says) status.stages[0].progress_total = 0;
    ProgressView view(false, 99);
    std::string text = view.update(status, begun_ms);
    for (int minute = 1; minute <= 60; ++minute) text += view.update(status, begun_ms + minute * 60'000);
    CHECK(lines_of(text) == 1 + 6);
    if (!says) CHECK(text.find("  pretrain  running for 1h 00m\n") != std::string::npos);
  }
}

TEST_CASE("on a narrow terminal the bar goes before the figures, and 20 columns still say how far it is") {
  const RunStatus status = training_at(620);
  const auto first = [&](std::size_t columns) { return progress_block(status, begun_ms, columns).front(); };
  CHECK(first(99).find("[####") != std::string::npos);
  CHECK(first(60).find('[') == std::string::npos);
  CHECK(first(60).find("62 %  620/1000 steps  2.5/s  eta 2m 10s") != std::string::npos);
  CHECK(first(21) == "pret…  62 %  620/1000");
  CHECK(first(19) == "62 %  620/1000");
  for (std::size_t columns = 1; columns < 120; ++columns)
    for (const std::string& line : progress_block(status, begun_ms, columns)) {
      CAPTURE(columns);
      CHECK(code_points(line) <= columns);
    }
}
