// simulate: a scenario in, a table, a page or JSON out.
#include <cstdio>

#include "base/files/files.h"
#include "base/system/clock.h"
#include "base/text/print.h"
#include "base/value/json.h"
#include "orchestrator/cli/options/json_documents.h"
#include "orchestrator/cli/session/commands.h"
#include "orchestrator/cli/session/load_workflow.h"
#include "orchestrator/render/plan/simulation_text.h"

namespace longhaul {
namespace {

constexpr std::size_t scenario_bytes_max = 4 << 20;

Result<Scenario> read_scenario(const std::string& path) {
  if (!file_exists(path))
    return make_error(ErrorCode::not_found, "scenario " + path + " does not exist",
                      "name a TOML file; workflows/simulations has some");
  LH_TRY(const std::string text, read_file(path, scenario_bytes_max));
  return parse_scenario(text, path);
}

}  // namespace

ExitCode simulate_scenario(const CommandLine& line, const Installation&) {
  const auto scenario = read_scenario(line.scenario);
  if (!scenario.ok()) return fail(line, scenario.error());
  const Study study = run_study(*scenario, line.trials, line.seed, 0);
  if (!line.html.empty()) {
    const Status written = write_file_atomic(line.html, simulation_html(study, SystemClock().wall_ms()));
    if (!written.ok()) return fail(line, written.error());
  }
  print_text(stdout, line.json ? to_json_pretty(document_of("longhaul simulate", 1, simulation_value(study)))
                               : simulation_text(study));
  return study.met() ? ExitCode::ok : ExitCode::run_failed;
}

}  // namespace longhaul
