// What this build of the engine can do; `longhaul doctor` and errors about missing families ask here.
#pragma once

namespace longhaul {

struct BuildInfo {
  bool curate;  // ICU, gumbo and CLD2 were found
  bool cuda;
};
BuildInfo build_info();

}  // namespace longhaul
