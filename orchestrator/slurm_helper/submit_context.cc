// The environment that sbatch hands to a job with --export=ALL, as far as it does not depend on the job.
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstring>

#include "base/process/process.h"
#include "base/text/text.h"
#include "orchestrator/slurm_helper/job_description.h"

extern char** environ;

namespace longhaul {
namespace {

struct Limit {
  const char* name;
  int resource;
};
constexpr Limit limits[] = {{"CPU", RLIMIT_CPU},     {"FSIZE", RLIMIT_FSIZE},   {"DATA", RLIMIT_DATA},
                            {"STACK", RLIMIT_STACK}, {"CORE", RLIMIT_CORE},     {"RSS", RLIMIT_RSS},
                            {"NPROC", RLIMIT_NPROC}, {"NOFILE", RLIMIT_NOFILE}, {"MEMLOCK", RLIMIT_MEMLOCK},
                            {"AS", RLIMIT_AS}};

// "ALL", "NONE", or names with or without RLIMIT_ in front, separated by commas.
bool names_limit(const std::string& list, const char* name) {
  for (std::string one : split(list, ',')) {
    one = trim(one);
    if (one == "ALL" || one == name || one == std::string("RLIMIT_") + name) return true;
  }
  return false;
}

// What an outer job of Slurm's has set for itself.
bool belongs_to_outer_job(std::string_view entry) {
  for (const std::string_view kept : {"SLURM_CONF=", "SLURM_JWT="})
    if (starts_with(entry, kept)) return false;
  for (const std::string_view prefix : {"SLURM_", "SBATCH_", "SLURMD_", "CUDA_VISIBLE_DEVICES=",
                                        "ROCR_VISIBLE_DEVICES=", "GPU_DEVICE_ORDINAL=", "ZE_AFFINITY_MASK="})
    if (starts_with(entry, prefix)) return true;
  return false;
}

}  // namespace

SubmitContext make_submit_context(const std::string& propagated_limits, const std::string& limits_not_propagated) {
  SubmitContext context;
  for (char** entry = environ; *entry; ++entry)
    if (!belongs_to_outer_job(*entry)) context.environment.emplace_back(*entry);
  const auto add = [&](const std::string& name, const std::string& value) {
    context.environment.push_back(name + "=" + value);
  };
  const bool all = propagated_limits.empty() && limits_not_propagated.empty();
  for (const Limit& limit : limits) {
    const bool wanted = all || (propagated_limits.empty() ? !names_limit(limits_not_propagated, limit.name)
                                                          : names_limit(propagated_limits, limit.name));
    rlimit value{};
    if (wanted && ::getrlimit(static_cast<__rlimit_resource_t>(limit.resource), &value) == 0)
      add(std::string("SLURM_RLIMIT_") + limit.name, std::to_string(static_cast<unsigned long>(value.rlim_cur)));
  }
  add("SLURM_PRIO_PROCESS", std::to_string(::getpriority(PRIO_PROCESS, 0)));
  char folder[PATH_MAX];
  if (::getcwd(folder, sizeof folder)) context.working_directory = folder;
  add("SLURM_SUBMIT_DIR", context.working_directory);
  add("SLURM_SUBMIT_HOST", host_name());
  const mode_t mask = ::umask(0);
  ::umask(mask);
  add("SLURM_UMASK", format("0{}{}{}", (mask >> 6) & 7, (mask >> 3) & 7, mask & 7));
  return context;
}

}  // namespace longhaul
