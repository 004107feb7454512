#include "worker/lead/lead.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <ctime>
#include <map>
#include <memory>
#include <optional>

#include "base/fault_point.h"
#include "base/files.h"
#include "base/group_access.h"
#include "base/text.h"
#include "contracts/attempt.h"
#include "contracts/event.h"
#include "contracts/host_list.h"
#include "contracts/launch.h"
#include "contracts/record.h"
#include "contracts/task.h"
#include "resiliency/beat/heartbeat_page.h"
#include "resiliency/retry_policy.h"
#include "worker/launch/rank_group.h"
#include "worker/lead/agent_step.h"
#include "worker/lead/agent_table.h"
#include "worker/lead/last_words.h"
#include "worker/lead/leftovers.h"
#include "worker/lead/milestone_watch.h"
#include "worker/lead/next_round.h"
#include "worker/lead/order_book.h"
#include "worker/lead/publish.h"
#include "worker/lead/stack_round.h"
#include "worker/protocol/beat_sockets.h"

namespace longhaul {
namespace {

constexpr std::int64_t watch_interval_ms = 100;
constexpr std::int64_t agents_end_ms = 2'000;
constexpr std::int64_t last_round_deadline_ms =
    20 * 60'000;  // a scheduler that is silent for ten minutes is waited for

// Waits for a child's end or a request to stop, at most `ms`. Returns SIGTERM or SIGUSR1 when told so, 0 otherwise.
int wait_for_signal(std::int64_t ms) {
  sigset_t waited;
  ::sigemptyset(&waited);
  for (const int s : {SIGTERM, SIGUSR1, SIGCHLD}) ::sigaddset(&waited, s);
  const timespec timeout{ms / 1000, (ms % 1000) * 1'000'000};
  const int signal_number = ::sigtimedwait(&waited, nullptr, &timeout);
  return signal_number == SIGTERM || signal_number == SIGUSR1 ? signal_number : 0;
}

void block_signals() {
  sigset_t blocked;
  ::sigemptyset(&blocked);
  for (const int s : {SIGTERM, SIGUSR1, SIGCHLD, SIGINT, SIGHUP, SIGPIPE}) ::sigaddset(&blocked, s);
  ::sigprocmask(SIG_BLOCK, &blocked, nullptr);
}

class Lead {
 public:
  Lead(Attempt attempt, std::string worker_program, JobSurroundings job, NextRound& rounds, Clock& clock, Logger& log)
      : attempt_(std::move(attempt)),
        worker_program_(std::move(worker_program)),
        job_(std::move(job)),
        rounds_(rounds),
        clock_(clock),
        log_(log),
        events_(clock, attempt_.events_path(), 0),
        orders_(attempt_.stage_dir, clock, events_),
        beat_sockets_(log),
        stacks_(worker_program_, clock) {}

  // Everything between claim and record; the record is complete but for `ended_ms`.
  JobRecord run(std::int64_t started_ms) {
    record_.key = attempt_.key;
    record_.attempt = attempt_.attempt;
    record_.host = host_name();
    record_.started_ms = started_ms;
    record_.scheduler_job = job_.scheduler_job;
    record_.restarts = job_.restarts;
    record_.nodes = job_.nodes;
    const Status status = lead_to_artifact();
    if (!status.ok()) fail(status.error().message());
    return record_;
  }

 private:
  void fail(const std::string& cause) {
    if (record_.outcome.empty()) record_.outcome = cancelled_ ? "cancelled" : "failed";
    if (record_.cause.empty()) record_.cause = cause;
  }

