#include "contracts/evaluation/evaluation_task.h"

#include <algorithm>

#include "base/files/files.h"
#include "base/text/text.h"
#include "contracts/evaluation/task_methods.h"

namespace longhaul {

const char* to_string(TaskOutput output) {
  static constexpr const char* names[] = {"multiple_choice", "loglikelihood", "loglikelihood_rolling",
                                          "generate_until"};
  return names[static_cast<std::size_t>(output)];
}

const std::string& EvaluationTask::example_split() const {
  if (!fewshot_split.empty()) return fewshot_split;
  if (!training_split.empty()) return training_split;
  return validation_split.empty() ? test_split : validation_split;
}

const TaskSplit* EvaluationTask::split(const std::string& name_) const {
  const auto found = std::find_if(splits.begin(), splits.end(), [&](const TaskSplit& s) { return s.name == name_; });
  return found == splits.end() ? nullptr : &*found;
}

bool EvaluationTask::runs_code() const {
  return std::ranges::any_of(metrics, [](const TaskMetric& metric) { return metric.name == "pass_at_k"; });
}

bool is_instruction_metric(const std::string& name) {
  return name.starts_with("prompt_level_") || name.starts_with("inst_level_");
}

bool EvaluationTask::keeps_rows() const {
  return runs_code() ||
         std::ranges::any_of(metrics, [](const TaskMetric& metric) { return is_instruction_metric(metric.name); });
}

namespace {

constexpr const char* needs_program = "it is a function of Python, and none is run here";
constexpr const char* needs_pictures = "models here read text alone";

struct RefusedTaskKey {
  const char* key;
  const char* why;
};
constexpr RefusedTaskKey refused_keys[] = {
    {"custom_dataset", needs_program},
    {"process_docs", "it is a function of Python, and none is run here; write the rows as it would make them"},
    {"process_results", needs_program},
    {"use_prompt", "prompts of promptsource are not known here"},
    {"doc_to_image", needs_pictures},
    {"doc_to_audio", needs_pictures},
};

// What is written and changes nothing: how a task is shown, and what lm-evaluation-harness reads only where training
// data to compare with is given as well.
constexpr const char* idle_keys[] = {"task_alias", "metadata", "should_decontaminate", "doc_to_decontamination_query"};

const std::vector<std::string>& task_keys() {
  static const std::vector<std::string> keys = {"task",
                                                "tag",
                                                "dataset_path",
                                                "dataset_name",
                                                "dataset_kwargs",
                                                "training_split",
                                                "validation_split",
                                                "test_split",
                                                "fewshot_split",
                                                "doc_to_text",
                                                "doc_to_target",
                                                "doc_to_choice",
                                                "description",
                                                "target_delimiter",
                                                "fewshot_delimiter",
                                                "fewshot_config",
                                                "num_fewshot",
                                                "metric_list",
                                                "output_type",
                                                "generation_kwargs",
                                                "repeats",
                                                "filter_list",
                                                "gen_prefix",
                                                "unsafe_code"};
  return keys;
}

class TaskReader {
 public:
  TaskReader(const Value& config, Diagnostics& diagnostics) : config_(config), read_(diagnostics) {}

  EvaluationTask read() {
    check_keys();
    read_names();
    read_data();
    read_texts();
    read_examples();
    read_output();
    task_.metrics = read_metrics(find("metric_list"), task_.output, task_.where, read_);
    task_.filters = read_filters(find("filter_list"), task_, read_);
    check_code();
    return std::move(task_);
  }

 private:
  const Value* find(const char* key) const {
    const Value* value = config_.find(key);
    return value != nullptr && !value->is_null() ? value : nullptr;
  }
  std::string text(const char* key, const std::string& otherwise = {}) {
    const Value* value = find(key);
    return value == nullptr ? otherwise : read_.text(*value, key);
  }

  void check_keys() {
    for (const ValueMember& member : config_.as_table()) {
      if (std::find(task_keys().begin(), task_keys().end(), member.key) != task_keys().end()) continue;
      if (std::any_of(std::begin(idle_keys), std::end(idle_keys), [&](const char* key) { return member.key == key; }))
        continue;
      const auto* const refused = std::find_if(std::begin(refused_keys), std::end(refused_keys),
                                               [&](const RefusedTaskKey& one) { return member.key == one.key; });
      const bool off = member.value.is_null() || (member.value.is_bool() && !member.value.as_bool());
      if (refused != std::end(refused_keys)) {
        if (!off) read_.refuse(member.key_pos, member.key + " is not done", refused->why);
        continue;
      }
      read_.unknown(member, "a task", task_keys());
    }
  }

