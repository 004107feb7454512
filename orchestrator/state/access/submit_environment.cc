#include "orchestrator/state/access/submit_environment.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <iterator>

#include "base/files/files.h"
#include "base/text/text.h"

namespace longhaul {
namespace {

constexpr off_t bytes_max = 16 << 20;

// Beginnings of names. The user's own wishes to MPI (OMPI_MCA_*, PMIX_MCA_*) are none of a job's.
constexpr const char* of_a_job[] = {"SLURM_",
                                    "SLURMD_",
                                    "SBATCH_",
                                    "SRUN_",
                                    "SQUEUE_",
                                    "SACCT_",
                                    "SCANCEL_",
                                    "SINFO_",
                                    "SCONTROL_",
                                    "PMI_",
                                    "PMIX_",
                                    "OMPI_",
                                    "CUDA_VISIBLE_DEVICES=",
                                    "ROCR_VISIBLE_DEVICES=",
                                    "GPU_DEVICE_ORDINAL=",
                                    "ZE_AFFINITY_MASK="};
constexpr const char* of_the_user[] = {"PMIX_MCA_", "OMPI_MCA_"};

// The user's own, and nobody else may have written it.
bool is_trusted(const std::string& path) {
  struct stat info{};
  return ::lstat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode) && info.st_uid == ::geteuid() &&
         (info.st_mode & (S_IWGRP | S_IWOTH)) == 0 && info.st_size <= bytes_max;
}

}  // namespace

std::vector<std::string> environment_for_jobs(const std::vector<std::string>& entries) {
  const auto is_of_a_job = [](const std::string& entry) {
    const auto begins = [&](const char* prefix) { return starts_with(entry, prefix); };
    return std::any_of(std::begin(of_a_job), std::end(of_a_job), begins) &&
           std::none_of(std::begin(of_the_user), std::end(of_the_user), begins);
  };
  std::vector<std::string> kept;
  for (const std::string& entry : entries)
    if (entry.find('=') != std::string::npos && entry[0] != '=' && !is_of_a_job(entry)) kept.push_back(entry);
  std::sort(kept.begin(), kept.end());
  return kept;
}

std::string submit_environment_text(const std::vector<std::string>& entries) {
  std::string text;
  for (const std::string& entry : entries) {
    text += entry;
    text += '\0';
  }
  return text;
}

std::vector<std::string> read_submit_environment(const std::string& run_dir) {
  const std::string path = join_path(run_dir, submit_environment_file);
  if (!is_trusted(path)) return {};
  const auto text = read_file(path);
  if (!text.ok()) return {};
  std::vector<std::string> entries;
  for (std::size_t begin = 0; begin < text->size();) {
    const std::size_t end = std::min(text->find('\0', begin), text->size());
    entries.push_back(text->substr(begin, end - begin));
    begin = end + 1;
  }
  return entries;
}

}  // namespace longhaul
