#include "orchestrator/state/access/run_access.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>

#include "base/files/files.h"
#include "base/system/user_names.h"
#include "base/text/text.h"

namespace longhaul {
namespace {

RunPart::Kind kind_of(mode_t mode) {
  if (S_ISDIR(mode)) return RunPart::Kind::folder;
  return S_ISREG(mode) ? RunPart::Kind::file : RunPart::Kind::other;
}

const char* name_of(RunPart::Kind kind) {
  switch (kind) {
    case RunPart::Kind::folder: return "a folder";
    case RunPart::Kind::file: return "a file";
    case RunPart::Kind::other: return "a link or device";
    case RunPart::Kind::absent: break;
  }
  return "not there";
}

std::string described(const RunPart& part) {
  return format("{} is {} of {}, {}, mode {:04o}", part.path, name_of(part.kind), user_text(part.uid),
                group_text(part.gid), static_cast<unsigned>(part.mode));
}

RunPart part_of(const struct stat& info, const std::string& path, RunPart::Kind wanted) {
  return {path, wanted, kind_of(info.st_mode), info.st_uid, info.st_gid, info.st_mode & 07777};
}

}  // namespace

Result<std::vector<RunPart>> look_at_run_parts(const std::string& run_dir) {
  const FileDescriptor folder(::open(run_dir.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  struct stat info{};
  if (!folder.valid() || ::fstat(folder.get(), &info) != 0)
    return errno_error(errno == ENOENT ? ErrorCode::not_found : ErrorCode::io, "cannot look at " + run_dir, errno);
  std::vector<RunPart> parts = {part_of(info, run_dir, RunPart::Kind::folder)};
  const auto add = [&](const char* name, RunPart::Kind wanted) {
    const std::string path = join_path(run_dir, name);
    if (::fstatat(folder.get(), name, &info, AT_SYMLINK_NOFOLLOW) == 0)
      parts.push_back(part_of(info, path, wanted));
    else
      parts.push_back({.path = path, .wanted = wanted});
  };
  for (const char* name : {"log", "bin"}) add(name, RunPart::Kind::folder);
  for (const char* name : {"resolved.toml", "site.toml"}) add(name, RunPart::Kind::file);
  return parts;
}

Result<RunAccess> may_act(const std::string& run_dir, const std::vector<RunPart>& parts, const Caller& caller) {
  RunAccess access = RunAccess::own;
  std::vector<std::string> reasons;
  bool of_strangers = false, open_to_all = false;
  for (const RunPart& part : parts) {
    if (part.kind == RunPart::Kind::absent) continue;
    const bool own = part.uid == caller.uid;
    const bool of_group = caller.uid != 0 && std::ranges::find(caller.groups, part.gid) != caller.groups.end();
    const bool for_all = (part.mode & S_IWOTH) != 0;
    if (part.kind != part.wanted || (!own && !of_group) || for_all) reasons.push_back(described(part));
    of_strangers = of_strangers || (!own && !of_group);
    open_to_all = open_to_all || for_all;
    if (!own) access = RunAccess::of_group;
  }
  const std::string look = "`longhaul status " + shell_quoted(run_dir) + "` looks at it, and changes nothing";
  if (!reasons.empty()) {
    std::string hint = look;
    if (of_strangers && caller.uid == 0)
      hint = "root acts upon its own runs only: become its owner; " + look;
    else if (of_strangers)
      hint =
          "its owner can; a run of a group can be acted upon where a site file of this installation says group = "
          "\"NAME\"; " +
          look;
    else if (open_to_all)
      hint = "anybody can change what it executes: see that nobody has, then chmod -R o-w " + shell_quoted(run_dir);
    return make_error(ErrorCode::invalid_input,
                      format("whoever acts upon {} executes what lies in it, and it is not yours alone: {}", run_dir,
                             join(reasons, "; ")),
                      hint);
  }
  if (access == RunAccess::of_group && caller.program_of_the_run)
    return make_error(ErrorCode::invalid_input, "this program lies in " + run_dir + ", a run of another",
                      "act upon it with the programs of an installation: another's run is never driven by its own");
  return access;
}

std::string driving_programs(const std::string& run_dir, const std::string& installed) {
  return installed.empty() ? join_path(run_dir, "bin") : installed;
}

}  // namespace longhaul
