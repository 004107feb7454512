#include "contracts/evaluation/task_methods.h"

#include <algorithm>

#include "base/text/text.h"

namespace longhaul {

void TaskValues::refuse(const SourcePos& where, std::string what, std::string hint) {
  diagnostics_.add(where, std::move(what), std::move(hint));
}

void TaskValues::unknown(const ValueMember& member, const std::string& of, const std::vector<std::string>& known) {
  const std::string nearest = nearest_word(member.key, known);
  refuse(member.key_pos, format("{} has no key '{}'", of, member.key),
         nearest.empty() ? "its keys: " + join(known, ", ") : "did you mean '" + nearest + "'?");
}

std::string TaskValues::text(const Value& value, const std::string& key) {
  if (value.is_string()) return value.as_string();
  refuse(value.pos, format("{} is {}, expected a text", key, value.kind_name()));
  return {};
}

std::vector<std::string> TaskValues::texts(const Value& value, const std::string& key) {
  std::vector<std::string> made;
  if (!value.is_array()) return {text(value, key)};
  for (const Value& one : value.as_array()) made.push_back(text(one, key));
  return made;
}

std::int64_t TaskValues::whole(const Value& value, const std::string& key, std::int64_t least, std::int64_t most) {
  if (value.is_integer() && value.as_integer() >= least && value.as_integer() <= most) return value.as_integer();
  refuse(value.pos, format("{} is no whole number from {} to {}", key, least, most));
  return least;
}

double TaskValues::number(const Value& value, const std::string& key, double least, double most) {
  if (value.is_number() && value.as_number() >= least && value.as_number() <= most) return value.as_number();
  refuse(value.pos, format("{} is no number from {} to {}", key, least, most));
  return least;
}

bool TaskValues::yes_or_no(const Value& value, const std::string& key) {
  if (value.is_bool()) return value.as_bool();
  refuse(value.pos, format("{} is {}, expected true or false", key, value.kind_name()));
  return false;
}

const ValueTable& TaskValues::table(const Value& value, const std::string& key) {
  static const ValueTable none;
  if (value.is_table()) return value.as_table();
  refuse(value.pos, format("{} is {}, expected keys with values", key, value.kind_name()));
  return none;
}

const ValueArray& TaskValues::list(const Value& value, const std::string& key) {
  static const ValueArray none;
  if (value.is_array()) return value.as_array();
  refuse(value.pos, format("{} is {}, expected a list", key, value.kind_name()));
  return none;
}

namespace {

struct KnownMetric {
  const char* name;
  const char* aggregation;
};
struct OutputMetrics {
  TaskOutput output;
  std::vector<KnownMetric> known;
  std::size_t usual;  // how many of them, where a task names none
};

const OutputMetrics& metrics_of(TaskOutput output) {
  static const std::vector<OutputMetrics> all = {
      {TaskOutput::multiple_choice,
       {{"acc", "mean"}, {"acc_norm", "mean"}, {"exact_match", "mean"}, {"mc2", "mean"}},
       2},
      {TaskOutput::loglikelihood, {{"perplexity", "perplexity"}, {"acc", "mean"}}, 2},
      {TaskOutput::loglikelihood_rolling,
       {{"word_perplexity", "weighted_perplexity"},
        {"byte_perplexity", "weighted_perplexity"},
        {"bits_per_byte", "bits_per_byte"}},
       3},
      {TaskOutput::generate_until,
       {{"exact_match", "mean"},
        {"pass_at_k", "mean"},
        {"prompt_level_strict_acc", "mean"},
        {"inst_level_strict_acc", "mean"},
        {"prompt_level_loose_acc", "mean"},
        {"inst_level_loose_acc", "mean"}},
       1}};
  return *std::find_if(all.begin(), all.end(), [&](const OutputMetrics& one) { return one.output == output; });
}

std::vector<std::string> names_of(const OutputMetrics& metrics) {
  std::vector<std::string> names;
  for (const KnownMetric& one : metrics.known) names.emplace_back(one.name);
  return names;
}

std::vector<std::int64_t> read_tries(const Value& value, TaskValues& read) {
  std::vector<std::int64_t> made;
  const std::vector<Value> all = value.is_array() ? value.as_array() : std::vector<Value>{value};
  for (const Value& one : all) {
    const std::int64_t tries = read.whole(one, "metric_list.k", 1, 1000);
    if (std::ranges::count(made, tries) > 0)
      read.refuse(one.pos, format("metric_list.k has {} twice", tries));
    else
      made.push_back(tries);
  }
  if (all.empty()) read.refuse(value.pos, "metric_list.k is empty", "leave it out for 1");
  return made;
}

// What a metric is given beside its name; false: it knows no such key.
bool read_metric_option(const ValueMember& member, TaskMetric& metric, TaskValues& read) {
  const std::string key = "metric_list." + member.key;
  if (metric.name == "pass_at_k") {
    if (member.key == "k")
      metric.tries = read_tries(member.value, read);
    else if (member.key == "program")
      metric.program = read.text(member.value, key), metric.program_where = member.value.pos;
    else
      return false;
    return true;
  }
  if (metric.name != "exact_match") return false;
  if (member.key == "ignore_case")
    metric.ignore_case = read.yes_or_no(member.value, key);
  else if (member.key == "ignore_punctuation")
    metric.ignore_punctuation = read.yes_or_no(member.value, key);
  else if (member.key == "ignore_numbers")
    metric.ignore_numbers = read.yes_or_no(member.value, key);
  else if (member.key == "regexes_to_ignore")
    metric.regexes_to_ignore = read.texts(member.value, key);
  else
    return false;
  return true;
}

std::vector<std::string> keys_of(const KnownMetric& known, TaskOutput output) {
  std::vector<std::string> keys = {"metric", "aggregation", "higher_is_better"};
  const std::string name = known.name;
  if (output == TaskOutput::generate_until && name == "exact_match")
    keys.insert(keys.end(), {"ignore_case", "ignore_punctuation", "ignore_numbers", "regexes_to_ignore"});
  if (name == "pass_at_k") keys.insert(keys.end(), {"k", "program"});
  return keys;
}

void read_metric_member(const ValueMember& member, const KnownMetric& known, TaskOutput output, TaskMetric& metric,
                        TaskValues& read) {
  const std::string key = "metric_list." + member.key;
  if (member.key == "metric" || member.key == "higher_is_better") return;
  if (member.key == "aggregation") {
    if (const std::string name = read.text(member.value, key); name != known.aggregation)
      read.refuse(member.value.pos, format("aggregation: {} of {} is not done", name, known.name),
                  format("use {}", known.aggregation));
    return;
  }
  if (member.key == "hf_evaluate") {
    if (read.yes_or_no(member.value, key))
      read.refuse(member.value.pos, "hf_evaluate asks for a metric of another program", "leave it out");
    return;
  }
  if (output != TaskOutput::generate_until || !read_metric_option(member, metric, read))
    read.unknown(member, std::string("the metric ") + known.name, keys_of(known, output));
}

}  // namespace

std::vector<TaskMetric> read_metrics(const Value* list, TaskOutput output, const SourcePos& task, TaskValues& read) {
  const OutputMetrics& metrics = metrics_of(output);
  std::vector<TaskMetric> made;
  if (list == nullptr) {
    for (std::size_t i = 0; i < metrics.usual; ++i) made.push_back({metrics.known[i].name, false, false, false, {}});
    return made;
  }
  for (const Value& entry : read.list(*list, "metric_list")) {
    const ValueTable& members = read.table(entry, "metric_list");
    const Value* named = entry.find("metric");
    if (named == nullptr) {
      if (!members.empty()) read.refuse(entry.pos, "an entry of metric_list names no metric", "add metric: NAME");
      continue;
    }
    TaskMetric metric;
    metric.name = read.text(*named, "metric_list.metric");
    const auto known = std::find_if(metrics.known.begin(), metrics.known.end(),
                                    [&](const KnownMetric& one) { return metric.name == one.name; });
    if (known == metrics.known.end()) {
      read.refuse(named->pos, format("metric: {} of {} is not done", metric.name, to_string(output)),
                  "its metrics: " + join(names_of(metrics), ", "));
      continue;
    }
    if (metric.name == "pass_at_k") metric.tries = {1}, metric.program = "{{answer}}", metric.program_where = entry.pos;
    for (const ValueMember& member : members) read_metric_member(member, *known, output, metric, read);
    if (std::any_of(made.begin(), made.end(), [&](const TaskMetric& one) { return one.name == metric.name; }))
      read.refuse(named->pos, "the metric " + metric.name + " is named twice");
    made.push_back(std::move(metric));
  }
  if (made.empty() && list->is_array() && list->as_array().empty())
    read.refuse(task, "metric_list is empty", "leave it out for " + join(names_of(metrics), ", "));
  return made;
}

namespace {

TaskFilterStep read_step(const Value& value, TaskValues& read) {
  static const std::vector<std::string> functions = {"regex",      "remove_whitespace", "lowercase",
                                                     "take_first", "take_first_k",      "majority_vote"};
  TaskFilterStep step;
  step.where = value.pos;
  step.pattern = R"(#### (\-?[0-9\.\,]+))";  // lm-evaluation-harness's own default
  const ValueTable& members = read.table(value, "filter_list.filter");
  const Value* function = value.find("function");
  if (function == nullptr) {
    if (value.is_table()) read.refuse(value.pos, "a filter names no function", join(functions, ", "));
    return step;
  }
  step.function = read.text(*function, "filter_list.filter.function");
  if (std::find(functions.begin(), functions.end(), step.function) == functions.end()) {
    read.refuse(function->pos, "the filter " + step.function + " is not done", "filters: " + join(functions, ", "));
    return step;
  }
  for (const ValueMember& member : members) {
    const std::string key = step.function + "." + member.key;
    if (member.key == "function") continue;
    if (step.function == "regex" && member.key == "regex_pattern")
      step.pattern = read.text(member.value, key);
    else if (step.function == "regex" && member.key == "group_select")
      step.group = read.whole(member.value, key, -1000, 1000);
    else if (step.function == "regex" && member.key == "fallback")
      step.fallback = read.text(member.value, key);
    else if (step.function == "take_first_k" && member.key == "k")
      step.count = read.whole(member.value, key, 1, 1000);
    else
      read.unknown(member, "the filter " + step.function,
                   step.function == "regex"
                       ? std::vector<std::string>{"function", "regex_pattern", "group_select", "fallback"}
                   : step.function == "take_first_k" ? std::vector<std::string>{"function", "k"}
                                                     : std::vector<std::string>{"function"});
  }
  return step;
}

}  // namespace

std::vector<TaskFilter> read_filters(const Value* list, const EvaluationTask& task, TaskValues& read) {
  const bool keeps_all = task.runs_code();
  TaskFilterStep first;
  first.function = "take_first";
  if (list == nullptr) return {{"none", keeps_all ? std::vector<TaskFilterStep>() : std::vector{first}}};
  std::vector<TaskFilter> made;
  for (const Value& entry : read.list(*list, "filter_list")) {
    TaskFilter filter;
    for (const ValueMember& member : read.table(entry, "filter_list")) {
      if (member.key == "name")
        filter.name = read.text(member.value, "filter_list.name");
      else if (member.key == "filter")
        for (const Value& step : read.list(member.value, "filter_list.filter"))
          filter.steps.push_back(read_step(step, read));
      else
        read.unknown(member, "filter_list", {"name", "filter"});
    }
    if (filter.name.empty()) read.refuse(entry.pos, "a list of filters has no name", "figures are called after it");
    if (std::ranges::any_of(made, [&](const TaskFilter& one) { return one.name == filter.name; }))
      read.refuse(entry.pos, "two lists of filters are called " + filter.name);
    if (!keeps_all && (filter.steps.empty() || filter.steps.back().function != "take_first"))
      read.refuse(entry.pos, "the filters " + filter.name + " leave a list of answers",
                  "end them with function: take_first");
    for (const TaskFilterStep& step : filter.steps) {
      if (task.output != TaskOutput::generate_until && step.function != "take_first")
        read.refuse(step.where, "the filter " + step.function + " is of generate_until alone");
      if (step.count > task.repeats)
        read.refuse(step.where, format("take_first_k takes {} of {} answers", step.count, task.repeats),
                    "raise repeats");
      const bool chooses = step.function.starts_with("take_first") || step.function == "majority_vote";
      if (keeps_all && task.repeats > 1 && chooses)
        read.refuse(step.where, "the filter " + step.function + " leaves fewer answers than pass_at_k counts",
                    "leave it out");
    }
    made.push_back(std::move(filter));
  }
  if (made.empty() && list->is_array()) read.refuse(list->pos, "filter_list is empty", "leave it out");
  return made;
}

void read_generation(const Value* kwargs, EvaluationTask& task, TaskValues& read) {
  task.until = {task.fewshot_delimiter};
  if (kwargs == nullptr) return;
  bool samples = false;
  const Value* sampled_by = nullptr;  // what is read only where answers are drawn
  for (const ValueMember& member : read.table(*kwargs, "generation_kwargs")) {
    const std::string key = "generation_kwargs." + member.key;
    const Value& value = member.value;
    if (member.key == "until") {
      task.until = read.texts(value, key);
      std::erase(task.until, "");
    } else if (member.key == "max_gen_toks") {
      task.max_gen_toks = read.whole(value, key, 1, 1 << 20);
    } else if (member.key == "do_sample") {
      samples = read.yes_or_no(value, key);
    } else if (member.key == "temperature") {
      task.sampling.temperature = read.number(value, key, 0, 2);
      if (task.sampling.temperature > 0) sampled_by = &value;
    } else if (member.key == "top_p") {
      task.sampling.top_p = read.number(value, key, 0, 1);
      if (task.sampling.top_p <= 0) read.refuse(value.pos, key + " leaves nothing to draw", "1 keeps all");
      if (task.sampling.top_p < 1) sampled_by = &value;
    } else if (member.key == "top_k") {
      task.sampling.top_k = read.whole(value, key, 0, 1 << 20);
      if (task.sampling.top_k > 0) sampled_by = &value;
    } else {
      read.unknown(member, "generation_kwargs",
                   {"until", "max_gen_toks", "do_sample", "temperature", "top_p", "top_k"});
    }
  }
  if (!samples && sampled_by != nullptr)
    read.refuse(sampled_by->pos, "without do_sample: true answers are the most likely ones, and this changes nothing",
                "add do_sample: true, or leave it out");
  if (samples && task.sampling.temperature == 0)
    read.refuse(kwargs->pos, "do_sample: true draws answers at a temperature above 0, and none is given",
                "add temperature: 1.0");
}

}  // namespace longhaul
