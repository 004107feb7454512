#include "orchestrator/cli/session/user_defaults.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/files/files.h"
#include "base/text/text.h"
#include "base/toml.h"

namespace longhaul {
namespace {

constexpr std::uint64_t config_bytes_max = 1 << 20;

bool is_written_as_file(const std::string& site) {
  return ends_with(site, ".toml") || site.find('/') != std::string::npos;
}

std::string from_folder(const std::string& path, const std::string& file) {
  return starts_with(path, "/") ? path : join_path(parent_path(file), path);
}

// Of a command that plans against a site.
bool plans(Command command) {
  using enum Command;
  return command == run || command == submit || command == validate || command == plan || command == tune;
}

}  // namespace

Result<UserDefaults> read_user_defaults(const UserEnvironment& environment) {
  UserDefaults defaults;
  const std::string& file = environment.config_file;
  if (!file.empty() && file_exists(file)) {
    LH_TRY(const std::string text, read_file(file, config_bytes_max));
    LH_TRY(const Value values, parse_toml(text, file));
    const std::vector<std::pair<const char*, UserDefault*>> known = {
        {"site", &defaults.site}, {"account", &defaults.account}, {"runs", &defaults.runs}};
    for (const ValueMember& member : values.as_table()) {
      const auto one = std::ranges::find_if(known, [&](const auto& key) { return member.key == key.first; });
      if (one == known.end() || !member.value.is_string())
        return make_error(ErrorCode::invalid_input, format("{}: {}", file, member.key),
                          "it may hold site = \"NAME\", account = \"NAME\" and runs = \"FOLDER\", nothing else");
      *one->second = {member.value.as_string(), file};
    }
    if (is_written_as_file(defaults.site.value)) defaults.site.value = from_folder(defaults.site.value, file);
    if (!defaults.runs.value.empty()) defaults.runs.value = from_folder(defaults.runs.value, file);
  }
  if (!environment.site.empty()) {
    if (environment.site != defaults.site.value) defaults.account = {};  // that one is of another site
    defaults.site = {environment.site, "LONGHAUL_SITE"};
  }
  if (!environment.runs.empty()) defaults.runs = {environment.runs, "LONGHAUL_RUNS"};
  return defaults;
}

void apply_user_defaults(const UserDefaults& defaults, CommandLine& line) {
  if (line.command == Command::tick) return;
  if (line.runs_dir.empty() && line.runs_asked.folders.empty()) line.runs_dir = defaults.runs.value;
  const bool site_is_ours = !line.site_given || line.site == defaults.site.value;
  if (!line.site_given && !defaults.site.value.empty() && line.command != Command::doctor) {
    line.site = defaults.site.value;
    line.site_given = true;
  }
  const bool said =
      std::ranges::any_of(line.sets, [](const std::string& set) { return starts_with(trim(set), "site.account"); });
  if (plans(line.command) && site_is_ours && !defaults.site.value.empty() && !defaults.account.value.empty() && !said)
    line.sets.push_back(format("site.account=\"{}\"", defaults.account.value));
}

std::string user_defaults_text(const UserDefaults& defaults, const UserEnvironment& environment) {
  std::vector<std::string> said;
  const auto add = [&](const char* what, const UserDefault& one) {
    if (!one.value.empty()) said.push_back(format("{} {} ({})", what, one.value, one.from));
  };
  add("site", defaults.site), add("account", defaults.account), add("runs", defaults.runs);
  if (!said.empty()) return join(said, ", ");
  return format("none; LONGHAUL_SITE, LONGHAUL_RUNS and {} can say site, account and runs",
                environment.config_file.empty() ? "~/.config/longhaul.toml" : environment.config_file);
}

}  // namespace longhaul
