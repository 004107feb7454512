// Where the other programs and the shared files of this installation are, found from the running program's own path: an
// installed prefix (bin/ beside share/longhaul/) or a source tree (build/<preset>/bin/ below it).
#pragma once

#include <string>
#include <vector>

namespace longhaul {

struct Installation {
  std::string programs_dir;   // longhaul, longhaul-worker, longhaul-engine
  std::string shared_dir;     // holds site-configs/ and workflows/; "" if there is none
  std::string version;        // "longhaul 0.1.0 (git 1a2b3c4)"
  std::string library_path;   // LD_LIBRARY_PATH: where the loader looks for the site's libraries first
  std::string search_path;    // PATH: where programs are found that are started by name
  std::string defaults_text;  // what this user has said once for all runs, for `doctor`
  std::string cache_dir;      // of this user and this program: what can be made again; "": there is none

  std::vector<std::string> site_folders() const;
  std::string constants_path() const;  // of the time model (autotune/constants.toml)
  // Recipes beside the workflow first, then the shared ones.
  std::vector<std::string> recipe_folders(const std::string& workflow_folder) const;
};
Installation find_installation(const std::string& program_path, const std::string& version);

}  // namespace longhaul