  void read_names() {
    task_.where = config_.pos;
    if (const Value* name = find("task")) task_.where = name->pos, task_.name = read_.text(*name, "task");
    if (task_.name.empty()) read_.refuse(task_.where, "the task has no name", "give it one: task: NAME");
    for (const char c : task_.name)
      if (c == '.' || c == '/' || static_cast<unsigned char>(c) <= ' ') {
        read_.refuse(task_.where, format("the task's name '{}' holds '{}'", task_.name, c),
                     "figures are called NAME.METRIC: use letters, digits, '_' and '-'");
        break;
      }
    if (const Value* tag = find("tag")) task_.tags = read_.texts(*tag, "tag");
  }

  void read_data() {
    task_.format = text("dataset_path");
    const Value* path = config_.find("dataset_path");
    const SourcePos& where = path != nullptr ? path->pos : task_.where;
    if (task_.format == "parquet") {
      read_.refuse(where, "dataset_path: parquet is not read", "write the rows as JSON Lines, one object a line");
    } else if (task_.format != "json" && task_.format != "csv" && task_.format != "text") {
      read_.refuse(where,
                   task_.format.empty()
                       ? "dataset_path is missing"
                       : "dataset_path: " + task_.format + " is a data set of a hub, and none is asked",
                   "dataset_path: json (or csv, text), with dataset_kwargs: {data_files: {test: FILE}}");
    }
    if (const Value* name = find("dataset_name"))
      read_.refuse(name->pos, "dataset_name chooses a part of a hub's data set, and local files have none",
                   "leave it out");
    const Value* kwargs = find("dataset_kwargs");
    const Value* files = kwargs != nullptr ? kwargs->find("data_files") : nullptr;
    if (kwargs != nullptr)
      for (const ValueMember& member : read_.table(*kwargs, "dataset_kwargs"))
        if (member.key != "data_files") read_.unknown(member, "dataset_kwargs", {"data_files"});
    if (files == nullptr) {
      read_.refuse(kwargs != nullptr ? kwargs->pos : task_.where, "dataset_kwargs.data_files is missing",
                   "name the files of each split: {data_files: {test: test.jsonl}}");
    } else if (files->is_table()) {
      for (const ValueMember& member : files->as_table()) add_split(member.key, member.value);
    } else {
      add_split("train", *files);  // as load_dataset calls what has no name
    }
    const std::pair<const char*, std::string*> splits[] = {{"training_split", &task_.training_split},
                                                           {"validation_split", &task_.validation_split},
                                                           {"test_split", &task_.test_split},
                                                           {"fewshot_split", &task_.fewshot_split}};
    for (const auto& [key, name] : splits) {
      *name = text(key);
      if (!name->empty() && files != nullptr && task_.split(*name) == nullptr)
        read_.refuse(find(key)->pos, format("{}: {} has no files", key, *name),
                     "dataset_kwargs.data_files has " + split_names());
    }
    if (task_.evaluated_split().empty())
      read_.refuse(task_.where, "neither test_split nor validation_split is given", "one of them is what is asked");
  }

  std::string split_names() const {
    std::vector<std::string> names;
    for (const TaskSplit& split : task_.splits) names.push_back(split.name);
    return join(names, ", ");
  }

  // Beside the file that names them.
  void add_split(const std::string& name, const Value& value) {
    TaskSplit split;
    split.name = name;
    for (const std::string& file : read_.texts(value, "data_files." + name)) {
      if (file.find("://") != std::string::npos)
        read_.refuse(value.pos, format("data_files.{}: {} is not on this machine", name, file),
                     "nothing is fetched: name a file beside this one");
      else if (file.find_first_of("*?[") != std::string::npos)
        read_.refuse(value.pos, format("data_files.{}: patterns are not expanded", name), "name the files");
      else
        split.files.push_back(
            absolute_path(starts_with(file, "/") ? file : join_path(parent_path(value.pos.file.str()), file)));
    }
    task_.splits.push_back(std::move(split));
  }

  void take_text(const char* key, const Value* from, Value& into) {
    const Value* value = from != nullptr ? from->find(key) : nullptr;
    if (value == nullptr || value->is_null()) return;
    const bool is_choice = std::string_view(key) == "doc_to_choice",
               is_target = std::string_view(key) == "doc_to_target";
    const bool fits = value->is_string() || (!is_choice && value->is_integer()) ||
                      (value->is_array() && (is_choice || is_target)) || (value->is_table() && is_choice);
    if (!fits)
      read_.refuse(value->pos, format("{} is {}, expected {}", key, value->kind_name(),
                                      is_choice ? "a field's name, a template, a list or a table of texts"
                                                : "a field's name or a template"));
    if (fits && value->is_array() && is_choice) (void)read_.texts(*value, key);
    into = *value;
  }

