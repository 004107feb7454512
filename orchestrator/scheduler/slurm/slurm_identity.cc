#include "orchestrator/scheduler/slurm/slurm_identity.h"

#include <algorithm>

#include "base/text/text.h"
#include "orchestrator/scheduler/slurm/slurm_scheduler.h"

namespace longhaul {
namespace {

constexpr const char* name_begin = "lh-";
constexpr std::size_t name_max = 100;
constexpr std::size_t hash_digits = 12;            // 48 bits, beside the number of the attempt
constexpr std::int64_t submit_time_slack_s = 120;  // between our clock and slurmctld's

// Where the last or the last but one part of a name begins, with its dot; npos: there is none.
std::size_t tail_begin(const std::string& name, int parts) {
  std::size_t dot = name.rfind('.');
  for (; parts > 1 && dot != std::string::npos; --parts) dot = dot == 0 ? std::string::npos : name.rfind('.', dot - 1);
  return dot;
}

// Slurm shows script and arguments, separated by blanks; a path may hold some itself.
bool has_argument(const std::string& command, const std::string& folder) {
  return !folder.empty() && ends_with(command, " " + folder);
}

}  // namespace

std::string name_tail(const std::string& key) {
  const std::size_t dot = tail_begin(key, 2), hash = key.rfind('.');
  if (dot == std::string::npos) return "." + key;
  return key.substr(dot, hash + 1 - dot) + key.substr(hash + 1, hash_digits);
}

std::string submission_name(const std::string& base, const std::string& key) {
  const std::string tail = name_tail(key);
  return base.substr(0, name_max - std::min(name_max, tail.size())) + tail;
}

bool submitted_then(const SlurmJob& job, const SlurmIdentity& identity) {
  if (job.submitted_s <= 0) return true;
  if (identity.wanted_ms > 0 && job.submitted_s < identity.wanted_ms / 1000 - submit_time_slack_s) return false;
  // A job that was queued again was submitted again, as Slurm counts it.
  if (identity.answered_ms == 0 || job.restarts > 0) return true;
  return job.submitted_s <= identity.answered_ms / 1000 + submit_time_slack_s;
}

std::int64_t our_ms(std::int64_t slurm_s, const SlurmJob& job, const SlurmIdentity* identity) {
  if (slurm_s <= 0 || !identity || submitted_then(job, *identity)) return slurm_s * 1000;
  const std::int64_t submitted_ms = identity->answered_ms > 0 ? identity->answered_ms : identity->wanted_ms;
  return submitted_ms + (slurm_s - job.submitted_s) * 1000;
}

KnownBy known_by(const SlurmJob& job, const SlurmIdentity& identity) {
  if (job.other_user) return KnownBy::nothing;
  if (job.comment == identity.key) return KnownBy::comment;
  if (has_argument(job.command, identity.folder)) return KnownBy::folder;
  if (ends_with(job.name, name_tail(identity.key))) return KnownBy::name;
  const bool names_another = job.name.find(name_begin) != std::string::npos;
  const bool by_number = !names_another && !identity.id.empty() && submission_id(job) == identity.id &&
                         !identity.work_dir.empty() && job.work_dir == identity.work_dir && identity.answered_ms > 0 &&
                         job.submitted_s > 0 && submitted_then(job, identity);
  return by_number ? KnownBy::id : KnownBy::nothing;
}

void SlurmIdentities::add(const SlurmIdentity& identity) {
  SlurmIdentity& kept = by_key_[identity.key];
  kept.key = identity.key;
  for (std::string SlurmIdentity::* text : {&SlurmIdentity::id, &SlurmIdentity::folder, &SlurmIdentity::work_dir})
    if (!(identity.*text).empty()) kept.*text = identity.*text;
  for (std::int64_t SlurmIdentity::* time : {&SlurmIdentity::wanted_ms, &SlurmIdentity::answered_ms})
    if (identity.*time > 0) kept.*time = identity.*time;
  by_tail_[name_tail(kept.key)] = &kept;
  if (!kept.folder.empty()) by_folder_[kept.folder] = &kept;
  if (!kept.id.empty()) by_id_[kept.id] = &kept;
}

const SlurmIdentity* SlurmIdentities::answered(const std::string& id) const {
  const auto found = by_id_.find(id);
  return found != by_id_.end() && found->second->id == id ? found->second : nullptr;
}

const SlurmIdentity* SlurmIdentities::find(const SlurmJob& job) const {
  if (job.other_user) return nullptr;
  if (const auto found = by_key_.find(job.comment); found != by_key_.end()) return &found->second;
  for (std::size_t at = job.command.find(" /"); at != std::string::npos; at = job.command.find(" /", at + 1))
    if (const auto found = by_folder_.find(job.command.substr(at + 1)); found != by_folder_.end()) return found->second;
  for (const int parts : {2, 1}) {
    const std::size_t at = tail_begin(job.name, parts);
    if (at == std::string::npos) continue;
    if (const auto found = by_tail_.find(job.name.substr(at)); found != by_tail_.end()) return found->second;
  }
  const SlurmIdentity* numbered = answered(submission_id(job));
  return numbered && known_by(job, *numbered) != KnownBy::nothing ? numbered : nullptr;
}

}  // namespace longhaul
