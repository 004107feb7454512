// When a host of a launch is lost: nothing is heard of it, and the ranks of the others stand still, too. Silence alone
// ends no training. Where two looks are farther apart than a quarter of a second (a loaded machine, a job that was
// suspended), the time between them counts as no node's silence: what was on its way then may not have been read. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "contracts/settings/job/resiliency.h"
#include "resiliency/detect/hang/learned_times.h"
#include "resiliency/detect/hang/rank_observation.h"
#include "worker/lead/monitor/guard_finding.h"

namespace longhaul {

// How long the sections of a program usually take.
struct SectionTimes {
  const LearnedTimes& learned;
  double step_s = 0;
};

class HostLoss {
 public:
  explicit HostLoss(const ResiliencySettings& settings) : settings_(settings) {}

  void new_launch(std::int64_t now_ms);
  // Of a launch that another lead has started: nobody has looked since then.
  void begun_at(std::int64_t begun_ms) { begun_ms_ = begun_ms; }
  // A look begins: the time since the last one is noted, or not.
  void note_look(std::int64_t now_ms);
  void set_now(std::int64_t now_ms) { now_ms_ = now_ms; }
  // What moves.
  void note_progress(std::int64_t now_ms, const std::vector<RankObservation>& ranks);
  // The first of `hosts` that is lost now; nothing is noted.
  std::optional<GuardFinding> find(const std::vector<RankObservation>& ranks, const std::vector<HostObservation>& hosts,
                                   const SectionTimes& times) const;

 private:
  bool is_lost(const HostObservation& host, const std::vector<RankObservation>& ranks,
               const std::vector<HostObservation>& hosts, const SectionTimes& times) const;
  bool is_gone(const HostObservation& host) const;
  std::int64_t unheard_ms(const HostObservation& host) const { return host.silent_ms - not_looked_ms(host.silent_ms); }
  bool is_one_of_several_silent(const HostObservation& host, const std::vector<RankObservation>& ranks,
                                const std::vector<HostObservation>& hosts) const;
  bool is_one_held_elsewhere(const std::vector<RankObservation>& ranks, const std::string& host) const;
  // How much of the last `silent_ms` nobody looked, because the lead itself stood still.
  std::int64_t not_looked_ms(std::int64_t silent_ms) const;
  // Since any rank of another node than `host` has moved, by whatever mark its page has.
  std::int64_t others_still_ms(std::int64_t now_ms, const std::string& host) const;

  struct Progress {
    std::string host;
    std::uint64_t mark = 0;
    std::int64_t at_ms = 0;  // until it is seen: since when it is looked for
    std::int64_t heard_ms = 0;
    bool seen = false;
  };
  struct Pause {
    std::int64_t until_ms = 0, length_ms = 0;
  };
  ResiliencySettings settings_;
  std::int64_t begun_ms_ = 0, now_ms_ = 0;
  std::vector<Pause> pauses_;  // between two looks, oldest first; of the last minute
  std::map<int, Progress> progress_;
  std::int64_t longest_pause_ms_ = 0;  // of a rank of this launch between two movements, in whatever section
};

}  // namespace longhaul
