// What `longhaul runs` was asked, as it stood on the command line.
#pragma once

#include <string>
#include <vector>

namespace longhaul {

struct RunsOptions {
  std::vector<std::string> folders;  // --runs-dir
  std::vector<std::string> states, names, users, stages, models, figures;
  std::string since, until, sort = "created";
  bool mine = false;     // --me
  bool rebuild = false;  // of the index
  int newest = 0;        // 0: all
};

}  // namespace longhaul