  Status lead_to_artifact() {
    LH_TRY(task_, read_task(attempt_.task_path));
    const auto earlier = published_artifact(attempt_, task_);
    if (earlier.ok()) return succeed("published by an earlier attempt");
    if (earlier.error().code != ErrorCode::not_found) return earlier.error();
    LH_CHECK(clear_earlier_attempts(attempt_, clock_));
    LH_CHECK(make_directories(attempt_.state_dir()));
    if (const Status started = start_agents(); !started.ok()) {
      log_.warn("event=no_agents error='" + started.error().message() + "' next=launch_without_them");
      agents_.reset();
      agent_step_.reset();
    }
    const Status launched = launch_until_done();
    end_agents();
    LH_CHECK(launched);
    if (!record_.outcome.empty()) return {};
    const auto manifest = publish_artifact(attempt_, task_, clock_);
    if (!manifest.ok()) {
      (void)remove_tree(attempt_.staging_dir()).ok();  // makes room for the record on a full disk
      return manifest.error().with_context("cannot publish the artifact");
    }
    Value fields = Value::make_table();
    fields.set("digest", manifest->digest());
    fields.set("files", manifest->files.size());
    events_.write("published", std::move(fields));
    return succeed({});
  }

  Status succeed(const std::string& note) {
    record_.outcome = "succeeded";
    record_.cause = note;
    record_.exit_code = record_.signal = 0;
    return {};
  }

  // Ranks of other nodes are watched there. Without agents training goes on all the same, and less is known of it.
  Status start_agents() {
    if (attempt_.agent_launcher.empty() || job_.nodes.empty()) return {};
    AgentTableOptions options;
    options.attempt_key = attempt_.key;
    options.address_path = lead_address_path(attempt_.attempt_dir, job_.restarts);
    options.secret_path = lead_secret_path(attempt_.attempt_dir, job_.restarts);
    options.host = host_name();
    options.everywhere = true;
    LH_TRY(options.hosts, expand_host_list(job_.nodes));
    LH_TRY(agents_, AgentTable::open(options, clock_, log_));
    std::vector<std::string> words = attempt_.agent_launcher;
    words.insert(words.end(), {worker_program_, "agent", "--attempt", attempt_.attempt_dir});
    agent_step_.emplace(std::move(words), join_path(attempt_.attempt_dir, "agents.log"), clock_, log_);
    return agent_step_->start();
  }

  void look_at_agents() {
    if (!agents_) return;
    agents_->look();
    if (!cancelled_) agent_step_->look();
  }

  void end_agents() {
    if (!agents_) return;
    agents_->end(agents_end_ms);
    agent_step_->end();
    agents_.reset();
  }

  // Launches until one ends well, we are told to stop, or the policy says that another would not help.
  Status launch_until_done() {
    std::vector<PastEnd> ends;
    for (;;) {
      ++record_.launches;
      LH_TRY(const LaunchEnd end, launch_once());
      look_at_beats();
      for (const auto& [rank, beat] : beats_) record_.step = std::max(record_.step, beat.step);
      if (cancelled_ || time_limit_passed_ || wall_time_over_ || end.ok()) {
        if (cancelled_) fail("told to stop (SIGTERM)");
        if (wall_time_over_ && !end.ok()) leave_to_next_job();
        if (time_limit_passed_) fail(format("the time limit of {} has passed", human_duration(attempt_.time_limit_s)));
        return {};
      }
      record_.exit_code = end.status.code > 0 ? end.status.code : 0;
      record_.signal = end.status.signal;
      const std::string cause = cause_of(end);
      JobRecord so_far = record_;
      so_far.outcome = "failed";
      so_far.cause = cause;
      ends.push_back({classify_end(so_far, task_.kind != "command"), cause, false, ""});
      const RetryVerdict verdict = decide_retry(ends, {.application = attempt_.launches_max - 1});
      log_.warn(format("event=launch_failed launch={} cause='{}' next={} reason='{}'", record_.launches, cause,
                       verdict.again ? "launch" : "record", verdict.reason));
      if (!verdict.again) {
        fail(cause);
        return {};
      }
    }
  }

  // A program that was told to save and stop may end well by itself; what it made is then an artifact like any other.
  void leave_to_next_job() {
    record_.ended_by = "wall_time";
    fail("the job's wall time is nearly over: its ranks were told to save and stop");
  }

