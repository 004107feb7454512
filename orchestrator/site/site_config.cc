#include "orchestrator/site/site_config.h"

#include <algorithm>

#include "base/files.h"
#include "base/text.h"
#include "base/toml.h"

namespace longhaul {
namespace {

constexpr int inheritance_max = 8;

Result<std::string> find_site_file(const std::string& name, const std::vector<std::string>& folders) {
  if (ends_with(name, ".toml") || name.find('/') != std::string::npos) {
    if (!file_exists(name)) return make_error(ErrorCode::not_found, "site file " + name + " does not exist");
    return name;
  }
  std::vector<std::string> known;
  for (const std::string& folder : folders) {
    const std::string path = join_path(folder, name + ".toml");
    if (file_exists(path)) return path;
    if (auto names = list_directory(folder); names.ok())
      for (const std::string& file : *names)
        if (ends_with(file, ".toml")) known.push_back(file.substr(0, file.size() - 5));
  }
  if (name == "local") return std::string();
  known.emplace_back("local");
  const std::string nearest = nearest_word(name, known);
  std::sort(known.begin(), known.end());
  known.erase(std::unique(known.begin(), known.end()), known.end());
  return make_error(ErrorCode::not_found, "there is no site '" + name + "'",
                    (nearest.empty() ? "" : "did you mean '" + nearest + "'? ") + "known sites: " + join(known, ", "));
}

// Relative paths of a site file start at its folder.
void anchor_paths(Value& table, const std::string& folder) {
  for (const char* key : {"data", "runs", "artifacts"}) {
    Value* value = table.find(key);
    if (!value || !value->is_string() || value->as_string().empty() || starts_with(value->as_string(), "/")) continue;
    const SourcePos where = value->pos;
    *value = Value(absolute_path(join_path(folder, value->as_string())));
    value->pos = where;
  }
}

}  // namespace

const FieldTable<SiteConfig>& site_fields() {
  using S = SiteConfig;
  static const auto table =
      FieldTable<S>()
          .field("name", &S::name, {.help = "of the site"})
          .field("description", &S::description, {.help = "one line for people"})
          .field("scheduler", &S::scheduler, {.help = "what starts the jobs", .choices = {"local", "slurm"}})
          .field("cpu_slots", &S::cpu_slots,
                 {.unit = "cores", .help = "that jobs may use at the same time; 0 takes the machine's", .min = 0})
          .field("data", &S::data, {.help = "folder of raw data, for ${site.data}"})
          .field("runs", &S::runs, {.help = "folder of runs; empty is ./runs; --runs-dir wins"})
          .field(
              "artifacts", &S::artifacts,
              {.help = "root under which artifacts are found across runs; empty is .artifacts in the folder of runs"})
          .group("notify", &S::notify, notify_fields(), "messages about runs, to a webhook");
  return table;
}

Result<Site> load_site(const std::string& name, const std::vector<std::string>& folders) {
  Site site;
  Value merged = Value::make_table();
  std::string next = name;
  while (!next.empty()) {
    LH_TRY(const std::string path, find_site_file(next, folders));
    if (path.empty()) break;  // "local" without a file
    if (std::find(site.files.begin(), site.files.end(), path) != site.files.end() ||
        site.files.size() >= inheritance_max)
      return make_error(ErrorCode::invalid_input, "site '" + name + "' inherits in a circle",
                        join(site.files, " -> ") + " -> " + path);
    site.files.push_back(path);
    LH_TRY(Value table, read_toml_file(path));
    next = table.get_string("inherits");
    if (ends_with(next, ".toml") && !starts_with(next, "/")) next = join_path(parent_path(path), next);
    table.erase("inherits");
    anchor_paths(table, absolute_path(parent_path(path)));
    for (const ValueMember& member : table.as_table())
      if (!merged.find(member.key)) merged.as_table().push_back(member);
  }
  Diagnostics diagnostics;
  site.config = site_fields().parse(merged, "site", diagnostics);
  if (const Value* notify = merged.find("notify")) check_notify(site.config.notify, notify->pos, diagnostics);
  LH_CHECK(diagnostics.to_status(""));
  if (site.config.scheduler != "local") {
    Error error = make_error(ErrorCode::unsupported,
                             "site '" + site.config.name + "' uses the scheduler '" + site.config.scheduler +
                                 "', which this version cannot drive",
                             "use a site with scheduler = \"local\", for example --site local");
    error.where = merged.find("scheduler")->pos;
    return error;
  }
  site.values = site_fields().to_value(site.config);
  return site;
}

}  // namespace longhaul
