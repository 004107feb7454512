#include "orchestrator/state/stage_goodput.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <optional>
#include <string_view>

#include "base/files/file_lines.h"
#include "base/files/files.h"
#include "base/text/text.h"
#include "base/toml.h"
#include "contracts/events/event.h"
#include "contracts/records/held_allocation.h"
#include "contracts/records/record.h"
#include "orchestrator/state/epoch_log.h"
#include "orchestrator/state/job_end_faults.h"
#include "orchestrator/state/run_folder.h"
#include "resiliency/goodput/goodput_events.h"

namespace longhaul {
namespace {

constexpr int job_restarts_max = 1000;
constexpr std::int64_t clock_slack_ms = 120'000;

constexpr std::int64_t metric_every_ms = 30'000;  // of steps in a row one in so long says enough

std::optional<std::int64_t> integer_after(std::string_view line, std::string_view key) {
  const std::size_t at = line.find(key);
  if (at == std::string_view::npos) return {};
  std::int64_t value = 0;
  const char* const begin = line.data() + at + key.size();
  const auto [end, error] = std::from_chars(begin, line.data() + line.size(), value);
  return error == std::errc() && end != begin ? std::optional(value) : std::nullopt;
}

void add_held(const std::vector<Event>& events, HeldAllocations& all) {
  for (const Event& event : events) {
    if (event.kind != allocation_held_event_kind || !event.fields.is_table()) continue;
    const AllocationHeld held = allocation_held_from_value(event.fields);
    ++all.jobs;
    all.held_s += held.held_s;
    all.longest_s = std::max(all.longest_s, held.held_s);
    all.gpu_minutes += held.gpu_minutes;
  }
}

// The lines of an events.jsonl that say something about time. A training of weeks writes a million metrics; those are
// neither parsed nor kept, but for the newest before each other line and one in metric_every_ms.
class TimeEvents {
 public:
  void add(std::string_view line) {
    const std::string_view head = line.substr(0, 160);  // t, ms, kind and rank come first (event_line)
    if (head.find("\"kind\":\"metric\"") != std::string_view::npos) return add_metric(line);
    // Progress in steps counts where a program reports no metrics of its own.
    if (head.find("\"kind\":\"progress\"") != std::string_view::npos && metrics_) return;
    flush();
    if (auto event = parse_event(line); event.ok()) events_.push_back(std::move(*event));
  }
  std::vector<Event> take() {
    flush();
    return std::move(events_);
  }

 private:
  void add_metric(std::string_view line) {
    const auto at_ms = integer_after(line, "\"ms\":"), step = integer_after(line, ",\"step\":");
    if (!at_ms || !step) return;
    metrics_ = true;
    const bool in_a_row = *step >= last_step_;
    if (!in_a_row) {  // back to a checkpoint
      flush();
      furthest_ = std::max(furthest_, last_step_);
    }
    last_step_ = *step;
    newest_ = {*at_ms, *step};
    // Where recomputation ends is kept as well.
    if (!in_a_row || *step == furthest_ || *at_ms - kept_ms_ >= metric_every_ms) flush();
  }
  void flush() {
    if (!newest_) return;
    Event event;
    event.wall_ms = kept_ms_ = newest_->first;
    event.kind = "metric";
    event.fields = Value::make_table();
    event.fields.set("step", static_cast<long long>(newest_->second));
    events_.push_back(std::move(event));
    newest_.reset();
  }

