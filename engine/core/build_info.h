// Room engine/core
// What this build and this machine's libraries can do: for `longhaul doctor`, `info` and errors.
// build_info.h names the families that were built in; site_libraries.h the libraries that a GPU run opens.
// gpu_environment.h sets and checks the variables that CUDA and NCCL read.
// It includes none of its rooms: tensors and devices are in tensor/, device/ and cuda/.
//
// What this build of the engine can do; `longhaul doctor` and errors about missing families ask here.
#pragma once

namespace longhaul {

struct BuildInfo {
  bool curate;  // ICU, gumbo and CLD2 were found
  bool cuda;
};
BuildInfo build_info();

}  // namespace longhaul
