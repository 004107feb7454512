// A training that has shrunk takes back the nodes that it had lost: its ranks save and end, and more of them start.
#include <algorithm>
#include <utility>

#include "base/text/text.h"
#include "contracts/events/fault_event.h"
#include "worker/lead/failover/job_nodes.h"
#include "worker/lead/job_lead.h"
#include "worker/lead/placement/rank_layout.h"

namespace longhaul {
namespace {

constexpr const char* grow_back_kind = "grow_back";
constexpr const char* nodes_back_key = "nodes_back";
constexpr int faults_of_a_lemon = 2;

bool holds_name(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

}  // namespace

// A node that was silent, or not fit to work, may be there again; whoever is slow, computes wrongly or has failed
// twice is not asked back.
void JobLead::give_up(const std::string& host, const FaultView& view, const LaunchOutcome& end) {
  const bool gone = end.finding && (end.finding->kind == GuardFinding::Kind::host_lost ||
                                    end.finding->kind == GuardFinding::Kind::unhealthy);
  const auto faults = std::count_if(history_.begin(), history_.end(), [&](const PastRestart& past) {
    return past.host == host && past.accuses != Accusation::never;
  });
  if (gone && holds_name(view.hosts_lost, host) && faults < faults_of_a_lemon)
    hosts_.lose(host);
  else
    hosts_.leave(host);
}

std::vector<GrowBack::Sight> JobLead::lost_sights() const {
  std::vector<GrowBack::Sight> sights;
  const std::int64_t silent_ns = static_cast<std::int64_t>(lead_.attempt.resiliency.host_silent.value * 1e9);
  for (const std::string& host : hosts_.lost()) {
    const auto agent = agents_->agents().find(host);
    const bool heard = agent != agents_->agents().end() && agent->second.connected &&
                       clock_.monotonic_ns() - agent->second.heard_ns < silent_ns;
    sights.push_back({host, heard && !health_.unfit(host)});
  }
  return sights;
}

void JobLead::look_at_growth(LaunchedRanks& ranks) {
  const bool ending = cancelled_ || time_limit_passed_ || wall_time_over_ || !growing_.empty();
  if (ending || !agents_ || !steps_can_be_made(false) || !lead_.attempt.resiliency.shrink ||
      hosts_.wanted() >= lead_.task.resources.nodes)
    return;
  std::vector<std::string> back = growth_.look(clock_.monotonic_ns() / 1'000'000, lost_sights());
  // Ranks that load have nothing to save yet, and a lead without majority decides nothing.
  if (back.empty() || watch_.newest_step() < 0 || recovery_.under_way() ||
      !leadership_.has_majority(agents_.get(), hosts_))
    return;
  if (!grown(lead_, hosts_, static_cast<int>(back.size()))) return;
  leave_nodes_of_no_job(back);
  const auto layout = grown(lead_, hosts_, static_cast<int>(back.size()));
  if (back.empty() || !layout) return;
  WarningEvent warning;
  warning.kind = grow_back_kind, warning.fault_class = to_string(FaultClass::none);
  warning.launch = record_.launches, warning.host = back.front(), warning.step = watch_.newest_step();
  warning.text = format("{} {} back: {} ranks save and end, {} start on {} nodes", join(back, ", "),
                        back.size() == 1 ? "is" : "are", spec_.launch.ranks, layout->ranks, layout->nodes);
  Value fields = to_value(warning);
  Value names = Value::make_array();
  for (const std::string& host : back) names.push_back(host);
  fields.set(nodes_back_key, std::move(names));
  events_.write(grow_back_kind, std::move(fields));
  log_.info(format("event=grow_back launch={} text='{}'", record_.launches, warning.text));
  growing_ = std::move(back);
  ranks.stop(agents_.get());
}

// What Slurm held to be down it has taken out of the job; such a node comes back with another job.
void JobLead::leave_nodes_of_no_job(std::vector<std::string>& back) {
  if (lead_.job.scheduler_job.empty()) return;
  const auto nodes = job_nodes_now(lead_.job.scheduler_job);
  if (!nodes.ok()) {
    log_.warn("event=nodes_not_known why='" + nodes.error().message() + "' next=ask_again_later");
    growth_.new_launch(clock_.monotonic_ns() / 1'000'000);
    back.clear();
    return;
  }
  for (const std::string& host : back)
    if (!holds_name(*nodes, host)) {
      log_.warn("event=node_not_of_this_job host=" + host + " next=leave_host");
      hosts_.leave(host);
      leadership_.note_change();
    }
  std::erase_if(back, [&](const std::string& host) { return !holds_name(*nodes, host); });
}

// Of the newest launch: what another lead may have begun.
void JobLead::note_growth(const std::vector<Event>& events) {
  for (const Event& event : events) {
    if (event.kind == "launched") recorded_growth_.clear();
    const Value* names = event.kind == grow_back_kind ? event.fields.find(nodes_back_key) : nullptr;
    if (!names || !names->is_array()) continue;
    for (const Value& name : names->as_array())
      if (name.is_string()) recorded_growth_.push_back(name.as_string());
  }
}

// Ranks that have ended as they were asked to; whatever else ended them is a fault like any other.
bool JobLead::grow_after(const LaunchOutcome& end) {
  std::vector<std::string> back = std::exchange(growing_, {});
  if (watch_.newest_step() >= 0) trial_.over();  // they have proved themselves
  const bool rank_ended = end.finding && end.finding->kind == GuardFinding::Kind::rank_ended;
  if (back.empty() || (end.finding && !rank_ended)) return false;
  if (event_facts_.stopped() != stopped_as_asked) {
    if (rank_ended) recovery_.fault(clock_.monotonic_ns() / 1'000'000, end.finding->detect_s, watch_.newest_step());
    return false;
  }
  leadership_.note_change();
  leave_who_is_gone_again(back);
  if (const auto layout = grown(lead_, hosts_, static_cast<int>(back.size()))) {
    hosts_.grow_to(layout->nodes, back);
    trial_.begin(std::move(back), clock_.wall_ms());
  }
  return true;  // in any case: the ranks have saved and ended as they were asked to, and nobody is at fault
}

// Since the ranks were asked to save. It has had its one chance.
void JobLead::leave_who_is_gone_again(std::vector<std::string>& back) {
  look_at_agents();
  const std::vector<GrowBack::Sight> sights = lost_sights();
  std::erase_if(back, [&](const std::string& host) {
    const bool fit = std::any_of(sights.begin(), sights.end(),
                                 [&](const GrowBack::Sight& sight) { return sight.host == host && sight.fit; });
    if (!fit) log_.warn("event=gone_again host=" + host + " next=leave_host");
    if (!fit) hosts_.leave(host);
    return !fit;
  });
}

void JobLead::blame_nodes_back(FaultView& view, const std::optional<GuardFinding>& finding) const {
  using Kind = GuardFinding::Kind;
  const bool lost_or_hung = finding && (finding->kind == Kind::host_lost || finding->kind == Kind::hang);
  if (watch_.newest_step() < 0 && trial_.is_theirs(view, lost_or_hung)) trial_.blame(view);
}

}  // namespace longhaul