  Result<LaunchEnd> launch_once() {
    LH_CHECK(remove_tree(attempt_.staging_dir()));
    LH_CHECK(make_directories(attempt_.staging_dir()));
    LH_TRY(const LaunchSpec spec, prepare_launch());
    RankGroup ranks(clock_);
    if (agents_)
      tell_agents(spec.launch);
    else
      open_beat_sockets(spec.launch);
    LH_CHECK(ranks.start(spec));
    Value fields = Value::make_table();
    fields.set("launch", spec.launch.launch);
    fields.set("ranks", spec.launch.ranks);
    fields.set("host", host_name());
    for (const JobStep& step : attempt_.steps) {
      Value hosts;
      for (const std::string& host : step_hosts(spec.launch, step)) hosts.push_back(host);
      Value* steps = fields.find("steps");
      (steps ? *steps : fields.set("steps", Value::make_table())).set(step.name, std::move(hosts));
    }
    events_.write("launched", std::move(fields));
    if (auto fault = fault_here(FaultPoint::lead_ranks_started)) return *fault;
    LH_TRY(const LaunchEnd end, watch(ranks, spec));
    Value ended = Value::make_table();
    ended.set("launch", spec.launch.launch);
    ended.set("status", end.status.text());
    if (!end.step.empty()) ended.set("step", end.step);
    events_.write("ranks_ended", std::move(ended));
    return end;
  }

  void tell_agents(const Launch& launch) {
    std::vector<std::vector<int>> ranks_of(launch.hosts.size());
    for (int rank = 0; rank < launch.ranks; ++rank)
      ranks_of[static_cast<std::size_t>(launch.rank_host[static_cast<std::size_t>(rank)])].push_back(rank);
    agents_->watch(launch.launch, beat_folder(launch), ranks_of);
  }

  // For programs that speak text; without sockets they run as well, and less is known of them.
  void open_beat_sockets(const Launch& launch) {
    beat_sockets_.close();
    const auto open = [&](const std::string& folder, int count) {
      std::vector<int> ranks;
      for (int rank = 0; rank < count; ++rank) ranks.push_back(rank);
      if (const Status opened = beat_sockets_.open(folder, ranks); !opened.ok())
        log_.warn("event=no_beat_sockets error='" + opened.error().message() + "' next=launch_without_them");
    };
    for (const JobStep& step : attempt_.steps) open(step_folder(launch.launch_dir, step.name), step.ranks);
    if (attempt_.steps.empty() && task_.kind == "command") open(beat_folder(launch), launch.ranks);
  }

  Result<LaunchSpec> prepare_launch() {
    LaunchSpec spec;
    spec.attempt = attempt_;
    spec.task = task_;
    spec.worker_program = worker_program_;
    Launch& launch = spec.launch;
    launch.attempt_key = attempt_.key;
    launch.attempt = attempt_.attempt;
    launch.launch = record_.launches;
    launch.epoch = record_.launches;
    launch.ranks = task_.resources.ranks;
    LH_CHECK(place_ranks(launch));
    launch.dims = task_.dims;
    launch.launch_dir = join_path(attempt_.attempt_dir, format("launches/{}", launch.launch));
    if (agents_) launch.beat_dir = node_beat_folder(attempt_.key, job_.restarts, launch.launch);
    launch.events_path = attempt_.events_path();
    launch.output_dir = attempt_.staging_dir();
    launch.state_dir = attempt_.state_dir();
    launch.milestones_dir = attempt_.milestones_dir();
    launch.fault_plan = attempt_.fault_plan;
    LH_CHECK(make_directories(launch.launch_dir));
    LH_CHECK(make_step_folders(launch.launch_dir));
    spec.launch_path = join_path(launch.launch_dir, "launch.toml");
    LH_CHECK(write_launch(spec.launch_path, launch));
    return spec;
  }

  // A job that was queued again launches where its former life did: addresses of those programs and numbers of those
  // steps must not be taken for ours. Their logs stay.
  Status make_step_folders(const std::string& launch_dir) const {
    if (attempt_.steps.empty()) return {};
    LH_CHECK(remove_tree(shared_folder(launch_dir)));
    LH_CHECK(make_directories(shared_folder(launch_dir)));
    for (const JobStep& step : attempt_.steps) {
      const std::string folder = step_folder(launch_dir, step.name);
      LH_CHECK(make_directories(folder));
      LH_CHECK(remove_tree(slurm_step_path(folder)));
    }
    return {};
  }

