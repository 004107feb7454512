#include "contracts/records/attempt.h"

#include "base/files/files.h"
#include "base/toml.h"

namespace longhaul {
namespace {

std::vector<std::string> texts_of(const Value* list) {
  std::vector<std::string> texts;
  if (list && list->is_array())
    for (const Value& text : list->as_array())
      if (text.is_string()) texts.push_back(text.as_string());
  return texts;
}

Value steps_to_value(const std::vector<JobStep>& steps) {
  Value table = Value::make_table();
  for (const JobStep& step : steps) table.set(step.name, job_step_to_value(step));
  return table;
}

std::vector<JobStep> steps_of(const Value* table) {
  std::vector<JobStep> steps;
  if (!table || !table->is_table()) return steps;
  for (const ValueMember& member : table->as_table()) {
    const Value& one = member.value;
    JobStep step;
    step.name = member.key;
    step.service = one.get_bool("service");
    step.first_node = static_cast<int>(one.get_integer("first_node"));
    step.nodes = static_cast<int>(one.get_integer("nodes", 1));
    step.own_nodes = one.get_bool("own_nodes");
    step.ranks = static_cast<int>(one.get_integer("ranks", 1));
    step.cpus_per_rank = static_cast<int>(one.get_integer("cpus_per_rank", 1));
    step.gpus_per_node = static_cast<int>(one.get_integer("gpus_per_node"));
    step.launcher = texts_of(one.find("launcher"));
    steps.push_back(std::move(step));
  }
  return steps;
}

}  // namespace

Status write_attempt(const std::string& path, const Attempt& a) {
  Value value = Value::make_table();
  value.set("file", "longhaul attempt");
  value.set("format", Attempt::format);
  value.set("key", a.key);
  value.set("attempt", a.attempt);
  value.set("run", a.run);
  value.set("stage", a.stage);
  value.set("task", a.task_path);
  value.set("attempt_dir", a.attempt_dir);
  value.set("stage_dir", a.stage_dir);
  value.set("engine", a.engine);
  value.set("software", a.software);
  value.set("time_limit_s", a.time_limit_s);
  value.set("grace_s", a.grace_s);
  if (a.at_least_step > 0) value.set("at_least_step", static_cast<long long>(a.at_least_step));
  if (a.stop_before_s > 0) value.set("stop_before_s", a.stop_before_s);
  value.set("resiliency", resiliency_fields().to_value(a.resiliency));
  if (a.faults.allowed) value.set("faults", faults_to_value(a.faults));
  value.set("fault_plan", a.fault_plan);
  value.set("run_dir", a.run_dir);
  value.set("doorbell", a.doorbell);
  value.set("launcher", ValueArray(a.launcher.begin(), a.launcher.end()));
  value.set("agent_launcher", ValueArray(a.agent_launcher.begin(), a.agent_launcher.end()));
  if (a.gpus_per_node > 0) value.set("gpus_per_node", a.gpus_per_node);
  if (!a.ports.empty()) value.set("ports", a.ports);
  value.set("container", ValueArray(a.container.begin(), a.container.end()));
  value.set("at_end", ValueArray(a.at_end.begin(), a.at_end.end()));
  value.set("rounds_at_s", ValueArray(a.rounds_at_s.begin(), a.rounds_at_s.end()));
  if (!a.steps.empty()) value.set("step", steps_to_value(a.steps));
  return write_file_renamed(path, to_toml(value));
}

Result<Attempt> read_attempt(const std::string& path) {
  LH_TRY(const Value value, read_toml_file(path));
  if (value.get_string("file") != "longhaul attempt" || value.get_integer("format") != Attempt::format)
    return make_error(ErrorCode::corrupt,
                      path + " is not an attempt file of format " + std::to_string(Attempt::format));
  Attempt a;
  a.key = value.get_string("key");
  a.attempt = static_cast<int>(value.get_integer("attempt", 1));
  a.run = value.get_string("run");
  a.stage = value.get_string("stage");
  a.task_path = value.get_string("task");
  a.attempt_dir = value.get_string("attempt_dir");
  a.stage_dir = value.get_string("stage_dir");
  a.engine = value.get_string("engine");
  a.software = value.get_string("software");
  a.time_limit_s = value.get_number("time_limit_s");
  a.grace_s = value.get_number("grace_s", 10);
  a.at_least_step = value.get_integer("at_least_step");
  a.stop_before_s = value.get_number("stop_before_s");
  if (const Value* resiliency = value.find("resiliency")) {
    LH_TRY(a.resiliency, resiliency_fields().parse(*resiliency, path + ": resiliency"));
  }
  if (const Value* faults = value.find("faults")) {
    LH_TRY(a.faults, faults_from_value(*faults));
  }
  a.fault_plan = value.get_string("fault_plan");
  a.run_dir = value.get_string("run_dir");
  a.doorbell = value.get_string("doorbell");
  a.launcher = texts_of(value.find("launcher"));
  a.agent_launcher = texts_of(value.find("agent_launcher"));
  a.gpus_per_node = static_cast<int>(value.get_integer("gpus_per_node"));
  a.ports = value.get_string("ports");
  a.container = texts_of(value.find("container"));
  a.steps = steps_of(value.find("step"));
  a.at_end = texts_of(value.find("at_end"));
  if (const Value* times = value.find("rounds_at_s"); times && times->is_array())
    for (const Value& time : times->as_array())
      if (time.is_number()) a.rounds_at_s.push_back(time.as_number());
  return a;
}

}  // namespace longhaul
