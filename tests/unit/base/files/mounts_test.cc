#include "base/files/mounts.h"

#include <doctest/doctest.h>

namespace longhaul {

TEST_CASE("mounts: the newest on the longest part of a path, with the options of mount and file system") {
  const auto mounts = parse_mountinfo(
      "22 1 0:20 / / rw,relatime - overlay overlay rw,lowerdir=/a\n"
      "36 22 0:31 / /home rw,nosuid shared:7 master:1 - ext4 /dev/sda1 rw\n"
      "40 22 0:33 / /home/my\\040runs rw,noatime - nfs4 server:/x rw,vers=4.2,nocto,acdirmax=600\n"
      "41 22 0:34 / /home/my\\040runs ro - tmpfs none size=4k\n"
      "no line of this kind\n");
  REQUIRE(mounts.size() == 4);
  CHECK(mounts[2].type == "nfs4");
  CHECK(mounts[2].options == std::vector<std::string>{"rw", "noatime", "rw", "vers=4.2", "nocto", "acdirmax=600"});
  CHECK(mount_of("/home/my runs/a", mounts)->type == "tmpfs");
  CHECK(mount_of("/home/my", mounts)->type == "ext4");
  CHECK(mount_of("/homes", mounts)->type == "overlay");
  CHECK(mount_of("/home", {}) == nullptr);
  const auto now = mounts_now();
  REQUIRE(now.ok());
  CHECK(mount_of("/proc/self", *now) != nullptr);
}

}  // namespace longhaul
