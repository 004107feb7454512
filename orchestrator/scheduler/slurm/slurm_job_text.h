// What Slurm's texts about a job mean, and what we write for one. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "orchestrator/scheduler/port/slurm_port.h"
#include "orchestrator/scheduler/scheduler.h"
#include "orchestrator/scheduler/slurm/slurm_identity.h"

namespace longhaul {

bool is_pending(const SlurmJob& job);
bool is_live(const SlurmJob& job);  // it is not known to have ended
SlurmSubmission submission_of(const JobSpec& spec, bool with_dependency, bool with_comment = true);
// "0,1,2,5" -> "0-2,5"
std::string compress_indices(std::vector<int> indices);
// "3-9,12%4", "0-10:2" -> the indices
std::vector<int> expand_indices(const std::string& text);
bool is_key(const std::string& text);  // of a submission: a job with another comment is not ours
// "1234", "1234_7".
bool is_job_id(const std::string& id);
std::int64_t number_of_job(const std::string& id);  // 1234
// The submission's own number, of a job or of a task of its array.
const std::string& submission_id(const SlurmJob& job);
// Whether `id`, of a job, an array or a task, means this one.
bool covers(const SlurmJob& job, const std::string& id);
SchedulerEnd scheduler_end_of(const SlurmJob& job);
// Of accounting's record of a cancelled job: another user than this one did it.
bool is_by_site(const SlurmJob& end);
// Of accounting's records the one that says how the job `id` ("1234", "1234_7") of this submission ended; nullptr:
// none does. The newest counts, and only once its end is known: slurmdbd hears of a state before the exit code. An id
// may have been given again after a crash of slurmctld: a record with another comment, by which nothing else makes it
// ours, is another job's, and where our comments are stored one that ended without is, too.
const SlurmJob* accounted_end(const std::vector<SlurmJob>& records, const std::string& id,
                              const SlurmIdentity& identity);
// "Slurm says FAILED, exit code 3 on n1"; the witness is Slurm or its accounting.
std::string end_text(const SlurmJob& job, const char* witness);

}  // namespace longhaul
