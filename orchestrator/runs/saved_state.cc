#include "orchestrator/runs/saved_state.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>

#include "base/digest/hash.h"
#include "base/files/file_query.h"
#include "base/files/files.h"
#include "base/text/text.h"
#include "contracts/records/checkpoint_format.h"
#include "orchestrator/state/run_folder.h"

namespace longhaul {

std::string checkpoints_folder(const std::string& run_dir, const std::string& stage) {
  return join_path(stage_folder(run_dir, stage), "state/checkpoints");
}

Result<std::vector<std::int64_t>> checkpoint_steps(const std::string& folder) {
  std::vector<std::int64_t> steps;
  const auto names = list_directory(folder);
  if (!names.ok() && names.error().code == ErrorCode::not_found) return steps;
  if (!names.ok()) return names.error();
  for (const std::string& name : *names) {
    if (!starts_with(name, "step-")) continue;
    LH_TRY(const bool whole, is_there(join_path(folder, name + "/" + checkpoint_manifest_name)));
    if (whole) steps.push_back(std::atoll(name.c_str() + 5));
  }
  std::sort(steps.begin(), steps.end());
  return steps;
}

Result<std::string> digest_saved_state(const std::string& state_dir) {
  const auto names = list_tree(state_dir);
  if (!names.ok() && names.error().code == ErrorCode::not_found) return std::string();
  if (!names.ok()) return names.error();
  if (names->empty()) return std::string();
  Xxh3Stream digest;
  for (const std::string& name : *names) {
    struct stat info{};
    if (::stat(join_path(state_dir, name).c_str(), &info) != 0) {
      if (errno == ENOENT) continue;  // removed meanwhile, or a link to nothing
      return errno_error(ErrorCode::io, "cannot look at " + join_path(state_dir, name), errno);
    }
    digest.update(format("{}\n{} {}.{:09}\n", name, info.st_size, info.st_mtim.tv_sec, info.st_mtim.tv_nsec));
  }
  return digest.hex128().substr(0, 16);
}

Result<SavedState> observe_saved(const std::string& run_dir, const std::string& stage,
                                 const std::optional<JobRecord>& record, bool own_program) {
  SavedState saved;
  if (record && record->saved_step) {
    saved.step = *record->saved_step;
  } else {
    LH_TRY(const auto steps, checkpoint_steps(checkpoints_folder(run_dir, stage)));
    if (!steps.empty()) saved.step = steps.back();
  }
  if (!own_program && saved.step == no_saved_step) {
    LH_TRY(saved.contents, digest_saved_state(join_path(stage_folder(run_dir, stage), "state")));
  }
  return saved;
}

Result<std::int64_t> at_least_step(const std::string& run_dir, const LedgerStage& stage, const LedgerAttempt& attempt) {
  if (attempt.after > 0) return 0;
  for (auto before = stage.attempts.size(); before-- > stage.attempts_before_reset;)
    if (stage.attempts[before].number < attempt.number && stage.attempts[before].saved_step > no_saved_step)
      return stage.attempts[before].saved_step;
  LH_TRY(const auto steps, checkpoint_steps(checkpoints_folder(run_dir, stage.id)));
  return steps.empty() ? 0 : steps.back();
}

Status link_file(const std::string& source, const std::string& target) {
  LH_CHECK(make_directories(parent_path(target)));
  if (::link(source.c_str(), target.c_str()) == 0) return {};
  LH_TRY(const MappedFile file, MappedFile::open(source));
  return write_file_atomic(target, file.view());
}

Status link_tree(const std::string& from, const std::string& to) {
  LH_TRY(const auto names, list_tree(from));
  for (const std::string& name : names) LH_CHECK(link_file(join_path(from, name), join_path(to, name)));
  return {};
}

}  // namespace longhaul
