#include "orchestrator/workflow/milestone_inputs.h"

#include <algorithm>

#include "base/text/text.h"
#include "contracts/records/milestone.h"

namespace longhaul {
namespace {

bool publishes(const StageKind& kind) {
  return std::any_of(kind.fields.begin(), kind.fields.end(),
                     [](const FieldInfo& field) { return field.name == milestone_setting; });
}

std::string some_of(const std::vector<std::int64_t>& steps) {
  std::vector<std::string> shown;
  for (const std::int64_t step : steps) {
    if (shown.size() == 6) return join(shown, ", ") + format(", ... {}", steps.back());
    shown.push_back(std::to_string(step));
  }
  return join(shown, ", ");
}

}  // namespace

bool names_every_milestone(const Value& table) {
  const Value* inputs = table.find("inputs");
  if (!inputs || !inputs->is_table()) return false;
  return std::any_of(inputs->as_table().begin(), inputs->as_table().end(), [](const ValueMember& member) {
    if (!member.value.is_string() || !starts_with(member.value.as_string(), "@")) return false;
    const std::string& text = member.value.as_string();
    return ends_with(text.substr(0, text.find('/')), "@every");
  });
}

std::vector<std::int64_t> named_milestones(const std::string& stage, const StageInputText& input,
                                           const MilestoneSource& source, Diagnostics& diagnostics) {
  const std::string what = "stage." + stage + ".inputs." + input.name + " names milestones of '" + source.name + "'";
  const auto refuse = [&](const std::string& why, const std::string& hint) {
    diagnostics.add(input.where, what + why, hint);
    return std::vector<std::int64_t>{};
  };
  if (!publishes(*source.kind))
    return refuse(", a " + source.kind->name + " stage", "stages of kind pretrain, sft and align publish milestones");
  if (source.is_matrix)
    return refuse(", a matrix: each of its variants has milestones of its own",
                  "name \"@" + source.name + "\" with `best`, or take the matrix out");
  std::vector<std::int64_t> steps = milestone_steps(*source.settings);
  if (steps.empty()) {
    if (source.settings->get_integer(milestone_setting) > 0) return {};  // said of the source
    return refuse(
        ", which publishes none",
        format("add {} = N to [stage.{}]: it then publishes its model every N steps", milestone_setting, source.name));
  }
  if (input.milestone == StageInputText::every_milestone) return steps;
  if (std::find(steps.begin(), steps.end(), input.milestone) != steps.end()) return {input.milestone};
  const std::int64_t last = source.settings->get_integer("steps");
  if (input.milestone == last)
    return refuse(format(", and {} is its last step", last), "that is its artifact: write \"@" + source.name + "\"");
  return refuse(format(", which has none of step {}", input.milestone), "there will be: " + some_of(steps));
}

}  // namespace longhaul
