#include "tests/unit/orchestrator/scheduler/fake_slurm.h"

#include <signal.h>

#include <algorithm>
#include <utility>

#include "base/files/files.h"
#include "base/text/text.h"
#include "contracts/records/record.h"
#include "orchestrator/scheduler/slurm/slurm_scheduler.h"

namespace longhaul {
namespace {

std::string option_of(const SlurmSubmission& submission, const std::string& name) {
  for (const auto& [key, value] : submission.options)
    if (key == name) return value;
  // The script's own lines, as far as the fake needs them.
  const auto text = read_file(submission.script);
  if (text.ok())
    for (const std::string& line : split(*text, '\n'))
      if (starts_with(line, "#SBATCH --" + name + "=")) return trim(line.substr(11 + name.size()));
  return {};
}

Error unknown_job(const std::string& id) {
  return make_error(ErrorCode::not_found, "job " + id + ": Invalid job id specified");
}

}  // namespace

std::optional<Error> FakeSlurm::not_answering() const {
  if (clock_.wall_ms() >= down_until_ms) return std::nullopt;
  return make_error(ErrorCode::unavailable, "Unable to contact slurm controller (connect failure)");
}

int FakeSlurm::submissions(const std::string& comment) const {
  const auto found = submissions_.find(comment);
  return found == submissions_.end() ? 0 : found->second;
}

std::vector<FakeSlurm::Job*> FakeSlurm::find(const std::string& id) {
  std::vector<Job*> found;
  const std::size_t underscore = id.find('_');
  for (const auto& job : jobs_) {
    if (job->forgotten || job->visible_ms > clock_.wall_ms()) continue;
    const bool whole_array = !job->shown.array_id.empty() && job->shown.array_id == id;
    const bool task = underscore != std::string::npos && job->shown.array_id == id.substr(0, underscore) &&
                      std::to_string(job->task) == id.substr(underscore + 1);
    if (job->shown.id == id || whole_array || task) found.push_back(job.get());
  }
  return found;
}

Result<std::string> FakeSlurm::accept(const SlurmSubmission& submission) {
  if (refuse)
    if (auto error = refuse(submission)) return *error;
  const std::string array = option_of(submission, "array"), comment = option_of(submission, "comment");
  const std::string key = comment.empty() ? option_of(submission, "job-name") : comment;
  if (answers_for_nothing) return wrong_answer.value_or("1");
  std::vector<int> tasks = array.empty() ? std::vector<int>{-1} : expand_indices(array);
  if (tasks.empty() || tasks.back() >= options_.max_array_size)
    return make_error(ErrorCode::invalid_input, "Invalid job array specification");
  const auto live = std::count_if(jobs_.begin(), jobs_.end(), [&](const auto& job) { return is_live(*job); });
  if (options_.live_jobs_max > 0 && live + static_cast<int>(tasks.size()) > options_.live_jobs_max)
    return make_error(ErrorCode::unavailable, "Job violates accounting/QOS policy (job submit limit)");
  std::string after = option_of(submission, "dependency");
  if (!after.empty()) {
    const std::string predecessor = after.substr(after.find(':') + 1);
    if (find(predecessor).empty()) {
      if (options_.refuses_forgotten_dependency) return make_error(ErrorCode::invalid_input, "Job dependency problem");
      after.clear();
    }
  }
  if (drop_live_dependency) after.clear();
  drop_live_dependency = false;

  const std::int64_t number = next_number_;
  std::vector<std::string> folders;
  if (!array.empty() && !submission.arguments.empty()) {
    const auto text = read_file(join_path(submission.arguments[0], "tasks.txt"));
    if (text.ok()) folders = split(*text, '\n');
  }
  const std::size_t percent = array.find('%');
  for (const int task : tasks) {
    auto job = std::make_unique<Job>();
    job->task = task;
    job->number = next_number_++;
    job->shown.id = std::to_string(task < 0 ? number : job->number);
    if (task >= 0) job->shown.array_id = std::to_string(number);
    job->key = key;
    job->shown.comment = comment;
    job->shown.name = option_of(submission, "job-name");
    job->shown.work_dir = option_of(submission, "chdir");
    if (job->shown.work_dir.empty()) job->shown.work_dir = parent_path(submission.script);
    job->shown.command = join({submission.script, join(submission.arguments, " ")}, " ");
    if (submission.arguments.empty()) job->shown.command = submission.script;
    job->shown.partition = "main";
    job->shown.state = "PENDING";
    job->shown.reason = "Resources";
    job->shown.submitted_s = clock_.wall_ms() / 1000;
    job->shown.dependency = after.empty() ? "" : after + "(unfulfilled)";
    job->after = after.empty() ? "" : after.substr(after.find(':') + 1);
    job->throttle = percent == std::string::npos ? 0 : std::stoi(array.substr(percent + 1));
    job->play = play(key, task);
    if (task < 0 && !submission.arguments.empty()) job->attempt_dir = submission.arguments[0];
    if (task >= 0 && static_cast<std::size_t>(task) < folders.size())
      job->attempt_dir = folders[static_cast<std::size_t>(task)];
    if (answers_to_lose > 0) job->visible_ms = clock_.wall_ms() + appears_after_ms;
    job->shown.held = std::any_of(submission.options.begin(), submission.options.end(),
                                  [](const auto& option) { return option.first == "hold"; });
    if (filter) filter(job->shown);
    jobs_.push_back(std::move(job));
  }
  ++submissions_[key];
  if (answers_to_lose > 0) {
    --answers_to_lose;
    return make_error(ErrorCode::unavailable, "Socket timed out on send/recv operation");
  }
  if (wrong_answer) return *std::exchange(wrong_answer, std::nullopt);
  return std::to_string(number);
}

bool FakeSlurm::blocked(const Job& job) const {
  if (job.shown.held || job.visible_ms > clock_.wall_ms()) return true;
  if (!job.after.empty())
    for (const auto& other : jobs_)
      if (!other->forgotten && is_live(*other) && (other->shown.id == job.after || other->shown.array_id == job.after))
        return true;
  if (job.throttle == 0) return false;
  const auto running = std::count_if(jobs_.begin(), jobs_.end(), [&](const auto& other) {
    return other->shown.array_id == job.shown.array_id && other->shown.state == "RUNNING";
  });
  return running >= job.throttle;
}

std::string FakeSlurm::id_for_lead(const Job& job) {
  return job.task < 0 ? job.shown.id : format("{}_{}", job.shown.array_id, job.task);
}

void FakeSlurm::write_claim_of(const Job& job, std::int64_t at_ms) {
  if (job.attempt_dir.empty() || !job.play.leaves_claim || !is_directory(job.attempt_dir)) return;
  const std::string key = job.task < 0 ? job.key : array_task_key(job.key, job.task);
  (void)write_claim(join_path(job.attempt_dir, claim_file_name(job.shown.restarts)),
                    {.key = key, .host = "n1", .process = {}, .started_ms = at_ms, .scheduler_job = id_for_lead(job)})
      .ok();
}

void FakeSlurm::write_record_of(const Job& job) {
  if (job.attempt_dir.empty() || !is_directory(job.attempt_dir)) return;
  JobRecord record;
  record.key = job.task < 0 ? job.key : array_task_key(job.key, job.task);
  record.host = "n1";
  record.scheduler_job = id_for_lead(job);
  record.restarts = job.shown.restarts;
  record.started_ms = job.started_ms;
  record.ended_ms = job.ended_ms;
  record.exit_code = job.shown.exit_code;
  record.outcome = job.shown.state == "COMPLETED"   ? "succeeded"
                   : job.shown.state == "CANCELLED" ? "cancelled"
                                                    : "failed";
  (void)write_record(join_path(job.attempt_dir, record_file_name(job.shown.restarts)), record).ok();
}

void FakeSlurm::start(Job& job, std::int64_t at_ms) {
  job.shown.state = "RUNNING";
  job.shown.reason = "None";
  job.shown.dependency.clear();
  job.shown.nodes = job.play.nodes > 1 ? format("n[1-{}]", job.play.nodes) : "n1";
  job.started_ms = at_ms;
  job.shown.started_s = at_ms / 1000;
  ++starts_;
  write_claim_of(job, at_ms);
}

void FakeSlurm::end(Job& job, const std::string& state, std::int64_t at_ms) {
  const bool ran = job.shown.state == "RUNNING";
  job.shown.state = state;
  job.shown.reason = job.play.reason;
  job.shown.exit_code = state == job.play.state ? job.play.exit_code : 0;
  job.ended_ms = at_ms;
  job.shown.ended_s = at_ms / 1000;
  if (ran && state == "NODE_FAIL" && job.play.nodes > 1) {  // the lost ones are struck off
    std::vector<std::string> left;
    for (int i = 1; i <= job.play.nodes; ++i)
      if (!node_states.contains(format("n{}", i))) left.push_back(format("n{}", i));
    job.shown.nodes = join(left, ",");
  }
  if (ran && job.play.leaves_record) job.record_due_ms = at_ms + job.play.record_late_ms;
}

// Everything that happens up to now, in order of time.
void FakeSlurm::advance() {
  for (;;) {
    std::int64_t next = clock_.wall_ms();
    for (const auto& job : jobs_) {
      if (job->shown.state == "RUNNING") next = std::min(next, job->started_ms + job->play.duration_ms);
      if (job->record_due_ms >= 0) next = std::min(next, job->record_due_ms);
    }
    advance_to(next);
    const bool more = std::any_of(jobs_.begin(), jobs_.end(), [&](const auto& job) {
      return (job->shown.state == "RUNNING" && job->started_ms + job->play.duration_ms <= clock_.wall_ms()) ||
             (job->record_due_ms >= 0 && job->record_due_ms <= clock_.wall_ms());
    });
    if (!more) return;
  }
}

void FakeSlurm::advance_to(std::int64_t at_ms) {
  for (const auto& job : jobs_) {
    if (job->shown.state == "RUNNING" && job->started_ms + job->play.duration_ms <= at_ms)
      end(*job, job->play.state, job->started_ms + job->play.duration_ms);
    if (job->record_due_ms >= 0 && job->record_due_ms <= at_ms) {
      write_record_of(*job);
      job->record_due_ms = -1;
    }
  }
  int used = 0;
  for (const auto& job : jobs_)
    if (job->shown.state == "RUNNING") used += std::min(job->play.nodes, options_.nodes);
  for (const auto& job : jobs_) {
    if (job->shown.state != "PENDING" || blocked(*job)) continue;
    const int wanted = std::min(job->play.nodes, options_.nodes);
    if (used + wanted > options_.nodes) break;  // first come, first served
    used += wanted;
    start(*job, at_ms);
  }
  for (const auto& job : jobs_)
    if (!is_live(*job) && job->record_due_ms < 0 && clock_.wall_ms() - job->ended_ms > options_.min_job_age_ms)
      job->forgotten = true;
}

// Tasks of an array that wait share one record.
std::vector<SlurmJob> FakeSlurm::shown_jobs() const {
  std::vector<SlurmJob> shown;
  std::map<std::string, std::vector<const Job*>> waiting;
  for (const auto& job : jobs_) {
    if (job->forgotten || job->visible_ms > clock_.wall_ms()) continue;
    if (job->task >= 0 && job->shown.state == "PENDING" && job->shown.restarts == 0) {
      waiting[job->shown.array_id].push_back(job.get());
      continue;
    }
    shown.push_back(job->shown);
    if (job->task >= 0) shown.back().array_tasks = std::to_string(job->task);
  }
  for (const auto& [array, tasks] : waiting) {
    SlurmJob group = tasks.front()->shown;
    std::vector<int> indices;
    for (const Job* task : tasks) indices.push_back(task->task);
    group.id = array;
    group.array_tasks = compress_indices(indices);
    if (tasks.front()->throttle > 0) group.array_tasks += format("%{}", tasks.front()->throttle);
    shown.push_back(group);
  }
  for (SlurmJob& job : shown)
    for (std::int64_t* time : {&job.submitted_s, &job.started_s, &job.ended_s})
      if (*time > 0) *time += clock_off_s;
  return shown;
}

int FakeSlurm::live() const {
  return static_cast<int>(
      std::count_if(jobs_.begin(), jobs_.end(), [&](const auto& job) { return !job->forgotten && is_live(*job); }));
}

void FakeSlurm::lose(const std::string& id) {
  for (Job* job : find(id)) {
    job->forgotten = true;
    if (job->shown.state == "PENDING") job->shown.state = "CANCELLED";
  }
}

void FakeSlurm::fail_node_and_requeue(const std::string& id) {
  advance();
  for (Job* job : find(id)) {
    job->shown.state = "PENDING";
    job->shown.reason = "BeginTime";
    job->shown.nodes.clear();
    job->shown.started_s = 0;
    ++job->shown.restarts;
  }
}

void FakeSlurm::fail_launch_and_hold(const std::string& id) {
  fail_node_and_requeue(id);
  for (Job* job : find(id)) {
    job->shown.reason = "launch_failed_requeued_held";
    job->shown.held = true;
  }
}

void FakeSlurm::lose_with_its_number(const std::string& id) {
  for (const Job* job : find(id)) next_number_ = job->number;
  lose(id);
}

void FakeSlurm::hold_by_person(const std::string& id, const std::string& reason) {
  for (Job* job : find(id)) {
    job->shown.reason = reason;
    job->shown.held = true;
  }
}

void FakeSlurm::begin_to_end(const std::string& id, const std::string& ends_as) {
  for (Job* job : find(id)) job->shown.ends_as = ends_as;
}

// ------------------------------------------------------------------------------------------------------------- its
// ports
class FakeSlurmPort final : public SlurmPort {
 public:
  explicit FakeSlurmPort(FakeSlurm& slurm) : slurm_(slurm) {}
  std::string description() const override { return "a fake Slurm"; }
  std::string skipped() const override { return slurm_.skipped; }

