// Which hosts of a job have lost their agent alone, and when another one is started there. Pure: what is seen and the
// time come from outside.
//
// That an agent is gone and its host is not shows in two things together: its connection was closed (a host that loses
// power or its cable closes none), and the kernel of the host still answers whoever knocks (worker/protocol/
// host_probe.h). Slurm's state of a node comes a minute late (SlurmdTimeout), and srun ends no step for one task.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace longhaul {

struct MissingAgentTimes {
  std::int64_t first_after_ms = 400;  // an agent whose connection alone was lost is back within 0.25 s
  std::int64_t by_itself_ms = 3'000;  // an agent of a host that answers, after a cut that has healed: not lost before
  std::int64_t deadline_ms = 20'000;  // of one start: the scheduler's step, and the way to the lead
  std::int64_t pause_ms = 2'000;      // between two starts, twice as long each time
  std::int64_t pause_max_ms = 300'000;
  int tries_max = 8;                // 8.5 minutes: a controller of the scheduler that is restarted
  std::int64_t steady_ms = 60'000;  // an agent that stays so long has earned its host all tries again
  int at_once_max = 4;              // steps that are being started: a controller is not flooded
};

struct AgentObservation {
  std::string host;
  bool ever_heard = false;  // an agent was there
  bool connected = false;
  std::int64_t apart_ms = 0;  // since its connection was closed; of use while not connected
  bool answers = false;       // the kernel of its host, lately, or it never would (worker/lead/agents/host_answers.h)
  bool awaited = false;       // somebody else has started one since it was lost
};

struct AgentNews {
  enum class Kind { lost, back, given_up };
  Kind kind = Kind::lost;
  std::string host;
  int tries = 0;        // so far
  std::int64_t ms = 0;  // since the agent was lost
};

class MissingAgents {
 public:
  explicit MissingAgents(MissingAgentTimes times = {}) : times_(times) {}
  // Where an agent is to be started now.
  std::vector<std::string> look(std::int64_t now_ms, const std::vector<AgentObservation>& sights);
  // The start on that host has ended, and no agent has come.
  void failed(const std::string& host);
  // The host lives and an agent is on its way to us, or may be: it is not lost. Never for longer than one start may
  // take.
  bool is_expected(const std::string& host) const;
  // Whether a start is under way, and has time left.
  bool is_starting(const std::string& host) const;
  std::vector<AgentNews> take_news();

 private:
  struct Host {
    bool lost = false, given_up = false, starting = false, answers = false;
    int tries = 0;
    std::int64_t apart_ms = 0, lost_ms = 0, started_ms = 0, next_ms = 0, since_ms = 0;  // since_ms: connected
  };
  void look_at(std::int64_t now_ms, const AgentObservation& sight, std::vector<std::string>& starts);

  MissingAgentTimes times_;
  std::map<std::string, Host> hosts_;
  std::vector<AgentNews> news_;
};

}  // namespace longhaul
