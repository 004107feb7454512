#include "base/files/mounts.h"

#include <algorithm>

#include "base/files/files.h"
#include "base/text/text.h"

namespace longhaul {
namespace {

// Spaces, tabs, line ends and backslashes come as octal numbers: "\040".
std::string unescaped(std::string_view text) {
  std::string out;
  const auto octal = [&](std::size_t at) { return at < text.size() && text[at] >= '0' && text[at] <= '7'; };
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\\' && octal(i + 1) && octal(i + 2) && octal(i + 3)) {
      out += static_cast<char>((text[i + 1] - '0') * 64 + (text[i + 2] - '0') * 8 + (text[i + 3] - '0'));
      i += 3;
    } else {
      out += text[i];
    }
  }
  return out;
}

bool lies_on(const std::string& path, const std::string& point) {
  if (point == "/" || path == point) return true;
  return path.size() > point.size() && starts_with(path, point) && path[point.size()] == '/';
}

}  // namespace

std::vector<Mount> parse_mountinfo(std::string_view text) {
  constexpr std::size_t point_at = 4, options_at = 5;
  std::vector<Mount> mounts;
  for (const std::string& line : split(text, '\n')) {
    const std::vector<std::string> fields = split(line, ' ');
    const auto dash = std::find(fields.begin(), fields.end(), "-");
    if (dash - fields.begin() <= static_cast<std::ptrdiff_t>(options_at) || fields.end() - dash < 4) continue;
    Mount mount{unescaped(fields[point_at]), dash[1], split(fields[options_at], ',')};
    for (const std::string& option : split(dash[3], ',')) mount.options.push_back(option);
    mounts.push_back(std::move(mount));
  }
  return mounts;
}

const Mount* mount_of(const std::string& path, const std::vector<Mount>& mounts) {
  const Mount* found = nullptr;
  for (const Mount& mount : mounts)
    if (lies_on(path, mount.point) && (!found || mount.point.size() >= found->point.size())) found = &mount;
  return found;
}

Result<std::vector<Mount>> mounts_now() {
  LH_TRY(const std::string text, read_file("/proc/self/mountinfo"));
  return parse_mountinfo(text);
}

}  // namespace longhaul