  std::vector<Event> events_;
  std::optional<std::pair<std::int64_t, std::int64_t>> newest_;  // time and step of the newest metric, not kept yet
  std::int64_t kept_ms_ = 0, last_step_ = 0, furthest_ = 0;
  bool metrics_ = false;
};

std::vector<Event> read_time_events(const std::string& path) {
  TimeEvents events;
  for_each_line(path, [&](std::string_view line) { events.add(line); });
  return events.take();  // a torn last line is left out
}

// When attempts of a stage were submitted, by number; a job that the scheduler queued again counts again.
using Submissions = std::map<int, std::vector<std::int64_t>>;

bool asks_for_a_job(FactKind kind) {
  return kind == FactKind::submit || kind == FactKind::submit_next || kind == FactKind::requeued;
}

void add_mark(std::vector<GoodputFact>& facts, std::int64_t at_ms, GoodputFact::Kind kind, bool local = false) {
  if (at_ms <= 0) return;
  GoodputFact fact;
  fact.at_ms = at_ms;
  fact.kind = kind;
  fact.waits_for_cores = local;
  facts.push_back(fact);
}

// By how much the clock of an attempt's lead is ahead of the controllers', which know when the job began: 0 where its
// claim may be of theirs.
std::int64_t clock_ahead_ms(const std::string& folder, std::int64_t submitted_ms, std::int64_t started_ms,
                            std::int64_t now_ms) {
  const auto claim = read_claim(join_path(folder, claim_file_name(0)));
  if (!claim.ok() || started_ms <= 0) return 0;
  const std::int64_t claimed_ms = claim->started_ms;
  const bool may_be = claimed_ms >= submitted_ms - clock_slack_ms && claimed_ms <= now_ms + clock_slack_ms;
  return may_be ? 0 : claimed_ms - started_ms;
}

std::vector<GoodputFact> facts_of_attempt(const std::string& folder, const std::vector<Event>& events,
                                          const std::vector<std::int64_t>& submitted_ms, std::int64_t ahead_ms,
                                          bool local) {
  std::vector<GoodputFact> facts = facts_of({}, events);
  for (const std::int64_t at_ms : submitted_ms) add_mark(facts, at_ms, GoodputFact::Kind::submitted, local);
  for (int restart = 0; restart < job_restarts_max; ++restart) {
    const auto claim = read_claim(join_path(folder, claim_file_name(restart)));
    if (!claim.ok()) break;
    add_mark(facts, claim->started_ms - ahead_ms, GoodputFact::Kind::job_started);
    if (const auto record = read_record(join_path(folder, record_file_name(restart))); record.ok())
      add_mark(facts, record->ended_ms - ahead_ms, GoodputFact::Kind::job_ended);
  }
  return facts;
}

// What other ranks on the same hosts do not change.
bool is_of_hosts(const std::string& kind) {
  for (const char* one : {"agent_lost", "timeouts", "gpus_not_watched", "no_agents", "first_node"})
    if (kind == one) return true;
  return false;
}

}  // namespace

std::optional<StageWarning> warning_of(const Fact& fact) {
  const Value* used = fact.fields.find("used_all_the_same");
  if (!used || !used->is_array() || used->size() == 0) return {};
  std::vector<std::string> hosts;
  for (const Value& host : used->as_array())
    if (host.is_string()) hosts.push_back(host.as_string());
  WarningEvent warning;
  warning.kind = "suspect_used";
  warning.host = join(hosts, ", ");
  warning.text = format("attempt {} may use it though it is under suspicion: {}", fact.attempt, fact.text("why"));
  return StageWarning{fact.wall_ms, fact.attempt, std::move(warning), false, 0, false};
}

bool calls_for_action(const StageWarning& noticed, std::int64_t now_ms) {
  if (noticed.warning.kind != "straggler" || noticed.other_hosts) return true;
  return (noticed.over ? noticed.ended_ms : now_ms) - noticed.at_ms >= straggler_lasts_ms;
}

std::vector<StageWarning> warnings_of(int attempt, const std::vector<Event>& events) {
  std::vector<StageWarning> warnings;
  bool other_hosts = false;
  for (const Event& event : events) {
    const bool anew = event.kind == "launched" || event.kind == "ranks_ended";
    const std::optional<WarningEvent> found = warning_event_of(event);
    if (!anew && !found) continue;
    if (event.kind == "launched" && event.fields.is_table()) {
      const Value* hosts = event.fields.find("hosts");
      other_hosts = (hosts && hosts->size() > 1) || event.fields.get_integer("spares") > 0;
    }
    const bool ends = found && ends_with(found->kind, "_over");
    for (StageWarning& open : warnings) {
      const bool of_ranks = !is_of_hosts(open.warning.kind);
      const bool same = ends && open.warning.kind + "_over" == found->kind && open.warning.rank == found->rank &&
                        (of_ranks || open.warning.host == found->host);
      if (open.over || !((anew && of_ranks) || same)) continue;
      open.over = true;
      open.ended_ms = event.wall_ms;
    }
    if (found && !ends) warnings.push_back({event.wall_ms, attempt, *found, false, 0, other_hosts});
  }
  return warnings;
}

Result<std::vector<StageGoodput>> read_goodput(const std::string& run_dir, std::int64_t now_ms) {
  LH_TRY(const FrozenRun frozen, read_frozen_run(run_dir));
  return read_goodput(run_dir, frozen, now_ms);
}

Result<std::vector<StageGoodput>> read_goodput(const std::string& run_dir, const FrozenRun& frozen,
                                               std::int64_t now_ms) {
  LH_TRY(const EpochRead read, read_epochs(run_dir));
  const auto site = read_toml_file(join_path(run_dir, "site.toml"));
  const bool local = site.ok() && site->get_string("scheduler") == "local";
  RunLedger ledger(frozen.stage_ids());
  std::map<std::string, Submissions> submissions;
  std::map<std::string, std::map<int, std::int64_t>> started;  // first starts, by stage and attempt
  std::map<std::string, std::vector<StageWarning>> decided;
  std::map<std::string, std::vector<Fact>> bad_ends;
  for (const Fact& fact : read.facts) {
    ledger.apply(fact);
    if (is_faulty_end(fact)) bad_ends[fact.stage].push_back(fact);
    if (auto warning = warning_of(fact)) decided[fact.stage].push_back(std::move(*warning));
    if (fact.kind == FactKind::started)
      started[fact.stage].emplace(fact.attempt, fact.fields.get_integer("started_ms", fact.wall_ms));
    if (asks_for_a_job(fact.kind)) submissions[fact.stage][fact.attempt].push_back(fact.wall_ms);
  }
  std::vector<StageGoodput> all;
  for (const LedgerStage& stage : ledger.stages) {
    std::vector<GoodputFact> facts;
    std::vector<StageWarning> warnings = decided[stage.id];
    std::vector<HostWarning> hosts;
    HeldAllocations held;
    for (const auto& [attempt, submitted_ms] : submissions[stage.id]) {
      const std::string folder = attempt_folder(run_dir, stage.id, attempt);
      std::vector<Event> events = read_time_events(join_path(folder, "events.jsonl"));
      const std::int64_t ahead_ms = clock_ahead_ms(folder, submitted_ms.front(), started[stage.id][attempt], now_ms);
      for (Event& event : events) event.wall_ms -= ahead_ms;
      const auto noticed = warnings_of(attempt, events);
      warnings.insert(warnings.end(), noticed.begin(), noticed.end());
      add_host_warnings(events, hosts);
      add_held(events, held);
      // Before what the same moment asks for.
      for (const Fact& end : bad_ends[stage.id])
        if (end.attempt == attempt)
          for (GoodputFact& fact : facts_of_end(end, events)) facts.push_back(std::move(fact));
      const auto more = facts_of_attempt(folder, events, submitted_ms, ahead_ms, local);
      facts.insert(facts.end(), more.begin(), more.end());
    }
    if (facts.empty()) continue;
    const std::int64_t until_ms = is_final(stage.state) ? stage.ended_ms : now_ms;
    std::erase_if(warnings, [&](const StageWarning& one) { return !calls_for_action(one, until_ms); });
    std::stable_sort(warnings.begin(), warnings.end(),
                     [](const StageWarning& a, const StageWarning& b) { return a.at_ms < b.at_ms; });
    std::stable_sort(facts.begin(), facts.end(),
                     [](const GoodputFact& a, const GoodputFact& b) { return a.at_ms < b.at_ms; });
    GoodputLedger goodput(facts.front().at_ms);
    for (const GoodputFact& fact : facts) goodput.add(fact);
    if (!goodput.trained() && warnings.empty() && hosts.empty()) continue;
    // After its end no time belongs to a stage; what its lead said last may be newer than what the controller saw.
    goodput.advance_to(until_ms);
    all.push_back({stage.id, std::move(goodput), std::move(warnings), std::move(hosts), held});
  }
  return all;
}

}  // namespace longhaul
