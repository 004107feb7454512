#include "orchestrator/job/container_mounts.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <memory>

#include "base/files/files.h"
#include "base/text/text.h"
#include "base/toml.h"

namespace longhaul {
namespace {

bool is_at_or_below(const std::string& path, const std::string& folder) {
  return path == folder || folder == "/" || starts_with(path, folder + "/");
}

std::string where_it_is(const std::string& path) {
  const std::unique_ptr<char, void (*)(void*)> real(::realpath(path.c_str(), nullptr), std::free);
  return real ? std::string(real.get()) : std::string();
}

// Of few files each by itself: their folder may be one that the image has, too.
constexpr std::size_t single_files_max = 8;

void add_inputs(std::vector<std::string>& all, const std::vector<std::string>& inputs) {
  std::map<std::string, std::vector<std::string>> files;  // by folder
  for (const std::string& input : inputs)
    for (const std::string& path : {input, where_it_is(input)}) {
      if (path.empty() || !starts_with(path, "/")) continue;
      if (is_directory(path))
        all.push_back(path);
      else
        files[parent_path(path)].push_back(path);
    }
  for (const auto& [folder, of_folder] : files)
    if (of_folder.size() > 2 * single_files_max && folder != "/")
      all.push_back(folder);
    else
      all.insert(all.end(), of_folder.begin(), of_folder.end());
}

// "SRC:DST:FLAGS": where it is outside and inside; one path alone is both.
std::pair<std::string, std::string> ends_of(const std::string& mount) {
  const std::vector<std::string> parts = split(mount, ':');
  return {parts[0], parts.size() > 1 ? parts[1] : parts[0]};
}

}  // namespace

Result<std::vector<std::string>> folders_for_container(const OwnFolders& own) {
  std::vector<std::string> all;
  for (const std::string* one : {&own.run_dir, &own.programs, &own.artifact_root})
    if (is_directory(*one)) {
      all.push_back(*one);
      if (const std::string real = where_it_is(*one); !real.empty()) all.push_back(real);
    }
  // What a package's programs load lies at ../lib/longhaul from them.
  if (const std::string libraries = join_path(parent_path(own.programs), "lib/longhaul"); is_directory(libraries))
    all.push_back(libraries);
  add_inputs(all, own.inputs);
  std::sort(all.begin(), all.end());
  std::vector<std::string> folders;
  for (const std::string& one : all) {
    if (one.find_first_of(",:;\n") != std::string::npos)
      return make_error(ErrorCode::invalid_input, "no mount of a container can name " + one,
                        "use a folder without , : ; and line ends in its name");
    const bool known = std::any_of(folders.begin(), folders.end(),
                                   [&](const std::string& above) { return is_at_or_below(one, above); });
    if (!known) folders.push_back(one);
  }
  return folders;
}

std::vector<std::string> not_mounted(const std::vector<std::string>& needed, const std::vector<std::string>& mounts) {
  std::vector<std::string> missing;
  for (const std::string& folder : needed) {
    const bool shown = std::any_of(mounts.begin(), mounts.end(), [&](const std::string& mount) {
      const auto [outside, inside] = ends_of(mount);
      return outside == inside && is_at_or_below(folder, inside);
    });
    if (!shown) missing.push_back(folder);
  }
  return missing;
}

Result<std::optional<std::vector<std::string>>> environment_mounts(const std::string& text, const std::string& path) {
  LH_TRY(const Value file, parse_toml(text, path));
  std::vector<std::string> mounts;
  bool known = file.find("base_environment") == nullptr;
  const Value* listed = file.find("mounts");
  if (listed && !listed->is_array())
    return make_error(ErrorCode::invalid_input, path + ": mounts is no list", "write mounts = [\"SRC:DST\"]");
  if (listed)
    for (const Value& one : listed->as_array()) {
      if (!one.is_string()) continue;
      if (one.as_string().find('$') != std::string::npos) known = false;
      mounts.push_back(one.as_string());
    }
  if (!known) return std::optional<std::vector<std::string>>();
  return std::optional<std::vector<std::string>>(std::move(mounts));
}

}  // namespace longhaul
