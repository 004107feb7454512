#include "orchestrator/job/request/job_prologue.h"

#include <map>

#include "base/text/text.h"
#include "orchestrator/job/request/job_options_check.h"
#include "orchestrator/job/request/sbatch_text.h"

namespace longhaul {
namespace {

void load_modules(const JobSources& from, std::vector<std::string>& lines) {
  const auto load = [&](const std::vector<std::string>& modules, const std::string& origin, const SourcePos& where) {
    if (modules.empty()) return;
    if (lines.empty()) lines = module_preamble();
    lines.push_back("# " + origin);
    for (const std::string& module : modules) {
      if (!is_module_name(module)) {
        from.problem_at(where, "'" + one_line(module) + "' cannot name a module",
                        "one module each, without blanks, for example \"cuda/12.6\"");
        continue;
      }
      lines.push_back("load_module " + shell_quote(module) + " || no_module " + shell_quote(module));
    }
  };
  if (from.config().is_slurm()) load(from.config().modules, from.site.origin_of("modules"), from.site_place("modules"));
  load(from.job().modules, "workflow: " + from.name("job.modules"), from.stage.place_of("job.modules"));
  if (!lines.empty()) lines.emplace_back("set -eu");
}

void set_environment(const JobSources& from, std::vector<std::string>& prologue) {
  std::vector<std::string> origins;  // in the order in which they come up
  std::map<std::string, std::vector<std::string>> lines;
  const auto set_all = [&](const std::map<std::string, std::string>& environment, const std::string& key,
                           bool by_user) {
    for (const auto& [variable, value] : environment) {
      const std::string path = format("{}.{}", key, variable);
      if (const auto good = check_variable(variable, value); !good.ok()) {
        from.problem_at(by_user ? from.stage.place_of(path) : from.site_place(path), good.error().what,
                        good.error().hint);
        continue;
      }
      if (!by_user && from.job().environment.count(variable) > 0) continue;
      const std::string origin =
          by_user ? "workflow: " + from.name(key) : replace_all(from.site.origin_of(path), "." + variable, "");
      if (lines[origin].empty()) origins.push_back(origin);
      lines[origin].push_back("export " + variable + "=" + shell_quote(value));
    }
  };
  set_all(from.config().environment, "environment", false);
  set_all(from.job().environment, "job.environment", true);
  for (const std::string& origin : origins) {
    prologue.push_back("# " + origin);
    prologue.insert(prologue.end(), lines[origin].begin(), lines[origin].end());
  }
}

}  // namespace

std::vector<std::string> prologue_of(const JobSources& from) {
  std::vector<std::string> lines;
  load_modules(from, lines);
  set_environment(from, lines);
  return lines;
}

}  // namespace longhaul
