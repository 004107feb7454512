// The lead of one job, from the claim of its attempt to the record of its end: it starts the agents and the ranks,
// watches them, decides what follows a fault, and publishes the artifact.
//
// Start at launch_until_done(), the launches of a job, and at watch(), one launch. What is judged there lies in parts
// of its own: recovery/fault_diagnosis.h says why a launch ended and recovery/recovery_plan.h what follows;
// failover/leadership.h whether this lead may decide, failover/job_deadline.h when the job ends; launched_ranks.h has
// the processes, monitor/launch_guard.h finds faults.
//
// One thread. Clock, log and the controller's rounds are borrowed; agents and ranks that it has started end with it,
// unless another lead has superseded it. Errors become the record's outcome and cause: run() and take_over() always
// return a record.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/process/log.h"
#include "base/system/clock.h"
#include "contracts/events/event.h"
#include "contracts/events/fault_event.h"
#include "contracts/records/record.h"
#include "contracts/settings/job/port_range.h"
#include "resiliency/taxonomy/restart_tier.h"
#include "worker/launch/rank_group.h"
#include "worker/lead/agents/agent_step.h"
#include "worker/lead/agents/agent_table.h"
#include "worker/lead/agents/host_health_watch.h"
#include "worker/lead/agents/replacement_agents.h"
#include "worker/lead/agents/unwatched_gpus.h"
#include "worker/lead/failover/job_deadline.h"
#include "worker/lead/failover/lead_state.h"
#include "worker/lead/failover/leadership.h"
#include "worker/lead/failover/scheduler_vote.h"
#include "worker/lead/injection/fault_injector.h"
#include "worker/lead/launched_ranks.h"
#include "worker/lead/monitor/event_tail.h"
#include "worker/lead/monitor/goodput_watch.h"
#include "worker/lead/monitor/launch_guard.h"
#include "worker/lead/monitor/milestone_watch.h"
#include "worker/lead/monitor/rank_watch.h"
#include "worker/lead/monitor/stack_round.h"
#include "worker/lead/monitor/timeout_watch.h"
#include "worker/lead/monitor/training_watch.h"
#include "worker/lead/next_round.h"
#include "worker/lead/orders/first_rank_orders.h"
#include "worker/lead/orders/interval_orders.h"
#include "worker/lead/orders/order_book.h"
#include "worker/lead/placement/grow_back.h"
#include "worker/lead/placement/growth_trial.h"
#include "worker/lead/placement/host_pool.h"
#include "worker/lead/placement/launch_plan.h"
#include "worker/lead/placement/old_launches.h"
#include "worker/lead/recovery/event_facts.h"
#include "worker/lead/recovery/fault_diagnosis.h"
#include "worker/lead/recovery/recovery_clock.h"
#include "worker/lead/recovery/recovery_plan.h"
#include "worker/lead/recovery/restart_order.h"
#include "worker/lead/recovery/skipped_steps.h"
#include "worker/lead/teardown.h"
#include "worker/protocol/node/health_watch.h"
#include "worker/protocol/ranks/beat_sockets.h"

namespace longhaul {

class JobLead {
 public:
  JobLead(Attempt attempt, std::string worker_program, AllocationInfo job, NextRound& rounds, Clock& clock,
          Logger& log);
  // The record is complete but for `ended_ms`; of no use if superseded().
  JobRecord run(std::int64_t started_ms);
  // Goes on where another lead stood, with agents that have turned to this one: its ranks are let be.
  JobRecord take_over(const LeadState& state, std::unique_ptr<AgentTable> agents, SchedulerVote vote);
  // Another lead has taken over while this one was cut off: what it has started belongs to that one now.
  bool superseded() const { return leadership_.superseded(); }
  // The node that the job's script runs on is gone: Slurm does not end the job by itself.
  bool batch_host_lost() const { return batch_host_lost_; }
  // When the last rank of the newest launch had ended; 0: none was started.
  std::int64_t ranks_ended_ns() const { return ranks_ended_ns_; }
  int nodes_held() const { return static_cast<int>(hosts_.all().size()); }

