// Before a launch: agents come. Before the first one every node is looked at, and those that are unfit or slow are set
// aside.
#include <signal.h>
#include <unistd.h>

#include <map>
#include <string>
#include <utility>

#include "base/digest/hash.h"
#include "base/files/files.h"
#include "base/text/text.h"
#include "resiliency/health/host_figures.h"
#include "resiliency/taxonomy/fault_class.h"
#include "worker/lead/agents/exchange_round.h"
#include "worker/lead/failover/stop_signal.h"
#include "worker/lead/job_lead.h"
#include "worker/lead/placement/preflight.h"
#include "worker/lead/recovery/failure_lines.h"

namespace longhaul {
namespace {

constexpr std::int64_t preflight_ms = 15'000;  // for agents to start and to look once, beside a check of the user's

// For the first agent. A step that Slurm has refused so often, seconds apart, it will refuse again; srun itself waits
// for a controller that is restarted.
constexpr std::int64_t first_agent_ms = 30'000;
constexpr int refused_max = 3;

constexpr std::int64_t exchange_ms = 10'000;  // three partners of 2 s each at most, and the orders

Value by_host(const std::map<std::string, HostFigures>& figures) {
  Value hosts = Value::make_table();
  for (const auto& [host, of] : figures) hosts.set(host, to_value(of));
  return hosts;
}

}  // namespace

// Ranks on several nodes find each other through their agents, and are watched by them: a launch whose pages lie in the
// memory of nodes without agents would never begin. Those of the other nodes come while the ranks start.
void JobLead::bring_agents() {
  const bool had_none = !std::exchange(no_agents_, {}).empty();
  if (const Status started = start_agents(); !started.ok()) return go_on_without_agents(started.error().message());
  if (!agents_) return;
  for (const Deadline deadline(clock_, first_agent_ms); agents_->connected() == 0 && !deadline.passed();) {
    if (const int signal = wait_for_stop_signal(20); signal != 0) {
      ::kill(::getpid(), signal);  // it is obeyed once there are ranks
      return;
    }
    look_at_agents();
    if (agent_step_->starts() >= refused_max && !agent_step_->running()) break;
  }
  if (agents_->connected() > 0) {
    if (had_none) report_agents_warning("no_agents_over", "agents have come");
    return;
  }
  const std::string said = failure_lines(join_path(lead_.attempt.attempt_dir, "agents.log"));
  go_on_without_agents(
      said.empty() ? format("none has come within {} s, and agents.log says nothing", first_agent_ms / 1000) : said);
}

// Tried again at the next launch.
void JobLead::go_on_without_agents(const std::string& why) {
  no_agents_ = why;
  replacements_.reset();
  if (agent_step_) agent_step_->end();
  agent_step_.reset();
  agents_.reset();
  report_agents_warning(
      "no_agents",
      format(
          "no agents: {}; ranks are started without: their pages and messages go to the shared folder, little is seen "
          "of those on other nodes, and nobody looks at the health of those nodes",
          why));
}

void JobLead::report_step_maker() {
  if (lead_.job.step_maker.empty() || !agents_) return;
  WarningEvent warning;
  warning.kind = "first_node";
  warning.host = lead_.job.step_maker;
  warning.fault_class = to_string(FaultClass::none);
  warning.text = format(
      "Slurm makes the steps of this job on {} (stepmgr): the job ends with that node, and goes on in "
      "another one",
      warning.host);
  report_warning(std::move(warning));
}

void JobLead::report_agents_warning(const char* kind, const std::string& text) {
  WarningEvent warning;
  warning.kind = kind;
  warning.fault_class = to_string(FaultClass::agent_lost);
  warning.text = text;
  report_warning(std::move(warning));
}

void JobLead::preflight() {
  const ResiliencySettings& settings = lead_.attempt.resiliency;
  if (!agents_ || !lead_.attempt.steps.empty() || !preflight_waits(settings)) return;
  const std::int64_t began_ns = clock_.monotonic_ns();
  const auto check_ms = static_cast<std::int64_t>(settings.health_command_deadline.value * 1000);
  const Deadline deadline(clock_, preflight_ms + (settings.health_command.empty() ? 0 : check_ms));
  std::vector<std::string> missing = hosts_.all();
  for (; !missing.empty() && !deadline.passed();) {
    if (const int stop_signal = wait_for_stop_signal(20); stop_signal != 0) {
      ::kill(::getpid(), stop_signal);  // it is obeyed once there are ranks to stop
      break;
    }
    look_at_agents();
    look_at_health();
    std::erase_if(missing, [&](const std::string& host) { return health_.looked(host); });
  }
  exchange_in_fleet();
  set_nodes_aside(static_cast<double>(clock_.monotonic_ns() - began_ns) * 1e-9, missing);
}

// After the other measurements, for these use the same cores. A host that says nothing within the time has no figure,
// and a transfer that nobody confirmed is one of 0.
void JobLead::exchange_in_fleet() {
  if (lead_.attempt.resiliency.preflight_floor <= 0) return;
  const auto token = random_hex(32);
  ExchangeRound round(*agents_, token.ok() ? *token : std::string());
  const Deadline deadline(clock_, exchange_ms);
  for (bool done = round.look(); !done && !deadline.passed(); done = round.look()) {
    if (const int stop_signal = wait_for_stop_signal(20); stop_signal != 0) {
      ::kill(::getpid(), stop_signal);
      break;
    }
    look_at_agents();
  }
  round.end();
  for (const auto& [host, mb_per_s] : round.figures()) health_.note_network(host, mb_per_s);
}

void JobLead::set_nodes_aside(double waited_s, const std::vector<std::string>& missing) {
  const ResiliencySettings& settings = lead_.attempt.resiliency;
  std::set<std::string> unfit, slow;
  for (const std::string& host : hosts_.all())
    if (health_.unfit(host)) unfit.insert(host);
  if (settings.preflight_floor > 0)
    for (const auto& [host, finding] : slow_hosts(health_.figures(), settings.preflight_floor)) {
      slow.insert(host);
      report_health(health_.add(host, finding, clock_.wall_ms()));
    }
  std::vector<std::string> left = hosts_.left();  // unfit spares, as soon as they were found
  if (settings.health == "act")
    for (const std::string& host : nodes_to_set_aside(hosts_, unfit, slow)) {
      hosts_.leave(host);
      left.push_back(host);
    }
  Value fields = Value::make_table();
  fields.set("waited_s", waited_s);
  const auto list = [&](const char* name, const auto& hosts) {
    Value names = Value::make_array();
    for (const std::string& host : hosts) names.push_back(host);
    fields.set(name, std::move(names));
  };
  list("left", left);
  list("unfit", unfit), list("slow", slow);
  list("not_looked_at", missing);
  fields.set("figures", by_host(health_.figures()));
  log_.info(format("event=preflight waited_s={:.2f} left='{}' unfit={} slow={} not_looked_at={}", waited_s,
                   join(left, " "), unfit.size(), slow.size(), missing.size()));
  events_.write("preflight", std::move(fields));
  leadership_.note_change();
}

}  // namespace longhaul
