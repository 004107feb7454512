// The index of many runs: says what their files say, reads again only what has changed, and is made again whatever is
// wrong with its file.
#include "orchestrator/index/runs_index.h"

#include <sys/stat.h>
#include <unistd.h>

#include <functional>

#include "base/system/clock.h"
#include "orchestrator/index/index_file.h"
#include "tests/unit/orchestrator/index/many_runs.h"

namespace longhaul {
namespace {

using testing::ManyRuns;

// So much later that what was just written counts as settled.
std::int64_t later() {
  return SystemClock().wall_ms() + 60'000;
}

RunsIndexOptions kept_in(const std::string& folder) {
  RunsIndexOptions options;
  options.folder = folder;
  options.threads = 4;
  return options;
}

RunsIndex opened(const ManyRuns& runs) {
  auto index = RunsIndex::open(runs.folder(), kept_in(runs.cache()), later());
  REQUIRE_MESSAGE(index.ok(), (index.ok() ? "" : index.error().message()));
  return std::move(index).value();
}

std::vector<RunsRow> ask(RunsIndex& index, const RunsQuery& query = {}) {
  auto rows = index.ask(query, later());
  REQUIRE_MESSAGE(rows.ok(), (rows.ok() ? "" : rows.error().message()));
  return std::move(rows).value();
}

std::string names(const std::vector<RunsRow>& rows) {
  std::vector<std::string> list;
  for (const RunsRow& row : rows) list.push_back(row.name);
  return join(list, " ");
}

// done (succeeded, 64 columns), bad (failed, 128), going (running); made a day after each other.
void three_runs(ManyRuns& runs) {
  runs.make("quick-done", "quick");
  runs.start("quick-done");
  runs.end_well("quick-done", 2.5);
  runs.clock.advance_ms(86'400'000);
  runs.make("other-bad", "other", 128);
  runs.start("other-bad");
  runs.say("other-bad", 70, 6.5);
  runs.end_badly("other-bad", "no text");
  runs.clock.advance_ms(86'400'000);
  runs.make("quick-going", "quick");
  runs.start("quick-going");
  runs.say("quick-going", 120, 4.25);
}

}  // namespace

TEST_CASE("an index says of every run what its files say, and reads again only what has changed") {
  ManyRuns runs;
  three_runs(runs);
  REQUIRE(make_directories(runs.folder() + "/no-run").ok());
  {
    RunsIndex index = opened(runs);
    CHECK(index.work().runs == 3);
    CHECK(index.work().read == 3);
    CHECK(index.work().remarks.empty());
    const auto rows = ask(index);
    REQUIRE(names(rows) == "quick-done other-bad quick-going");
    CHECK(rows[0].state == "succeeded");
    CHECK(rows[0].stage == "pretrain");
    CHECK(rows[0].step == 500);
    CHECK(rows[0].loss == 2.5);
    CHECK(rows[0].node_hours == doctest::Approx(1 + 4));  // one node for an hour, then four
    CHECK(rows[1].state == "failed");
    CHECK(rows[1].step == 70);
    CHECK(rows[1].loss == 6.5);
    CHECK(rows[1].cause == "no text");
    CHECK(rows[2].state == "running");
    CHECK(rows[2].stage_state == "running");
    CHECK(rows[2].step == 120);
    CHECK(rows[2].steps == 500);
    CHECK(rows[2].loss == 4.25);
    CHECK(rows[2].job == "4711");
  }
  {
    RunsIndex index = opened(runs);
    CHECK(index.work().read == 0);
    CHECK(index.work().looks == 1 + 1 + 3);  // of what runs: its log, its newest epoch, its events
    CHECK(names(ask(index)) == "quick-done other-bad quick-going");
  }
  runs.say("quick-going", 121, 4.0);  // no fact for the run's log
  {
    RunsIndex index = opened(runs);
    CHECK(index.work().read == 0);
    CHECK(ask(index)[2].step == 121);
    CHECK(ask(index)[2].loss == 4.0);
  }
  runs.end_well("quick-going", 3.0);
  REQUIRE(remove_tree(runs.run("other-bad")).ok());
  runs.clock.advance_ms(1000);
  runs.make("quick-new", "quick");
  RunsIndex index = opened(runs);
  CHECK(index.work().runs == 3);
  CHECK(index.work().read == 2);
  const auto rows = ask(index);
  REQUIRE(names(rows) == "quick-done quick-going quick-new");
  CHECK(rows[1].state == "succeeded");
  CHECK(rows[1].loss == 3.0);
  CHECK(rows[2].stage_state == "waiting");
}

TEST_CASE("lines of the epoch that is known are seen, and what changed a moment ago is read once more") {
  ManyRuns runs;
  runs.make("a", "a");
  std::vector<Fact> facts;
  auto log = EpochLog::claim(runs.run("a"), runs.clock, facts);
  REQUIRE(log.ok());
  RunsIndex first = opened(runs);
  CHECK(ask(first)[0].stage_state == "waiting");
  std::vector<Fact> news = runs.begun("tokens");
  REQUIRE(log->append(news, runs.clock).ok());
  RunsIndex second = opened(runs);
  CHECK(second.work().read == 1);
  CHECK(ask(second)[0].stage_state == "running");
  const auto at_once =
      RunsIndex::open(runs.folder(), kept_in(runs.scratch().file("c/longhaul")), SystemClock().wall_ms());
  REQUIRE(at_once.ok());
  const auto again = RunsIndex::open(runs.folder(), kept_in(runs.scratch().file("c/longhaul")), later());
  REQUIRE(again.ok());
  CHECK(again->work().read == 1);
}

TEST_CASE("a missing, damaged or foreign index is named and made again") {
  ManyRuns runs, others;
  three_runs(runs);
  others.make("theirs", "theirs");
  (void)opened(runs);
  (void)opened(others);
  const std::string path = runs_index_path(runs.cache(), runs.folder());
  const std::string good = *read_file(path), foreign = *read_file(runs_index_path(others.cache(), others.folder()));
  const auto changed = [&](std::size_t at, char to) {
    std::string text = good;
    text[at] = to;
    return text;
  };
  const std::size_t number = good.rfind("format 000001");
  REQUIRE(number != std::string::npos);
  struct Case {
    const char* what;
    std::function<void()> spoil;
    const char* remark;  // "": nothing to say
  };
  const Case cases[] = {
      {"missing", [&] { REQUIRE(remove_tree(path).ok()); }, ""},
      {"empty", [&] { REQUIRE(write_file_atomic(path, "").ok()); }, "is cut off"},
      {"garbage", [&] { REQUIRE(write_file_atomic(path, std::string(8192, 'x')).ok()); }, "no index of runs"},
      {"cut off", [&] { REQUIRE(write_file_atomic(path, good.substr(0, good.size() / 2)).ok()); }, "is cut off"},
      {"one byte", [&] { REQUIRE(write_file_atomic(path, changed(good.size() / 2, '\x7e')).ok()); }, "is damaged"},
      {"another format", [&] { REQUIRE(write_file_atomic(path, changed(number + 12, '7')).ok()); }, "is of format 7"},
      {"of other runs", [&] { REQUIRE(write_file_atomic(path, foreign).ok()); }, "another folder of runs"},
      {"a link",
       [&] {
         REQUIRE(write_file_atomic(path + ".elsewhere", good).ok());
         REQUIRE(remove_tree(path).ok());
         REQUIRE(::symlink((path + ".elsewhere").c_str(), path.c_str()) == 0);
       },
       "no link to one"},
      {"writable for others", [&] { REQUIRE(::chmod(path.c_str(), 0666) == 0); }, "mode 0666"},
  };
  for (const Case& c : cases) {
    CAPTURE(std::string(c.what));
    c.spoil();
    RunsIndex index = opened(runs);
    CHECK(index.work().read == 3);
    CHECK(names(ask(index)) == "quick-done other-bad quick-going");
    const std::string remark = join(index.work().remarks, "\n");
    CAPTURE(remark);
    CHECK(remark.empty() == std::string(c.remark).empty());
    CHECK(remark.find(c.remark) != std::string::npos);
    CHECK((remark.empty() || remark.find(path) != std::string::npos));
    CHECK(opened(runs).work().read == 0);  // it was put right
  }
}

TEST_CASE("trust: an index that another user made is named and made again") {
  if (::geteuid() != 0) {
    MESSAGE("skipped: only root can make a file of another user");
    return;
  }
  ManyRuns runs;
  three_runs(runs);
  (void)opened(runs);
  const std::string path = runs_index_path(runs.cache(), runs.folder());
  REQUIRE(::chown(path.c_str(), 40001, 40001) == 0);
  RunsIndex index = opened(runs);
  REQUIRE(index.work().remarks.size() == 1);
  CHECK(index.work().remarks[0].find("uid 40001") != std::string::npos);
  CHECK(index.work().read == 3);
  struct stat info{};
  REQUIRE(::stat(path.c_str(), &info) == 0);
  CHECK(info.st_uid == ::geteuid());
  CHECK((info.st_mode & 0777) == 0600);
  // Nor is one kept in a folder of another's: it could be exchanged there.
  REQUIRE(::chown(runs.cache().c_str(), 40001, 40001) == 0);
  REQUIRE(remove_tree(path).ok());
  RunsIndex kept_nowhere = opened(runs);
  CHECK(names(ask(kept_nowhere)) == "quick-done other-bad quick-going");
  REQUIRE(kept_nowhere.work().remarks.size() == 1);
  CHECK(kept_nowhere.work().remarks[0].find("is not kept") != std::string::npos);
  CHECK_FALSE(file_exists(path));
}

TEST_CASE("without a folder for an index all runs are read each time, and nothing is left behind") {
  ManyRuns runs;
  three_runs(runs);
  for (int i = 0; i < 2; ++i) {
    auto index = RunsIndex::open(runs.folder(), {}, later());
    REQUIRE(index.ok());
    CHECK(index->work().read == 3);
    CHECK(ask(*index).size() == 3);
  }
  CHECK(list_directory(runs.scratch().path())->size() == 1);
  auto nothing = RunsIndex::open(runs.scratch().file("absent"), {}, later());
  REQUIRE(nothing.ok());
  CHECK(ask(*nothing).empty());
}

TEST_CASE("an index lies behind links of its folder's path, as a home folder may") {
  ManyRuns runs;
  three_runs(runs);
  REQUIRE(make_directories(runs.scratch().file("home")).ok());
  REQUIRE(::symlink("home", runs.scratch().file("link").c_str()) == 0);
  const RunsIndexOptions options = kept_in(runs.scratch().file("link/longhaul"));
  for (const std::size_t read : {3, 0}) {
    const auto index = RunsIndex::open(runs.folder(), options, later());
    REQUIRE(index.ok());
    CHECK(index->work().remarks.empty());
    CHECK(index->work().read == read);
  }
}

TEST_CASE("trust: what another user has made too large to be read unasked is a row that says so") {
  if (::geteuid() != 0) {
    MESSAGE("skipped: only root can make a file of another user");
    return;
  }
  ManyRuns runs;
  three_runs(runs);
  REQUIRE(::truncate((runs.run("other-bad") + "/resolved.toml").c_str(), 1LL << 40) == 0);  // a hole
  REQUIRE(::chown(runs.run("other-bad").c_str(), 40001, 40001) == 0);
  RunsIndex index = opened(runs);
  RunsQuery query;
  query.owners = {40001};
  const auto rows = ask(index, query);
  REQUIRE(rows.size() == 1);
  CHECK(rows[0].problem.find("larger than is read unasked") != std::string::npos);
}

TEST_CASE("a run that cannot be read is a row that says why, and is read again each time") {
  ManyRuns runs;
  three_runs(runs);
  REQUIRE(write_file_atomic(runs.run("quick-done") + "/resolved.toml", "file = \"longhaul run\"\nformat = 99\n").ok());
  for (int i = 0; i < 2; ++i) {
    RunsIndex index = opened(runs);
    RunsQuery query;
    query.states = {"unreadable"};
    const auto rows = ask(index, query);
    REQUIRE(rows.size() == 1);
    CHECK(rows[0].name == "quick-done");
    CHECK(rows[0].problem.find("format") != std::string::npos);
  }
}

TEST_CASE("runs and stages are chosen by state, name, time, model and figure") {
  ManyRuns runs;
  three_runs(runs);
  RunsIndex index = opened(runs);
  const std::int64_t start_ms = 1'700'000'000'000, day_ms = 86'400'000;
  const auto found = [&](const std::function<void(RunsQuery&)>& ask_for) {
    RunsQuery query;
    ask_for(query);
    return names(ask(index, query));
  };
  CHECK(found([](RunsQuery& q) { q.states = {"failed", "succeeded"}; }) == "quick-done other-bad");
  CHECK(found([](RunsQuery& q) { q.names = {"quick"}; }) == "quick-done quick-going");
  CHECK(found([](RunsQuery& q) { q.names = {"*-bad", "nothing"}; }) == "other-bad");
  CHECK(found([](RunsQuery& q) { q.names = {"uick"}; }).empty());
  CHECK(found([](RunsQuery& q) { q.models = {"llama"}; }) == "quick-done other-bad quick-going");
  CHECK(found([](RunsQuery& q) { q.models = {"mixtral"}; }).empty());
  CHECK(found([](RunsQuery& q) { q.owners = {static_cast<std::int64_t>(::geteuid())}; }).size() > 20);
  CHECK(found([](RunsQuery& q) { q.owners = {40001}; }).empty());
  CHECK(found([&](RunsQuery& q) { q.since_ms = start_ms + day_ms / 2; }) == "other-bad quick-going");
  CHECK(found([&](RunsQuery& q) { q.until_ms = start_ms + day_ms / 2; }) == "quick-done");
  CHECK(found([](RunsQuery& q) { q.figures = {{"heldout_loss", "<", 3}}; }) == "quick-done");
  CHECK(found([](RunsQuery& q) { q.figures = {{"loss", ">", 4}}; }) == "other-bad quick-going");
  CHECK(found([](RunsQuery& q) { q.figures = {{"loss", ">", 4}, {"step", "<=", 100}}; }) == "other-bad");
  CHECK(found([](RunsQuery& q) { q.of_stage = {"tokens"}; }).size() > 20);

  RunsQuery stages;
  stages.stages = true;
  CHECK(ask(index, stages).size() == 6);
  stages.of_stage = {"pretrain"};
  stages.states = {"running"};
  auto rows = ask(index, stages);
  REQUIRE(rows.size() == 1);
  CHECK(rows[0].name == "quick-going");
  CHECK(rows[0].stage == "pretrain");
  stages.states.clear();
  stages.figures = {{"heldout_loss", ">", 0}};
  rows = ask(index, stages);
  REQUIRE(rows.size() == 1);
  CHECK(rows[0].figures[0] == 2.5);
}

TEST_CASE("rows are sorted by what is asked for, and an unknown key is refused") {
  ManyRuns runs;
  three_runs(runs);
  RunsIndex index = opened(runs);
  auto rows = ask(index);
  REQUIRE(sort_rows(rows, "loss", {}).ok());
  CHECK(names(rows) == "quick-done quick-going other-bad");
  REQUIRE(sort_rows(rows, "-created", {}).ok());
  CHECK(names(rows) == "quick-going other-bad quick-done");
  for (const std::string& key : sort_keys()) CHECK(sort_rows(rows, key, {}).ok());
  RunsQuery query;
  query.figures = {{"heldout_loss", ">", 0}};
  auto with_figure = ask(index, query);
  CHECK(sort_rows(with_figure, "heldout_loss", query).ok());
  const Status refused = sort_rows(rows, "heldout_loss", {});
  REQUIRE_FALSE(refused.ok());
  CHECK(refused.error().message().find("there are: created, name") != std::string::npos);
}

TEST_CASE("bounds of figures and times are read as people write them, and refused with the remedy") {
  const auto bound = parse_figure_bound("heldout_loss <= 3.2");
  REQUIRE(bound.ok());
  CHECK(bound->name == "heldout_loss");
  CHECK(bound->relation == "<=");
  CHECK(bound->value == 3.2);
  CHECK(parse_figure_bound("a==1e3")->relation == "=");
  for (const char* wrong : {"", "loss", "<3", "loss<", "loss<three", "loss<3 nats", "loss<>3", "loss=<3"}) {
    CAPTURE(wrong);
    const auto refused = parse_figure_bound(wrong);
    REQUIRE_FALSE(refused.ok());
    CHECK(refused.error().code == ErrorCode::invalid_input);
    CHECK(refused.error().hint.find("'heldout_loss<3'") != std::string::npos);
  }
  const std::int64_t now_ms = 1'700'000'000'000;  // 2023-11-14T22:13:20Z
  CHECK(*parse_when("2d", now_ms) == now_ms - 172'800'000);
  CHECK(*parse_when("2023-11-14", now_ms) == now_ms - ((22 * 60 + 13) * 60 + 20) * 1000);
  CHECK(*parse_when("2023-11-14T22:13:20", now_ms) == now_ms);
  CHECK(*parse_when("2023-11-14 22:13Z", now_ms) == now_ms - 20'000);
  for (const char* wrong : {"", "yesterday", "2", "2023-13-01", "2023-02-30", "2023-11-14T", "2023-11-14T25:00",
                            "2023-11-14T12:00:00+01", "20231114"}) {
    CAPTURE(wrong);
    const auto refused = parse_when(wrong, now_ms);
    REQUIRE_FALSE(refused.ok());
    CHECK(refused.error().hint.find("2026-11-01") != std::string::npos);
  }
}

}  // namespace longhaul
