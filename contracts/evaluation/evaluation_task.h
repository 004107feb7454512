// Room contracts/evaluation
// Questions for a model as YAML files describe them, in the form of lm-evaluation-harness with data as local files.
// evaluation_task.h is one description; task_folder.h finds and reads the files of an input.
// It must not know models, templates or rows: engine/tasks/harness asks the questions.
//
// One task of lm-evaluation-harness 0.4 (lm_eval/api/task.py, TaskConfig): its keys, defaults and meanings, less what
// needs a program of its own (!function, process_docs, ...) or a hub of data sets. Every other key is an error that
// names it.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/error/diagnostics.h"
#include "base/value/value.h"

namespace longhaul {

enum class TaskOutput { multiple_choice, loglikelihood, loglikelihood_rolling, generate_until };
const char* to_string(TaskOutput output);

// Rows of a split: files of one kind, read in their order.
struct TaskSplit {
  std::string name;
  std::vector<std::string> files;  // absolute
};

// "first_n": the first examples of the split. "default": drawn anew for each question, as Python's
// random.Random(1234).sample does it.
enum class ExampleSampler { first_n, drawn };

struct TaskMetric {
  std::string name;
  // Of exact_match.
  bool ignore_case = false, ignore_punctuation = false, ignore_numbers = false;
  std::vector<std::string> regexes_to_ignore;
  // Of pass_at_k: of how many tries one has to be right, and the program that is made of an answer, as a template of
  // the row's fields and `answer`; doc_to_target stands behind it.
  std::vector<std::int64_t> tries = {};
  std::string program = {};
  SourcePos program_where = {};
};

// How answers are drawn; temperature 0: the most likely ones.
struct TaskSampling {
  double temperature = 0, top_p = 1;
  std::int64_t top_k = 0;  // 0: all
};

struct TaskFilterStep {
  std::string function;    // regex | remove_whitespace | lowercase | take_first | take_first_k | majority_vote
  std::string pattern;     // of regex
  std::int64_t group = 0;  // of regex: which match of all; negative ones count from the end
  std::string fallback = "[invalid]";
  std::int64_t count = 1;  // of take_first_k
  SourcePos where;
};
// What is made of a generated text before it is compared; `name` stands in the figure where there are several.
struct TaskFilter {
  std::string name;
  std::vector<TaskFilterStep> steps;  // the last is take_first, but where programs are tested
};

// A field's name or a Jinja template, and what they may be besides; null: not given. Knows where it stands.
struct TaskTexts {
  Value text;    // text or number
  Value target;  // text, number or list
  Value choice;  // text, list of texts, or a table of texts whose keys do not count
};

struct EvaluationTask {
  std::string name;
  SourcePos where;                // of its name
  std::vector<std::string> tags;  // names for several tasks together
  std::string format;             // "json" (JSON Lines, or a list of objects) | "csv" | "text"
  std::vector<TaskSplit> splits;
  std::string training_split, validation_split, test_split, fewshot_split;  // "": none
  TaskTexts texts;
  TaskTexts example_texts;      // of few-shot examples where they differ
  std::vector<Value> examples;  // written in the file itself: tables
  TaskOutput output = TaskOutput::generate_until;
  std::int64_t num_fewshot = 0;
  ExampleSampler sampler = ExampleSampler::drawn;
  std::string description;  // a template
  std::string target_delimiter = " ", fewshot_delimiter = "\n\n";
  std::optional<std::string> gen_prefix;  // a field's name or a template
  SourcePos description_where, gen_prefix_where;
  // Of generate_until.
  std::vector<std::string> until;
  std::int64_t max_gen_toks = 256, repeats = 1;
  TaskSampling sampling;
  std::vector<TaskMetric> metrics;
  std::vector<TaskFilter> filters;

  const std::string& evaluated_split() const { return test_split.empty() ? validation_split : test_split; }
  // Where few-shot examples come from, unless `examples` has them.
  const std::string& example_split() const;
  const TaskSplit* split(const std::string& name_) const;
  // Answers are programs, and are run (pass_at_k).
  bool runs_code() const;
  // Metrics look at more of a row than its answer: pass_at_k, and those of instructions.
  bool keeps_rows() const;
};

// Metrics of answers to rows with `instruction_id_list` and `kwargs` (IFEval).
bool is_instruction_metric(const std::string& name);

// From what the file says, includes merged. What is wrong goes to `diagnostics`; the result is then of no use.
EvaluationTask evaluation_task(const Value& config, Diagnostics& diagnostics);

}  // namespace longhaul
