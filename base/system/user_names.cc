#include "base/system/user_names.h"

#include <grp.h>
#include <pwd.h>

#include <charconv>
#include <vector>

#include "base/text/text.h"

namespace longhaul {
namespace {
constexpr std::size_t entry_bytes = 1 << 16;  // a group of hundreds has a long line
}  // namespace

namespace {

// "" where the system knows none.
std::string name_of(std::int64_t uid) {
  std::vector<char> buffer(entry_bytes);
  passwd entry{};
  passwd* found = nullptr;
  if (::getpwuid_r(static_cast<uid_t>(uid), &entry, buffer.data(), buffer.size(), &found) != 0 || !found) return {};
  return entry.pw_name;
}

}  // namespace

std::string user_text(std::int64_t uid) {
  const std::string name = name_of(uid);
  return name.empty() ? format("uid {}", uid) : format("uid {} ({})", uid, name);
}

std::string user_name(std::int64_t uid) {
  const std::string name = name_of(uid);
  return name.empty() ? std::to_string(uid) : name;
}

Result<uid_t> user_id(const std::string& text) {
  std::vector<char> buffer(entry_bytes);
  passwd entry{};
  passwd* found = nullptr;
  if (::getpwnam_r(text.c_str(), &entry, buffer.data(), buffer.size(), &found) == 0 && found) return entry.pw_uid;
  uid_t uid = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), uid);
  if (error == std::errc() && end == text.data() + text.size() && !text.empty()) return uid;
  return make_error(ErrorCode::not_found, "there is no user '" + text + "' here", "name one, or write a number");
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
