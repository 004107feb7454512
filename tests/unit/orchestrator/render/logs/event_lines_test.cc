// What `longhaul logs` shows of events, and of which stage.
#include "orchestrator/render/logs/event_lines.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "base/value/json.h"
#include "orchestrator/render/logs/shown_stage.h"
#include "orchestrator/render/run/checkpoints_text.h"

using namespace longhaul;

namespace {

constexpr std::int64_t day_ms = 1'795'833'761'000;  // 2026-11-28 02:42:41 UTC

Event event_of(std::int64_t after_ms, const char* kind, const char* fields) {
  return {day_ms + after_ms, kind, 0, parse_json(fields, "test").value()};
}

StageStatus stage_in(const char* id, const char* kind, StageState state, std::int64_t started, std::int64_t ended) {
  StageStatus stage;
  stage.id = id;
  stage.kind = kind;
  stage.state = state;
  stage.attempts = started > 0 ? 1 : 0;
  stage.started_ms = started;
  stage.ended_ms = ended;
  return stage;
}

}  // namespace

TEST_CASE("a training's events are lines with step, loss, learning rate and tokens per second") {
  EventLines lines(0);
  const std::string text = lines.lines({
      event_of(0, "metric", R"({"step":120,"loss":3.2104,"lr":3e-4,"tokens_per_s":19702.4,"grad_norm":1})"),
      event_of(1, "progress", R"({"done":120,"total":3000,"unit":"steps","rate":19,"eta_s":9})"),
      event_of(1000, "checkpoint", R"({"step":120,"path":"x","bytes":1048576,"stall_s":0.25})"),
      event_of(2000, "message", R"({"level":"warn","text":"loss \u001b[2Jjumps"})"),
      event_of(3000, "metric", R"({"step":120,"heldout_loss":3.5})"),
      event_of(4000, "low_precision", R"({"step":120})"),
      event_of(5000, "figure", R"({"name":"heldout_loss","value":3.5})"),
  });
  CHECK(text ==
        "11-28 02:42:41  step 120/3000  loss 3.21  lr 3.0e-4  19.7 K tokens/s\n"
        "11-28 02:42:42  checkpoint of step 120  1.0 MiB  the training stood still for 0.2s\n"
        "11-28 02:42:43  warn: loss \\u001b[2Jjumps\n"
        "11-28 02:42:44  step 120/3000  heldout_loss 3.5\n"
        "11-28 02:42:46  heldout_loss 3.5\n");
}

TEST_CASE("a fast training stays readable, and its last step is shown") {
  EventLines lines(1000, 100);
  std::string text;
  for (int step = 1; step <= 25; ++step)
    text += lines.lines({event_of(100 * step, "metric", R"({"step":7,"loss":2.5})")});
  CHECK(std::count(text.begin(), text.end(), '\n') == 3);
  CHECK(lines.rest() == "11-28 02:42:43  step 7/100  loss 2.5\n");
  CHECK(lines.rest().empty());
}

TEST_CASE("stages that do not train show their progress, and a loss that is no number is named so") {
  EventLines lines(0);
  CHECK(lines.lines({event_of(0, "progress", R"({"done":5,"total":20,"unit":"documents","rate":2,"eta_s":7.5})")}) ==
        "11-28 02:42:41  25 %  5/20 documents  2/s  eta 7.5s\n");
  CHECK(lines.lines({event_of(0, "metric", R"({"step":3,"loss":null})")}) ==
        "11-28 02:42:41  step 3  loss not a number\n");
}

TEST_CASE("without a name the stage that runs is meant, else the one that failed first, else the newest") {
  using enum StageState;
  RunStatus status;
  CHECK(meant_stage(status) == nullptr);
  CHECK(!asked_stage(status, "").ok());
  status.stages = {stage_in("corpus", "curate", cached, 0, 5), stage_in("tokens", "tokenize", succeeded, 10, 20),
                   stage_in("wait", "sft", waiting, 0, 0)};
  CHECK(meant_stage(status)->id == "tokens");
  status.stages.push_back(stage_in("late", "evaluate", failed, 30, 50));
  status.stages.push_back(stage_in("early", "evaluate", failed, 30, 40));
  status.stages.push_back(stage_in("after", "deploy", skipped, 0, 51));
  CHECK(meant_stage(status)->id == "early");
  status.stages.push_back(stage_in("train", "pretrain", running, 45, 0));
  status.stages.push_back(stage_in("look", "evaluate", running, 60, 0));
  CHECK(asked_stage(status, "")->id == "train");
  CHECK(asked_stage(status, "corpus")->id == "corpus");
  CHECK(asked_stage(status, "tokenz").error().message().find("did you mean 'tokens'?") != std::string::npos);
}

TEST_CASE("checkpoints: which one resume takes and which one stays are seen, and what is not known is null") {
  const std::vector<ShownCheckpoint> two = {
      {"pretrain", "/r/step-00000112", 112, day_ms - 60'000, 3.0 * 1024 * 1024, 3.21, {}, true, false},
      {"pretrain", "/r/step-00000063", 63, 0, 1024, {}, 3.5, false, true}};
  CHECK(checkpoints_text(two, day_ms) ==
        "stage     step  age     size     loss  heldout_loss  stays\n"
        "pretrain  112   1m 00s  3.0 MiB  3.21                newest\n"
        "pretrain  63            1.0 KiB        3.5           kept\n");
  const Value document = checkpoints_value("/r", two);
  const Value& old = document.find("checkpoints")->as_array()[1];
  CHECK(old.find("loss")->is_null());
  CHECK(old.find("saved_ms")->is_null());
  CHECK(old.get_bool("pinned"));
  CHECK(document.get_integer("format") == 1);
}

TEST_CASE("status in JSON: what has not happened is null, and a stage that runs reports its newest loss and rate") {
  RunStatus status;
  StageStatus stage = stage_in("train", "pretrain", StageState::running, 45, 0);
  stage.newest_loss = 3.25, stage.tokens_per_s = 19'700;
  stage.progress_done = 1, stage.progress_total = 10;
  status.stages = {stage};
  const Value document = run_status_to_value(status);
  CHECK(document.get_string("file") == "longhaul status");
  CHECK(document.get_integer("format") == status_format);
  CHECK(document.find("ended_ms")->is_null());
  const Value& reported = document.find("stages")->as_array()[0];
  for (const char* key : {"submitted_ms", "ended_ms", "cause", "artifact", "job"}) {
    CAPTURE(key);
    CHECK(reported.find(key)->is_null());
  }
  CHECK(reported.get_integer("started_ms") == 45);
  CHECK(reported.find("progress")->find("eta_s")->is_null());
  CHECK(reported.find("newest")->get_number("loss") == 3.25);
  CHECK(reported.find("newest")->find("heldout_loss") == nullptr);
}
