#include "orchestrator/site/runs_mount.h"

#include <charconv>

#include "base/text/text.h"

namespace longhaul {
namespace {

constexpr int seconds_kept_by_default = 60;  // acregmax and acdirmax; the kernel shows what differs from it

// Seconds; -1: the option is not one of those.
int seconds_kept(const std::string& option) {
  for (const char* name : {"actimeo=", "acregmin=", "acregmax=", "acdirmin=", "acdirmax="}) {
    if (!starts_with(option, name)) continue;
    int seconds = -1;
    const std::string number = option.substr(std::string_view(name).size());
    (void)std::from_chars(number.data(), number.data() + number.size(), seconds);
    return seconds;
  }
  return -1;
}

}  // namespace

std::string runs_mount_problem(const Mount& mount) {
  if (mount.type != "nfs" && mount.type != "nfs4") return {};
  for (const std::string& option : mount.options) {
    if (option == "nocto")
      return format(
          "{} is NFS mounted with nocto: a host may not see for minutes what another has written; ask for a "
          "mount without it, or set `runs` in the site file to a folder elsewhere",
          mount.point);
    if (const int seconds = seconds_kept(option); seconds > seconds_kept_by_default)
      return format(
          "{} is NFS mounted with {}: a host may not see for {} s what another has written; ask for a mount "
          "with actimeo of at most {}, or set `runs` in the site file to a folder elsewhere",
          mount.point, option, seconds, seconds_kept_by_default);
  }
  return {};
}

}  // namespace longhaul
