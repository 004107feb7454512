#include "contracts/evaluation/task_folder.h"

#include <algorithm>
#include <map>
#include <set>

#include "base/files/files.h"
#include "base/text/text.h"
#include "base/yaml.h"

namespace longhaul {
namespace {

constexpr std::uint64_t file_bytes_max = 1 << 20;
constexpr int includes_max = 8;

struct TaskFile {
  std::string path;
  Value config;  // includes merged
  Diagnostics problems;
};

bool is_yaml(const std::string& path) {
  return ends_with(path, ".yaml") || ends_with(path, ".yml");
}

bool lies_in(const std::string& file, const std::vector<std::string>& paths) {
  return std::any_of(paths.begin(), paths.end(), [&](const std::string& path) {
    const std::string whole = absolute_path(path);
    return file == whole || starts_with(file, whole == "/" ? whole : whole + "/");
  });
}

void overlay(Value& below, const Value& above) {
  for (const ValueMember& member : above.as_table()) {
    below.erase(member.key);
    below.as_table().push_back(member);
  }
}

class TaskFileReader {
 public:
  explicit TaskFileReader(const std::vector<std::string>& paths) : paths_(paths) {}

  TaskFile read(const std::string& path) const {
    TaskFile file;
    file.path = path;
    file.config = load(path, SourcePos{path, 0, 0}, 0, file.problems);
    return file;
  }

 private:
  Value load(const std::string& path, const SourcePos& named, int level, Diagnostics& problems) const {
    const auto text = read_file(path, file_bytes_max);
    if (!text.ok()) {
      problems.add(named, text.error().what, text.error().hint);
      return Value::make_table();
    }
    Value config = parse_yaml(*text, path, problems);
    if (!config.is_table()) {
      if (!config.is_null())
        problems.add(config.pos, std::string("the file holds ") + config.kind_name() + ", expected keys with values");
      return Value::make_table();
    }
    const Value* include = config.find("include");
    if (include == nullptr) return config;
    std::vector<Value> files = include->is_array() ? include->as_array() : std::vector<Value>{*include};
    Value merged = Value::make_table();
    merged.pos = config.pos;
    for (auto one = files.rbegin(); one != files.rend(); ++one) {
      if (!one->is_string()) {
        problems.add(one->pos, "include is no file's name");
        continue;
      }
      const std::string& name = one->as_string();
      const std::string other = absolute_path(starts_with(name, "/") ? name : join_path(parent_path(path), name));
      if (level >= includes_max)
        problems.add(one->pos, format("{} files include each other", includes_max));
      else if (!lies_in(other, paths_))
        problems.add(one->pos, "include: " + other + " lies outside of the stage's input", "name the folder of both");
      else
        overlay(merged, load(other, one->pos, level + 1, problems));
    }
    config.erase("include");
    overlay(merged, config);
    return merged;
  }

  const std::vector<std::string>& paths_;
};

std::vector<std::string> files_of(const std::vector<std::string>& paths, Diagnostics& diagnostics) {
  std::set<std::string> files;
  for (const std::string& path : paths) {
    const std::string whole = absolute_path(path);
    if (!is_directory(whole)) {
      if (is_yaml(whole)) files.insert(whole);
      continue;
    }
    const auto names = list_tree(whole);
    if (!names.ok()) {
      diagnostics.add(names.error());
      continue;
    }
    for (const std::string& name : *names)
      if (is_yaml(name)) files.insert(join_path(whole, name));
  }
  return {files.begin(), files.end()};
}

std::string text_of(const Value& config, const char* key) {
  const Value* value = config.find(key);
  return value != nullptr && value->is_string() ? value->as_string() : std::string();
}

bool has_tag(const Value& config, const std::string& name) {
  const Value* tags = config.find("tag");
  if (tags == nullptr) return false;
  if (!tags->is_array()) return tags->is_string() && tags->as_string() == name;
  return std::ranges::any_of(tags->as_array(),
                             [&](const Value& tag) { return tag.is_string() && tag.as_string() == name; });
}

class TaskChoice {
 public:
  TaskChoice(const std::vector<std::string>& paths, Diagnostics& diagnostics)
      : paths_(paths), diagnostics_(diagnostics) {
    const TaskFileReader reader(paths);
    for (const std::string& path : files_of(paths, diagnostics)) files_.push_back(reader.read(path));
  }

  ChosenTasks choose(const std::vector<std::string>& names) {
    for (const std::string& name : names) choose_one(name, SourcePos{}, 0);
    for (const EvaluationGroup& group : chosen_.groups) check_metrics(group);
    return std::move(chosen_);
  }

 private:
  // The names of the tasks that `name` stands for.
  std::vector<std::string> choose_one(const std::string& name, const SourcePos& where, int level) {
    std::vector<const TaskFile*> found, groups, tagged;
    for (const TaskFile& file : files_) {
      const std::string task = text_of(file.config, "task");
      if (task == name) found.push_back(&file);
      if (task.empty() && text_of(file.config, "group") == name) groups.push_back(&file);
      if (!task.empty() && has_tag(file.config, name)) tagged.push_back(&file);
    }
    for (const std::vector<const TaskFile*>* same : {&found, &groups})
      if (same->size() > 1)
        diagnostics_.add(SourcePos{(*same)[1]->path, 1, 0},
                         format("{} {} is described in {} too", same == &found ? "the task" : "the group", name,
                                same->front()->path),
                         "rename one of them");
    if (found.empty() && !groups.empty()) return choose_group(*groups.front(), level);
    if (found.empty() && tagged.empty()) refuse(name, where);
    if (!found.empty()) tagged = {found.front()};
    std::vector<std::string> names;
    for (const TaskFile* file : tagged) {
      take(*file);
      names.push_back(text_of(file->config, "task"));
    }
    return names;
  }

