#include "contracts/tasks/task.h"

#include "base/digest/hash.h"
#include "base/files/files.h"
#include "base/toml.h"
#include "base/value/json.h"
#include "contracts/tasks/stage_kinds.h"
#include "contracts/tasks/task_settings.h"

namespace longhaul {

const TaskInput* Task::input(std::string_view name) const {
  for (const TaskInput& candidate : inputs)
    if (candidate.name == name) return &candidate;
  return nullptr;
}

Result<std::string> Task::input_path(std::string_view name) const {
  const TaskInput* found = input(name);
  if (!found)
    return make_error(ErrorCode::invalid_input,
                      "stage " + stage + " (" + kind + ") has no input '" + std::string(name) + "'",
                      "add it to inputs = { ... }");
  if (found->paths.size() != 1)
    return make_error(ErrorCode::invalid_input, "stage " + stage + ": input '" + std::string(name) + "' names " +
                                                    std::to_string(found->paths.size()) + " paths, expected one");
  return found->paths.front();
}

namespace {
Value header(const char* file, int format) {
  Value value = Value::make_table();
  value.set("file", file);
  value.set("format", format);
  return value;
}

// What changes how fast, never what; also in each of the tables that the user names.
void erase_speed_only(const std::vector<FieldInfo>& fields, Value& settings) {
  for (const FieldInfo& field : fields) {
    if (field.options.speed_only) settings.erase(field.name);
    if (Value* tables = field.named ? settings.find(field.name) : nullptr)
      for (ValueMember& one : tables->as_table()) erase_speed_only(field.members, one.value);
  }
}
}  // namespace

Value task_to_value(const Task& task) {
  Value value = header("longhaul task", Task::format);
  value.set("run", task.run);
  value.set("stage", task.stage);
  value.set("variant", task.variant);
  value.set("kind", task.kind);
  value.set("kind_version", task.kind_version);
  value.set("key", task.key);
  Value resources = Value::make_table();
  resources.set("ranks", task.resources.ranks);
  resources.set("threads", task.resources.threads);
  resources.set("nodes", task.resources.nodes);
  value.set("resources", std::move(resources));
  value.set("parallel", parallel_dims_fields().to_value(task.dims));
  Value inputs = Value::make_table();
  for (const TaskInput& input : task.inputs) {
    Value entry = Value::make_table();
    entry.set("paths", ValueArray(input.paths.begin(), input.paths.end()));
    entry.set("stage", input.stage);
    entry.set("digest", input.digest);
    inputs.set(input.name, std::move(entry));
  }
  value.set("inputs", std::move(inputs));
  value.set("settings", task.settings.is_table() ? task.settings : Value::make_table());
  return value;
}

Result<Task> task_from_value(const Value& value) {
  if (value.get_string("file") != "longhaul task" || value.get_integer("format") != Task::format)
    return make_error(ErrorCode::corrupt, "not a task file of format " + std::to_string(Task::format));
  Task task;
  task.run = value.get_string("run");
  task.stage = value.get_string("stage");
  task.variant = value.get_string("variant");
  task.kind = value.get_string("kind");
  task.kind_version = static_cast<int>(value.get_integer("kind_version"));
  task.key = value.get_string("key");
  if (const Value* resources = value.find("resources")) {
    task.resources.ranks = static_cast<int>(resources->get_integer("ranks", 1));
    task.resources.threads = static_cast<int>(resources->get_integer("threads", 1));
    task.resources.nodes = static_cast<int>(resources->get_integer("nodes", 1));
  }
  if (const Value* parallel = value.find("parallel")) {
    LH_TRY(task.dims, parallel_dims_fields().parse(*parallel, "parallel"));
  }
  if (const Value* inputs = value.find("inputs"); inputs && inputs->is_table()) {
    for (const ValueMember& member : inputs->as_table()) {
      TaskInput input;
      input.name = member.key;
      input.stage = member.value.get_string("stage");
      input.digest = member.value.get_string("digest");
      if (const Value* paths = member.value.find("paths"); paths && paths->is_array())
        for (const Value& path : paths->as_array())
          if (path.is_string()) input.paths.push_back(path.as_string());
      task.inputs.push_back(std::move(input));
    }
  }
  if (const Value* settings = value.find("settings")) task.settings = *settings;
  return task;
}

Result<Task> read_task(const std::string& path) {
  LH_TRY(const Value value, read_toml_file(path));
  return task_from_value(value).with_context(path);
}
Status write_task(const std::string& path, const Task& task) {
  return write_file_renamed(path, to_toml(task_to_value(task)));
}

Value settings_of_key(const Task& task) {
  Value settings = task.settings;
  if (const StageKind* kind = find_stage_kind(task.kind)) erase_speed_only(kind->fields, settings);
  return settings;
}

std::string task_key(const Task& task) {
  Value what = Value::make_table();
  what.set("kind", task.kind);
  what.set("kind_version", task.kind_version);
  what.set("settings", settings_of_key(task));
  Value inputs = Value::make_table();
  for (const TaskInput& input : task.inputs) inputs.set(input.name, input.digest);
  what.set("inputs", std::move(inputs));
  return xxh3_128_hex(to_json(what));
}

}  // namespace longhaul
