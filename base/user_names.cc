#include "base/user_names.h"

#include <grp.h>
#include <pwd.h>

#include <vector>

#include "base/text.h"

namespace longhaul {
namespace {
constexpr std::size_t entry_bytes = 1 << 16;  // a group of hundreds has a long line
}  // namespace

std::string user_text(std::int64_t uid) {
  std::vector<char> buffer(entry_bytes);
  passwd entry{};
  passwd* found = nullptr;
  if (::getpwuid_r(static_cast<uid_t>(uid), &entry, buffer.data(), buffer.size(), &found) != 0 || !found)
    return format("uid {}", uid);
  return format("uid {} ({})", uid, entry.pw_name);
}

std::string group_text(gid_t gid) {
  std::vector<char> buffer(entry_bytes);
  group entry{};
  group* found = nullptr;
  if (::getgrgid_r(gid, &entry, buffer.data(), buffer.size(), &found) != 0 || !found) return format("gid {}", gid);
  return format("gid {} ({})", gid, entry.gr_name);
}

Result<gid_t> group_id(const std::string& name) {
  std::vector<char> buffer(entry_bytes);
  group entry{};
  group* found = nullptr;
  if (::getgrnam_r(name.c_str(), &entry, buffer.data(), buffer.size(), &found) != 0 || !found)
    return make_error(ErrorCode::not_found, "there is no group '" + name + "' here", "see the command `groups`");
  return entry.gr_gid;
}

}  // namespace longhaul
