#include "orchestrator/scheduler/local_scheduler.h"

#include <sched.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>

#include "base/files/file_query.h"
#include "base/files/files.h"
#include "base/process/process_signal.h"
#include "base/text/text.h"
#include "base/value/json.h"

namespace longhaul {

int usable_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (::sched_getaffinity(0, sizeof set, &set) != 0) return 1;
  return std::max(1, CPU_COUNT(&set));
}

namespace {

constexpr int starts_max = 3;  // leads that end without claiming their attempt: the third says that it is no accident

std::string claim_path(const JobSpec& spec) {
  return join_path(spec.attempt_dir, "claim.json");
}
std::string record_path(const JobSpec& spec) {
  return join_path(spec.attempt_dir, "record.json");
}
std::string lead_log_path(const JobSpec& spec) {
  return join_path(spec.attempt_dir, "lead.log");
}

std::string failure_lines(const JobSpec& spec) {
  const auto text = read_file(lead_log_path(spec), 1 << 24);
  std::string found;
  if (text.ok())
    for (const std::string& line : split(*text, '\n'))
      if (!trim(line).empty()) found = ": " + repair_utf8(trim(line).substr(0, 400));
  // On a full disk a lead has nowhere to say why.
  const auto free = free_bytes(spec.attempt_dir);
  if (free.ok() && *free < 1 << 20)
    found +=
        format(" ({} are free on the file system of {})", human_bytes(static_cast<double>(*free)), spec.attempt_dir);
  return found;
}

}  // namespace

LocalScheduler::LocalScheduler(const std::string& run_dir, int slots, Clock& clock, Logger& log)
    : folder_(join_path(run_dir, "local")), slots_(slots > 0 ? slots : usable_cores()), clock_(clock), log_(log) {}

std::vector<Result<std::string>> LocalScheduler::submit(const std::vector<JobSpec>& specs) {
  std::vector<Result<std::string>> ids;
  for (const JobSpec& spec : specs) ids.push_back(enqueue(spec));
  return ids;
}

Result<std::string> LocalScheduler::enqueue(const JobSpec& spec) {
  const auto has_worker = is_there(spec.worker);
  if (!has_worker.ok()) return make_error(ErrorCode::unavailable, has_worker.error().message());  // asked again
  if (!*has_worker)
    return make_error(ErrorCode::not_found, "no worker program " + spec.worker,
                      "the run's bin/ folder is incomplete; create the run again");
  if (spec.slots > slots_ && !jobs_.contains(spec.key))
    log_.warn(format("event=job_oversubscribed key={} slots_wanted={} slots={} next=runs_alone", spec.key, spec.slots,
                     slots_));
  LH_CHECK(make_directories(folder_));
  Value value = Value::make_table();
  value.set("file", "longhaul local job");
  value.set("key", spec.key);
  value.set("attempt_dir", spec.attempt_dir);
  value.set("worker", spec.worker);
  value.set("slots", spec.slots);
  value.set("order", static_cast<long long>(clock_.wall_ms()));
  const Status created = create_file_exclusive(join_path(folder_, spec.key + ".json"), to_json_pretty(value));
  if (!created.ok() && created.error().code != ErrorCode::conflict) return created.error();
  return spec.key;
}

Status LocalScheduler::read_queue() {
  const auto names = list_directory(folder_);
  if (!names.ok()) return names.error().code == ErrorCode::not_found ? Status{} : Status(names.error());
  for (const std::string& name : *names) {
    if (!ends_with(name, ".json")) continue;
    const std::string key = name.substr(0, name.size() - 5);
    if (jobs_.contains(key)) continue;
    LH_TRY(const std::string text, read_file(join_path(folder_, name)));
    LH_TRY(const Value value, parse_json(text, name));
    Job job;
    job.spec.key = key;
    job.spec.attempt_dir = value.get_string("attempt_dir");
    job.spec.worker = value.get_string("worker");
    job.spec.slots = static_cast<int>(value.get_integer("slots", 1));
    job.order = value.get_integer("order");
    job.info.id = job.info.key = key;
    jobs_.emplace(key, std::move(job));
  }
  return {};
}

void LocalScheduler::observe(Job& job) {
  if (job.info.state == JobState::ended || job.info.state == JobState::lost) return;
  bool unread = false;  // it may be there
  const auto look_for_record = [&] {
    auto record = read_record(record_path(job.spec));
    unread = !record.ok() && record.error().code == ErrorCode::io;
    if (!record.ok()) return false;
    job.info.state = JobState::ended;
    job.info.started_ms = record->started_ms;
    job.info.record = std::move(record).value();
    return true;
  };
  if (look_for_record()) return;
  const auto claim = read_claim(claim_path(job.spec));
  if (!claim.ok()) return;
  job.info.state = JobState::running;
  job.info.started_ms = claim->started_ms;
  // A lead on another machine (a run moved or shared) cannot be judged from here: only its record ends it.
  if (claim->host != host_name() || process_alive(claim->process)) return;
  // The record may have been written between the first look and the end of the process: it wins over the process.
  if (look_for_record()) return;
  if (unread) return log_.warn("event=record_not_read key=" + job.spec.key + " next=look_again");
  job.info.state = JobState::lost;
  job.info.cause = format("its lead (pid {} on {}) is gone and left no record", claim->process.pid, claim->host) +
                   failure_lines(job.spec);
}

