#include "orchestrator/scheduler/slurm/slurm_submitter.h"

#include <algorithm>
#include <span>

#include "base/files/file_query.h"
#include "base/process/fault_point.h"
#include "base/text/text.h"
#include "orchestrator/scheduler/attempt_traces.h"
#include "orchestrator/scheduler/names/refusals.h"
#include "orchestrator/scheduler/slurm/slurm_job_text.h"

namespace longhaul {
namespace {

constexpr int looks_per_settle = 5;  // for a key that may be on its way

// A file system that gives an error is asked again with the next round, as a silent Slurm is.
Result<bool> is_there_if_known(const std::string& path) {
  auto there = is_there(path);
  if (!there.ok()) return make_error(ErrorCode::unavailable, there.error().message());
  return there;
}

Status check_spec(const JobSpec& spec, int array_tasks_max) {
  const auto refuse = [&](const std::string& what) {
    return make_error(ErrorCode::invalid_input, "job " + spec.key + ": " + what);
  };
  if (!is_key(spec.key)) return refuse("a key holds only letters, digits, '.', '_' and '-'");
  if (!is_job_id(spec.after) && !spec.after.empty())
    return refuse("'" + spec.after + "' is no job that one can wait for");
  LH_TRY(const bool has_script, is_there_if_known(spec.script));
  if (!has_script) return make_error(ErrorCode::not_found, "job " + spec.key + ": no script " + spec.script);
  LH_TRY(const bool has_worker, spec.worker.empty() ? Result<bool>(true) : is_there_if_known(spec.worker));
  if (!has_worker)
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

}  // namespace

int SlurmSubmitter::array_tasks_max() {
  if (array_tasks_max_ < 0) {
    const auto configuration = access_.port.configuration();
    if (!configuration.ok()) return 0;
    array_tasks_max_ = configuration->max_array_size;
  }
  return array_tasks_max_;
}

std::vector<Result<std::string>> SlurmSubmitter::submit(const std::vector<JobSpec>& specs) {
  Answers answers(specs.size());
  for (std::size_t i = 0; i < specs.size(); ++i) {
    const Status fine = check_spec(specs[i], specs[i].array_tasks.empty() ? 0 : array_tasks_max());
    if (!fine.ok()) {
      answers[i] = fine.error();
    } else if (const std::string* known = index_.id_of(specs[i].key)) {
      answers[i] = *known;
    }
  }
  look_for(specs, answers);
  submit_rest(specs, answers);
  std::vector<Result<std::string>> results;
  results.reserve(specs.size());
  for (auto& answer : answers) results.push_back(std::move(*answer));
  return results;
}

Result<std::vector<SlurmJob>> SlurmSubmitter::all_jobs() {
  auto jobs = access_.port.jobs();
  if (!jobs.ok())
    answers_since_ns_ = -1;
  else if (answers_since_ns_ < 0)
    answers_since_ns_ = access_.clock.monotonic_ns();
  return jobs;
}

// One snapshot answers for all keys of the window that may be known.
void SlurmSubmitter::look_for(const std::vector<JobSpec>& specs, Answers& answers) {
  std::vector<std::size_t> wanted;
  for (std::size_t i = 0; i < specs.size(); ++i)
    if (!answers[i] && (specs[i].maybe_known || specs[i].withdrawn || unanswered_ns_.contains(specs[i].key)))
      wanted.push_back(i);
  if (std::all_of(wanted.begin(), wanted.end(), [&](std::size_t i) { return was_looked_for(specs[i]); })) {
    for (const std::size_t i : wanted) answers[i] = on_its_way(specs[i]);
    return;
  }
  for (const std::size_t i : wanted)
    index_.know(SlurmIdentity{.key = specs[i].key,
                              .folder = specs[i].attempt_dir,
                              .work_dir = specs[i].work_dir,
                              .wanted_ms = specs[i].wanted_ms});
  const auto jobs = all_jobs();
  std::map<std::string, std::string> ids;
  if (jobs.ok())
    for (const SlurmJob& job : *jobs)
      if (const std::string key = index_.key_of(job); !key.empty()) ids.emplace(key, submission_id(job));
  for (const std::size_t i : wanted) {
    if (!jobs.ok()) {
      answers[i] = jobs.error().with_context("looking for " + specs[i].key);
    } else if (const auto found = ids.find(specs[i].key); found != ids.end()) {
      note_id(specs[i], found->second);
      answers[i] = found->second;
    } else {
      missed_ns_[specs[i].key] = access_.clock.monotonic_ns();
      answers[i] = conclude_absent(specs[i]);
    }
  }
}

void SlurmSubmitter::note_id(const JobSpec& spec, const std::string& id) {
  index_.note_id(spec, id);
  unanswered_ns_.erase(spec.key);
  missed_ns_.erase(spec.key);
}

std::int64_t SlurmSubmitter::settle_ms_of(const JobSpec& spec) const {
  if (!spec.in_flight) return access_.options.settle_ms;
  return std::max(access_.options.settle_ms, access_.options.in_flight_ms - spec.overtaken_ms);
}

// How long until a key that is missing was never submitted by anybody.
std::int64_t SlurmSubmitter::settled_in_ms(const JobSpec& spec) const {
  const std::int64_t settle_ms = settle_ms_of(spec);
  if (answers_since_ns_ < 0) return settle_ms;
  const auto unanswered = unanswered_ns_.find(spec.key);
  const std::int64_t since =
      std::max(answers_since_ns_, unanswered == unanswered_ns_.end() ? answers_since_ns_ : unanswered->second);
  return std::max<std::int64_t>(0, settle_ms - (access_.clock.monotonic_ns() - since) / 1'000'000);
}

// Just now, and in vain: whole lists are not asked for in every round, but when it may have become certain.
bool SlurmSubmitter::was_looked_for(const JobSpec& spec) const {
  const auto missed = missed_ns_.find(spec.key);
  if (missed == missed_ns_.end() || answers_since_ns_ < 0 || settled_in_ms(spec) == 0) return false;
  return (access_.clock.monotonic_ns() - missed->second) / 1'000'000 * looks_per_settle < settle_ms_of(spec);
}

Error SlurmSubmitter::on_its_way(const JobSpec& spec) const {
  return make_error(ErrorCode::unavailable,
                    format("job {} may have been submitted already and be on its way", spec.key),
                    format("it is looked for again; for {} at the most",
                           human_duration(static_cast<double>(settled_in_ms(spec)) / 1e3)));
}

// nullopt: nobody has submitted it, and it is wanted.
std::optional<Result<std::string>> SlurmSubmitter::conclude_absent(const JobSpec& spec) const {
  auto id = id_of_a_start(spec);
  if (!id.ok())  // it may have been: nobody submits it on doubt
    return Result<std::string>(make_error(ErrorCode::unavailable, id.error().message(), "it is looked for again"));
  if (!id->empty()) return id;
  if (settled_in_ms(spec) > 0) return Result<std::string>(on_its_way(spec));
  if (!spec.withdrawn) return std::nullopt;
  return Result<std::string>(make_error(ErrorCode::invalid_input, "cancelled before it was submitted"));
}

void SlurmSubmitter::submit_rest(const std::vector<JobSpec>& specs, Answers& answers) {
  std::vector<std::size_t> rest;
  for (std::size_t i = 0; i < specs.size(); ++i)
    if (!answers[i]) rest.push_back(i);
  bool silent = false;
  for (std::size_t begin = 0; begin < rest.size();) {
    const std::size_t end = std::min(begin + access_.port.submit_window(), rest.size());
    const Status may = access_.may_act();
    if (silent || !may.ok()) {
      for (std::size_t i = begin; i < rest.size(); ++i)
        answers[rest[i]] =
            !may.ok() ? may.error()
                      : make_error(ErrorCode::unavailable, "not attempted: Slurm did not answer the submissions before",
                                   "it is tried again later");
      return;
    }
    if (auto fault = fault_here(FaultPoint::scheduler_in_flight)) {
      for (std::size_t i = begin; i < rest.size(); ++i) answers[rest[i]] = *fault;
      return;
    }
    silent = submit_window(specs, std::span(rest).subspan(begin, end - begin), answers);
    begin = end;
  }
}

bool SlurmSubmitter::submit_window(const std::vector<JobSpec>& specs, std::span<const std::size_t> window,
                                   Answers& answers) {
  std::vector<SlurmSubmission> submissions;
  submissions.reserve(window.size());
  for (const std::size_t i : window) submissions.push_back(submission_of(specs[i], true, access_.options.comments));
  auto ids = access_.port.submit(submissions);
  bool silent = false;
  std::vector<JobSpec> dependent;
  std::vector<std::string> dependent_ids;
  for (std::size_t n = 0; n < window.size(); ++n) {
    const JobSpec& spec = specs[window[n]];
    Result<std::string> id = std::move(ids[n]);
    if (!id.ok() && !spec.after.empty() && id.error().code == ErrorCode::invalid_input)
      id = submit_without_dependency(spec, id.error());
    if (id.ok()) {
      note_id(spec, *id);
      if (!spec.after.empty()) {
        dependent.push_back(spec);
        dependent_ids.push_back(*id);
      }
    } else if (may_have_been_accepted(id.error())) {
      unanswered_ns_[spec.key] = access_.clock.monotonic_ns();
      answers_since_ns_ = -1;  // its time to appear begins with the next answer
      silent = silent || starts_with(id.error().what, "not attempted");
    }
    answers[window[n]] = std::move(id);
  }
  if (!dependent.empty()) check_dependencies(dependent, dependent_ids);
  return silent;
}

}  // namespace longhaul
