#include "orchestrator/scheduler/slurm/slurm_scheduler.h"

#include <algorithm>

#include "base/files/file_query.h"
#include "base/files/files.h"
#include "base/process/fault_point.h"
#include "base/text/text.h"
#include "orchestrator/scheduler/attempt_traces.h"
#include "orchestrator/scheduler/names/reason_names.h"
#include "orchestrator/scheduler/names/refusals.h"
#include "orchestrator/scheduler/slurm/lost_node.h"
#include "resiliency/taxonomy/fault_class.h"

namespace longhaul {
namespace {

constexpr int looks_per_settle = 5;                // for a key that may be on its way
constexpr std::int64_t unread_record_ms = 60'000;  // how long an error is no answer
constexpr int single_questions_max = 20;           // about forgotten jobs, in one round

Status check_spec(const JobSpec& spec, int array_tasks_max) {
  const auto refuse = [&](const std::string& what) {
    return make_error(ErrorCode::invalid_input, "job " + spec.key + ": " + what);
  };
  if (!is_key(spec.key)) return refuse("a key holds only letters, digits, '.', '_' and '-'");
  if (!is_job_id(spec.after) && !spec.after.empty())
    return refuse("'" + spec.after + "' is no job that one can wait for");
  if (!file_exists(spec.script))
    return make_error(ErrorCode::not_found, "job " + spec.key + ": no script " + spec.script);
  if (!spec.worker.empty() && !file_exists(spec.worker))
    return make_error(ErrorCode::not_found, "no worker program " + spec.worker,
                      "the run's bin/ folder is incomplete; create the run again");
  if (spec.array_tasks.empty()) return {};
  const auto [least, most] = std::minmax_element(spec.array_tasks.begin(), spec.array_tasks.end());
  if (*least < 0) return refuse("array tasks count from 0");
  if (array_tasks_max > 0 && *most >= array_tasks_max)
    return make_error(
        ErrorCode::invalid_input,
        format("job {}: array task {} is beyond the cluster's MaxArraySize {}", spec.key, *most, array_tasks_max),
        "submit it in windows");
  return {};
}

// "a" of the task "a+3".
std::string submission_key_of(const std::string& key) {
  return key.substr(0, key.find('+'));
}

SlurmIdentity identity_of(const OpenJob& open) {
  return {.key = submission_key_of(open.key),
          .id = open.id.substr(0, open.id.find('_')),
          .folder = open.folder,
          .work_dir = open.work_dir,
          .wanted_ms = open.wanted_ms,
          .answered_ms = open.answered_ms};
}

std::string known_id(const OpenJob& open) {
  if (!open.id.empty()) return open.id;
  const std::string left = id_left_by_newest_lead(open.attempt_dir);
  return left.empty() ? "gone-" + open.key : left;
}

}  // namespace

struct SlurmScheduler::Round {
  std::vector<std::pair<std::int64_t, JobInfo>> infos;  // with the time of submission
  std::vector<OpenJob> missing;                         // unknown to Slurm, without a record
  std::set<std::string> submissions;                    // that Slurm's list has something of
  std::set<std::string> anothers;                       // keys of those whose number is another job's
  int single_questions = 0;
};

SlurmScheduler::SlurmScheduler(std::unique_ptr<SlurmPort> port, SlurmSchedulerOptions options, Clock& clock,
                               Logger& log)
    : port_(std::move(port)), options_(options), clock_(clock), log_(log) {}

int SlurmScheduler::array_tasks_max() const {
  if (array_tasks_max_ < 0) {
    const auto configuration = port_->configuration();
    if (!configuration.ok()) return 0;
    array_tasks_max_ = configuration->max_array_size;
  }
  return array_tasks_max_;
}

// submission
std::vector<Result<std::string>> SlurmScheduler::submit(const std::vector<JobSpec>& specs) {
  std::vector<std::optional<Result<std::string>>> answers(specs.size());
  for (std::size_t i = 0; i < specs.size(); ++i) {
    const Status fine = check_spec(specs[i], specs[i].array_tasks.empty() ? 0 : array_tasks_max());
    if (!fine.ok()) {
      answers[i] = fine.error();
    } else if (const auto known = known_.find(specs[i].key); known != known_.end()) {
      answers[i] = known->second;
    }
  }
  look_for(specs, answers);
  submit_rest(specs, answers);
  std::vector<Result<std::string>> results;
  results.reserve(specs.size());
  for (auto& answer : answers) results.push_back(std::move(*answer));
  return results;
}

Result<std::vector<SlurmJob>> SlurmScheduler::all_jobs() {
  auto jobs = port_->jobs();
  if (!jobs.ok())
    answers_since_ns_ = -1;
  else if (answers_since_ns_ < 0)
    answers_since_ns_ = clock_.monotonic_ns();
  return jobs;
}

// One snapshot answers for all keys of the window that may be known.
void SlurmScheduler::look_for(const std::vector<JobSpec>& specs,
                              std::vector<std::optional<Result<std::string>>>& answers) {
  std::vector<std::size_t> wanted;
  for (std::size_t i = 0; i < specs.size(); ++i)
    if (!answers[i] && (specs[i].maybe_known || specs[i].withdrawn || unanswered_ns_.contains(specs[i].key)))
      wanted.push_back(i);
  if (std::all_of(wanted.begin(), wanted.end(), [&](std::size_t i) { return was_looked_for(specs[i]); })) {
    for (const std::size_t i : wanted) answers[i] = on_its_way(specs[i]);
    return;
  }
  for (const std::size_t i : wanted)
    identities_.add({.key = specs[i].key,
                     .folder = specs[i].attempt_dir,
                     .work_dir = specs[i].work_dir,
                     .wanted_ms = specs[i].wanted_ms});
  const auto jobs = all_jobs();
  std::map<std::string, std::string> ids;
  if (jobs.ok())
    for (const SlurmJob& job : *jobs)
      if (const std::string key = key_of(job); !key.empty()) ids.emplace(key, submission_id(job));
  for (const std::size_t i : wanted) {
    if (!jobs.ok()) {
      answers[i] = jobs.error().with_context("looking for " + specs[i].key);
    } else if (const auto found = ids.find(specs[i].key); found != ids.end()) {
      note_id(specs[i], found->second);
      answers[i] = found->second;
    } else {
      missed_ns_[specs[i].key] = clock_.monotonic_ns();
      answers[i] = conclude_absent(specs[i]);
    }
  }
}

void SlurmScheduler::note_id(const JobSpec& spec, const std::string& id) {
  known_[spec.key] = id;
  identities_.add({.key = spec.key,
                   .id = id,
                   .folder = spec.attempt_dir,
                   .work_dir = spec.work_dir,
                   .wanted_ms = spec.wanted_ms,
                   .answered_ms = clock_.wall_ms()});
  unanswered_ns_.erase(spec.key);
  missed_ns_.erase(spec.key);
}

std::int64_t SlurmScheduler::settle_ms_of(const JobSpec& spec) const {
  if (!spec.in_flight) return options_.settle_ms;
  return std::max(options_.settle_ms, options_.in_flight_ms - spec.overtaken_ms);
}

// How long until a key that is missing was never submitted by anybody.
std::int64_t SlurmScheduler::settled_in_ms(const JobSpec& spec) const {
  const std::int64_t settle_ms = settle_ms_of(spec);
  if (answers_since_ns_ < 0) return settle_ms;
  const auto unanswered = unanswered_ns_.find(spec.key);
  const std::int64_t since =
      std::max(answers_since_ns_, unanswered == unanswered_ns_.end() ? answers_since_ns_ : unanswered->second);
  return std::max<std::int64_t>(0, settle_ms - (clock_.monotonic_ns() - since) / 1'000'000);
}

// Just now, and in vain: whole lists are not asked for in every round, but when it may have become certain.
bool SlurmScheduler::was_looked_for(const JobSpec& spec) const {
  const auto missed = missed_ns_.find(spec.key);
  if (missed == missed_ns_.end() || answers_since_ns_ < 0 || settled_in_ms(spec) == 0) return false;
  return (clock_.monotonic_ns() - missed->second) / 1'000'000 * looks_per_settle < settle_ms_of(spec);
}

Error SlurmScheduler::on_its_way(const JobSpec& spec) const {
  return make_error(ErrorCode::unavailable,
                    format("job {} may have been submitted already and be on its way", spec.key),
                    format("it is looked for again; for {} at the most",
                           human_duration(static_cast<double>(settled_in_ms(spec)) / 1e3)));
}

// nullopt: nobody has submitted it, and it is wanted.
std::optional<Result<std::string>> SlurmScheduler::conclude_absent(const JobSpec& spec) const {
  auto id = id_of_a_start(spec);
  if (!id.ok())  // it may have been: nobody submits it on doubt
    return Result<std::string>(make_error(ErrorCode::unavailable, id.error().message(), "it is looked for again"));
  if (!id->empty()) return id;
  if (settled_in_ms(spec) > 0) return Result<std::string>(on_its_way(spec));
  if (!spec.withdrawn) return std::nullopt;
  return Result<std::string>(make_error(ErrorCode::invalid_input, "cancelled before it was submitted"));
}

void SlurmScheduler::submit_rest(const std::vector<JobSpec>& specs,
                                 std::vector<std::optional<Result<std::string>>>& answers) {
  std::vector<std::size_t> rest;
  for (std::size_t i = 0; i < specs.size(); ++i)
    if (!answers[i]) rest.push_back(i);
  bool silent = false;
  for (std::size_t begin = 0; begin < rest.size();) {
    const std::size_t end = std::min(begin + port_->submit_window(), rest.size());
    const Status may = may_act();
    if (silent || !may.ok()) {
      for (std::size_t i = begin; i < rest.size(); ++i)
        answers[rest[i]] =
            !may.ok() ? may.error()
                      : make_error(ErrorCode::unavailable, "not attempted: Slurm did not answer the submissions before",
                                   "it is tried again later");
      return;
    }
    std::vector<SlurmSubmission> window;
    window.reserve(end - begin);
    for (std::size_t i = begin; i < end; ++i) window.push_back(submission_of(specs[rest[i]], true, options_.comments));
    if (auto fault = fault_here(FaultPoint::scheduler_in_flight)) {
      for (std::size_t i = begin; i < rest.size(); ++i) answers[rest[i]] = *fault;
      return;
    }
    auto ids = port_->submit(window);
    std::vector<JobSpec> dependent;
    std::vector<std::string> dependent_ids;
    for (std::size_t i = begin; i < end; ++i) {
      const JobSpec& spec = specs[rest[i]];
      Result<std::string> id = std::move(ids[i - begin]);
      if (!id.ok() && !spec.after.empty() && id.error().code == ErrorCode::invalid_input)
        id = submit_without_dependency(spec, id.error());
      if (id.ok()) {
        note_id(spec, *id);
        if (!spec.after.empty()) {
          dependent.push_back(spec);
          dependent_ids.push_back(*id);
        }
      } else if (may_have_been_accepted(id.error())) {
        unanswered_ns_[spec.key] = clock_.monotonic_ns();
        answers_since_ns_ = -1;  // its time to appear begins with the next answer
        silent = silent || starts_with(id.error().what, "not attempted");
      }
      answers[rest[i]] = std::move(id);
    }
    if (!dependent.empty()) check_dependencies(dependent, dependent_ids);
    begin = end;
  }
}

// ---------------------------------------------------------------------------------------------------------------
// snapshot
Result<std::vector<JobInfo>> SlurmScheduler::snapshot(const std::vector<OpenJob>& open) {
  const auto jobs = all_jobs();
  if (!jobs.ok()) return jobs.error();
  OpenByKey open_by_key;
  for (const OpenJob& job : open) {
    open_by_key.emplace(job.key, &job);
    know(job);
  }
  const SeenByKey seen = index(*jobs, open_by_key);
  std::erase_if(memory_, [&](const auto& entry) { return !open_by_key.contains(entry.first); });

  Round round;
  for (const SlurmJob& job : *jobs)
    if (!job.array_id.empty()) round.submissions.insert(job.array_id);
  for (const auto& [key, found] : seen) {
    if (!is_live(*found.job)) continue;
    const auto wanted = open_by_key.find(key);
    const OpenJob* job = wanted == open_by_key.end() ? nullptr : wanted->second;
    if (job && memory_[key].final) continue;
    JobInfo info = live_info(key, found, job);
    if (info.state != JobState::ended) round.infos.emplace_back(found.job->submitted_s, std::move(info));
  }
  for (const OpenJob& job : open) {
    Memory& memory = memory_[job.key];
    const auto found = seen.find(job.key);
    if (memory.final) {
      round.infos.emplace_back(found == seen.end() ? 0 : found->second.job->submitted_s, *memory.final);
    } else if (found == seen.end()) {
      look_at_missing(job, round);
    } else if (!is_live(*found->second.job)) {
      look_at_ended(job, found->second, round);
    }
  }
  settle_missing(round);
  name_lost_nodes(round);
  note_others(open);
  std::stable_sort(round.infos.begin(), round.infos.end(), [](const auto& a, const auto& b) {
    return std::pair(a.first, number_of_job(a.second.id)) < std::pair(b.first, number_of_job(b.second.id));
  });
  std::vector<JobInfo> infos;
  infos.reserve(round.infos.size());
  for (auto& [submitted, info] : round.infos) infos.push_back(std::move(info));
  return infos;
}

// Where it runs, and how often it was queued again. A job that lost one of its nodes is shown with those that are left.
void SlurmScheduler::note_nodes(Memory& memory, const SlurmJob& job) {
  if (memory.last_restarts != job.restarts) memory.last_nodes.clear();
  memory.last_restarts = job.restarts;
  const bool left_over = job.state == "NODE_FAIL" || job.ends_as == "NODE_FAIL";
  if (!job.nodes.empty() && !left_over) memory.last_nodes = job.nodes;
}

// Of a job that ended for want of a node: which one. Slurm knows it now, and not for long.
void SlurmScheduler::name_lost_nodes(Round& round) {
  std::vector<SlurmNode> nodes;
  for (auto& [submitted, info] : round.infos) {
    const bool ended = info.state == JobState::ended || info.state == JobState::lost;
    if (!ended || info.end != SchedulerEnd::node_fail || info.nodes.empty()) continue;
    Memory& memory = memory_[info.key];
    const bool all_of_them = info.nodes == memory.last_nodes || (info.record && info.nodes == info.record->nodes);
    if (all_of_them && info.nodes.find_first_of(",[") == std::string::npos) {
      info.lost_node = info.nodes;
    } else {
      if (nodes.empty()) {
        auto answer = port_->nodes();
        if (!answer.ok()) return;
        nodes = std::move(answer).value();
      }
      info.lost_node = lost_node(info.nodes, nodes);
    }
    if (memory.final) memory.final->lost_node = info.lost_node;
  }
}

JobInfo SlurmScheduler::live_info(const std::string& key, const Seen& seen, const OpenJob* open) {
  const SlurmJob& job = *seen.job;
  JobInfo info;
  info.id = seen.id;
  info.key = key;
  info.state = is_pending(job) ? JobState::queued : JobState::running;
  info.reason = job.reason;
  // What a person holds is not ours to release.
  const bool by_person = job.reason == "JobHeldUser" || job.reason == "JobHeldAdmin";
  info.held = info.state == JobState::queued && !by_person &&
              (job.held || job.reason.find("requeued_held") != std::string::npos);
  if (info.state == JobState::queued) {
    info.given_up = wait_reason(job.reason) == WaitReason::given_up;
    info.advice = wait_advice(job.reason);
  }
  info.restarts = job.restarts;
  info.nodes = job.nodes;
  if (info.state == JobState::running) info.started_ms = our_ms(job.started_s, job, identities_.find(job));
  if (!open) return info;
  Memory& memory = memory_[key];
  memory.missing_since_ns = -1;
  memory.seen_alive = true;
  if (info.state == JobState::running) {
    // The lead's own word on when it began, looked for until it is there.
    if (memory.claim_restarts != job.restarts) {
      const auto claim = read_claim(claim_path(open->attempt_dir, job.restarts));
      if (claim.ok()) {
        memory.claim_ms = claim->started_ms;
        memory.claim_restarts = job.restarts;
      }
    }
    if (memory.claim_restarts == job.restarts && memory.claim_ms > 0) info.started_ms = memory.claim_ms;
  }
  memory.last_state = info.state;
  memory.last_started_ms = info.started_ms;
  note_nodes(memory, job);
  // A lead that has written its record may still be at its last duties, the next round of the controller among them.
  if (info.state == JobState::running) {
    auto record = read_record(record_path(open->attempt_dir, job.restarts));
    if (record.ok()) info.end = job.ends_as.empty() ? SchedulerEnd::none : scheduler_end_of(job);
    // Why it was told to stop, only Slurm's own end tells, and by whom it was cancelled, only accounting.
    const bool told = record.ok() && classify_end(*record, true) == FaultClass::interrupted;
    if (told && info.end == SchedulerEnd::cancelled && !is_our_cancellation(*open, seen.id))
      info.end = cancelled_alive(*open, seen.id);
    if (record.ok() && (!told || info.end != SchedulerEnd::none)) {
      info.state = JobState::ended;
      info.started_ms = record->started_ms;
      info.record = std::move(record).value();
      if (!info.record->nodes.empty()) info.nodes = info.record->nodes;  // Slurm shows those that are left
      memory.final = info;
    }
  }
  return info;
}

void SlurmScheduler::conclude(JobInfo info, Round& round) {
  memory_[info.key].final = info;
  round.infos.emplace_back(0, std::move(info));
}

bool SlurmScheduler::take_record(const OpenJob& open, const std::string& id, int restarts, SchedulerEnd end,
                                 Round& round) {
  const Memory& memory = memory_[open.key];
  auto record = read_record(record_path(open.attempt_dir, restarts));
  unread_.erase(open.key);
  if (!record.ok() && record.error().code == ErrorCode::io) unread_[open.key] = record.error().message();
  if (!record.ok()) return false;
  JobInfo info;
  info.id = id;
  info.key = open.key;
  info.state = JobState::ended;
  info.started_ms = record->started_ms;
  info.record = std::move(record).value();
  info.end = end;
  info.restarts = restarts;
  info.nodes = info.record->nodes.empty() ? memory.last_nodes : info.record->nodes;
  conclude(std::move(info), round);
  return true;
}

bool SlurmScheduler::is_waited_for_long_enough(const OpenJob& open) {
  Memory& memory = memory_[open.key];
  const std::int64_t now = clock_.monotonic_ns();
  if (memory.missing_since_ns < 0) memory.missing_since_ns = now;
  const std::int64_t grace_ms =
      unread_.contains(open.key) ? std::max(options_.record_grace_ms, unread_record_ms) : options_.record_grace_ms;
  return (now - memory.missing_since_ns) / 1'000'000 >= grace_ms;
}

// Its state as last known, while its record is awaited.
void SlurmScheduler::await(const OpenJob& open, const std::string& id, const std::string& why, Round& round) {
  const Memory& memory = memory_[open.key];
  JobInfo info;
  info.id = id;
  info.key = open.key;
  info.state = memory.last_state;
  info.started_ms = memory.last_started_ms;
  info.restarts = memory.last_restarts;
  info.nodes = memory.last_nodes;
  info.reason = why;
  round.infos.emplace_back(0, std::move(info));
}

void SlurmScheduler::look_at_ended(const OpenJob& open, const Seen& seen, Round& round) {
  const SlurmJob& job = *seen.job;
  const SlurmIdentity* identity = identities_.find(job);
  const std::int64_t ended_ms = our_ms(job.ended_s, job, identity);
  Memory& memory = memory_[open.key];
  note_nodes(memory, job);
  const auto known_end = end_of(open, seen);
  if (!known_end && !is_waited_for_long_enough(open))
    return await(open, seen.id, "cancelled in Slurm; accounting is asked by whom", round);
  const SchedulerEnd end = known_end.value_or(SchedulerEnd::cancelled);
  if (take_record(open, seen.id, job.restarts, end, round)) return;
  JobInfo info;
  info.id = seen.id;
  info.key = open.key;
  info.end = end;
  info.restarts = job.restarts;
  info.nodes = memory.last_nodes.empty() ? job.nodes : memory.last_nodes;
  const auto claimed = is_there(claim_path(open.attempt_dir, job.restarts));
  const bool never_started = job.nodes.empty() && claimed.ok() && !*claimed;
  if (never_started && end == SchedulerEnd::cancelled) {
    // No lead was there to write a record.
    info.state = JobState::ended;
    info.record = never_started_record(open.key, seen.id, job.restarts, ended_ms, words_of_end(job, "Slurm"));
    info.started_ms = info.record->started_ms;
    return conclude(std::move(info), round);
  }
  // A running job that is seen to have ended: it was running until now.
  if (!job.nodes.empty()) memory.last_state = JobState::running;
  if (memory.last_started_ms == 0) memory.last_started_ms = our_ms(job.started_s, job, identity);
  // Also for a process that looks once and ends: long ago by any clock.
  const bool long_ago = ended_ms > 0 && clock_.wall_ms() - ended_ms > 2 * options_.record_grace_ms;
  const bool waited = is_waited_for_long_enough(open);
  if (!waited && (!long_ago || unread_.contains(open.key)))
    return await(open, seen.id, format("ended in Slurm ({}), its record is awaited", job.state), round);
  info.state = JobState::lost;
  info.started_ms = memory.last_started_ms;
  info.cause = words_of_end(job, "Slurm") + no_record(open.key);
  conclude(std::move(info), round);
}

std::string SlurmScheduler::no_record(const std::string& key) const {
  const auto unread = unread_.find(key);
  return unread == unread_.end() ? "; its lead left no record" : "; its record: " + unread->second;
}

void SlurmScheduler::look_at_missing(const OpenJob& open, Round& round) {
  const auto left = newest_start(open.attempt_dir);
  if (!left.ok()) return await(open, known_id(open), left.error().message(), round);
  const int newest = *left;
  Memory& memory = memory_[open.key];
  memory.last_restarts = std::max({memory.last_restarts, newest, open.restarts});
  if (take_record(open, known_id(open), memory.last_restarts, SchedulerEnd::forgotten, round)) return;
  // Of an array's waiting task that is cancelled alone Slurm keeps nothing at all.
  const bool cancelled = cancelled_.contains(open.id) || cancelled_.contains(open.id.substr(0, open.id.find('_')));
  if (newest < 0 && cancelled) {
    JobInfo info;
    info.id = open.id;
    info.key = open.key;
    info.state = JobState::ended;
    info.end = SchedulerEnd::cancelled;
    info.record = never_started_record(open.key, open.id, 0, clock_.wall_ms(), "Slurm no longer has it");
    info.started_ms = info.record->started_ms;
    return conclude(std::move(info), round);
  }
  // A submission that nobody answered and nobody sees: submit() finds out.
  if (open.id.empty() && newest < 0) return;
  round.missing.push_back(open);
}

// Asked for by itself. Only a plain "no such job" lets it be forgotten: it may be there after all, or nobody answers.
SlurmScheduler::Known SlurmScheduler::ask_about(const OpenJob& open, Round& round) {
  if (!is_job_id(open.id)) return Known::forgotten;
  if (round.single_questions >= single_questions_max) return Known::not_said;  // politeness: the rest in the next round
  ++round.single_questions;
  const auto found = port_->job(open.id);
  if (!found.ok()) return found.error().code == ErrorCode::not_found ? Known::forgotten : Known::not_said;
  const std::string key = submission_key_of(open.key);
  bool covered = false;
  for (const SlurmJob& job : *found) {
    if (!covers(job, open.id)) continue;
    if (key_of(job) == key) return Known::alive;
    covered = true;
  }
  // Of another user, or given again after a crash of slurmctld.
  return covered ? Known::anothers : Known::forgotten;
}

// Slurm forgets a job some time after its end. Where that time is as long as ours, no more has to be waited for a job
// that was not seen alive by this process: one that was, and is gone, was lost by a slurmctld that crashed.
bool SlurmScheduler::slurm_waited(const OpenJob& open, const Round& round) {
  if (memory_[open.key].seen_alive || !is_job_id(open.id)) return false;
  // A task is missing from an array that is there: it may have been cancelled just now.
  if (round.submissions.contains(open.id.substr(0, open.id.find('_')))) return false;
  if (min_job_age_ms_ < 0) {
    const auto configuration = port_->configuration();
    if (!configuration.ok()) return false;
    min_job_age_ms_ = configuration->min_job_age_s * 1000;
  }
  return min_job_age_ms_ >= options_.record_grace_ms;
}

// Jobs that Slurm's list does not have and that left no record.
void SlurmScheduler::settle_missing(Round& round) {
  std::vector<OpenJob> forgotten;
  std::vector<std::string> ids;
  for (const OpenJob& open : round.missing) {
    const std::string id = known_id(open);
    const bool waited = is_waited_for_long_enough(open);
    const bool over = waited || (slurm_waited(open, round) && !unread_.contains(open.key));
    const Known known = over ? ask_about(open, round) : Known::not_said;
    if (known == Known::anothers) round.anothers.insert(open.key);
    // Where we have another job's number, ours may be on its way to Slurm's list.
    if (known != Known::forgotten && !(known == Known::anothers && waited)) {
      await(open, id, "Slurm's list does not have it, its record is awaited", round);
      continue;
    }
    forgotten.push_back(open);
    if (is_job_id(open.id)) ids.push_back(open.id);
  }
  if (forgotten.empty()) return;
  std::vector<SlurmJob> accounted;
  if (!ids.empty()) {
    auto jobs = port_->accounted(ids);
    if (jobs.ok()) {
      accounted = std::move(jobs).value();
    } else {
      log_.info(format("event=accounting_unavailable jobs={} error='{}'", ids.size(), jobs.error().message()));
    }
  }
  for (const OpenJob& open : forgotten) {
    // The record may have come while Slurm was asked.
    const std::string id = known_id(open);
    if (take_record(open, id, memory_[open.key].last_restarts, SchedulerEnd::forgotten, round)) continue;
    const Memory& memory = memory_[open.key];
    JobInfo info;
    info.id = id;
    info.key = open.key;
    info.state = JobState::lost;
    info.started_ms = memory.last_started_ms;
    info.restarts = memory.last_restarts;
    info.nodes = memory.last_nodes;
    info.end = SchedulerEnd::forgotten;
    const SlurmIdentity identity = identity_of(open);
    const SlurmJob* told = accounted_end(accounted, open.id, identity);
    if (told && round.anothers.contains(open.key) && known_by(*told, identity) == KnownBy::nothing) told = nullptr;
    if (told) {
      info.end = scheduler_end_of(*told);
      if (info.end == SchedulerEnd::cancelled && is_by_site(*told)) info.end = SchedulerEnd::cancelled_by_site;
      info.nodes = told->nodes;
      if (info.started_ms == 0 && !told->nodes.empty()) info.started_ms = told->started_s * 1000;
      info.cause = words_of_end(*told, "accounting") + no_record(open.key);
    } else {
      const auto unread = unread_.find(open.key);
      info.cause = "Slurm no longer knows the job and its lead left no record";
      if (unread != unread_.end()) info.cause = "Slurm no longer knows the job" + no_record(open.key);
      if (round.anothers.contains(open.key))
        info.cause =
            format("the number {} is another job's, and no job of ours is this attempt", open.id) + no_record(open.key);
    }
    conclude(std::move(info), round);
  }
}

void SlurmScheduler::know(const OpenJob& open) {
  identities_.add(identity_of(open));
}

}  // namespace longhaul
