#include "orchestrator/controller/run_metrics.h"

#include <doctest/doctest.h>

#include "base/files/files.h"
#include "base/toml.h"
#include "orchestrator/render/run/metrics_text.h"
#include "orchestrator/state/run_folder.h"
#include "tests/support/scratch.h"

namespace longhaul {
namespace {

struct MetricsRun {
  testing::Scratch folder;
  ManualClock clock{1'000'000};
  Logger log{"test", "", LogLevel::info, folder.file("controller.log")};
  std::string site = folder.file("collector"), own = folder.file(run_metrics_file),
              there = join_path(site, metrics_file_name("the-run"));

  FrozenRun frozen;
  RunLedger ledger{{}};

  MetricsRun() {
    frozen.name = "the-run";
    REQUIRE(write_file_atomic(folder.file("resolved.toml"), frozen_run_text(frozen)).ok());
    REQUIRE(make_directories(folder.file("log")).ok());
    Value table = Value::make_table();
    table.set("metrics_folder", site);
    REQUIRE(write_file_atomic(folder.file("site.toml"), to_toml(table)).ok());
  }
  std::string take(const std::string& path) {
    const auto text = read_file(path);
    (void)remove_tree(path).ok();
    return text.ok() ? *text : "";
  }
};

}  // namespace

TEST_CASE("metrics of a run: in its folder and in the site's, now and then, and at its end") {
  MetricsRun run;
  REQUIRE(make_directories(run.site).ok());
  RunMetrics metrics(run.folder.path(), run.clock, run.log);
  metrics.look(run.frozen, run.ledger);
  const std::string first = run.take(run.own);
  RunStatus nothing_known;
  nothing_known.name = "the-run";
  CHECK(first == metrics_text(nothing_known, {}, run.clock.wall_ms()));
  CHECK(run.take(run.there) == first);
  run.clock.advance_ms(29'000);
  metrics.look(run.frozen, run.ledger);
  CHECK(run.take(run.own).empty());
  run.clock.advance_ms(2'000);
  metrics.look(run.frozen, run.ledger);
  CHECK(!run.take(run.own).empty());
  run.ledger.ended = true;
  metrics.look(run.frozen, run.ledger);  // at once
  CHECK(!run.take(run.own).empty());
  run.clock.advance_ms(100'000);
  metrics.look(run.frozen, run.ledger);  // and only once
  CHECK(run.take(run.own).empty());
  const auto names = list_directory(run.site);
  REQUIRE(names.ok());
  CHECK(names->size() == 1);  // nothing is left beside it
}

TEST_CASE("metrics of a run: a site's folder that is not there stops nothing, and is reported once") {
  MetricsRun run;
  RunMetrics metrics(run.folder.path(), run.clock, run.log);
  for (int i = 0; i < 3; ++i) {
    metrics.look(run.frozen, run.ledger);
    run.clock.advance_ms(31'000);
    CHECK(!run.take(run.own).empty());
  }
  const std::string log = run.take(run.folder.file("controller.log"));
  CHECK(log.find("event=metrics_not_written path=" + run.there) != std::string::npos);
  CHECK(log.find("event=metrics_not_written") == log.rfind("event=metrics_not_written"));
}

}  // namespace longhaul
