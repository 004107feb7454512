#include "orchestrator/controller/saved_state.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "base/files.h"
#include "base/text.h"
#include "orchestrator/state/run_folder.h"

namespace longhaul {

std::string checkpoints_folder(const std::string& run_dir, const std::string& stage) {
  return join_path(stage_folder(run_dir, stage), "state/checkpoints");
}

std::vector<std::int64_t> checkpoint_steps(const std::string& folder) {
  std::vector<std::int64_t> steps;
  if (const auto names = list_directory(folder); names.ok())
    for (const std::string& name : *names)
      if (starts_with(name, "step-") && file_exists(join_path(folder, name + "/checkpoint.json")))
        steps.push_back(std::atoll(name.c_str() + 5));
  std::sort(steps.begin(), steps.end());
  return steps;
}

Status link_tree(const std::string& from, const std::string& to) {
  LH_TRY(const auto names, list_tree(from));
  for (const std::string& name : names) {
    const std::string source = join_path(from, name), target = join_path(to, name);
    LH_CHECK(make_directories(parent_path(target)));
    if (::link(source.c_str(), target.c_str()) == 0) continue;
    LH_TRY(const MappedFile file, MappedFile::open(source));
    LH_CHECK(write_file_atomic(target, file.view()));
  }
  return {};
}

}  // namespace longhaul
