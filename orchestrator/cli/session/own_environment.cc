#include "orchestrator/cli/session/own_environment.h"

#include <unistd.h>

#include "orchestrator/state/access/submit_environment.h"

extern char** environ;

namespace longhaul {

std::vector<std::string> own_environment_for_jobs() {
  std::vector<std::string> entries;
  for (char** entry = environ; *entry; ++entry) entries.emplace_back(*entry);
  return environment_for_jobs(entries);
}

}  // namespace longhaul
