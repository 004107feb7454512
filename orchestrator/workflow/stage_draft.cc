#include "orchestrator/workflow/stage_draft.h"

#include <algorithm>

#include "base/files/files.h"
#include "base/text/text.h"
#include "contracts/settings/stages/hyper_search.h"
#include "orchestrator/workflow/command_files.h"
#include "orchestrator/workflow/command_steps.h"
#include "orchestrator/workflow/layout/stage_layout.h"
#include "orchestrator/workflow/milestone_inputs.h"
#include "orchestrator/workflow/source/stage_text.h"
#include "orchestrator/workflow/source/written_hints.h"
#include "orchestrator/workflow/trials/search_plan.h"
#include "orchestrator/workflow/trials/tune_plan.h"
#include "resiliency/stage_timeouts.h"

namespace longhaul {

StageDraft StageDrafter::draft_stage(const ValueMember& member) {
  StageDraft draft;
  draft.name = member.key;
  draft.where = member.value.pos;
  const std::string where = "stage." + draft.name;
  if (!is_name(draft.name))
    diagnostics_.add(member.key_pos, "'" + draft.name + "' cannot name a stage",
                     "use up to 64 letters, digits, '-' and '_'");
  if (!member.value.is_table()) {
    diagnostics_.add(member.value.pos, where + " is " + member.value.kind_name() + ", expected a table",
                     "write [" + where + "]");
    return draft;
  }
  Value table = member.value;
  resolve_references(table, interpolator_);
  recipes_.merge_into(table, draft.name, interpolator_);

  std::vector<std::string> kind_names;
  for (const StageKind& kind : stage_kinds()) kind_names.push_back(kind.name);
  const Value* kind = table.find("kind");
  if (!kind || !kind->is_string()) {
    diagnostics_.add(kind ? kind->pos : draft.where, where + ".kind is " + (kind ? "not a text" : "missing"),
                     "one of: " + join(kind_names, ", "));
    return draft;
  }
  draft.kind = find_stage_kind(kind->as_string());
  if (!draft.kind) {
    diagnostics_.add(kind->pos, "unknown stage kind '" + kind->as_string() + "'",
                     kind_hint(kind->as_string(), kind_names));
    return draft;
  }
  const bool is_finder = draft.kind->name == "tune" || draft.kind->name == search_kind_name;
  if (const Value* other = table.find("for"); other && !is_finder)
    diagnostics_.add(other->pos, where + ".for: only a tune or search stage is for another one", "remove it");
  if (const Value* matrix = table.find("matrix"); matrix && draft.kind->name == search_kind_name)
    diagnostics_.add(matrix->pos, where + ".matrix: what a search varies stands in its space",
                     "write a stage for each search");
  check_hyperparameters_key(where, draft.kind->name, table, diagnostics_);
  draft.is_matrix = table.find("matrix") != nullptr || names_every_milestone(table);
  read_best(table, draft);
  for (const MatrixVariant& variant : expand_matrix(draft.name, *draft.kind, table, diagnostics_))
    draft.variants.push_back(draft_variant(draft, variant));
  return draft;
}

void StageDrafter::read_best(const Value& table, StageDraft& draft) {
  const Value* best = table.find("best");
  if (!best) return;
  const std::string where = "stage." + draft.name + ".best";
  if (!best->is_table()) {
    diagnostics_.add(best->pos, where + " is " + best->kind_name() + ", expected a table",
                     "for example { metric = \"heldout_loss\", mode = \"min\" }");
    return;
  }
  draft.best = read_best_rule(*best, draft.is_matrix, draft.kind->name, where, diagnostics_);
  draft.has_best = true;
}

VariantDraft StageDrafter::draft_variant(const StageDraft& draft, const MatrixVariant& variant) {
  static const std::vector<std::string> stage_keys = workflow_stage_keys();
  Value table = variant.table;
  const std::string where = "stage." + draft.name;
  VariantDraft result;
  result.name = variant.name;
  Value common = Value::make_table();
  common.pos = table.pos;
  for (const ValueMember& member : table.as_table())
    if (std::any_of(stage_common_fields().slots().begin(), stage_common_fields().slots().end(),
                    [&](const FieldSlot& slot) { return slot.info.name == member.key; }))
      common.as_table().push_back(member);
  const std::size_t before = diagnostics_.size();
  result.common = stage_common_fields().parse(common, where, diagnostics_);
  if (const Value* given = common.find("resiliency"))
    for (const Error& error : judge_timeouts(result.common.resiliency))
      diagnostics_.add(given->pos, where + ".resiliency: " + error.what, error.hint);
  result.asked = std::move(common);
  if (const Value* device = table.find("device")) result.asked.set("device", *device);
  const bool is_command = draft.kind->name == "command";
  if (const Value* steps = table.find("step"); steps && is_command) {
    result.asked.set("step", *steps);
  } else if (steps) {
    diagnostics_.add(steps->pos, where + ".step: a " + draft.kind->name + " stage is one program",
                     "only the kind 'command' has steps");
    table.erase("step");
  }
  Diagnostics of_settings;
  result.settings = draft.kind->resolve(table, where, stage_keys, of_settings);
  for (const Error& error : of_settings.errors())
    diagnostics_.add(with_table_hint(error, draft.kind->fields, table, where));
  result.inputs = read_stage_inputs(draft.name, *draft.kind, table, diagnostics_);
  if (const Value* needs = table.find("needs"); needs && needs->is_array()) result.needs = *needs;
  if (is_command && diagnostics_.size() == before) {
    complete_workdir(result.settings, !result.common.job.container.empty(), request_.folder);
    check_command(where, table, result.settings, result.common, diagnostics_);
  }
  const Value* faults = table.find("faults");
  const bool is_readable = diagnostics_.size() == before;  // a layout of wrong numbers would only repeat the news
  if (is_readable && draft.kind->name != "tune" && draft.kind->name != search_kind_name)
    result.dims = read_layout(draft.name, *draft.kind, result.settings, table, result.common, diagnostics_);
  result.layout_from = layout_stage_of(table);
  result.hyperparameters_from = search_stage_of(table);
  if (faults)
    result.faults = parse_faults(*faults, where,
                                 {draft.kind->name, is_readable ? result.common.ranks : ranks_max,
                                  &request_.fault_commands, result.common.resiliency.health != "off"},
                                 diagnostics_);
  result.faults.allowed |= faults_allowed_;
  if (result.faults.allowed) result.faults.commands = request_.fault_commands;
  if (!is_readable) return result;
  result.written = table;
  result.is_sound = diagnostics_.size() == before;
  return result;
}

}  // namespace longhaul
