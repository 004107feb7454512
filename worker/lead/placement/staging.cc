#include "worker/lead/placement/staging.h"

#include <unistd.h>

#include <cstdio>

#include "base/files/file_retry.h"
#include "base/files/files.h"
#include "base/text/text.h"

namespace longhaul {

std::string staging_folder(const Attempt& attempt, int restarts, int launch) {
  return join_path(attempt.staging_dir(), format("{}-{}", restarts, launch));
}

Status clear_staging(const Attempt& attempt, int restarts, int launch) {
  const std::string all = attempt.staging_dir();
  LH_TRY(const std::vector<std::string> names, names_if_there(all));
  for (const std::string& name : names) {
    int of_life = 0, of_launch = 0;
    const bool is_launch = std::sscanf(name.c_str(), "%d-%d", &of_life, &of_launch) == 2;
    if (is_launch && (of_life > restarts || (of_life == restarts && of_launch == launch))) continue;
    LH_CHECK(remove_tree(join_path(all, name)));
  }
  ::rmdir(all.c_str());  // where nothing is left in it
  return {};
}

}  // namespace longhaul
