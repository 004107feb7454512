// Where the time of a run's trainings went, read from the files of a run.
#include "orchestrator/state/stage_goodput.h"

#include <doctest/doctest.h>
#include <unistd.h>

#include "base/files/files.h"
#include "base/system/clock.h"
#include "base/text/text.h"
#include "contracts/records/record.h"
#include "orchestrator/render/run/goodput_text.h"
#include "orchestrator/state/epoch_log.h"
#include "orchestrator/state/job_end_faults.h"
#include "orchestrator/state/run_folder.h"

namespace longhaul {
namespace {

// A run of one training that is submitted twice: the first job loses a rank and then its node.
struct GoodputRun {
  std::string path = format("/tmp/longhaul-goodput-{}", ::getpid());
  ManualClock clock{1'000'000};
  std::unique_ptr<EpochLog> log;
  std::vector<Fact> facts;

  GoodputRun() {
    FrozenRun frozen;
    frozen.name = "run";
    for (const char* id : {"pretrain", "report"}) {
      PlannedStage stage;
      stage.stage = id;
      stage.kind = "command";
      stage.settings = Value::make_table();
      frozen.plan.stages.push_back(stage);
    }
    REQUIRE(make_directories(path + "/log").ok());
    REQUIRE(write_file_atomic(path + "/resolved.toml", frozen_run_text(frozen)).ok());
    auto claimed = EpochLog::claim(path, clock, facts);
    REQUIRE(claimed.ok());
    log = std::make_unique<EpochLog>(std::move(claimed).value());
  }
  ~GoodputRun() { (void)remove_tree(path).ok(); }

