#ifdef LONGHAUL_HAVE_CURATE

#include "base/text/text.h"
#include "engine/curate/curate_task.h"
#include "engine/tasks/stages/stages.h"

namespace longhaul {

Status run_curate(TaskRun& run) {
  LH_TRY(CurateSettings settings, run.settings(curate_fields()));
  if (settings.threads == 0) settings.threads = run.compute.threads();
  CurateInputs inputs;
  const TaskInput* documents = run.task.input("documents");
  if (!documents) return make_error(ErrorCode::invalid_input, "no input 'documents'", "add it to inputs = { ... }");
  inputs.documents = documents->paths;
  run.section("curate");
  LH_TRY(const CurateReport report,
         curate(inputs, settings, run.launch.output_dir, [&](const CurateProgress& progress) {
           run.events.progress(static_cast<double>(progress.done), static_cast<double>(progress.total), progress.step);
         }));
  if (report.unreadable_files > 0)
    run.events.message("warn", format("{} files could not be read and were left out; the first: {}",
                                      report.unreadable_files, report.first_unreadable));
  if (report.rejected > report.unreadable_files)
    run.events.message("warn", format("{} records are no documents and were left out (rejected.jsonl); the first: {}",
                                      report.rejected - report.unreadable_files, report.first_rejected));
  for (const auto& [language, rules] : report.rules_left_out) {
    for (const auto& [rule, count] : rules)
      run.events.message("info", format("{} was not asked of {} documents in {}", rule, count, language));
  }
  if (!report.heldout_note.empty()) run.events.message("warn", report.heldout_note);
  constexpr double mega = 1e-6;
  return write_figures(run, {{"documents", static_cast<double>(report.documents), ""},
                             {"megabytes", static_cast<double>(report.bytes) * mega, "MB"},
                             {"heldout_megabytes", static_cast<double>(report.heldout_bytes) * mega, "MB"},
                             {"input_megabytes", static_cast<double>(report.input_bytes) * mega, "MB"},
                             {"languages", static_cast<double>(report.languages.size()), ""}});
}

}  // namespace longhaul

#endif