 private:
  void fail(const std::string& cause);
  Status lead_to_artifact();
  Status prepare();
  Status launch_and_publish();
  void describe(std::int64_t started_ms);
  Status succeed(const std::string& note);
  Status start_agents();
  // Starts the agents and waits for the first of them; without any the ranks are started all the same.
  void bring_agents();
  void go_on_without_agents(const std::string& why);
  void report_agents_warning(const char* kind, const std::string& text);
  void look_at_agents();
  void replace_agents();
  bool agent_comes(const std::string& host) const {
    return replacements_ && replacements_->is_expected(host) && !leadership_.is_gone(host);
  }
  void look_at_health();
  void look_for_unwatched_gpus();
  std::set<int> job_pids() const;
  void report_health(const HostFinding& found);
  void leave_unfit_spares();
  void preflight();
  void exchange_in_fleet();
  void set_nodes_aside(double waited_s, const std::vector<std::string>& missing);
  void end_agents();

  Status launch_until_done();
  void take_in_end(const LaunchOutcome& end);
  void judge_wall_time(const LaunchOutcome& end);
  void judge_stop_request(const LaunchOutcome& end);
  void fail_for_requests();
  Result<LaunchSpec> prepare_launch_folder();
  Result<LaunchSpec> prepare_in_time();
  LaunchedRanks ranks_of_launch(LaunchedRanks::Origin origin, int ranks);
  Result<LaunchOutcome> launch_once();
  Result<LaunchOutcome> adopt_launch();
  void keep_standby();
  LeadState state() const;
  Value seen() const;
  void go_on_from(const Value& seen);
  void inject_faults();
  void report_agents(const Launch& launch);
  void report_launched(const LaunchSpec& spec);
  Result<LaunchOutcome> watch(LaunchedRanks& ranks);
  void look_at_ranks();
  void open_beat_sockets();
  void look_at_stacks();
  void begin_stacks();
  void finish_stacks();
  void obey_signal(LaunchedRanks& ranks);
  void leave_to_later(int attempt, LaunchedRanks& ranks);
  std::string own_node() const;
  std::optional<GuardFinding> look_for_faults();
  // Ends every rank of the launch for good, as far as their nodes can be reached. What the launcher says by itself in
  // the meantime is the better end.
  Result<LaunchEnd> put_down(LaunchedRanks& ranks, const GuardFinding& finding);
  TeardownView look_at_teardown(const std::vector<int>& alive, std::int64_t killed_ms) const;
  void report_teardown(const TeardownView& view);
  void leave_for_teardown(const TeardownView& view);
  bool ends_soon() const;
  std::vector<RankObservation> rank_observations() const;
  std::vector<HostObservation> host_observations() const;
  void report_suspicion(const HangFinding& finding);
  void look_at_interval();
  void begin_watch();  // of a launch that starts, or was adopted
  void look_at_training(const std::vector<RankObservation>& sights);
  void report_warning(WarningEvent warning);
  void keep_learned_times();
  std::string learned_path() const;