Status LocalScheduler::start_lead(Job& job) {
  SpawnSpec spec;
  spec.argv = {job.spec.worker, "lead", "--attempt", job.spec.attempt_dir};
  spec.detached = true;
  spec.stdout_path = spec.stderr_path = lead_log_path(job.spec);
  LH_TRY(const pid_t pid, spawn(spec));
  ++job.starts;
  job.started_ns = clock_.monotonic_ns();
  const auto identity = identify_process(pid);
  job.starting = identity.ok() ? *identity : ProcessId{};  // ended already: claimed and done, or failed
  return {};
}

// Another controller of this run counts the starts anew: it must not start this job beside the one that has taken its
// place. A claim keeps every lead from beginning; where none can be written (a full disk) the job leaves the queue.
void LocalScheduler::give_up(Job& job) {
  const std::string cause =
      format("its lead was started {} times and ended each time before it could begin", job.starts) +
      failure_lines(job.spec);
  const Status refused = refuse_leads(job.spec, "failed", cause);
  if (!refused.ok() && refused.error().code == ErrorCode::conflict) return observe(job);  // one has begun after all
  if (!refused.ok() && !remove_tree(join_path(folder_, job.spec.key + ".json")).ok())
    log_.warn(
        format("event=job_not_given_up key={} error='{}' next=look_again", job.spec.key, refused.error().message()));
  job.info.state = JobState::lost;
  job.info.cause = cause;
}

// Whoever creates the claim owns the attempt: if it is us, no lead will ever begin.
Status LocalScheduler::refuse_leads(const JobSpec& spec, const std::string& outcome, const std::string& cause) {
  LH_TRY(const ProcessId self, identify_process(::getpid()));
  const std::int64_t now = clock_.wall_ms();
  LH_CHECK(write_claim(claim_path(spec), {spec.key, host_name(), self, now, {}}));
  JobRecord record;
  record.key = spec.key;
  record.host = host_name();
  record.started_ms = record.ended_ms = now;
  record.outcome = outcome;
  record.cause = cause;
  return write_record(record_path(spec), record);
}

void LocalScheduler::start_what_fits() {
  int used = 0;
  std::vector<Job*> queue;
  for (auto& [key, job] : jobs_) {
    const int wanted = std::min(job.spec.slots, slots_);
    if (job.info.state == JobState::running) used += wanted;
    if (job.info.state != JobState::queued) continue;
    if (process_alive(job.starting))
      used += wanted;  // about to claim
    else
      queue.push_back(&job);
  }
  std::sort(queue.begin(), queue.end(), [](const Job* a, const Job* b) {
    return std::pair(a->order, a->spec.key) < std::pair(b->order, b->spec.key);
  });
  for (Job* job : queue) {
    const int wanted = std::min(job->spec.slots, slots_);
    if (used + wanted > slots_) break;  // first come, first served: nobody overtakes a large job
    // A lead that we started ended without a claim that we saw: look once more before another.
    observe(*job);
    if (job->info.state != JobState::queued) continue;
    if (job->starts >= starts_max) {
      give_up(*job);
      continue;
    }
    const Status started = start_lead(*job);
    if (!started.ok()) {
      ++job->starts;
      log_.error(format("event=lead_not_started key={} error='{}'", job->spec.key, started.error().message()));
      continue;
    }
    used += wanted;
  }
}

Result<std::vector<JobInfo>> LocalScheduler::snapshot(const std::vector<OpenJob>&) {
  LH_CHECK(read_queue());
  for (auto& [key, job] : jobs_) observe(job);
  start_what_fits();
  std::vector<const Job*> ordered;
  ordered.reserve(jobs_.size());
  for (const auto& [key, job] : jobs_) ordered.push_back(&job);
  std::sort(ordered.begin(), ordered.end(), [](const Job* a, const Job* b) {
    return std::pair(a->order, a->spec.key) < std::pair(b->order, b->spec.key);
  });
  std::vector<JobInfo> infos;
  infos.reserve(ordered.size());
  for (const Job* job : ordered) infos.push_back(job->info);
  return infos;
}

Status LocalScheduler::release(const std::string& id) {
  return make_error(ErrorCode::unsupported, "local job " + id + " is not held: no local job ever is");
}

Status LocalScheduler::cancel(const std::string& id) {
  LH_CHECK(read_queue());
  const auto found = jobs_.find(id);
  if (found == jobs_.end()) return make_error(ErrorCode::not_found, "no local job " + id);
  Job& job = found->second;
  const Status refused = refuse_leads(job.spec, "cancelled", "cancelled before it started");
  if (refused.ok() || refused.error().code != ErrorCode::conflict) return refused;
  LH_TRY(const bool recorded, is_there(record_path(job.spec)));
  if (recorded) return {};
  LH_TRY(const LeadClaim claim, read_claim(claim_path(job.spec)));
  if (claim.host != host_name())
    return make_error(ErrorCode::unavailable, "job " + id + " is led on " + claim.host, "cancel from that machine");
  LH_TRY(const ProcessId self, identify_process(::getpid()));
  if (claim.process == self) return {};
  return signal_process(claim.process, SIGTERM).with_context("the lead of " + id);
}

}  // namespace longhaul
