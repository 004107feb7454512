// Small pure parts of SlurmScheduler: array indices, ends, texts.
#include "orchestrator/scheduler/slurm/slurm_job_text.h"

#include <algorithm>
#include <charconv>

#include "base/text/text.h"
#include "orchestrator/scheduler/names/state_names.h"

namespace longhaul {
namespace {

constexpr int first_launch_error = 32;  // slurmd's error numbers from 4000 on, read as a wait status
constexpr int launch_io_error = 53;     // ESLURMD_IO_ERROR, 4021
constexpr int indices_max = 4'000'001;  // Slurm's own limit on MaxArraySize

int slurm_number(std::string_view text) {
  int number = -1;
  const auto end = std::from_chars(text.data(), text.data() + text.size(), number);
  return end.ec == std::errc() && end.ptr == text.data() + text.size() ? number : -1;
}

bool is_live_by_name(const SlurmJob& job) {
  return job.state == "PENDING" || job.state == "RUNNING" || job.state == "SUSPENDED";
}

}  // namespace

bool is_pending(const SlurmJob& job) {
  return job.state == "PENDING" || (!is_live_by_name(job) && !is_ended_state(job.state) && job.nodes.empty());
}
bool is_live(const SlurmJob& job) {
  return !is_ended_state(job.state);
}

SlurmSubmission submission_of(const JobSpec& spec, bool with_dependency, bool with_comment) {
  SlurmSubmission submission;
  submission.script = spec.script;
  submission.arguments = {spec.attempt_dir};
  if (with_comment) submission.options.emplace_back("comment", spec.key);
  if (!spec.name.empty()) submission.options.emplace_back("job-name", spec.name);
  if (!spec.array_tasks.empty()) {
    std::string indices = compress_indices(spec.array_tasks);
    if (spec.array_throttle > 0) indices += format("%{}", spec.array_throttle);
    submission.options.emplace_back("array", indices);
  }
  if (with_dependency && !spec.after.empty()) submission.options.emplace_back("dependency", "afterany:" + spec.after);
  return submission;
}

bool is_key(const std::string& text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '_' ||
           c == '-';
  });
}
bool is_job_id(const std::string& id) {
  return !id.empty() && id.find_first_not_of("0123456789_") == std::string::npos;
}
std::int64_t number_of_job(const std::string& id) {
  std::int64_t number = 0;
  for (const char c : id) {
    if (c < '0' || c > '9') break;
    number = number * 10 + (c - '0');
  }
  return number;
}

const std::string& submission_id(const SlurmJob& job) {
  return job.array_id.empty() ? job.id : job.array_id;
}

bool covers(const SlurmJob& job, const std::string& id) {
  const std::size_t underscore = id.find('_');
  if (underscore == std::string::npos) return submission_id(job) == id || job.id == id;
  if (job.array_id != id.substr(0, underscore)) return false;
  const auto tasks = expand_indices(job.array_tasks);
  return std::find(tasks.begin(), tasks.end(), static_cast<int>(number_of_job(id.substr(underscore + 1)))) !=
         tasks.end();
}

std::string compress_indices(std::vector<int> indices) {
  std::sort(indices.begin(), indices.end());
  indices.erase(std::unique(indices.begin(), indices.end()), indices.end());
  std::vector<std::string> ranges;
  for (std::size_t i = 0; i < indices.size();) {
    std::size_t last = i;
    while (last + 1 < indices.size() && indices[last + 1] == indices[last] + 1) ++last;
    ranges.push_back(last == i ? std::to_string(indices[i]) : format("{}-{}", indices[i], indices[last]));
    i = last + 1;
  }
  return join(ranges, ",");
}

std::vector<int> expand_indices(const std::string& text) {
  std::vector<int> indices;
  for (const std::string& range : split(text.substr(0, text.find('%')), ',')) {
    const auto with_step = split(range, ':');
    const auto ends = split(with_step[0], '-');
    const int first = slurm_number(ends[0]), last = ends.size() > 1 ? slurm_number(ends[1]) : first;
    const int step = with_step.size() > 1 ? slurm_number(with_step[1]) : 1;
    if (first < 0 || last < first || step < 1 || last >= indices_max) continue;
    for (int i = first; i <= last; i += step) indices.push_back(i);
  }
  return indices;
}

const SlurmJob* accounted_end(const std::vector<SlurmJob>& records, const std::string& id,
                              const SlurmIdentity& identity) {
  const auto is_asked_for = [&](const SlurmJob& job) {
    return id == (job.array_id.empty() ? job.id : format("{}_{}", job.array_id, job.array_tasks));
  };
  const auto is_over = [](const SlurmJob& job) { return job.ended_s > 0 && is_ended_state(job.state); };
  const bool comments_stored = std::any_of(records.begin(), records.end(), [&](const SlurmJob& job) {
    return is_asked_for(job) && job.comment == identity.key;
  });
  const SlurmJob* newest = nullptr;
  for (const SlurmJob& job : records) {
    if (!is_asked_for(job)) continue;
    const bool ours = known_by(job, identity) != KnownBy::nothing;
    if (!ours && !job.comment.empty()) continue;
    if (!ours && comments_stored && is_over(job)) continue;
    if (!newest || job.submitted_s >= newest->submitted_s) newest = &job;
  }
  return newest && is_over(*newest) ? newest : nullptr;
}

SchedulerEnd scheduler_end_of(const SlurmJob& job) {
  // What slurmd could not start ends by a signal that is none (0:53). Slurm calls it JobLaunchFailure, and so it calls
  // every batch script that was killed by a signal.
  const bool not_launched =
      job.exit_signal >= first_launch_error || (job.exit_signal == 0 && job.reason.find("aunch") != std::string::npos);
  const std::string& state = job.ends_as.empty() ? job.state : job.ends_as;
  if (state == "COMPLETED") return SchedulerEnd::completed;
  if (state == "FAILED") return not_launched ? SchedulerEnd::launch_failed : SchedulerEnd::failed;
  if (state == "CANCELLED") return SchedulerEnd::cancelled;
  if (state == "TIMEOUT") return SchedulerEnd::time_limit;
  if (state == "NODE_FAIL") return SchedulerEnd::node_fail;
  if (state == "PREEMPTED") return SchedulerEnd::preempted;
  if (state == "BOOT_FAIL") return SchedulerEnd::boot_fail;
  if (state == "DEADLINE") return SchedulerEnd::deadline;
  if (state == "OUT_OF_MEMORY") return SchedulerEnd::out_of_memory;
  return SchedulerEnd::none;
}

std::string end_text(const SlurmJob& job, const char* witness) {
  std::string text = format("{} says {}", witness, job.state);
  if (!job.reason.empty() && job.reason != "None") text += format(", reason {}", job.reason);
  text += format(", exit code {}", job.exit_code);
  if (job.exit_signal != 0) text += format(" by signal {}", job.exit_signal);
  if (!job.nodes.empty()) text += " on " + job.nodes;
  if (job.exit_signal == launch_io_error)
    text +=
        " (slurmd could not open the job's files there: is the folder of runs on a file system that the node shares?)";
  return text;
}

}  // namespace longhaul