  // Of several programs each has its part of the job's nodes; of one, the ranks find each other.
  Status place_ranks(Launch& launch) {
    launch.hosts = {host_name()};
    launch.rank_host.assign(static_cast<std::size_t>(launch.ranks), 0);
    if (attempt_.steps.empty()) return place_ranks_of_launcher(launch);
    std::size_t needed = 1;
    for (const JobStep& step : attempt_.steps)
      needed = std::max(needed, static_cast<std::size_t>(step.first_node + step.nodes));
    const bool forked_here = attempt_.steps.front().launcher.empty();  // whatever allocation this may be in
    if (!job_.nodes.empty() && !forked_here) {
      LH_TRY(launch.hosts, expand_host_list(job_.nodes));
    }
    if (launch.hosts.size() < needed)
      return make_error(ErrorCode::invalid_input,
                        format("the steps need {} nodes, and the job has {}", needed, launch.hosts.size()),
                        "submit the script with sbatch, without other --nodes");
    launch.rank_host.clear();
    for (const JobStep& step : attempt_.steps)
      for (int rank = 0; rank < step.ranks; ++rank)
        launch.rank_host.push_back(step.first_node + rank / std::max(1, step.ranks_per_node()));
    return {};
  }

  // A launcher deals ranks in blocks, as many to each node.
  Status place_ranks_of_launcher(Launch& launch) const {
    if (attempt_.launcher.empty() || job_.nodes.empty()) return {};
    LH_TRY(std::vector<std::string> hosts, expand_host_list(job_.nodes));
    const int nodes = std::clamp(task_.resources.nodes, 1, static_cast<int>(hosts.size()));
    hosts.resize(static_cast<std::size_t>(nodes));
    const int of_node = (launch.ranks + nodes - 1) / nodes;
    for (int rank = 0; rank < launch.ranks; ++rank) launch.rank_host[static_cast<std::size_t>(rank)] = rank / of_node;
    launch.hosts = std::move(hosts);
    return {};
  }

  Result<LaunchEnd> watch(RankGroup& ranks, const LaunchSpec& spec) {
    launch_dir_ = spec.launch.launch_dir, beat_dir_ = beat_folder(spec.launch);
    beats_.clear();
    orders_.new_launch();
    const std::int64_t limit_ms = static_cast<std::int64_t>(attempt_.time_limit_s * 1000);
    const Deadline limit(clock_, limit_ms);
    std::int64_t next_look_ns = 0;
    MilestoneWatch milestones(attempt_, task_, clock_);
    for (;;) {
      LH_TRY(const auto end, ranks.poll(attempt_.grace_s));
      if (end || clock_.monotonic_ns() >= next_look_ns) {
        look_at_agents();
        look_at_beats();
        const auto first = pages_.find({record_.launches, 0});
        orders_.look(first == pages_.end() ? nullptr : &first->second);
        if (orders_.stacks_wanted())
          stacks_.begin(launch_dir_, spec.launch.ranks, processes_of_ranks(ranks), agents_.get());
        if (const auto seen = stacks_.look()) orders_.tell_stacks(*seen);
        if (end) return *end;
        next_look_ns = clock_.monotonic_ns() + watch_interval_ms * 1'000'000;
      }
      if (milestones.look()) rounds_.ask();
      rounds_.look();
      if (limit_ms > 0 && limit.passed() && !time_limit_passed_ && !cancelled_) {
        time_limit_passed_ = true;
        log_.warn("event=time_limit next=stop_ranks");
        ranks.stop();
      }
      const int told = wait_for_signal(watch_interval_ms / 2);
      if (told == SIGTERM && !cancelled_) {
        cancelled_ = true;
        log_.info("event=told_to_stop next=stop_ranks");
        ranks.stop();
      } else if (told == SIGUSR1 && !wall_time_over_ && !cancelled_) {
        wall_time_over_ = true;
        log_.info("event=wall_time_nearly_over next=stop_ranks");
        ranks.stop();
      }
    }
  }

