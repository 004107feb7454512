// What a lead notices of a training that goes on: nobody was ended for it. Events of events.jsonl
// (contracts/events/event.h); read by status and report. Names of classes are those of
// resiliency/taxonomy/fault_table.h.
//
//   straggler        a rank became slow (rank_of -1: all did); straggler_over: it is as fast as the others again
//   loss_nan         a loss that is no number
//   loss_spike       a loss far above the last ones; loss_spike_over: back, or the new level
//   no_progress      ranks beat, and no step was completed for longer than usual
//   grow_back        nodes that a training had shrunk for are back: its ranks save, end and start with more replicas
//   desynchronised   ranks wait for each other in different collectives
//   timeouts         two timeouts contradict each other, by what is learned, measured or granted
//   goodput_floor    little of the last two hours was training, for restarts of one host or cause: it was left for it
//   ranks_stay       ranks that were killed do not go away, for what is no fault of their nodes: they are waited for
//   gpus_not_watched the checks of some hosts see fewer GPUs than the job has there; gpus_not_watched_over: all of them
//   no_agents        no agent has come: ranks are started without, and less is known of them; no_agents_over: with some
//   first_node       the steps of this job are made by its first node (Slurm's stepmgr): it ends with that one
//   agent_lost       the agent of a host has ended, and its ranks go on; agent_lost_over: another one reports
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/value/value.h"
#include "contracts/events/event.h"

namespace longhaul {

inline constexpr const char* warning_event_kinds[] = {
    "straggler",   "straggler_over", "loss_nan",        "loss_spike",       "loss_spike_over",
    "no_progress", "grow_back",      "desynchronised",  "timeouts",         "goodput_floor",
    "ranks_stay",  "agent_lost",     "agent_lost_over", "gpus_not_watched", "gpus_not_watched_over",
    "no_agents",   "no_agents_over", "first_node"};

// What is not known is left out of the line.
struct WarningEvent {
  std::string kind;         // one of those above
  std::string fault_class;  // key "class": "slow_rank", ...
  int launch = 0;           // in which it was noticed, from 1
  int rank = -1;            // key "rank_of": whom it is about
  std::string host;         // of that rank
  std::int64_t step = -1;   // at which it was noticed
  std::int64_t since_step = -1;
  double slowdown = 0;          // of stragglers: 1.15 takes 15 % longer; 0: not known
  double relative_score = 0;    // of stragglers: time of the fastest peer by its own; 0: not known
  double individual_score = 0;  // of stragglers: its best time by its own; 0: not known
  std::string text;             // one sentence
};
Value to_value(const WarningEvent& event);
// Of one of the kinds above, or of the engine's own `spike`, which says what it did about it.
std::optional<WarningEvent> warning_event_of(const Event& event);

}  // namespace longhaul
