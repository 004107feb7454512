// What is mounted where, as the kernel lists it (/proc/self/mountinfo, proc(5)).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/error/result.h"

namespace longhaul {

struct Mount {
  std::string point, type;           // "/runs", "nfs4"
  std::vector<std::string> options;  // of the mount and of the file system: "rw", "nocto", "acdirmax=600"
};
// In the order of the file: of two on one point the later one is seen. Lines that are none are passed over.
std::vector<Mount> parse_mountinfo(std::string_view text);
// That `path` (absolute, without links) lies on; null: none of them.
const Mount* mount_of(const std::string& path, const std::vector<Mount>& mounts);
// Of this process now.
Result<std::vector<Mount>> mounts_now();

}  // namespace longhaul
