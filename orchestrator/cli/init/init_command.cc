// init: a first workflow for what lies in a folder.
#include <cstdio>
#include <filesystem>

#include "base/files/files.h"
#include "base/process/process.h"
#include "base/process/program_trust.h"
#include "base/text/print.h"
#include "base/text/text.h"
#include "base/value/json.h"
#include "orchestrator/cli/init/first_workflow.h"
#include "orchestrator/cli/options/json_documents.h"
#include "orchestrator/cli/session/commands.h"
#include "orchestrator/cli/session/load_workflow.h"
#include "orchestrator/cli/session/workflow_fit.h"
#include "orchestrator/preflight/engine_devices.h"
#include "orchestrator/scheduler/local_scheduler.h"
#include "orchestrator/workflow/layout/imported_model.h"

namespace longhaul {
namespace {

constexpr const char* first_workflow_name = "workflow.toml";
constexpr int init_document_format = 1;

MachineLook look_at_machine(const Installation& installation) {
  const EngineDevices devices = devices_of_engine(join_path(installation.programs_dir, "longhaul-engine"));
  MachineLook machine;
  machine.host = host_name();
  machine.cores = usable_cores();
  machine.memory_bytes = static_cast<std::int64_t>(with_machine_memory(SiteConfig()).node.memory.value);
  machine.gpus = devices.host_has_driver() && devices.build().cuda == EngineCuda::built_in;
  machine.slurm = find_program("sbatch", installation.search_path).ok();
  return machine;
}

// Everything that validate would say of it on this machine.
Result<Diagnostics> problems_of(const CommandLine& line, const Installation& installation, const std::string& path) {
  CommandLine check = line;
  check.command = Command::validate;
  check.workflow = path;
  check.site = "local";
  check.site_given = true;
  LH_TRY(const LoadedWorkflow loaded, load_workflow(check, installation));
  Diagnostics problems = loaded.diagnostics;
  if (problems.empty()) problems.merge(workflow_fit(check, installation, loaded).refused());
  return problems;
}

// What is typed next, and where it is to run.
std::vector<std::string> next_commands(const CommandLine& line, const MachineLook& machine, const std::string& path) {
  const std::string file = shell_quoted(path);
  if (line.site_given && line.site != "local") return {"longhaul submit " + file};  // the user's own default
  std::vector<std::string> next = {"longhaul run " + file};
  if (machine.slurm) {
    next.emplace_back("longhaul sites probe --name mycluster > mycluster.toml");
    next.push_back("longhaul submit " + file + " --site ./mycluster.toml");
  }
  return next;
}

void print_made(const CommandLine& line, const std::string& path, const FirstWorkflow& first,
                const std::vector<std::string>& next) {
  if (line.json) {
    Value document = document_of("longhaul init", init_document_format);
    document.set("workflow", absolute_path(path));
    document.set("made_of", first.made_of);
    document.set("notes", ValueArray(first.notes.begin(), first.notes.end()));
    document.set("next", ValueArray(next.begin(), next.end()));
    print_text(stdout, to_json_pretty(document));
    return;
  }
  print(stdout, "{}: a valid workflow of {}\n", path, first.made_of);
  for (const std::string& note : first.notes) print(stdout, "note: {}\n", note);
  print(stdout, "next:\n  {}\n", next.front());
  if (next.size() > 1) print(stdout, "or on this cluster:\n  {}\n  {}\n", next[1], next[2]);
}

}  // namespace

ExitCode init_workflow(const CommandLine& line, const Installation& installation) {
  const std::string folder = line.subject.empty() ? "." : line.subject;
  const auto look = look_at_folder(folder);
  if (!look.ok()) return fail(line, look.error());
  std::int64_t context = 0;
  if (!look->models.empty() && look->models.front() != ".") {
    const auto shape = imported_shape(join_path(look->path, look->models.front()));
    if (!shape.ok()) return fail(line, shape.error());
    context = shape->max_position_embeddings;
  }
  const MachineLook machine = look_at_machine(installation);
  const auto first = first_workflow(*look, context, machine);
  if (!first.ok()) return fail(line, first.error());
  const std::string path = folder == "." ? first_workflow_name : join_path(folder, first_workflow_name);
  if (const Status made = create_file_exclusive(path, first->text); !made.ok()) return fail(line, made.error());
  const auto problems = problems_of(line, installation, path);
  if (!problems.ok() || !problems->empty()) {
    std::error_code ignored;
    std::filesystem::remove(path, ignored);
    return problems.ok() ? refuse_input(line, *problems, "no workflow was written") : fail(line, problems.error());
  }
  print_made(line, path, *first, next_commands(line, machine, path));
  return ExitCode::ok;
}

}  // namespace longhaul