  std::vector<Result<std::string>> submit(const std::vector<SlurmSubmission>& submissions) override {
    std::vector<Result<std::string>> ids;
    for (const SlurmSubmission& submission : submissions) {
      slurm_.advance();
      if (auto error = slurm_.not_answering()) {
        ids.emplace_back(*error);
        continue;
      }
      if (const auto meanwhile = std::exchange(slurm_.in_flight, {})) meanwhile();
      ids.push_back(slurm_.accept(submission));
      slurm_.advance();
    }
    return ids;
  }
  Result<std::vector<SlurmJob>> jobs() override {
    slurm_.advance();
    if (auto error = slurm_.not_answering()) return *error;
    ++slurm_.queries_, ++slurm_.questions_;
    return slurm_.shown_jobs();
  }
  Result<std::vector<SlurmJob>> job(const std::string& id) override {
    slurm_.advance();
    ++slurm_.questions_;
    if (auto error = slurm_.not_answering()) return *error;
    const std::string number = id.substr(0, id.find('_'));
    std::vector<SlurmJob> found;
    for (const SlurmJob& job : slurm_.shown_jobs())
      if (job.id == number || job.array_id == number) found.push_back(job);
    if (slurm_.of_other_users.contains(number)) {
      SlurmJob theirs;
      theirs.id = number;
      theirs.name = theirs.comment = "theirs";
      theirs.state = "RUNNING";
      theirs.other_user = true;
      found.push_back(theirs);
    }
    if (found.empty()) return unknown_job(id);
    return found;
  }
  Result<std::vector<SlurmJob>> accounted(const std::vector<std::string>& ids) override {
    slurm_.advance();
    ++slurm_.questions_;
    if (!slurm_.options_.accounting || slurm_.accounting_down)
      return make_error(ErrorCode::unavailable, "Slurm accounting storage is disabled");
    std::vector<SlurmJob> found;
    for (const auto& job : slurm_.jobs_) {
      SlurmJob shown = job->shown;
      if (job->task >= 0) shown.array_tasks = std::to_string(job->task);
      if (shown.state == "CANCELLED") shown.cancelled_by = slurm_.cancelled_by;
      const std::string name = job->task < 0 ? shown.id : format("{}_{}", shown.array_id, job->task);
      if (std::find(ids.begin(), ids.end(), name) != ids.end()) found.push_back(shown);
    }
    return found;
  }
  Status signal(const std::string& id, int signal_number, bool) override {
    return with(id, [&](FakeSlurm::Job& job) {
      if (signal_number == SIGKILL) slurm_.end(job, "CANCELLED", slurm_.clock_.wall_ms());
      return slurm_.is_live(job) ? Status() : make_error(ErrorCode::invalid_input, "Job/step already completing");
    });
  }
  Status cancel(const std::string& id) override {
    ++slurm_.cancels_;
    if (slurm_.refuse_cancel) return *slurm_.refuse_cancel;
    return with(id, [&](FakeSlurm::Job& job) {
      // Of a waiting task that is cancelled alone, Slurm keeps nothing.
      if (job.shown.state == "PENDING" && job.shown.restarts == 0 && id.find('_') != std::string::npos)
        job.forgotten = true;
      if (slurm_.is_live(job)) slurm_.end(job, "CANCELLED", slurm_.clock_.wall_ms());
      return Status();
    });
  }
  Status requeue(const std::string& id, bool hold) override {
    return with(id, [&](FakeSlurm::Job& job) {
      if (job.shown.state == "PENDING") return Status(make_error(ErrorCode::invalid_input, "Job is pending execution"));
      job.shown.state = "PENDING";
      job.shown.nodes.clear();
      job.shown.started_s = job.shown.ended_s = 0;
      job.record_due_ms = -1;
      ++job.shown.restarts;
      job.shown.held = hold;
      job.shown.reason = hold ? "job_requeued_in_held_state" : "BeginTime";
      return Status();
    });
  }
  Status release(const std::string& id) override {
    return with(id, [&](FakeSlurm::Job& job) {
      if (!slurm_.is_live(job))
        return Status(make_error(ErrorCode::invalid_input, "Job is no longer pending execution"));
      job.shown.held = false;
      if (job.shown.state == "PENDING") job.shown.reason = "Priority";
      return Status();
    });
  }
  Status update(const std::string& id, const std::vector<std::pair<std::string, std::string>>& changes) override {
    return with(id, [&](FakeSlurm::Job& job) {
      for (const auto& [name, value] : changes) {
        if (name == "comment") job.shown.comment = value;
        if (name == "partition") job.shown.partition = value;
        if (name == "time_limit") job.shown.time_limit_s = std::stoll(value) * 60;
        if (name != "dependency") continue;
        if (job.shown.state != "PENDING") return Status(make_error(ErrorCode::invalid_input, "Job is not pending"));
        job.after = value.empty() ? "" : value.substr(value.find(':') + 1);
        job.shown.dependency = value.empty() ? "" : value + "(unfulfilled)";
      }
      return Status();
    });
  }
  Result<SlurmWillRun> will_run(const SlurmSubmission& submission) override {
    ++slurm_.will_runs_;
    if (auto error = slurm_.not_answering()) return *error;
    if (slurm_.refuse)
      if (auto error = slurm_.refuse(submission)) return *error;
    return SlurmWillRun{slurm_.clock_.wall_ms() / 1000, "n1", "main"};
  }
  Result<std::vector<SlurmNode>> nodes() override {
    if (auto error = slurm_.not_answering()) return *error;
    std::vector<SlurmNode> nodes;
    for (int i = 1; i <= slurm_.options_.nodes; ++i)
      nodes.push_back({format("n{}", i), "IDLE", "", "", "gpu:4", "main", 8, 16000});
    for (SlurmNode& node : nodes)
      if (const auto state = slurm_.node_states.find(node.name); state != slurm_.node_states.end())
        node.state = state->second;
    return nodes;
  }
  Result<std::vector<SlurmPartition>> partitions() override {
    if (auto error = slurm_.not_answering()) return *error;
    SlurmPartition main;
    main.name = "main";
    main.state = "UP";
    main.nodes = format("n[1-{}]", slurm_.options_.nodes);
    main.max_time_s = 86400;
    main.default_time_s = 600;
    main.nodes_total = slurm_.options_.nodes;
    main.cpus_total = 8 * slurm_.options_.nodes;
    main.is_default = true;
    return std::vector<SlurmPartition>{main};
  }
  Result<std::vector<SlurmReservation>> reservations() override {
    if (auto error = slurm_.not_answering()) return *error;
    return std::vector<SlurmReservation>{};
  }
  Result<SlurmConfiguration> configuration() override {
    if (auto error = slurm_.not_answering()) return *error;
    SlurmConfiguration made;
    made.cluster = "fake";
    made.version = "22.05.8";
    made.min_job_age_s = slurm_.options_.min_job_age_ms / 1000;
    made.kill_wait_s = 3;
    made.message_timeout_s = 10;
    made.max_array_size = slurm_.options_.max_array_size;
    made.max_job_count = 10'000;
    made.accounting = slurm_.options_.accounting;
    made.requeue = true;
    made.select_type = "select/cons_tres";
    return made;
  }

 private:
  template <class F>
  Status with(const std::string& id, F change) {
    slurm_.advance();
    if (auto error = slurm_.not_answering()) return *error;
    const auto jobs = slurm_.find(id);
    if (jobs.empty()) return unknown_job(id);
    for (FakeSlurm::Job* job : jobs) LH_CHECK(change(*job));
    slurm_.advance();
    return {};
  }
  FakeSlurm& slurm_;
};

std::unique_ptr<SlurmPort> FakeSlurm::port() {
  return std::make_unique<FakeSlurmPort>(*this);
}

}  // namespace longhaul