  // Whether another launch follows; if so the nodes for it are chosen.
  bool go_on_after(const LaunchOutcome& end);
  void end_with_lost_host(const LaunchOutcome& end);
  TierOffer in_process_offer(const GuardFinding& finding) const;
  bool restart_in_process(const GuardFinding& finding);
  std::int64_t restart_wait() const;
  JobRecord record_of_end();
  void ask_end_time();  // and what else slurm.conf says
  void look_at_end_time();
  void await_end_time();
  bool was_asked_to_stop(const LaunchOutcome& end) const;
  bool may_be_stopped_from_outside(const LaunchOutcome& end) const;
  // Whether the scheduler, or a person, has stopped the ranks, and takes the job before another launch would be of use.
  bool is_being_taken(const LaunchOutcome& end);
  void pass_on_end_time();
  void hear(const std::vector<Event>& events);
  void report_skipped();
  void leave_dead_spares();
  bool steps_can_be_made(bool accused) const;  // a fault names the node that makes them
  void report_step_maker();
  void look_at_growth(LaunchedRanks& ranks);
  std::vector<GrowBack::Sight> lost_sights() const;
  void leave_nodes_of_no_job(std::vector<std::string>& back);
  void note_growth(const std::vector<Event>& events);
  bool grow_after(const LaunchOutcome& end);  // whether the next launch has more ranks
  void give_up(const std::string& host, const FaultView& view, const LaunchOutcome& end);
  void leave_who_is_gone_again(std::vector<std::string>& back);
  void blame_nodes_back(FaultView& view, const std::optional<GuardFinding>& finding) const;
  std::vector<Observation> found_on_hosts() const;
  void report_fault(const LaunchOutcome& end, const Diagnosis& found, const TierDecision& decision);
  FaultEvidence evidence() const;
  RecoveryInput recovery_input(const TierOffer& in_process) const;
  void add_history_of_job(FaultView& view, const std::optional<GuardFinding>& finding) const;
  void keep_history(const RecoveryPlan& plan);
  bool carry_out(const RecoveryPlan& plan, const LaunchOutcome& end, const std::string& cause);
  RecentGoodput recent_goodput(const std::optional<GuardFinding>& finding) const;

  LeadOf lead_;
  NextRound& rounds_;
  Clock& clock_;
  Logger& log_;
  EventWriter events_;
  OrderBook orders_;
  JobRecord record_;
  HostPool hosts_;
  LaunchSpec spec_;  // of the newest launch
  RankWatch watch_;
  FirstRankOrders first_rank_;
  BeatSockets beat_sockets_;
  StackRound stacks_;
  std::map<int, pid_t> started_here_;  // ranks of this launch that this process has started
  LaunchGuard guard_;
  RestartOrder restart_order_;
  EventTail tail_;
  EventFacts event_facts_;
  SkippedSteps skipped_;
  TrainingWatch training_;
  RecoveryClock recovery_;
  OldLaunches old_launches_;
  std::optional<IntervalOrders> interval_;  // where the interval between saves is chosen online
  std::optional<FaultInjector> injector_;   // none where nobody may inject any
  TierHistory history_;
  GrowBack growth_;
  std::vector<std::string> growing_;  // nodes that this launch is ended for
  std::optional<TimeoutWatch> timeouts_;
  PortRange slurm_ports_;                     // of its own srun
  GrowthTrial trial_;                         // of the nodes that came back last
  std::set<std::string> left_unaccused_;      // nodes that were left for what was not their fault
  std::vector<std::string> recorded_growth_;  // of the newest launch, as the events have it
  std::optional<GoodputWatch> goodput_;       // since the first launch
  Value seen_ = Value::make_table();          // what the events say, up to a place in their file
  std::unique_ptr<AgentTable> agents_;        // null: all ranks are on this node
  std::optional<AgentStep> agent_step_;
  std::optional<ReplacementAgents> replacements_;  // none where there are no agents
  HostHealthWatch health_;
  UnwatchedGpus unwatched_gpus_;
  std::int64_t next_unwatched_ns_ = 0;
  std::string no_agents_;                  // why this launch has none, where it should; "": it has, or needs none
  std::optional<HealthWatch> own_health_;  // of this node, where there are no agents
  bool cancelled_ = false;
  bool time_limit_passed_ = false;
  std::optional<GuardFinding> lost_with_job_;  // the node for whose loss the scheduler ends the job
  bool wall_time_over_ = false;
  JobDeadline deadline_;
  Leadership leadership_;
  std::int64_t launched_ns_ = 0;           // this launch; 0: its first step is done
  std::int64_t launch_takes_ms_ = 60'000;  // until a step is done, as measured last
  std::int64_t started_ms_ = 0;
  std::optional<Launch> taken_over_;  // to be adopted
  std::int64_t lost_lead_ns_ = 0;     // since when its lead is lost
  bool batch_host_lost_ = false;
  std::string batch_host_;
  std::int64_t ranks_ended_ns_ = 0;
};

}  // namespace longhaul
