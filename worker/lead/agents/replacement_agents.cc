#include "worker/lead/agents/replacement_agents.h"

#include <signal.h>

#include <algorithm>

#include "base/process/process.h"
#include "base/text/text.h"

namespace longhaul {

ReplacementAgents::ReplacementAgents(std::vector<std::string> launcher, std::vector<std::string> agent,
                                     std::string log_path, const Clock& clock, Logger& log)
    : launcher_(std::move(launcher)),
      agent_(std::move(agent)),
      log_path_(std::move(log_path)),
      clock_(clock),
      log_(log),
      answers_(clock, log) {}

void ReplacementAgents::look(const AgentTable& agents, const AgentStep* step) {
  std::vector<AgentObservation> sights;
  const std::int64_t now_ns = clock_.monotonic_ns();
  for (const auto& [host, agent] : agents.agents()) {
    AgentObservation sight{host, agent.heard_ns > 0, agent.connected, 0, false, false};
    const AgentPresence presence{agent.connected, agent.unanswered, agent.peer};
    if (agent.heard_ns > 0) answers_.look(host, presence);
    if (agent.heard_ns > 0 && !agent.connected) {
      sight.answers = answers_.may_live(host, presence);
      sight.awaited = step && step->may_bring_one_lost_at(agent.lost_ns);
      sight.apart_ms = (now_ns - agent.lost_ns) / 1'000'000;
    }
    sights.push_back(std::move(sight));
  }
  const bool refused = step && !step->asks_for_gpus();
  for (const std::string& host : missing_.look(now_ns / 1'000'000, sights))
    start(host, !refused && without_gpus_.count(host) == 0);
  look_at_steps(agents);
}

void ReplacementAgents::start(const std::string& host, bool with_gpus) {
  SpawnSpec spec;
  const std::vector<std::string> without = launcher_without_gpus(launcher_);
  spec.argv = launcher_on(with_gpus || without.empty() ? launcher_ : without, host);
  spec.argv.insert(spec.argv.end(), agent_.begin(), agent_.end());
  spec.stdout_path = spec.stderr_path = log_path_;
  spec.own_group = true;
  const auto pid = spawn(spec);
  log_.warn(format("event=agent_missing host={} next='{}'", host,
                   pid.ok() ? "another agent is started there" : pid.error().message()));
  if (pid.ok())
    steps_.emplace_back(host, *pid);
  else
    missing_.failed(host);
}

// A step lasts as long as its agent. One that has no time left to bring one is ended.
void ReplacementAgents::look_at_steps(const AgentTable& agents) {
  std::erase_if(steps_, [&](const std::pair<std::string, pid_t>& step) {
    const auto& [host, pid] = step;
    const auto exit = poll_exit(pid);
    const bool over = !exit.ok() || exit->has_value();
    const bool came = agents.agents().at(host).connected;
    if (over) missing_.failed(host);
    if (over && !came && exit.ok() && !(*exit)->success()) without_gpus_.insert(host);
    if (!over && !came && !missing_.is_starting(host)) ::kill(-pid, SIGKILL);
    return over;
  });
}

void ReplacementAgents::give_up_absent(const AgentTable& agents) {
  for (const auto& [host, pid] : steps_)
    if (!agents.agents().at(host).connected) ::kill(-pid, SIGKILL);
}

void ReplacementAgents::end() {
  for (const auto& [host, pid] : steps_) end_step(pid);
  steps_.clear();
}

}  // namespace longhaul