  // A rank's page knows best which process it is; a program without heartbeat is what was started for it.
  std::map<int, pid_t> processes_of_ranks(const RankGroup& ranks) const {
    std::map<int, pid_t> pids;
    for (const RankGroup::Process& process : ranks.processes()) {
      int rank = process.rank;
      for (const JobStep& step : attempt_.steps) {
        if (step.name == process.step) break;
        rank += step.ranks;
      }
      pids[rank] = process.pid;
    }
    for (const auto& [rank, beat] : beats_)
      if (beat.pid > 0) pids[rank] = static_cast<pid_t>(beat.pid);
    return pids;
  }

  // What each rank did last: for the cause, when it ends. A page that is not there yet, or never will be, is no fault.
  void look_at_beats() {
    beat_sockets_.look();
    int rank = 0;  // of all steps, one after the other
    for (const JobStep& step : attempt_.steps)
      look_at_beats(step_folder(launch_dir_, step.name), rank, step.ranks), rank += step.ranks;
    if (attempt_.steps.empty()) look_at_beats(beat_dir_, 0, task_.resources.ranks);
  }
  void look_at_beats(const std::string& folder, int first, int count) {
    for (int rank = first; rank < first + count; ++rank) {
      if (agents_) {
        if (const RankReport* seen = agents_->rank(rank)) beats_[rank] = seen->beat;
        if (rank > 0) continue;  // the first one's page takes orders; it is on this node
      }
      auto page = pages_.find({record_.launches, rank});
      if (page == pages_.end()) {
        auto opened = HeartbeatPage::open(beat_page_path(folder, rank - first));
        if (!opened.ok()) continue;
        page = pages_.emplace(std::pair{record_.launches, rank}, std::move(opened).value()).first;
      }
      beats_[rank] = page->second.snapshot();
    }
  }

  std::string cause_of(const LaunchEnd& end) {
    look_at_beats();
    bool by_launcher = !attempt_.launcher.empty() || (task_.resources.ranks > 1 && task_.kind != "command");
    int ranks = task_.resources.ranks, first = 0;  // of the program that ended
    std::string folder = launch_dir_;
    for (const JobStep& step : attempt_.steps) {
      if (step.name == end.step) {
        folder = step_folder(launch_dir_, step.name);
        ranks = step.ranks;
        by_launcher = !step.launcher.empty();
        break;
      }
      first += step.ranks;
    }
    const LastWords said = by_launcher ? last_words_of_ranks(folder, ranks)
                                       : LastWords{end.rank, last_words(rank_log_path(folder, end.rank))};
    std::string cause = by_launcher ? "the ranks ended: " + end.status.text()
                                    : format("rank {} ended: {}", end.rank, end.status.text());
    if (!end.step.empty()) cause = "step " + end.step + ": " + cause;
    if (const auto beat = beats_.find(first + said.rank); beat != beats_.end() && beat->second.step >= 0)
      cause += format(", in section {} at step {}", beat->second.section, beat->second.step);
    if (!said.text.empty()) cause += ": " + said.text;
    if (const Status room = try_to_write(); !room.ok() && cause.find(room.error().what) == std::string::npos)
      cause += ": " + room.error().message();
    return cause;
  }

  // Where there is no room left, what a program said of it was not written either.
  Status try_to_write() const {
    const std::string path = join_path(launch_dir_, "room");
    const Status written = write_file_renamed(path, std::string(4096, '.'));
    (void)remove_tree(path).ok();
    return written;
  }

