// The index: follows the logs, and whatever is wrong with its file, is made again from them.
#include "orchestrator/state/run_index.h"

#include <doctest/doctest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <functional>

#include "base/files.h"
#include "base/text.h"
#include "orchestrator/state/epoch_log.h"

using namespace longhaul;

namespace {

struct IndexRig {
  std::string path;
  FrozenRun frozen;
  RunLedger ledger;
  std::vector<Fact> facts;  // all of the ledger
  SystemClock clock;
  std::unique_ptr<EpochLog> log;

  IndexRig() {
    static std::atomic<int> counter{0};
    path = format("/tmp/longhaul-index-{}-{}", ::getpid(), counter.fetch_add(1));
    REQUIRE(make_directories(path + "/log").ok());
    frozen.name = "run";
    for (const char* id : {"a", "b"}) {
      PlannedStage stage;
      stage.stage = id;
      stage.kind = "command";
      stage.settings = Value::make_table();
      frozen.plan.stages.push_back(stage);
    }
    REQUIRE(write_file_atomic(path + "/resolved.toml", frozen_run_text(frozen)).ok());
    ledger = RunLedger(frozen.stage_ids());
    auto claimed = EpochLog::claim(path, clock, facts);
    REQUIRE(claimed.ok());
    log = std::make_unique<EpochLog>(std::move(claimed).value());
    for (const Fact& fact : facts) ledger.apply(fact);
  }
  ~IndexRig() { (void)remove_tree(path).ok(); }

  std::vector<Fact> write(std::vector<Fact> news) {
    REQUIRE(log->append(news, clock).ok());
    for (const Fact& fact : news) {
      ledger.apply(fact);
      facts.push_back(fact);
    }
    return news;
  }
  void check_current() {
    const auto stages = indexed_stages(path);
    REQUIRE(stages.ok());
    REQUIRE(stages->size() == 2);
    for (std::size_t i = 0; i < 2; ++i) CHECK((*stages)[i].state == to_string(ledger.stages[i].state));
    CHECK(*indexed_facts(path, "epoch") == 1);
    CHECK(*indexed_facts(path, "skipped") ==
          std::count_if(facts.begin(), facts.end(), [](const Fact& f) { return f.kind == FactKind::skipped; }));
  }
};

}  // namespace

TEST_CASE("the index follows the logs step by step and across controllers") {
  IndexRig rig;
  REQUIRE(update_run_index(rig.path, rig.frozen, rig.ledger, rig.facts).ok());
  rig.check_current();
  REQUIRE(update_run_index(rig.path, rig.frozen, rig.ledger, rig.write({{FactKind::skipped, "a", 0, {}, 0}})).ok());
  rig.check_current();
  rig.write({{FactKind::skipped, "b", 0, {}, 0}});  // a controller that was killed before the index
  REQUIRE(update_run_index(rig.path, rig.frozen, rig.ledger, rig.facts).ok());
  rig.check_current();
}

TEST_CASE("a missing, empty, foreign, truncated, older or wrong index is made again") {
  IndexRig rig;
  REQUIRE(update_run_index(rig.path, rig.frozen, rig.ledger, rig.write({{FactKind::skipped, "a", 0, {}, 0}})).ok());
  const std::string db = run_index_path(rig.path);
  const std::string good = *read_file(db);
  IndexRig other;
  REQUIRE(update_run_index(other.path, other.frozen, other.ledger, other.facts).ok());
  const std::string foreign = *read_file(run_index_path(other.path));
  struct Case {
    const char* what;
    std::function<void()> spoil;
  };
  const Case cases[] = {
      {"missing", [&] { REQUIRE(remove_tree(db).ok()); }},
      {"empty", [&] { REQUIRE(write_file_atomic(db, "").ok()); }},
      {"garbage", [&] { REQUIRE(write_file_atomic(db, std::string(8192, 'x')).ok()); }},
      {"truncated", [&] { REQUIRE(write_file_atomic(db, good.substr(0, good.size() / 2)).ok()); }},
      {"damaged in the middle",
       [&] { REQUIRE(write_file_atomic(db, good.substr(0, 4096) + std::string(good.size() - 4096, '\xff')).ok()); }},
      {"of another run", [&] { REQUIRE(write_file_atomic(db, foreign).ok()); }},
      {"a folder",
       [&] {
         REQUIRE(remove_tree(db).ok());
         REQUIRE(make_directories(db + "/x").ok());
       }},
  };
  for (const Case& c : cases) {
    CAPTURE(c.what);
    c.spoil();
    REQUIRE(update_run_index(rig.path, rig.frozen, rig.ledger, rig.facts).ok());  // as a new controller does
    rig.check_current();
  }
  // Within one controller: only the last facts are at hand, the rest comes from the logs.
  REQUIRE(write_file_atomic(db, "").ok());
  REQUIRE(update_run_index(rig.path, rig.frozen, rig.ledger, rig.write({{FactKind::skipped, "b", 0, {}, 0}})).ok());
  rig.check_current();
}

TEST_CASE("trust: an index is not written through a link") {
  IndexRig rig;
  REQUIRE(update_run_index(rig.path, rig.frozen, rig.ledger, rig.write({{FactKind::skipped, "a", 0, {}, 0}})).ok());
  const std::string db = run_index_path(rig.path), elsewhere = rig.path + "/elsewhere.db";
  for (const bool hard : {false, true}) {
    CAPTURE(hard);
    REQUIRE(::rename(db.c_str(), elsewhere.c_str()) == 0);
    REQUIRE((hard ? ::link(elsewhere.c_str(), db.c_str()) : ::symlink(elsewhere.c_str(), db.c_str())) == 0);
    const std::string before = *read_file(elsewhere);
    REQUIRE(update_run_index(rig.path, rig.frozen, rig.ledger, rig.write({{FactKind::skipped, "b", 0, {}, 0}})).ok());
    rig.check_current();
    CHECK(*read_file(elsewhere) == before);
  }
}

TEST_CASE("trust: an index that another user made is made again from the logs") {
  if (::geteuid() != 0) {
    MESSAGE("skipped: only root can make a file of another user");
    return;
  }
  IndexRig rig;
  REQUIRE(update_run_index(rig.path, rig.frozen, rig.ledger, rig.facts).ok());
  const std::string db = run_index_path(rig.path);
  REQUIRE(::chown(db.c_str(), 40001, 40001) == 0);
  CHECK_FALSE(indexed_stages(rig.path).ok());
  REQUIRE(update_run_index(rig.path, rig.frozen, rig.ledger, rig.write({{FactKind::skipped, "a", 0, {}, 0}})).ok());
  rig.check_current();
  struct stat info{};
  REQUIRE(::stat(db.c_str(), &info) == 0);
  CHECK(info.st_uid == ::geteuid());
}
