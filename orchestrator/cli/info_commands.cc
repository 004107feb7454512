// docs and doctor: about the program itself.
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <thread>

#include "base/files.h"
#include "base/json.h"
#include "base/process.h"
#include "base/text.h"
#include "orchestrator/cli/commands.h"
#include "orchestrator/cli/load_workflow.h"
#include "orchestrator/cli/reference_docs.h"
#include "orchestrator/render/text_table.h"
#include "orchestrator/scheduler/open_slurm_port.h"

namespace longhaul {
namespace {

constexpr std::int64_t engine_deadline_ms = 10'000;

std::vector<std::string> toml_names(const std::string& folder) {
  std::vector<std::string> found;
  if (const auto names = list_directory(folder); names.ok())
    for (const std::string& name : *names)
      if (ends_with(name, ".toml")) found.push_back(name.substr(0, name.size() - 5));
  return found;
}

std::string program_state(const Installation& installation, const std::string& program) {
  std::string path = join_path(installation.programs_dir, program);
  if (::access(path.c_str(), X_OK) != 0) return "missing: " + path;
  return path;
}

std::string engine_build(const Installation& installation) {
  const std::string path = join_path(installation.programs_dir, "longhaul-engine");
  if (::access(path.c_str(), X_OK) != 0) return "unknown: no engine";
  const auto output = run_program({path, "info"}, engine_deadline_ms);
  if (!output.ok()) return "unknown: " + output.error().message();
  if (!output->status.success()) return "unknown: `longhaul-engine info` ended with " + output->status.text();
  return replace_all(trim(output->out), "\n", "; ");
}

// Which way to Slurm would be taken, and what answers there.
std::pair<std::string, std::string> slurm_state(const Installation& installation) {
  const auto opened = open_slurm_port("auto", installation.programs_dir);
  if (!opened.ok()) return {"none: " + opened.error().message(), "unknown"};
  const std::string backend = format("{}: {}", opened->port->description(), opened->why);
  const auto found = opened->port->configuration();
  if (!found.ok()) return {backend, "unknown: " + found.error().what};
  return {backend, format("slurmctld {} of {}, {}, forgets jobs {} s after their end", found->version, found->cluster,
                          found->accounting ? "with accounting" : "without accounting", found->min_job_age_s)};
}

}  // namespace

ExitCode show_docs(const CommandLine& line, const Installation&) {
  for (const ReferencePage& page : reference_pages()) {
    if (line.output.empty()) {
      std::fputs((page.text + "\n").c_str(), stdout);
      continue;
    }
    auto written = make_directories(line.output);
    if (written.ok()) written = write_file_atomic(join_path(line.output, page.name), page.text);
    if (!written.ok()) return fail(line, written.error());
    std::printf("%s\n", join_path(line.output, page.name).c_str());
  }
  return ExitCode::ok;
}

ExitCode show_doctor(const CommandLine& line, const Installation& installation) {
  const auto slurm = slurm_state(installation);
  std::vector<std::pair<std::string, std::string>> facts = {
      {"version", installation.version},
      {"host", host_name()},
      {"cores", std::to_string(std::thread::hardware_concurrency())},
      {"worker", program_state(installation, "longhaul-worker")},
      {"engine", program_state(installation, "longhaul-engine")},
      {"engine build", engine_build(installation)},
      {"slurm backend", slurm.first},
      {"slurm controller", slurm.second},
      {"shared files",
       installation.shared_dir.empty() ? "none: only the site 'local', no recipes" : installation.shared_dir},
  };
  std::vector<std::string> sites = {"local"};
  for (const std::string& folder : installation.site_folders())
    for (const std::string& name : toml_names(folder))
      if (std::find(sites.begin(), sites.end(), name) == sites.end()) sites.push_back(name);
  facts.emplace_back("sites", join(sites, ", "));
  const auto recipes = installation.shared_dir.empty()
                           ? std::vector<std::string>{}
                           : toml_names(join_path(installation.shared_dir, "workflows/recipes"));
  facts.emplace_back("recipes", recipes.empty() ? "none" : join(recipes, ", "));
  if (line.json) {
    Value table = Value::make_table();
    for (const auto& [name, value] : facts) table.set(replace_all(name, " ", "_"), value);
    std::fputs(to_json_pretty(table).c_str(), stdout);
  } else {
    std::vector<std::vector<std::string>> rows;
    for (const auto& [name, value] : facts) rows.push_back({name, value});
    std::fputs(text_table(rows).c_str(), stdout);
  }
  const bool whole = !starts_with(facts[3].second, "missing") && !starts_with(facts[4].second, "missing");
  return whole ? ExitCode::ok : ExitCode::system;
}

}  // namespace longhaul