  void read_texts() {
    take_text("doc_to_text", &config_, task_.texts.text);
    take_text("doc_to_target", &config_, task_.texts.target);
    take_text("doc_to_choice", &config_, task_.texts.choice);
    task_.description = text("description");
    task_.target_delimiter = text("target_delimiter", task_.target_delimiter);
    task_.fewshot_delimiter = text("fewshot_delimiter", task_.fewshot_delimiter);
    if (const Value* prefix = find("gen_prefix"))
      task_.gen_prefix = read_.text(*prefix, "gen_prefix"), task_.gen_prefix_where = prefix->pos;
    if (const Value* described = find("description")) task_.description_where = described->pos;
  }

  void read_examples() {
    if (const Value* shots = find("num_fewshot")) task_.num_fewshot = read_.whole(*shots, "num_fewshot", 0, 10'000);
    const Value* config = find("fewshot_config");
    if (config == nullptr) return;
    for (const ValueMember& member : read_.table(*config, "fewshot_config")) {
      if (member.value.is_null()) continue;
      if (member.key == "sampler") {
        const std::string name = read_.text(member.value, "fewshot_config.sampler");
        if (name == "first_n")
          task_.sampler = ExampleSampler::first_n;
        else if (name != "default")
          read_.refuse(member.value.pos, "fewshot_config.sampler: " + name + " is not known", "first_n, default");
      } else if (member.key == "samples") {
        if (member.value.is_array())
          task_.examples.assign(member.value.as_array().begin(), member.value.as_array().end());
        if (task_.examples.empty() || !std::ranges::all_of(task_.examples, &Value::is_table))
          read_.refuse(member.value.pos, "fewshot_config.samples is no list of rows");
      } else if (member.key != "doc_to_text" && member.key != "doc_to_target" && member.key != "doc_to_choice") {
        read_.unknown(member, "fewshot_config",
                      {"sampler", "samples", "doc_to_text", "doc_to_target", "doc_to_choice"});
      }
    }
    take_text("doc_to_text", config, task_.example_texts.text);
    take_text("doc_to_target", config, task_.example_texts.target);
    take_text("doc_to_choice", config, task_.example_texts.choice);
  }

  // As there, a file says that what its task asks for is run.
  void check_code() {
    const Value* unsafe = find("unsafe_code");
    const bool said = unsafe != nullptr && read_.yes_or_no(*unsafe, "unsafe_code");
    if (task_.runs_code() && !said)
      read_.refuse(task_.where, "pass_at_k runs what the model wrote, and the task does not say so",
                   "add unsafe_code: true");
    if (said && !task_.runs_code())
      read_.refuse(unsafe->pos, "unsafe_code is of the metric pass_at_k alone", "leave it out");
    for (const TaskMetric& metric : task_.metrics)
      for (const std::int64_t tries : metric.tries)
        if (tries > task_.repeats)
          read_.refuse(metric.program_where,
                       format("pass_at_k of {} tries needs as many answers, and repeats is {}", tries, task_.repeats),
                       "raise repeats");
  }

  void read_output() {
    const std::string name = text("output_type", to_string(task_.output));
    bool known = false;
    for (const TaskOutput output : {TaskOutput::multiple_choice, TaskOutput::loglikelihood,
                                    TaskOutput::loglikelihood_rolling, TaskOutput::generate_until})
      if (name == to_string(output)) task_.output = output, known = true;
    if (!known)
      read_.refuse(find("output_type")->pos, "output_type: " + name + " is not known",
                   "multiple_choice, loglikelihood, loglikelihood_rolling or generate_until");
    const bool generates = task_.output == TaskOutput::generate_until,
               rolls = task_.output == TaskOutput::loglikelihood_rolling;
    const auto needs = [&](const Value& value, const char* key) {
      if (value.is_null())
        read_.refuse(task_.where, format("{} is missing", key), format("{} needs it", to_string(task_.output)));
    };
    if (!rolls) needs(task_.texts.text, "doc_to_text");
    needs(task_.texts.target, "doc_to_target");
    if (task_.output == TaskOutput::multiple_choice) needs(task_.texts.choice, "doc_to_choice");
    if (const Value* repeats = find("repeats")) {
      task_.repeats = read_.whole(*repeats, "repeats", 1, 1000);
      if (task_.repeats > 1 && !generates) read_.refuse(repeats->pos, "repeats is of generate_until alone");
    }
    const Value* kwargs = find("generation_kwargs");
    if (kwargs != nullptr && !generates)
      read_.refuse(kwargs->pos, "generation_kwargs is of generate_until alone", "leave it out");
    else if (generates)
      read_generation(kwargs, task_, read_);
  }

  const Value& config_;
  TaskValues read_;
  EvaluationTask task_;
};

}  // namespace

EvaluationTask evaluation_task(const Value& config, Diagnostics& diagnostics) {
  return TaskReader(config, diagnostics).read();
}

}  // namespace longhaul
