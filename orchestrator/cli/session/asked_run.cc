#include "orchestrator/cli/session/asked_run.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include "base/files/files.h"
#include "base/files/folder_access.h"
#include "base/files/owned_files.h"
#include "base/system/user_names.h"
#include "base/text/text.h"
#include "base/toml.h"
#include "orchestrator/cli/session/load_workflow.h"
#include "orchestrator/runs/run.h"
#include "orchestrator/state/access/run_access.h"

namespace longhaul {
namespace {

constexpr std::uint64_t site_bytes_max = 4 << 20;

bool is_below(const std::string& path, const std::string& folder) {
  return starts_with(path + "/", folder + "/");
}

// Groups that site files of the installation name. Believed are files of the caller, of root, and of whoever owns the
// programs that run here anyway, and only where nobody else can write them.
std::vector<gid_t> installation_groups(const Installation& installation) {
  std::vector<gid_t> groups;
  if (installation.shared_dir.empty()) return groups;
  Ownership believed{.owners = {::geteuid(), 0}, .forbidden = S_IWOTH, .one_name = false};
  struct stat program{};
  if (::stat(join_path(installation.programs_dir, "longhaul").c_str(), &program) == 0)
    believed.owners.push_back(program.st_uid);
  const std::string folder = join_path(installation.shared_dir, "site-configs");
  const auto names = list_directory(folder);
  if (!names.ok()) return groups;
  for (const std::string& name : *names) {
    if (!ends_with(name, ".toml")) continue;
    const auto text = read_owned_file(join_path(folder, name), believed, site_bytes_max);
    const auto site = text.ok() ? parse_toml(*text, name) : Result<Value>(text.error());
    const std::string group = site.ok() ? site->get_string("group") : std::string();
    const auto id = group.empty() ? Result<gid_t>(Error()) : group_id(group);
    if (id.ok() && std::ranges::find(groups, *id) == groups.end()) groups.push_back(*id);
  }
  return groups;
}

}  // namespace

Result<std::string> asked_run(const CommandLine& line, const Installation& installation) {
  LH_TRY(const Site site, load_site(line.site, installation.site_folders()));
  return find_run(runs_folder(line, site.config), line.run);
}

Result<ActingRun> acting_run(const CommandLine& line, const Installation& installation) {
  LH_TRY(const std::string run, asked_run(line, installation));
  LH_TRY(const std::vector<RunPart> parts, look_at_run_parts(run));
  Caller caller{.uid = ::geteuid()};
  caller.program_of_the_run = is_below(absolute_path(installation.programs_dir), run);
  const bool all_own = std::ranges::all_of(
      parts, [&](const RunPart& part) { return part.kind == RunPart::Kind::absent || part.uid == caller.uid; });
  if (!all_own) caller.groups = installation_groups(installation);
  LH_TRY(const RunAccess access, may_act(run, parts, caller));
  if (access == RunAccess::of_group && !keeps_group_access(run))
    return make_error(
        ErrorCode::invalid_input,
        "the file system of " + run + " has no ACLs, and your umask takes from its group what you would make",
        "say `umask 007` first");
  return ActingRun{run, access == RunAccess::own ? std::string() : absolute_path(installation.programs_dir)};
}

Result<std::string> output_beside_run(const std::string& run_dir, const std::string& name) {
  std::string path = absolute_path(name);
  if (!is_below(path, run_dir)) return path;
  return make_error(ErrorCode::invalid_input, "looking at a run writes nothing into it, and this folder is below it",
                    "name another place with --output");
}

}  // namespace longhaul
