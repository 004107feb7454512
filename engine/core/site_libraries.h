// Libraries of the site that a GPU run opens: found by the loader, not linked. For `longhaul-engine info`.
#pragma once

#include <string>
#include <vector>

namespace longhaul {

struct SiteLibrary {
  std::string name;   // "cuda driver", "nccl", "cudnn"
  std::string state;  // "13.0, /usr/lib64/libcuda.so.1 (owner root, mode 0755)", or "not found"
};
std::vector<SiteLibrary> site_libraries();

}  // namespace longhaul