  std::vector<std::string> choose_group(const TaskFile& file, int level) {
    const std::string name = text_of(file.config, "group");
    for (const EvaluationGroup& known : chosen_.groups)
      if (known.name == name) return known.tasks;
    diagnostics_.merge(file.problems);
    EvaluationGroup group = evaluation_group(file.config, diagnostics_);
    if (level >= includes_max) {
      diagnostics_.add(group.where, format("{} groups hold each other", includes_max));
      return {};
    }
    for (const GroupMember& member : group.members)
      for (std::string& task : choose_one(member.name, member.where, level + 1))
        if (std::ranges::count(group.tasks, task) == 0) group.tasks.push_back(std::move(task));
    chosen_.groups.push_back(group);
    return group.tasks;
  }

  // Shares and means are put together, where one of the tasks has them.
  void check_metrics(const EvaluationGroup& group) {
    for (const GroupMetric& metric : group.metrics)
      for (const std::string& filter : metric.filters) {
        const bool known = std::ranges::any_of(chosen_.tasks, [&](const EvaluationTask& task) {
          return std::ranges::count(group.tasks, task.name) > 0 && has_metric(task, metric.metric, filter);
        });
        if (metric.metric.find("perplexity") != std::string::npos || metric.metric == "bits_per_byte")
          diagnostics_.add(metric.where, format("{} of several tasks is not put together", metric.metric),
                           "a group has means of shares");
        else if (!known)
          diagnostics_.add(metric.where,
                           format("no task of the group {} has the metric {} with the filters {}", group.name,
                                  metric.metric, filter),
                           "filter_list: none is that of tasks without a filter_list");
      }
  }

  static bool has_metric(const EvaluationTask& task, const std::string& metric, const std::string& filter) {
    return std::ranges::any_of(task.metrics, [&](const TaskMetric& one) { return one.name == metric; }) &&
           std::ranges::any_of(task.filters, [&](const TaskFilter& one) { return one.name == filter; });
  }

  void refuse(const std::string& name, const SourcePos& where) {
    std::vector<std::string> known;
    for (const TaskFile& file : files_)
      for (const char* key : {"task", "group"})
        if (const std::string one = text_of(file.config, key); !one.empty()) known.push_back(one);
    for (const TaskFile& file : files_)
      if (file.config.find("task") == nullptr) diagnostics_.merge(file.problems);  // perhaps it would be there
    const std::string nearest = nearest_word(name, known);
    diagnostics_.add(where, format("no file of {} describes the task '{}'", join(paths_, ", "), name),
                     !nearest.empty() ? "did you mean '" + nearest + "'?"
                     : known.empty()  ? "tasks are described in *.yaml, with the key task"
                                      : "its tasks: " + join(known, ", "));
  }

  void take(const TaskFile& file) {
    if (!taken_.insert(file.path).second) return;
    diagnostics_.merge(file.problems);
    EvaluationTask task = evaluation_task(file.config, diagnostics_);
    for (const TaskSplit& split : task.splits)
      for (const std::string& data : split.files) {
        const SourcePos& where = file.config.find("dataset_kwargs")->find("data_files")->pos;
        if (!lies_in(data, paths_))
          diagnostics_.add(where, data + " lies outside of the stage's input",
                           "the input is the folder of all of them");
        else if (!file_exists(data))
          diagnostics_.add(where, data + " is not there", "data_files are beside the file that names them");
      }
    chosen_.tasks.push_back(std::move(task));
  }

  const std::vector<std::string>& paths_;
  Diagnostics& diagnostics_;
  std::vector<TaskFile> files_;
  std::set<std::string> taken_;
  ChosenTasks chosen_;
};

}  // namespace

ChosenTasks choose_tasks(const std::vector<std::string>& paths, const std::vector<std::string>& names,
                         Diagnostics& diagnostics) {
  return TaskChoice(paths, diagnostics).choose(names);
}

std::vector<EvaluationTask> evaluation_tasks(const std::vector<std::string>& paths,
                                             const std::vector<std::string>& names, Diagnostics& diagnostics) {
  return choose_tasks(paths, names, diagnostics).tasks;
}

void check_code_is_allowed(const std::vector<EvaluationTask>& tasks, bool allowed, Diagnostics& diagnostics) {
  for (const EvaluationTask& task : tasks)
    if (task.runs_code() && !allowed)
      diagnostics.add(task.where, format("the task {} runs programs that the model wrote", task.name),
                      "set run_code = true in the stage, once you have read docs/evaluation.md about it");
}

const std::vector<std::string>& built_in_evaluations() {
  static const std::vector<std::string> names = {"bits_per_byte", "answer_loss", "preference", "multiple_choice",
                                                 "reward"};
  return names;
}

}  // namespace longhaul