  Attempt attempt_;
  std::string worker_program_;
  JobSurroundings job_;
  NextRound& rounds_;
  Clock& clock_;
  Logger& log_;
  EventWriter events_;
  OrderBook orders_;
  BeatSockets beat_sockets_;
  StackRound stacks_;
  Task task_;
  JobRecord record_;
  std::string launch_dir_, beat_dir_;
  std::unique_ptr<AgentTable> agents_;  // null: all ranks are on this node
  std::optional<AgentStep> agent_step_;
  bool cancelled_ = false;
  bool time_limit_passed_ = false;
  bool wall_time_over_ = false;
  std::map<std::pair<int, int>, HeartbeatPage> pages_;  // by launch and rank
  std::map<int, BeatSnapshot> beats_;                   // of this launch
};

// On a full disk the half-made output gives its room away; then somebody else may make some: tried for a while, and
// said on stderr (lead.log) in any case.
Status write_record_patiently(const Attempt& attempt, JobRecord record, Clock& clock, Logger& log) {
  for (int tries = 0;; ++tries) {
    record.ended_ms = clock.wall_ms();
    Status written = write_record(attempt.record_path(record.restarts), record);
    if (written.ok()) return {};
    log.error(format("event=record_not_written outcome={} cause='{}' error='{}'", record.outcome, record.cause,
                     written.error().message()));
    if (written.error().code == ErrorCode::conflict || tries == 10) return written;
    if (tries == 0 && written.error().code == ErrorCode::io && remove_tree(attempt.staging_dir()).ok()) continue;
    clock.sleep_ms(500);
  }
}

}  // namespace

namespace {

// Only news: whoever looks sees that something ended, and reads the record.
void ring(const std::string& doorbell) {
  if (doorbell.empty()) return;
  FileDescriptor fd(::open(doorbell.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0664));
  if (fd.valid()) (void)::futimens(fd.get(), nullptr);
}

// Waits for the controller's round that follows the record, as long as the job is let be. Slurm's SIGTERM goes to every
// process of a job: a round that it met at its start is begun again, for often nobody else comes to move the run on.
void finish_rounds(NextRound& rounds, Clock& clock) {
  constexpr int tries_max = 3;
  const Deadline deadline(clock, last_round_deadline_ms);
  for (int tries = 0; tries < tries_max && !deadline.passed(); ++tries) {
    rounds.start_last();
    while (rounds.running() && !deadline.passed()) (void)wait_for_signal(watch_interval_ms);
    if (!rounds.was_killed()) break;
  }
  rounds.end();
}

}  // namespace

Result<LeadEnd> run_lead(const std::string& attempt_dir, const std::string& worker_program, const JobSurroundings& job,
                         Clock& clock, Logger& log) {
  block_signals();
  keep_group_access(attempt_dir);
  LH_TRY(Attempt attempt, read_attempt(join_path(attempt_dir, "attempt.toml")));
  if (!attempt.fault_plan.empty()) LH_CHECK(load_fault_plan(attempt.fault_plan));
  LH_TRY(const ProcessId self, identify_process(::getpid()));
  const std::int64_t started_ms = clock.wall_ms();
  const Status claimed =
      write_claim(attempt.claim_path(job.restarts), {attempt.key, host_name(), self, started_ms, job.scheduler_job});
  if (!claimed.ok()) {
    if (claimed.error().code == ErrorCode::conflict) return LeadEnd::already_led;
    return claimed.error();
  }
  if (auto fault = fault_here(FaultPoint::lead_claimed)) return *fault;
  NextRound rounds(attempt.at_end, join_path(attempt.attempt_dir, "controller.log"), attempt.rounds_at_s, clock, log);
  const JobRecord record = Lead(attempt, worker_program, job, rounds, clock, log).run(started_ms);
  if (auto fault = fault_here(FaultPoint::lead_before_record)) return *fault;
  LH_CHECK(write_record_patiently(attempt, record, clock, log));
  log.info(format("event=ended outcome={} cause='{}'", record.outcome, record.cause));
  ring(attempt.doorbell);
  finish_rounds(rounds, clock);
  return record.outcome == "succeeded" || record.ended_by == "wall_time" ? LeadEnd::recorded
                                                                         : LeadEnd::recorded_failure;
}

}  // namespace longhaul
