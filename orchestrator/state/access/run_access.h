// Room orchestrator/state/access
// Who may act on a run, and with which environment its jobs are submitted.
// run_access.h looks at owners and modes; submit_environment.h keeps the environment of the run's creator.
// It does not know the ledger: permission is judged before anything of a run is believed.
//
// Whether somebody may act upon a run: drive it, ask something of it, delete of it. Looking at one needs none of this:
// it never acts. Who acts on a run executes what lies in it, so everything that decides what is executed has to be the
// caller's own, or of a group that this installation names, and never writable for everybody.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "base/error/result.h"

namespace longhaul {

// One of the things that decide what a run executes, as lstat(2) shows it.
struct RunPart {
  enum class Kind { absent, folder, file, other };  // other: a link, a device, a FIFO
  std::string path;
  Kind wanted = Kind::folder, kind = Kind::absent;
  uid_t uid = 0;
  gid_t gid = 0;
  mode_t mode = 0;  // permission bits
};

struct Caller {
  uid_t uid = 0;
  std::vector<gid_t> groups = {};   // that site files of the installation name: never what the run's own site file says
  bool program_of_the_run = false;  // this program lies in the run's folder itself
};

// own: driven by the programs that were copied into it. of_group: another's, driven by those of the installation.
enum class RunAccess { own, of_group };

// A run's folder, its log/, bin/, resolved.toml and site.toml, looked at below one descriptor of the folder.
Result<std::vector<RunPart>> look_at_run_parts(const std::string& run_dir);

// Pure. invalid_input: refused; the error names every part that speaks against it, its owner and mode, and what to do.
// What is absent (but for the folder) decides nothing. root acts upon its own runs only.
Result<RunAccess> may_act(const std::string& run_dir, const std::vector<RunPart>& parts, const Caller& caller);

// Where the programs lie that drive a run: `installed` where that is not empty, else the run's own.
std::string driving_programs(const std::string& run_dir, const std::string& installed);

}  // namespace longhaul
