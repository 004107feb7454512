#include "orchestrator/render/run/fault_story.h"

#include <algorithm>
#include <map>

#include "base/files/files.h"
#include "base/system/clock.h"
#include "base/text/text.h"
#include "contracts/records/record.h"
#include "orchestrator/render/draw/text_table.h"
#include "orchestrator/render/run/run_story.h"
#include "orchestrator/state/epoch_log.h"
#include "orchestrator/state/job_end_faults.h"
#include "resiliency/taxonomy/fault_table.h"

namespace longhaul {
namespace {

// What follows the end of a job.
const char* tier_of(FactKind kind) {
  return to_string(kind == FactKind::failed ? RestartTier::stop : RestartTier::new_job);
}

RunFault end_of_job(const Fact& fact) {
  RunFault run_fault;
  run_fault.wall_ms = fact.wall_ms;
  run_fault.stage = fact.stage;
  run_fault.attempt = fact.attempt;
  run_fault.by_controller = true;
  FaultEvent& fault = run_fault.fault;
  fault.fault_class = fact.kind == FactKind::requeued ? "requeued" : fact.text("fault");
  for (const FaultInfo& info : fault_table)
    if (fault.fault_class == info.name) fault.scope = to_string(info.scope), fault.severity = to_string(info.severity);
  fault.host = fact.text("node");
  fault.step = fact.fields.get_integer("step", -1);
  fault.cause = fact.text("cause");
  fault.reason = fact.text("reason");
  fault.tier = tier_of(fact.kind);
  if (fact.kind == FactKind::failed) fault.next = "nothing";
  if (fact.kind == FactKind::requeued) fault.next = "the scheduler starts the same job again";
  if (fact.kind == FactKind::go_on) fault.next = "its successor, which is queued already";
  return run_fault;
}

std::string hosts_in(const Fact& fact, const char* key) {
  std::vector<std::string> hosts;
  if (const Value* list = fact.fields.find(key); list && list->is_array())
    for (const Value& host : list->as_array())
      if (host.is_string()) hosts.push_back(host.as_string());
  return join(hosts, ", ");
}

std::string seconds_text(double seconds) {
  return seconds < 0 ? "?" : format("{:.2f} s", seconds);
}

std::string culprit_text(const FaultEvent& fault) {
  std::vector<std::string> parts;
  if (fault.rank >= 0) parts.push_back(format("rank {}", fault.rank));
  if (!fault.host.empty()) parts.push_back("on " + fault.host);
  if (!fault.section.empty()) parts.push_back("in " + fault.section);
  if (fault.step >= 0) parts.push_back(format("at step {}", fault.step));
  return join(parts, " ");
}

std::string recovery_text(const RecoveredEvent& recovered) {
  std::string text = seconds_text(recovered.total_s) + " until the next completed step: ";
  const bool queued = recovered.queue_s >= 0;
  text += format("detect {}, {} {}, start {}, load {}, first step {}", seconds_text(recovered.detect_s),
                 queued ? "queue" : "stop", seconds_text(queued ? recovered.queue_s : recovered.stop_s),
                 seconds_text(recovered.start_s), seconds_text(recovered.load_s), seconds_text(recovered.first_step_s));
  if (recovered.lost_steps >= 0) text += format("; {} steps done again", recovered.lost_steps);
  return text;
}

std::string fault_text(const RunFault& run_fault) {
  const FaultEvent& fault = run_fault.fault;
  std::string where = format("{}, attempt {}", run_fault.stage, run_fault.attempt);
  if (fault.launch > 0) where += format(", launch {}", fault.launch);
  std::string text = format("{}  {}  {}", utc_text(run_fault.wall_ms), where, fault.fault_class);
  if (!fault.scope.empty()) text += " (" + fault.scope + ")";
  if (const std::string culprit = culprit_text(fault); !culprit.empty()) text += "  " + culprit;
  text += "\n";
  if (!fault.cause.empty()) text += "    cause      " + fault.cause + "\n";
  std::string decided = fault.tier.empty() ? std::string("?") : fault.tier;
  if (!fault.next.empty()) decided += ": " + fault.next;
  if (!fault.reason.empty()) decided += " (" + fault.reason + ")";
  text += "    decided    " + decided + "\n";
  if (run_fault.recovered)
    text += "    recovered  " + recovery_text(*run_fault.recovered) + "\n";
  else if (run_fault.launched_ms > 0)
    text += format("    launched   {:.2f} s later\n",
                   static_cast<double>(run_fault.launched_ms - run_fault.wall_ms) * 1e-3);
  return text;
}

std::string summary_text(const std::vector<RunFault>& faults) {
  std::map<std::string, int> of_class;
  std::vector<double> totals;
  for (const RunFault& run_fault : faults) {
    ++of_class[run_fault.fault.fault_class];
    if (run_fault.recovered && !run_fault.by_controller && run_fault.recovered->total_s >= 0)
      totals.push_back(run_fault.recovered->total_s);
  }
  std::vector<std::string> parts;
  for (const auto& [name, count] : of_class) parts.push_back(format("{} {}", count, name));
  std::string text = format("{} fault{}: {}", faults.size(), faults.size() == 1 ? "" : "s", join(parts, ", "));
  if (!totals.empty()) {
    std::sort(totals.begin(), totals.end());
    text += format("; {} recovered within their job, median {:.2f} s", totals.size(), totals[totals.size() / 2]);
  }
  return text + "\n";
}

void note_recovery(const Fact& end, const std::optional<RecoveredEvent>& recovered, std::vector<RunFault>& faults) {
  for (RunFault& run_fault : faults)
    if (run_fault.by_controller && run_fault.wall_ms == end.wall_ms && run_fault.stage == end.stage &&
        run_fault.attempt == end.attempt)
      run_fault.recovered = recovered;
}

}  // namespace

std::vector<RunFault> faults_of_events(const std::string& stage, int attempt, const std::vector<Event>& events) {
  std::vector<RunFault> faults;
  for (const Event& event : events) {
    if (event.kind == fault_event_kind) {
      RunFault run_fault;
      run_fault.wall_ms = event.wall_ms;
      run_fault.stage = stage;
      run_fault.attempt = attempt;
      run_fault.fault = fault_event_of(event);
      faults.push_back(std::move(run_fault));
    } else if (faults.empty()) {
      continue;
    } else if (event.kind == recovered_event_kind) {
      faults.back().recovered = recovered_event_from_value(event.fields);
    } else if (event.kind == "launched" && faults.back().launched_ms == 0) {
      faults.back().launched_ms = event.wall_ms;
    }
  }
  return faults;
}

std::vector<RunFault> faults_of_facts(const std::vector<Fact>& facts) {
  std::vector<RunFault> faults;
  std::map<std::string, std::size_t> open;  // stage -> its last end, whose next attempt is not known yet
  for (const Fact& fact : facts) {
    const auto given_up = fact.kind == FactKind::failed && fact.attempt == 0 ? open.find(fact.stage) : open.end();
    if (given_up != open.end()) {  // that other attempt never comes
      FaultEvent& fault = faults[given_up->second].fault;
      fault.tier = tier_of(fact.kind);
      fault.next = "nothing";
      fault.cause = fact.text("cause");
      open.erase(given_up);
      continue;
    }
    switch (fact.kind) {
      case FactKind::retry:
      case FactKind::go_on:
      case FactKind::failed:
      case FactKind::requeued:
        faults.push_back(end_of_job(fact));
        if (fact.kind == FactKind::retry) open[fact.stage] = faults.size() - 1;
        break;
      case FactKind::submit: {
        const auto waiting = open.find(fact.stage);
        if (waiting == open.end()) break;
        FaultEvent& fault = faults[waiting->second].fault;
        fault.next = format("attempt {}", fact.attempt);
        if (const std::string hosts = hosts_in(fact, "exclude"); !hosts.empty()) fault.next += " without " + hosts;
        if (const std::string hosts = hosts_in(fact, "used_all_the_same"); !hosts.empty())
          fault.next += format(", {} may be used all the same: {}", hosts, fact.text("why"));
        open.erase(waiting);
        break;
      }
      default: break;
    }
  }
  return faults;
}

Result<std::vector<RunFault>> read_run_faults(const std::string& run_dir) {
  LH_TRY(const RunStatus status, read_run_status(run_dir));
  LH_TRY(const EpochRead read, read_epochs(run_dir));
  std::vector<RunFault> faults = faults_of_facts(read.facts);
  std::vector<Fact> ends;
  for (const Fact& fact : read.facts)
    if (is_faulty_end(fact)) ends.push_back(fact);
  for (const StageStatus& stage : status.stages) {
    const std::string folder = join_path(run_dir, stage.folder.empty() ? "stages/" + stage.id : stage.folder);
    std::vector<Event> before;
    int earlier = 0;
    for (const int attempt : attempt_numbers(folder)) {
      std::uint64_t offset = 0;
      LH_TRY(const std::vector<Event> events,
             read_events(join_path(folder, format("attempts/{}/events.jsonl", attempt)), offset));
      std::vector<RunFault> of_lead = faults_of_events(stage.id, attempt, events);
      faults.insert(faults.end(), std::make_move_iterator(of_lead.begin()), std::make_move_iterator(of_lead.end()));
      const auto claim = read_claim(join_path(folder, format("attempts/{}/{}", attempt, claim_file_name(0))));
      for (const Fact& end : ends)
        if (claim.ok() && earlier > 0 && end.stage == stage.id && end.attempt == earlier)
          note_recovery(end, recovery_after_end(end, before, claim->started_ms, events), faults);
      before = events, earlier = attempt;
    }
  }
  std::stable_sort(faults.begin(), faults.end(),
                   [](const RunFault& a, const RunFault& b) { return a.wall_ms < b.wall_ms; });
  return faults;
}

std::string run_faults_text(const std::vector<RunFault>& faults) {
  if (faults.empty()) return "no faults\n";
  std::string text;
  for (const RunFault& run_fault : faults) text += fault_text(run_fault);
  return text + "\n" + summary_text(faults);
}

Value run_faults_value(const std::vector<RunFault>& faults) {
  Value array = Value::make_array();
  for (const RunFault& run_fault : faults) {
    Value one = to_value(run_fault.fault);
    one.set("ms", static_cast<long long>(run_fault.wall_ms));
    one.set("stage", run_fault.stage);
    one.set("attempt", run_fault.attempt);
    one.set("by", run_fault.by_controller ? "controller" : "lead");
    if (run_fault.launched_ms > 0) one.set("launched_ms", static_cast<long long>(run_fault.launched_ms));
    if (run_fault.recovered) one.set("recovered", to_value(*run_fault.recovered));
    array.push_back(std::move(one));
  }
  Value value = Value::make_table();
  value.set("faults", std::move(array));
  return value;
}

std::string fault_classes_text() {
  std::vector<std::vector<std::string>> rows = {
      {"class", "severity", "scope", "paid by", "tier", "accuses its host", "meaning"}};
  for (const FaultInfo& info : fault_table)
    rows.push_back({info.name, to_string(info.severity), to_string(info.scope), to_string(info.group),
                    to_string(info.tier), to_string(info.accuses), info.meaning});
  return text_table(rows);
}

Value fault_classes_value() {
  Value array = Value::make_array();
  for (const FaultInfo& info : fault_table) {
    Value one = Value::make_table();
    one.set("class", info.name);
    one.set("severity", to_string(info.severity));
    one.set("scope", to_string(info.scope));
    one.set("group", to_string(info.group));
    one.set("tier", to_string(info.tier));
    one.set("accuses", to_string(info.accuses));
    one.set("meaning", info.meaning);
    one.set("remedy", info.remedy);
    array.push_back(std::move(one));
  }
  Value value = Value::make_table();
  value.set("classes", std::move(array));
  return value;
}

}  // namespace longhaul
