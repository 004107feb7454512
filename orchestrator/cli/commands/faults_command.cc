// faults: what can go wrong, and what did.
#include <cstdio>

#include "base/text/print.h"
#include "base/value/json.h"
#include "orchestrator/cli/options/json_documents.h"
#include "orchestrator/cli/session/asked_run.h"
#include "orchestrator/cli/session/commands.h"
#include "orchestrator/cli/session/load_workflow.h"
#include "orchestrator/render/run/fault_story.h"

namespace longhaul {

ExitCode show_faults(const CommandLine& line, const Installation& installation) {
  if (line.run.empty()) {
    print_text(stdout, line.json ? to_json_pretty(document_of("longhaul faults", 1, fault_classes_value()))
                                 : fault_classes_text());
    return ExitCode::ok;
  }
  const auto run = asked_run(line, installation);
  if (!run.ok()) return fail(line, run.error());
  const auto faults = read_run_faults(*run);
  if (!faults.ok()) return fail(line, faults.error());
  print_text(stdout, line.json ? to_json_pretty(document_of("longhaul faults", 1, run_faults_value(*faults)))
                               : run_faults_text(*faults));
  return ExitCode::ok;
}

}  // namespace longhaul
