#include "orchestrator/cli/session/status_document.h"

#include <cstdio>

#include "base/files/files.h"
#include "base/system/clock.h"
#include "base/text/print.h"
#include "base/toml.h"
#include "base/value/json.h"
#include "contracts/settings/stages/hyper_search.h"
#include "orchestrator/cli/options/json_documents.h"
#include "orchestrator/render/run/goodput_text.h"
#include "orchestrator/runs/purge.h"
#include "orchestrator/state/run_folder.h"
#include "orchestrator/state/stage_goodput.h"

namespace longhaul {

Value status_document(const RunStatus& status, std::int64_t now_ms, std::string& problem) {
  Value document = run_status_to_value(status);
  const auto goodput = read_goodput(status.run, now_ms);
  problem = goodput.ok() ? "" : goodput.error().message();
  if (goodput.ok()) document.set("goodput", goodput_value(*goodput));
  return document;
}

Status print_status_document(const std::string& run_dir, std::int64_t now_ms) {
  LH_TRY(RunStatus status, read_run_status(run_dir));
  if (const std::string purge = purge_note(run_dir, status, now_ms); !purge.empty()) status.notes.push_back(purge);
  std::string problem;
  print_text(stdout, to_json_pretty(status_document(status, now_ms, problem)));
  if (!problem.empty()) print(stderr, "where the time went: {}\n", problem);
  return {};
}

Status print_tune_document(const std::string& run_dir, std::int64_t now_ms) {
  LH_TRY(const FrozenRun frozen, read_frozen_run(run_dir));
  LH_TRY(const RunStatus status, read_run_status(run_dir));
  const StageStatus* stage = frozen.plan.stages.empty() ? nullptr : status.find(frozen.plan.stages.back().id());
  if (stage == nullptr) return make_error(ErrorCode::corrupt, run_dir + " has no stage that was asked for");
  Value document = document_of("longhaul tune", tune_document_format);
  document.set("run", run_dir);
  document.set("written", utc_text(now_ms));
  document.set("stage", stage->id);
  document.set("kind", stage->kind);
  document.set("state", to_string(stage->state));
  document.set("cause", stage->cause.empty() ? Value() : Value(stage->cause));
  const char* name = stage->kind == search_kind_name ? "hyperparameters.toml" : "layout.toml";
  const std::string path = stage->artifact.empty() ? "" : join_path(stage->artifact, name);
  const auto found = path.empty() ? Result<Value>(Value()) : read_toml_file(path);
  document.set("found_path", found.ok() && !path.empty() ? Value(path) : Value());
  document.set("found", found.ok() ? *found : Value());
  const Value all = run_status_to_value(status);
  for (const Value& one : all.find("stages")->as_array())
    if (one.get_string("id") == stage->id)
      if (const Value* trials = one.find("trials")) document.set("trials", *trials);
  print_text(stdout, to_json_pretty(document));
  return {};
}

}  // namespace longhaul
