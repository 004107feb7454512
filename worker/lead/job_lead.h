// The lead of one job, between claim and record: starts the agents and the ranks, watches them, decides what follows a
// fault, publishes the artifact. One thread.
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
#include "contracts/events/silent_corruption.h"
#include "contracts/records/record.h"
#include "contracts/settings/job/port_range.h"
#include "resiliency/taxonomy/restart_tier.h"
#include "resiliency/taxonomy/verdict.h"
#include "worker/launch/rank_group.h"
#include "worker/lead/agents/agent_step.h"
#include "worker/lead/agents/agent_table.h"
#include "worker/lead/agents/host_health_watch.h"
#include "worker/lead/agents/replacement_agents.h"
#include "worker/lead/agents/unwatched_gpus.h"
#include "worker/lead/failover/end_time_request.h"
#include "worker/lead/failover/lead_state.h"
#include "worker/lead/failover/scheduler_vote.h"
#include "worker/lead/injection/fault_injector.h"
#include "worker/lead/monitor/event_tail.h"
#include "worker/lead/monitor/goodput_watch.h"
#include "worker/lead/monitor/interval_watch.h"
#include "worker/lead/monitor/launch_guard.h"
#include "worker/lead/monitor/milestone_watch.h"
#include "worker/lead/monitor/rank_watch.h"
#include "worker/lead/monitor/stack_round.h"
#include "worker/lead/monitor/timeout_watch.h"
#include "worker/lead/monitor/training_watch.h"
#include "worker/lead/next_round.h"
#include "worker/lead/orders/first_rank_orders.h"
#include "worker/lead/orders/order_book.h"
#include "worker/lead/placement/grow_back.h"
#include "worker/lead/placement/growth_trial.h"
#include "worker/lead/placement/host_pool.h"
#include "worker/lead/placement/launch_plan.h"
#include "worker/lead/placement/old_launches.h"
#include "worker/lead/recovery/event_facts.h"
#include "worker/lead/recovery/failure_lines.h"
#include "worker/lead/recovery/recovery_clock.h"
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
  bool superseded() const { return superseded_; }
  // The node that the job's script runs on is gone: Slurm does not end the job by itself.
  bool batch_host_lost() const { return batch_host_lost_; }
  // When the last rank of the newest launch had ended; 0: none was started.
  std::int64_t ranks_ended_ns() const { return ranks_ended_ns_; }
  int nodes_held() const { return static_cast<int>(hosts_.all().size()); }

 private:
  // How a launch ended, and what the guard had found before that.
  struct End {
    LaunchEnd launch;
    std::optional<GuardFinding> finding;
    bool ok() const { return launch.ok() && !finding; }
  };

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
    return replacements_ && replacements_->is_expected(host) && !(vote_ && vote_->gone().count(host) > 0);
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
  Result<LaunchSpec> prepare_launch_folder();
  Result<LaunchSpec> prepare_in_time();
  Result<End> launch_once();
  Result<End> adopt_launch();
  // Of ranks that somebody else has started: what their pages say, once all have ended.
  Result<std::optional<LaunchEnd>> poll_ranks(RankGroup& ranks, double grace_s, const std::string& lost_host);
  void keep_standby();
  void tell_state(std::int64_t now_ns);
  LeadState state() const;
  Value seen() const;
  void go_on_from(const Value& seen);
  bool has_majority();
  bool is_followed();
  // A node that works for this job no more, by the scheduler's word.
  std::optional<GuardFinding> gone_by_scheduler() const;
  void inject_faults();
  void report_agents(const Launch& launch);
  void tell_launched(const LaunchSpec& spec);
  Result<End> watch(RankGroup& ranks);
  void look_at_ranks();
  void open_beat_sockets();
  void note_processes(const RankGroup& ranks);
  void look_at_stacks();
  void begin_stacks();
  void finish_stacks();
  void obey_signal(RankGroup& ranks);
  void stop_ranks(RankGroup& ranks);
  void leave_to_later(int attempt, RankGroup& ranks);
  std::string own_node() const;
  std::optional<GuardFinding> look_for_faults();
  // Ends every rank of the launch for good, as far as their nodes can be reached. What the launcher says by itself in
  // the meantime is the better end.
  Result<LaunchEnd> put_down(RankGroup& ranks, const GuardFinding& finding);
  TeardownView look_at_teardown(const std::vector<int>& alive, std::int64_t killed_ms) const;
  void tell_teardown(const TeardownView& view);
  void leave_for_teardown(const TeardownView& view);
  bool ends_soon() const;
  void signal_ranks(const std::vector<int>& ranks, int signal);
  void signal_here(int rank, int signal);
  std::vector<RankObservation> rank_observations() const;
  std::vector<HostObservation> host_observations() const;
  void tell_suspicion(const HangFinding& finding);
  void look_at_interval();
  void begin_watch();  // of a launch that starts, or was adopted
  void look_at_training(const std::vector<RankObservation>& sights);
  void report_warning(WarningEvent warning);
  void keep_learned_times();
  std::string learned_path() const;

  // Whether another launch follows; if so the nodes for it are chosen.
  bool go_on_after(const End& end);
  void end_with_lost_host(const End& end);
  TierDecision decide(const FaultView& view, const TierOffer& in_process);
  TierOffer in_process_offer(const GuardFinding& finding) const;
  bool restart_in_process(const GuardFinding& finding);
  std::int64_t restart_wait() const;
  JobRecord record_of_end();
  void ask_end_time();  // and what else slurm.conf says
  void look_at_end_time();
  bool take_end_time(const JobTimes& times);
  void allow_what_is_left();
  void await_end_time();
  bool was_asked_to_stop(const End& end) const;
  bool may_be_stopped_from_outside(const End& end) const;
  // Whether the scheduler, or a person, has stopped the ranks, and takes the job before another launch would be of use.
  bool is_being_taken(const End& end);
  void pass_on_end_time();
  void must_end_in(std::int64_t left_ms);
  std::int64_t end_left_ms() const;
  void hear(const std::vector<Event>& events);
  void tell_skipped();
  // What ranks have said of the fault that is to be decided, where it is that.
  std::optional<SilentCorruption> corruption_of(const End& end) const;
  void leave_dead_spares();
  bool steps_can_be_made(const std::vector<std::string>& hosts_lost) const;
  void tell_step_maker();
  void look_at_growth(RankGroup& ranks);
  std::vector<GrowBack::Sight> lost_sights() const;
  void leave_nodes_of_no_job(std::vector<std::string>& back);
  void note_growth(const std::vector<Event>& events);
  bool grow_after(const End& end);  // whether the next launch has more ranks
  void give_up(const std::string& host, const FaultView& view, const End& end);
  void leave_who_is_gone_again(std::vector<std::string>& back);
  void blame_nodes_back(FaultView& view, const std::optional<GuardFinding>& finding) const;
  TierDecision decide_without_nodes_back(const TierDecision& decision, FaultView& view);
  // Why a launch ended: one sentence, and the line of a log that says so, if one does.
  struct Cause {
    std::string text;
    std::optional<LogRoot> root;
  };
  FaultView view_of(const End& end, const Cause& cause);
  FaultRecord verdict(const End& end, const Cause& cause) const;
  std::vector<Observation> found_on_hosts() const;
  TierOffers offers(const FaultView& view) const;
  void report_fault(const End& end, const FaultView& view, const std::string& cause, const TierDecision& decision);
  Cause cause_of(const End& end);
  Cause cause_of_launch(const LaunchEnd& end);
  ExitStatus end_of_culprit(const LaunchEnd& end) const;
  Cause cause_of_survived(const GuardFinding& finding);
  std::vector<RankLog> rank_logs(int first, int ranks) const;
  RecentGoodput recent_goodput(const End& end) const;
  Status try_to_write() const;

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
  EventFacts told_;
  SkippedSteps skipped_;
  TrainingWatch training_;
  RecoveryClock recovery_;
  OldLaunches old_launches_;
  std::optional<IntervalWatch> interval_;  // where the interval between saves is chosen online
  Order interval_order_;
  std::vector<Event> interval_news_;
  std::int64_t next_interval_ns_ = 0;
  std::optional<FaultInjector> injector_;  // none where nobody may inject any
  TierHistory history_;
  GrowBack growth_;
  std::vector<std::string> growing_;  // nodes that this launch is ended for
  std::optional<TimeoutWatch> timeouts_;
  PortRange slurm_ports_;                 // of its own srun
  GrowthTrial trial_;                     // of the nodes that came back last
  std::set<std::string> left_unaccused_;  // nodes that were left for what was not their fault
  int culprit_ = -1;                      // rank that the newest cause speaks of
  std::vector<std::string> told_growth_;  // of the newest launch, as the events have it
  std::optional<GoodputWatch> goodput_;   // since the first launch
  Value seen_ = Value::make_table();      // what the events have told, up to a place in their file
  std::int64_t next_news_ns_ = 0;         // to the standby
  std::unique_ptr<AgentTable> agents_;    // null: all ranks are on this node
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
  bool preempted_ = false;  // the scheduler has moved the job's end up
  EndTimeRequest end_question_;
  std::int64_t scheduler_end_ms_ = 0;      // as it said last; 0: not known
  std::int64_t launched_ns_ = 0;           // this launch; 0: its first step is done
  std::int64_t launch_takes_ms_ = 60'000;  // until a step is done, as measured last
  std::int64_t started_ms_ = 0;
  std::optional<Launch> taken_over_;  // to be adopted
  std::int64_t lost_lead_ns_ = 0;     // since when its lead is lost
  bool adopted_ = false;              // this launch was started by another lead
  bool superseded_ = false, batch_host_lost_ = false;
  std::string batch_host_, standby_;
  std::optional<SchedulerVote> vote_;  // where most nodes are not heard of
  int standby_port_ = 0;
  std::int64_t next_ping_ns_ = 0;
  std::int64_t ranks_ended_ns_ = 0;
  std::int64_t begun_ns_ = 0;   // when the first lead of this job began
  std::int64_t end_by_ns_ = 0;  // when the ranks are ended by force; 0: not known
  double grace_s_ = 10;         // between their SIGTERM and SIGKILL; after SIGUSR1 as long as the job has
  bool state_changed_ = true;
};

}  // namespace longhaul
