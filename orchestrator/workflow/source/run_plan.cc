#include "orchestrator/workflow/source/run_plan.h"

#include <algorithm>
#include <cstdlib>

#include "base/text/text.h"

namespace longhaul {
namespace {

Value texts(const std::vector<std::string>& list) {
  return ValueArray(list.begin(), list.end());
}

std::vector<std::string> texts_of(const Value* value) {
  std::vector<std::string> list;
  if (value && value->is_array())
    for (const Value& element : value->as_array())
      if (element.is_string()) list.push_back(element.as_string());
  return list;
}

Value input_to_value(const PlannedInput& input) {
  Value table = Value::make_table();
  if (!input.stages.empty()) table.set("stages", texts(input.stages));
  if (input.milestone > 0) table.set("milestone", static_cast<long long>(input.milestone));
  if (!input.within.empty()) table.set("within", input.within);
  if (!input.paths.empty()) table.set("paths", texts(input.paths));
  if (!input.best_metric.empty()) {
    table.set("best_metric", input.best_metric);
    table.set("best_is_max", input.best_is_max);
  }
  return table;
}

PlannedInput input_from_value(const std::string& name, const Value& table) {
  PlannedInput input;
  input.name = name;
  input.stages = texts_of(table.find("stages"));
  input.milestone = table.get_integer("milestone");
  input.within = table.get_string("within");
  input.paths = texts_of(table.find("paths"));
  input.best_metric = table.get_string("best_metric");
  input.best_is_max = table.get_bool("best_is_max");
  return input;
}

Value stage_to_value(const PlannedStage& stage) {
  Value table = Value::make_table();
  table.set("stage", stage.stage);
  if (!stage.variant.empty()) table.set("variant", stage.variant);
  table.set("kind", stage.kind);
  table.set("kind_version", stage.kind_version);
  if (!stage.needs.empty()) table.set("needs", texts(stage.needs));
  if (!stage.edges.empty()) {
    Value edges = Value::make_table();
    for (const auto& [id, edge] : stage.edges) edges.set(id, to_string(edge));
    table.set("edges", std::move(edges));
  }
  table.set("where", format("{}:{}:{}", stage.where.file.str(), stage.where.line, stage.where.column));
  // Defaults and empty tables are left out: a plan may have a hundred thousand stages.
  const auto set_unless_empty = [&](const char* name, Value part) {
    if (part.size() > 0) table.set(name, std::move(part));
  };
  if (!stage.layout_from.empty()) table.set("layout_from", stage.layout_from);
  if (!stage.hyperparameters_from.empty()) table.set("hyperparameters_from", stage.hyperparameters_from);
  if (!stage.device.empty()) table.set("device", stage.device);
  if (!stage.device_why.empty()) table.set("device_why", stage.device_why);
  if (stage.forecast_s > 0) table.set("forecast_s", stage.forecast_s);
  set_unless_empty("common", stage_common_fields().to_value_changed(stage.common));
  set_unless_empty("faults", faults_to_value(stage.faults));
  set_unless_empty("parallel", parallel_dims_fields().to_value_changed(stage.dims));
  Value inputs = Value::make_table();
  for (const PlannedInput& input : stage.inputs) inputs.set(input.name, input_to_value(input));
  set_unless_empty("inputs", std::move(inputs));
  table.set("settings", stage.settings);
  return table;
}

// "a b.toml:12:3"
SourcePos place_from_text(const std::string& text) {
  const std::size_t column = text.rfind(':');
  const std::size_t line = column == std::string::npos ? column : text.rfind(':', column - 1);
  if (line == std::string::npos) return {text, 0, 0};
  return {text.substr(0, line), std::atoi(text.c_str() + line + 1), std::atoi(text.c_str() + column + 1)};
}

Result<PlannedStage> stage_from_value(const std::string& id, const Value& table) {
  static const Value empty = Value::make_table();
  const auto part = [&](const char* name) {
    const Value* found = table.find(name);
    return found && found->is_table() ? found : &empty;
  };
  const Value *common = part("common"), *parallel = part("parallel"), *inputs = part("inputs");
  const Value* settings = table.find("settings");
  if (!settings || !settings->is_table())
    return make_error(ErrorCode::corrupt, "plan: stage " + id + " has no settings table");
  PlannedStage stage;
  stage.stage = table.get_string("stage");
  stage.variant = table.get_string("variant");
  stage.kind = table.get_string("kind");
  stage.kind_version = static_cast<int>(table.get_integer("kind_version", 1));
  stage.needs = texts_of(table.find("needs"));
  if (const Value* edges = table.find("edges"); edges && edges->is_table())
    for (const ValueMember& member : edges->as_table())
      for (const NeedEdge edge : {NeedEdge::afterany, NeedEdge::afternotok, NeedEdge::milestone})
        if (member.value.is_string() && member.value.as_string() == to_string(edge)) stage.edges[member.key] = edge;
  stage.layout_from = table.get_string("layout_from");
  stage.hyperparameters_from = table.get_string("hyperparameters_from");
  stage.device = table.get_string("device");
  stage.device_why = table.get_string("device_why");
  stage.forecast_s = table.get_number("forecast_s");
  stage.where = place_from_text(table.get_string("where"));
  LH_TRY(stage.common, stage_common_fields().parse(*common, "stage." + id + ".common"));
  LH_TRY(stage.dims, parallel_dims_fields().parse(*parallel, "stage." + id + ".parallel"));
  LH_TRY(stage.faults, faults_from_value(*part("faults")));
  for (const ValueMember& member : inputs->as_table())
    stage.inputs.push_back(input_from_value(member.key, member.value));
  stage.settings = *settings;
  if (stage.id() != id) return make_error(ErrorCode::corrupt, "plan: stage " + stage.id() + " is filed under " + id);
  return stage;
}

}  // namespace

SourcePos PlannedStage::place_of(const std::string& key) const {
  const Value* at = &asked;
  for (const std::string& part : split(key, '.')) {
    at = at->find(part);
    if (!at) return where;
  }
  return at->pos.line > 0 || !at->pos.file.empty() ? at->pos : where;
}

std::vector<std::int64_t> PlannedStage::milestones_of(const std::string& source) const {
  std::vector<std::int64_t> steps;
  for (const PlannedInput& input : inputs)
    if (input.milestone > 0 && std::find(input.stages.begin(), input.stages.end(), source) != input.stages.end())
      steps.push_back(input.milestone);
  return steps;
}

const PlannedStage* RunPlan::find(const std::string& id) const {
  for (const PlannedStage& stage : stages)
    if (stage.id() == id) return &stage;
  return nullptr;
}

Value run_plan_to_value(const RunPlan& plan) {
  Value table = Value::make_table();
  table.set("format", RunPlan::format);
  table.set("workflow", plan.workflow);
  if (plan.budget_node_hours > 0) table.set("budget_node_hours", plan.budget_node_hours);
  Value stages = Value::make_table();
  for (const PlannedStage& stage : plan.stages) {  // not set(): ids are unique, and it searches
    ValueMember member;
    member.key = stage.id();
    member.value = stage_to_value(stage);
    stages.as_table().push_back(std::move(member));
  }
  table.set("stage", std::move(stages));
  return table;
}

Result<RunPlan> run_plan_from_value(const Value& value) {
  if (value.get_integer("format") != RunPlan::format)
    return make_error(ErrorCode::unsupported,
                      format("plan format {} is not {}", value.get_integer("format"), RunPlan::format),
                      "the run was made by another version of longhaul; use that one");
  RunPlan plan;
  plan.workflow = value.get_string("workflow");
  plan.budget_node_hours = value.get_number("budget_node_hours");
  const Value* stages = value.find("stage");
  if (!stages || !stages->is_table()) return make_error(ErrorCode::corrupt, "plan: no [stage] table");
  for (const ValueMember& member : stages->as_table()) {
    LH_TRY(PlannedStage stage, stage_from_value(member.key, member.value));
    plan.stages.push_back(std::move(stage));
  }
  return plan;
}

const char* to_string(NeedEdge edge) {
  switch (edge) {
    case NeedEdge::afterok: return "afterok";
    case NeedEdge::afterany: return "afterany";
    case NeedEdge::afternotok: return "afternotok";
    case NeedEdge::milestone: return "milestone";
  }
  return "unknown";
}

}  // namespace longhaul