  void write_fact(std::int64_t at_ms, FactKind kind, int attempt, const std::string& stage = "pretrain") {
    clock.advance_ms(at_ms - clock.wall_ms());
    std::vector<Fact> news = {{kind, stage, attempt, Value::make_table(), 0}};
    REQUIRE(log->append(news, clock).ok());
  }
  void attempt(int number, std::int64_t started_ms, std::int64_t ended_ms, const std::string& events,
               const std::string& stage = "pretrain") {
    const std::string folder = attempt_folder(path, stage, number);
    REQUIRE(make_directories(folder).ok());
    LeadClaim claim;
    claim.started_ms = started_ms;
    REQUIRE(write_claim(join_path(folder, claim_file_name(0)), claim).ok());
    if (ended_ms > 0) {
      JobRecord record;
      record.started_ms = started_ms, record.ended_ms = ended_ms;
      record.outcome = "failed";
      REQUIRE(write_record(join_path(folder, record_file_name(0)), record).ok());
    }
    REQUIRE(write_file_atomic(join_path(folder, "events.jsonl"), events).ok());
  }
};

std::string line_at(std::int64_t at_ms, const std::string& kind, const std::string& fields = "") {
  return format("{{\"ms\":{},\"kind\":\"{}\",\"rank\":0{}}}\n", at_ms, kind, fields);
}

}  // namespace

TEST_CASE("a training over two jobs, one fault within the first") {
  GoodputRun run;
  run.write_fact(1'000'000, FactKind::submit, 1);
  run.attempt(1, 1'060'000, 1'200'000,
              line_at(1'061'000, "launched") + line_at(1'070'000, "ready", ",\"step\":0,\"load_s\":2") +
                  line_at(1'080'000, "metric", ",\"step\":1") + line_at(1'090'000, "metric", ",\"step\":2") +
                  line_at(1'091'000, "fault", ",\"class\":\"killed\",\"tier\":\"in_job\",\"step\":2,\"detect_s\":1") +
                  line_at(1'092'000, "ranks_ended") + line_at(1'093'000, "launched") +
                  line_at(1'100'000, "ready", ",\"step\":1,\"load_s\":1") +
                  line_at(1'110'000, "metric", ",\"step\":2") + line_at(1'120'000, "metric", ",\"step\":3"));
  run.write_fact(1'210'000, FactKind::submit, 2);
  run.attempt(2, 1'230'000, 0,
              line_at(1'240'000, "ready", ",\"step\":3") + line_at(1'260'000, "metric", ",\"step\":5"));
  run.write_fact(1'000'500, FactKind::submit, 1, "report");
  run.attempt(1, 1'001'000, 1'002'000, line_at(1'001'500, "launched"), "report");
  const auto goodput = read_goodput(run.path, 1'300'000);
  REQUIRE_MESSAGE(goodput.ok(), goodput.error().message());
  REQUIRE(goodput->size() == 1);  // the report trains nothing
  const GoodputLedger& ledger = (*goodput)[0].ledger;
  CHECK((*goodput)[0].stage == "pretrain");
  CHECK(ledger.total_ms() == 300'000);
  // 20 + 10 + 80 until the job's end, of which nobody knew anything else; 60 in the second job.
  CHECK(ledger.ms(TimeClass::training) == 20'000 + 90'000 + 60'000);
  CHECK(ledger.ms(TimeClass::recompute) == 10'000);
  CHECK(ledger.ms(TimeClass::queue) == 60'000 + 20'000);
  CHECK(ledger.ms(TimeClass::idle) == 10'000);
  CHECK(ledger.ms(TimeClass::detect) == 1000);
  CHECK(ledger.ms(TimeClass::load) == 3000);
  CHECK(ledger.faults() == 1);
  const std::string text = goodput_text(*goodput);
  for (const char* part : {"pretrain: effective training time 56.7 % of 5m 00s, 1 fault, 1 steps lost", "queue 26.7 %",
                           "killed", "in_job"})
    CHECK_MESSAGE(text.find(part) != std::string::npos, part << " is not in " << text);
  const Value value = goodput_value(*goodput);
  CHECK(value.as_array()[0].find("classes_s")->get_number("recompute") == 10);
  CHECK(value.as_array()[0].find("faults")->as_array()[0].get_number("total_s") == doctest::Approx(20));
  CHECK(goodput_html(*goodput).find("<td>killed") != std::string::npos);
  CHECK(goodput_text({}).empty());
  CHECK(goodput_html({}).empty());
}

TEST_CASE("the time of a lead whose clock is wrong by hours is counted as it was") {
  for (const std::int64_t ahead_ms : {0, 72'000'000, -500'000}) {
    CAPTURE(ahead_ms);
    GoodputRun run;
    run.write_fact(1'000'000, FactKind::submit, 1);
    run.write_fact(1'060'000, FactKind::started, 1);
    const auto at = [&](std::int64_t ms) { return ms + ahead_ms; };
    run.attempt(1, at(1'060'000), at(1'200'000),
                line_at(at(1'061'000), "launched") + line_at(at(1'070'000), "ready", ",\"step\":0,\"load_s\":2") +
                    line_at(at(1'080'000), "metric", ",\"step\":1") + line_at(at(1'100'000), "metric", ",\"step\":3"));
    const auto goodput = read_goodput(run.path, 1'300'000);
    REQUIRE(goodput.ok());
    REQUIRE(goodput->size() == 1);
    const GoodputLedger& ledger = (*goodput)[0].ledger;
    CHECK(ledger.total_ms() == 300'000);
    CHECK(ledger.ms(TimeClass::queue) == 60'000);
    CHECK(ledger.ms(TimeClass::training) == 130'000);
    CHECK(ledger.ms(TimeClass::load) == 2000);
  }
}

TEST_CASE(
    "what a lead noticed is open until it ends, or its ranks are started anew; the engine's own spikes are beside it") {
  const auto event = [](std::int64_t at, const std::string& kind, int rank, std::int64_t step) {
    WarningEvent warning;
    warning.kind = kind, warning.fault_class = "slow_rank", warning.rank = rank, warning.step = step;
    return Event{at, kind, 0, to_value(warning)};
  };
  Value spike = Value::make_table();
  spike.set("step", 7), spike.set("loss", Value()), spike.set("problem", "the loss is nan"),
      spike.set("action", "skip");
  std::vector<Event> events = {event(1, "straggler", 2, 100), event(2, "straggler", 3, 101),
                               event(3, "straggler_over", 2, 130), Event{4, "spike", 0, spike}};
  auto warnings = warnings_of(1, events);
  REQUIRE(warnings.size() == 3);
  CHECK(warnings[0].over);
  CHECK(!warnings[1].over);
  CHECK(warnings[1].warning.rank == 3);
  CHECK(warnings[2].warning.kind == "loss_nan");
  CHECK(warnings[2].warning.text == "the loss is nan; the engine's answer: skip");
  events.push_back(Event{5, "launched", 0, Value::make_table()});
  warnings = warnings_of(1, events);
  CHECK(warnings[1].over);
}

TEST_CASE("a slow rank is reported where there is a host to go to, and on one host when it lasts") {
  const auto event = [](std::int64_t at, const std::string& kind) {
    WarningEvent warning;
    warning.kind = kind, warning.fault_class = "slow_rank", warning.rank = 1, warning.step = 100;
    return Event{at, kind, 0, to_value(warning)};
  };
  const auto reported = [&](const Event& launched, std::int64_t lasted_ms, bool over) {
    std::vector<Event> events = {launched, event(1'000, "straggler")};
    if (over) events.push_back(event(1'000 + lasted_ms, "straggler_over"));
    const auto warnings = warnings_of(1, events);
    REQUIRE(warnings.size() == 1);
    return calls_for_action(warnings[0], over ? 10'000'000 : 1'000 + lasted_ms);
  };
  Event alone{500, "launched", 0, Value::make_table()};
  Event with_spare = alone, two = alone;
  with_spare.fields.set("spares", 1);
  two.fields.set("hosts", ValueArray{Value("n1"), Value("n2")});
  for (const bool over : {false, true}) {
    CAPTURE(over);
    CHECK_FALSE(reported(alone, straggler_lasts_ms - 1, over));
    CHECK(reported(alone, straggler_lasts_ms, over));
    CHECK(reported(with_spare, 20'000, over));
    CHECK(reported(two, 20'000, over));
  }
  WarningEvent spike;
  spike.kind = "loss_spike";
  CHECK(calls_for_action({1'000, 1, spike, false, 0, false}, 1'001));

  GoodputRun run;
  run.write_fact(1'000'000, FactKind::submit, 1);
  const std::string slow = ",\"class\":\"slow_rank\",\"rank_of\":0";
  run.attempt(1, 1'060'000, 0,
              line_at(1'061'000, "launched") + line_at(1'070'000, "ready", ",\"step\":0") +
                  line_at(1'080'000, "straggler", slow) + line_at(1'100'000, "straggler_over", slow) +
                  line_at(1'110'000, "metric", ",\"step\":9") + line_at(1'120'000, "straggler", slow));
  const auto early = read_goodput(run.path, 1'300'000), late = read_goodput(run.path, 1'120'000 + straggler_lasts_ms);
  REQUIRE(early.ok());
  REQUIRE(late.ok());
  CHECK((*early)[0].warnings.empty());
  REQUIRE((*late)[0].warnings.size() == 1);
  CHECK((*late)[0].warnings[0].at_ms == 1'120'000);
}

TEST_CASE(
    "what is computed before the first step, and waiting for the cores of this machine, have classes of their own") {
  for (const bool local : {false, true}) {
    CAPTURE(local);
    GoodputRun run;
    REQUIRE(write_file_atomic(run.path + "/site.toml", format("scheduler = \"{}\"\n", local ? "local" : "slurm")).ok());
    run.write_fact(1'000'000, FactKind::submit, 1);
    run.attempt(1, 1'060'000, 0,
                line_at(1'061'000, "launched") + line_at(1'070'000, "preparing", ",\"what\":\"reference scores\"") +
                    line_at(1'110'000, "ready", ",\"step\":0,\"load_s\":2") +
                    line_at(1'120'000, "metric", ",\"step\":1"));
    const auto goodput = read_goodput(run.path, 1'130'000);
    REQUIRE(goodput.ok());
    const GoodputLedger& ledger = (*goodput)[0].ledger;
    CHECK(ledger.ms(TimeClass::queue) == (local ? 0 : 60'000));
    CHECK(ledger.ms(TimeClass::cores) == (local ? 60'000 : 0));
    CHECK(ledger.ms(TimeClass::start) == 10'000);
    CHECK(ledger.ms(TimeClass::prepare) == 38'000);
    CHECK(ledger.ms(TimeClass::load) == 2'000);
    CHECK(ledger.ms(TimeClass::training) == 20'000);
    const std::string text = goodput_text(*goodput);
    CHECK(text.find(local ? "cores 46.2 %" : "queue 46.2 %") != std::string::npos);
    CHECK(text.find("prepare 29.2 %") != std::string::npos);
  }
}

TEST_CASE("a host without an agent stays so until another one reports from it, whatever its ranks do") {
  const auto event = [](std::int64_t at, const std::string& kind, const std::string& host) {
    WarningEvent warning;
    warning.kind = kind, warning.fault_class = "agent_lost", warning.host = host, warning.text = "of " + host;
    return Event{at, kind, 0, to_value(warning)};
  };
  std::vector<Event> events = {event(1, "agent_lost", "n1"), event(2, "agent_lost", "n2"), event(2, "timeouts", ""),
                               Event{3, "launched", 0, Value::make_table()}, event(4, "agent_lost_over", "n2")};
  auto warnings = warnings_of(1, events);
  REQUIRE(warnings.size() == 3);
  CHECK(!warnings[2].over);  // holds for the whole job
  warnings.pop_back();
  CHECK(!warnings[0].over);
  CHECK(warnings[1].over);
  StageGoodput stage{"s", GoodputLedger(0), warnings};
  CHECK(goodput_text({stage}).find("agent_lost  now") != std::string::npos);
  CHECK(goodput_text({stage}).find("n2    of n2") != std::string::npos);
}

TEST_CASE("GPUs that nobody watches stay so whatever ranks do, and until the hosts reported are watched") {
  const auto event = [](std::int64_t at, const std::string& kind, const std::string& host) {
    WarningEvent warning;
    warning.kind = kind, warning.fault_class = "health_silent", warning.host = host, warning.text = "nobody watches";
    return Event{at, kind, 0, to_value(warning)};
  };
  const Event launched{3, "launched", 0, Value::make_table()};
  const auto warnings = warnings_of(1, {event(1, "gpus_not_watched", "n1,n2"), event(2, "gpus_not_watched", "n3"),
                                        event(2, "no_agents", ""), launched, event(4, "gpus_not_watched_over", "n3")});
  REQUIRE(warnings.size() == 3);
  CHECK(!warnings[0].over);
  CHECK(warnings[1].over);
  CHECK(!warnings[2].over);
  StageGoodput stage{"s", GoodputLedger(0), warnings};
  CHECK(goodput_text({stage}).find("gpus_not_watched  now") != std::string::npos);
}

TEST_CASE("what was found wrong with hosts is shown once for each host, class and device, newest last, how often") {
  const auto found = [](std::int64_t at, const char* host, const char* fault, const char* device, const char* what) {
    Value fields = Value::make_table();
    fields.set("host", host), fields.set("class", fault), fields.set("device", device);
    fields.set("severity", "warning"), fields.set("what", what);
    return Event{at, "health", 0, std::move(fields)};
  };
  std::vector<HostWarning> hosts;
  add_host_warnings(
      {found(1'000, "n1", "gpu_hot", "GPU 1", "84 degrees"), found(2'000, "n2", "disk_low", "/runs", "2 %"),
       Event{3'000, "launched", 0, Value::make_table()}, found(4'000, "n1", "gpu_hot", "GPU 1", "86 degrees")},
      hosts);
  add_host_warnings({found(5'000, "n1", "gpu_hot", "GPU 0", "85 degrees")}, hosts);  // of the next attempt
  REQUIRE(hosts.size() == 3);
  CHECK(hosts[0].host == "n2");
  CHECK(hosts[1].times == 2);
  CHECK(hosts[1].what == "86 degrees");
  CHECK(hosts[1].first_ms == 1'000);
  CHECK(hosts[1].last_ms == 4'000);
  CHECK(hosts[2].device == "GPU 0");

  const StageGoodput stage{"s", GoodputLedger(0), {}, hosts};
  const std::string text = goodput_text({stage});
  for (const char* part : {"host  found     severity  times  last", "GPU 1: 86 degrees", "/runs: 2 %"})
    CHECK_MESSAGE(text.find(part) != std::string::npos, part << " is not in " << text);
  CHECK(goodput_text({stage}, 1).find("and 2 before") != std::string::npos);
  CHECK(goodput_html({stage}).find("<td>gpu_hot<td>warning<td>2<td>") != std::string::npos);
  const Value value = goodput_value({stage});
  CHECK(value.as_array()[0].find("hosts")->as_array()[1].get_integer("times") == 2);
}

TEST_CASE("what allocations were held after their last rank is summed over the jobs of a training, and shown") {
  GoodputRun run;
  run.write_fact(1'000'000, FactKind::submit, 1);
  run.attempt(
      1, 1'010'000, 1'040'000,
      line_at(1'011'000, "launched") + line_at(1'030'000, "metric", ",\"step\":1") +
          line_at(1'052'000, "allocation_held", ",\"held_s\":12,\"gpu_minutes\":1.6,\"gpus\":8,\"left\":\"followed\""));
  run.write_fact(1'045'000, FactKind::retry, 1);
  run.write_fact(1'045'000, FactKind::submit, 2);
  run.attempt(2, 1'050'000, 1'080'000,
              line_at(1'051'000, "launched") + line_at(1'070'000, "metric", ",\"step\":2") +
                  line_at(1'083'000, "allocation_held", ",\"held_s\":3,\"gpu_minutes\":0.4,\"left\":\"done\""));
  const auto goodput = read_goodput(run.path, 1'090'000);
  REQUIRE(goodput.ok());
  REQUIRE(goodput->size() == 1);
  const HeldAllocations& held = (*goodput)[0].held;
  CHECK(held.jobs == 2);
  CHECK(held.held_s == doctest::Approx(15));
  CHECK(held.longest_s == doctest::Approx(12));
  CHECK(held.gpu_minutes == doctest::Approx(2));
  CHECK(goodput_text(*goodput).find("15.0 s in 2 jobs, the longest 12.0 s; 0.03 GPU-hours") != std::string::npos);
  CHECK(goodput_html(*goodput).find("the longest 12.0 s") != std::string::npos);
  CHECK(goodput_value(*goodput).as_array()[0].find("held")->get_integer("jobs") == 2);
}

namespace {

Fact bad_end_at(std::int64_t at_ms, FactKind kind, const std::string& fault) {
  Fact fact{kind, "pretrain", 1, Value::make_table(), at_ms};
  fact.fields.set("fault", fault);
  return fact;
}
std::vector<Event> parsed(const std::string& lines) {
  std::vector<Event> events;
  for (const std::string& line : split(trim(lines), '\n')) events.push_back(*parse_event(line));
  return events;
}

}  // namespace

TEST_CASE("the death of a lead, known to the controller alone, costs what any other fault costs") {
  GoodputRun run;
  run.write_fact(1'000'000, FactKind::submit, 1);
  run.attempt(1, 1'010'000, 0,
              line_at(1'011'000, "launched") + line_at(1'020'000, "ready", ",\"step\":0,\"load_s\":1") +
                  line_at(1'030'000, "metric", ",\"step\":1") + line_at(1'040'000, "metric", ",\"step\":2"));
  run.write_fact(1'045'000, FactKind::retry, 1);
  run.write_fact(1'045'000, FactKind::submit, 2);
  run.attempt(2, 1'050'000, 0,
              line_at(1'051'000, "launched") + line_at(1'060'000, "ready", ",\"step\":1,\"load_s\":2") +
                  line_at(1'070'000, "metric", ",\"step\":2") + line_at(1'080'000, "metric", ",\"step\":3"));
  const auto goodput = read_goodput(run.path, 1'080'000);
  REQUIRE_MESSAGE(goodput.ok(), goodput.error().message());
  REQUIRE(goodput->size() == 1);
  const GoodputLedger& ledger = (*goodput)[0].ledger;
  CHECK(ledger.total_ms() == 80'000);
  CHECK(ledger.ms(TimeClass::detect) == 5'000);
  CHECK(ledger.ms(TimeClass::queue) == 10'000 + 5'000);
  CHECK(ledger.ms(TimeClass::recompute) == 10'000);
  CHECK(ledger.ms(TimeClass::training) == 20'000 + 10'000);
  REQUIRE(ledger.costs().size() == 1);
  const FaultCost& cost = ledger.costs()[0];
  CHECK(cost.tier == "new_job");
  CHECK(cost.lost_steps == 1);
  CHECK(cost.total_ms() == 5'000 + 5'000 + 8'000 + 2'000 + 10'000);  // detect, queue, start, load, recompute
}

TEST_CASE("an end of a job is a fault of the controller's where no lead has reported it, and where it is one") {
  const std::string steps = line_at(10'000, "launched") + line_at(20'000, "metric", ",\"step\":4");
  const auto reported = [&](FactKind kind, const char* fault, const std::string& more = "") {
    return facts_of_end(bad_end_at(30'000, kind, fault), parsed(steps + more)).size();
  };
  CHECK(reported(FactKind::retry, "lost") == 2);
  CHECK(reported(FactKind::go_on, "node_fail") == 2);
  CHECK(reported(FactKind::failed, "lost") == 2);
  CHECK(reported(FactKind::requeued, "") == 2);
  CHECK(reported(FactKind::retry, "wall_time") == 0);
  CHECK(reported(FactKind::failed, "cancelled_there") == 0);
  CHECK(reported(FactKind::cancelled, "lost") == 0);
  CHECK(reported(FactKind::retry, "lost", line_at(25'000, "fault", ",\"tier\":\"new_job\"")) == 0);
  CHECK(reported(FactKind::failed, "crash", line_at(25'000, "fault", ",\"tier\":\"stop\"")) == 0);
  CHECK(reported(FactKind::retry, "lost", line_at(25'000, "fault", ",\"tier\":\"in_job\"")) == 2);
  CHECK(reported(FactKind::retry, "lost",
                 line_at(25'000, "fault", ",\"tier\":\"new_job\"") + line_at(26'000, "launched")) == 2);
  CHECK(facts_of_end(bad_end_at(30'000, FactKind::retry, "lost"), {}).empty());
  const auto facts = facts_of_end(bad_end_at(30'000, FactKind::retry, "lost"), parsed(steps));
  CHECK(facts[0].part_ms == 10'000);
  CHECK(facts[0].step == 4);
}

TEST_CASE("a recovery by another job goes from the last heartbeat to the first step, with the queue in between") {
  const auto before = parsed(line_at(10'000, "launched") + line_at(20'000, "metric", ",\"step\":4"));
  const auto after = parsed(line_at(41'000, "launched") + line_at(47'000, "ready", ",\"step\":2,\"load_s\":2") +
                            line_at(50'000, "metric", ",\"step\":3") + line_at(53'000, "metric", ",\"step\":4"));
  const Fact end = bad_end_at(30'000, FactKind::retry, "lost");
  const auto recovered = recovery_after_end(end, before, 40'000, after);
  REQUIRE(recovered);
  CHECK(recovered->detect_s == 10);
  CHECK(recovered->queue_s == 10);
  CHECK(recovered->start_s == 5);
  CHECK(recovered->load_s == 2);
  CHECK(recovered->first_step_s == 3);
  CHECK(recovered->total_s == 30);
  CHECK(recovered->lost_steps == 2);
  CHECK(!recovery_after_end(end, before, 40'000, parsed(line_at(41'000, "launched"))));
  CHECK(!recovery_after_end(end, before, 0, after));
}

TEST_CASE("a host that is used though it is under suspicion is noticed") {
  Fact submit{FactKind::submit, "pretrain", 3, Value::make_table(), 7'000};
  CHECK(!warning_of(submit));
  submit.fields.set("used_all_the_same", ValueArray{"n3"});
  submit.fields.set("why", "the job needs 3 of 4 hosts");
  const auto warning = warning_of(submit);
  REQUIRE(warning);
  CHECK(warning->warning.kind == "suspect_used");
  CHECK(warning->warning.host == "n3");
  CHECK(warning->warning.text.find("the job needs 3 of 4 hosts") != std::string::npos);
}

}  // namespace longhaul
