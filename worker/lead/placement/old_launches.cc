#include "worker/lead/placement/old_launches.h"

#include <sys/stat.h>

#include <cstdlib>

#include "base/files/files.h"

namespace longhaul {
namespace {

// A link is no folder, wherever it leads.
void gather(const std::string& path, std::vector<std::string>& found) {
  found.push_back(path);
  struct stat info{};
  if (::lstat(path.c_str(), &info) != 0 || !S_ISDIR(info.st_mode)) return;
  const auto names = list_directory(path);
  if (!names.ok()) return;
  for (const std::string& name : *names) gather(join_path(path, name), found);
}

}  // namespace

void OldLaunches::new_launch(const std::string& folder, int number) {
  doomed_.clear();
  const auto names = list_directory(folder);
  if (!names.ok()) return;
  for (const std::string& name : *names)
    if (const int launch = std::atoi(name.c_str()); launch > 1 && launch <= number - kept)
      doomed_.push_back(join_path(folder, name));
}

void OldLaunches::look() {
  if (left_.empty() && !doomed_.empty()) {
    gather(doomed_.back(), left_);
    doomed_.pop_back();
  }
  for (int i = 0; i < files_at_a_look && !left_.empty(); ++i) {
    (void)remove_tree(left_.back()).ok();  // what cannot be removed is tried again at the next launch
    left_.pop_back();
  }
}

}  // namespace longhaul
