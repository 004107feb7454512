#include "resiliency/health/left_folders.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "base/files/file_query.h"
#include "base/files/files.h"
#include "base/files/owned_folder.h"
#include "base/text/text.h"
#include "contracts/records/checkpoint_format.h"
#include "contracts/records/local_copies.h"
#include "contracts/records/manifest.h"

namespace longhaul {
namespace {

constexpr const char* prefix = "longhaul-";
constexpr const char* checkpoints_name = "checkpoints";  // in a state folder
constexpr std::uint64_t path_bytes_max = 1 << 16;

// Of a folder of a checkpoint or a copy; -1: of something else.
std::int64_t step_of(const std::string& name) {
  constexpr std::string_view step = "step-";
  if (!starts_with(name, step) || name.size() == step.size()) return -1;
  char* end = nullptr;
  const long long number = std::strtoll(name.c_str() + step.size(), &end, 10);
  return *end == '\0' ? number : -1;
}

// The parts of a copy's manifest are written last: without one nothing in the folder can be read.
bool has_part(const std::string& copy) {
  const auto files = list_directory(copy);
  return files.ok() &&
         std::any_of(files->begin(), files->end(), [](const std::string& name) { return ends_with(name, ".json"); });
}

std::int64_t newest_copy_in(const std::string& folder) {
  std::int64_t newest = -1;
  const auto ranks = list_directory(folder);
  if (!ranks.ok()) return newest;
  for (const std::string& rank : *ranks) {
    if (!starts_with(rank, "rank-")) continue;
    const auto steps = list_directory(join_path(folder, rank));
    if (!steps.ok()) continue;
    for (const std::string& name : *steps)
      if (has_part(join_path(join_path(folder, rank), name))) newest = std::max(newest, step_of(name));
  }
  return newest;
}

std::int64_t bytes_below(const std::string& folder) {
  std::int64_t bytes = 0;
  const auto names = list_tree(folder);
  if (!names.ok()) return 0;
  for (const std::string& name : *names)
    if (const auto size = file_size(join_path(folder, name)); size.ok()) bytes += static_cast<std::int64_t>(*size);
  return bytes;
}

// What is not there has been removed, or its file system is not there: only below a folder of our own is it the former.
bool was_removed(std::string path) {
  for (; path.size() > 1 && !is_directory(path); path = parent_path(path))
    if (!is_surely_absent(path)) return false;
  struct stat info{};
  return path != "/" && ::stat(path.c_str(), &info) == 0 && info.st_uid == ::geteuid();
}

}  // namespace

std::vector<NodeFolder> node_folders(const std::string& parent) {
  std::vector<NodeFolder> found;
  const auto names = list_directory(parent);
  if (!names.ok()) return found;
  for (const std::string& name : *names) {
    NodeFolder folder{.path = join_path(parent, name), .state_dir = {}};
    if (!starts_with(name, prefix) || !check_private_folder(folder.path).ok()) continue;
    folder.use = use_of_folder(folder.path);
    folder.bytes = bytes_below(folder.path);
    if (const auto training = read_file(join_path(folder.path, copies_of_name), path_bytes_max); training.ok())
      folder.state_dir = *training, folder.newest_copy = newest_copy_in(folder.path);
    found.push_back(std::move(folder));
  }
  return found;
}

TrainingOnDisk training_on_disk(const std::string& state_dir) {
  TrainingOnDisk training;
  const auto names = list_directory(state_dir);
  if (!names.ok()) {
    if (names.error().code == ErrorCode::not_found && was_removed(state_dir))
      training.state = TrainingOnDisk::State::gone;
    return training;
  }
  const auto checkpoints = list_directory(join_path(state_dir, checkpoints_name));
  if (!checkpoints.ok() && checkpoints.error().code != ErrorCode::not_found) return training;
  training.state = TrainingOnDisk::State::there;
  training.published = read_manifest(join_path(parent_path(state_dir), "out")).ok();
  if (!checkpoints.ok()) return training;
  for (const std::string& name : *checkpoints)
    if (step_of(name) > training.newest_checkpoint &&
        file_exists(join_path(join_path(join_path(state_dir, checkpoints_name), name), checkpoint_manifest_name)))
      training.newest_checkpoint = step_of(name);
  return training;
}

std::string why_left(const NodeFolder& folder, const TrainingOnDisk& training) {
  if (folder.use != FolderUse::left) return "";
  if (folder.state_dir.empty()) return "no process uses it";
  if (training.state == TrainingOnDisk::State::unknown) return "";
  if (training.state == TrainingOnDisk::State::gone) return "its training is gone: there is no " + folder.state_dir;
  if (training.published) return "its training has ended: " + parent_path(folder.state_dir) + "/out is published";
  if (folder.newest_copy < 0) return "it holds no copy";
  if (training.newest_checkpoint >= folder.newest_copy)
    return format("its newest copy is of step {}, and {} has a checkpoint of step {}", folder.newest_copy,
                  folder.state_dir, training.newest_checkpoint);
  return "";
}

std::vector<RemovedFolder> remove_left_folders(const std::string& parent, const std::string& own_state_dir) {
  std::vector<RemovedFolder> removed;
  for (const NodeFolder& folder : node_folders(parent)) {
    if (!folder.state_dir.empty() && folder.state_dir == own_state_dir) continue;
    const TrainingOnDisk training = folder.state_dir.empty() ? TrainingOnDisk() : training_on_disk(folder.state_dir);
    const std::string why = why_left(folder, training);
    if (why.empty()) continue;
    const Result<bool> outcome = remove_left_folder(folder.path);
    if (outcome.ok() && !*outcome) continue;  // somebody has come to use it
    removed.push_back({folder.path, why, folder.bytes, outcome.ok() ? Status() : Status(outcome.error())});
  }
  return removed;
}

}  // namespace longhaul
