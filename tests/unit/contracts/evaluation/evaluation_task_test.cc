#include "contracts/evaluation/evaluation_task.h"

#include <doctest/doctest.h>
#include <unistd.h>

#include "base/files/files.h"
#include "base/text/text.h"
#include "base/yaml.h"
#include "contracts/evaluation/task_folder.h"

namespace longhaul {
namespace {

const std::string plain_task =
    "task: one\n"
    "dataset_path: json\n"
    "dataset_kwargs: {data_files: {test: rows.jsonl}}\n"
    "test_split: test\n";

class TaskFolder {
 public:
  TaskFolder() {
    char name[] = "/tmp/longhaul-test-XXXXXX";
    path_ = ::mkdtemp(name);
  }
  ~TaskFolder() { [[maybe_unused]] const Status removed = remove_tree(path_); }
  const std::string& path() const { return path_; }
  void write(const std::string& name, const std::string& text) const {
    REQUIRE(make_directories(parent_path(path_ + "/" + name)).ok());
    REQUIRE(write_file_atomic(path_ + "/" + name, text).ok());
  }

 private:
  std::string path_;
};

std::string lines_of(const Diagnostics& diagnostics) {
  std::string all;
  for (const Error& error : diagnostics.errors()) {
    const SourcePos where = error.where.value_or(SourcePos{});
    all += format("{}:{}:{} {}\n", file_name(where.file.str()), where.line, where.column, error.what);
  }
  return all;
}

EvaluationTask task_of(const std::string& text) {
  Diagnostics diagnostics;
  EvaluationTask task = evaluation_task(parse_yaml(text, "/t/t.yaml", diagnostics), diagnostics);
  CHECK_MESSAGE(diagnostics.empty(), diagnostics.render("nothing"));
  return task;
}

std::string errors_of(const std::string& text) {
  Diagnostics diagnostics;
  (void)evaluation_task(parse_yaml(text, "/t/t.yaml", diagnostics), diagnostics);
  return lines_of(diagnostics);
}

}  // namespace

TEST_CASE("evaluation task: keys, and the defaults of lm-evaluation-harness where they are left out") {
  const EvaluationTask task = task_of(plain_task + "doc_to_text: q\ndoc_to_target: a\n");
  CHECK(task.name == "one");
  CHECK(task.output == TaskOutput::generate_until);
  CHECK(task.target_delimiter == " ");
  CHECK(task.fewshot_delimiter == "\n\n");
  CHECK(task.until == std::vector<std::string>{"\n\n"});
  CHECK(task.max_gen_toks == 256);
  CHECK(task.sampler == ExampleSampler::drawn);
  REQUIRE(task.metrics.size() == 1);
  CHECK(task.metrics[0].name == "exact_match");
  REQUIRE(task.filters.size() == 1);
  CHECK(task.filters[0].name == "none");
  REQUIRE(task.split("test") != nullptr);
  CHECK(task.split("test")->files == std::vector<std::string>{"/t/rows.jsonl"});
  const EvaluationTask choice = task_of(plain_task +
                                        "doc_to_text: q\ndoc_to_target: 0\ndoc_to_choice: [a, b]\n"
                                        "output_type: multiple_choice\nnum_fewshot: 5\nfewshot_split: test\n"
                                        "fewshot_config: {sampler: first_n}\ntarget_delimiter: ''\ntag: [x, y]\n");
  CHECK(choice.metrics.size() == 2);
  CHECK(choice.num_fewshot == 5);
  CHECK(choice.sampler == ExampleSampler::first_n);
  CHECK(choice.target_delimiter.empty());
  CHECK(choice.tags == std::vector<std::string>{"x", "y"});
  const EvaluationTask generated =
      task_of(plain_task +
              "doc_to_text: q\ndoc_to_target: a\n"
              "generation_kwargs: {until: [\"Q:\", \"</s>\"], max_gen_toks: 12, do_sample: false, temperature: 0.0}\n"
              "filter_list:\n  - name: strict\n    filter:\n      - {function: regex, regex_pattern: 'x (\\d)'}\n"
              "      - function: take_first\n"
              "metric_list: [{metric: exact_match, ignore_case: true, regexes_to_ignore: [',']}]\n");
  CHECK(generated.until == std::vector<std::string>{"Q:", "</s>"});
  CHECK(generated.max_gen_toks == 12);
  CHECK(generated.filters[0].steps[0].pattern == "x (\\d)");
  CHECK(generated.metrics[0].ignore_case);
  CHECK(generated.metrics[0].regexes_to_ignore == std::vector<std::string>{","});
}

TEST_CASE("evaluation task: what is not done is refused by name, at its line, all of it together") {
  CHECK(errors_of("task: a b\n"
                  "dataset_path: super_glue\n"
                  "dataset_name: boolq\n"
                  "dataset_kwargs: {trust_remote_code: true, data_files: {test: 'https://x/y.json'}}\n"
                  "test_split: tset\n"
                  "output_type: multiple_choice\n"
                  "doc_to_txt: q\n"
                  "doc_to_target: a\n"
                  "process_docs: !function utils.process_docs\n"
                  "metric_list: [{metric: f1}, {metric: acc, aggregation: median}]\n"
                  "generation_kwargs: {until: x}\n") ==
        "t.yaml:9:15 the tag !function (utils.process_docs) is not read\n"
        "t.yaml:7:1 a task has no key 'doc_to_txt'\n"
        "t.yaml:1:7 the task's name 'a b' holds ' '\n"
        "t.yaml:2:15 dataset_path: super_glue is a data set of a hub, and none is asked\n"
        "t.yaml:3:15 dataset_name chooses a part of a hub's data set, and local files have none\n"
        "t.yaml:4:18 dataset_kwargs has no key 'trust_remote_code'\n"
        "t.yaml:4:62 data_files.test: https://x/y.json is not on this machine\n"
        "t.yaml:5:13 test_split: tset has no files\n"
        "t.yaml:1:7 doc_to_text is missing\n"
        "t.yaml:1:7 doc_to_choice is missing\n"
        "t.yaml:11:20 generation_kwargs is of generate_until alone\n"
        "t.yaml:10:24 metric: f1 of multiple_choice is not done\n"
        "t.yaml:10:56 aggregation: median of acc is not done\n");
  const std::string generated = plain_task + "doc_to_text: q\ndoc_to_target: a\n";
  CHECK(errors_of(generated + "generation_kwargs: {temperature: 0.7, typical_p: 0.9}\n") ==
        "t.yaml:7:39 generation_kwargs has no key 'typical_p'\n"
        "t.yaml:7:34 without do_sample: true answers are the most likely ones, and this changes nothing\n");
  CHECK(errors_of(generated + "generation_kwargs: {do_sample: true, top_p: 0}\n") ==
        "t.yaml:7:45 generation_kwargs.top_p leaves nothing to draw\n"
        "t.yaml:7:20 do_sample: true draws answers at a temperature above 0, and none is given\n");
  CHECK(errors_of(generated + "generation_kwargs: {do_sample: true, temperature: 3}\n")
            .find("temperature is no number from 0 to 2\n") != std::string::npos);
  CHECK(errors_of(generated +
                  "filter_list: [{name: x, filter: [{function: uppercase}, {function: regex, flags: i}]}]\n") ==
        "t.yaml:7:45 the filter uppercase is not done\n"
        "t.yaml:7:75 the filter regex has no key 'flags'\n"
        "t.yaml:7:15 the filters x leave a list of answers\n");
  CHECK(errors_of(generated + "fewshot_config: {sampler: balanced}\nunsafe_code: true\nprocess_results: x\n") ==
        "t.yaml:9:1 process_results is not done\n"
        "t.yaml:7:27 fewshot_config.sampler: balanced is not known\n"
        "t.yaml:8:14 unsafe_code is of the metric pass_at_k alone\n");
  // What is off, or only reported, changes nothing.
  CHECK(errors_of(generated +
                  "should_decontaminate: false\nprocess_docs: null\nmetadata: {version: 2}\ntask_alias: x\n") == "");
}

TEST_CASE("evaluation task: answers that are drawn, and programs that are tested") {
  const std::string generated = plain_task + "doc_to_text: q\ndoc_to_target: a\n";
  const EvaluationTask drawn =
      task_of(generated +
              "repeats: 8\ngeneration_kwargs: {do_sample: true, temperature: 0.7, top_p: 0.9, top_k: 40}\n"
              "filter_list: [{name: maj@8, filter: [{function: majority_vote}, {function: take_first}]}]\n");
  CHECK(drawn.repeats == 8);
  CHECK(drawn.sampling.temperature == 0.7);
  CHECK(drawn.sampling.top_p == 0.9);
  CHECK(drawn.sampling.top_k == 40);
  CHECK(!drawn.runs_code());

  const std::string code = generated + "unsafe_code: true\n";
  const EvaluationTask tested =
      task_of(code + "repeats: 4\nmetric_list: [{metric: pass_at_k, k: [1, 4], program: '{{q}}{{answer}}'}]\n");
  CHECK(tested.runs_code());
  CHECK(tested.keeps_rows());
  CHECK(tested.metrics[0].tries == std::vector<std::int64_t>{1, 4});
  CHECK(tested.metrics[0].program == "{{q}}{{answer}}");
  CHECK(tested.filters[0].steps.empty());  // all answers count
  CHECK(errors_of(generated + "metric_list: [{metric: pass_at_k, k: [1, 1, 2], ignore_case: true}]\n") ==
        "t.yaml:7:42 metric_list.k has 1 twice\n"
        "t.yaml:7:49 the metric pass_at_k has no key 'ignore_case'\n"
        "t.yaml:1:7 pass_at_k runs what the model wrote, and the task does not say so\n"
        "t.yaml:7:15 pass_at_k of 2 tries needs as many answers, and repeats is 1\n");
  CHECK(errors_of(code + "repeats: 2\nmetric_list: [{metric: pass_at_k}]\n"
                         "filter_list: [{name: x, filter: [{function: take_first}]}]\n") ==
        "t.yaml:10:34 the filter take_first leaves fewer answers than pass_at_k counts\n");
  Diagnostics refused, allowed;
  check_code_is_allowed({drawn, tested}, false, refused);
  check_code_is_allowed({drawn, tested}, true, allowed);
  CHECK(lines_of(refused) == "t.yaml:1:7 the task one runs programs that the model wrote\n");
  CHECK(allowed.empty());
}

TEST_CASE("task folder: groups of tasks, tags and groups, and the metrics that are put together") {
  const TaskFolder folder;
  const std::string rest =
      "dataset_path: json\ndataset_kwargs: {data_files: {test: rows.jsonl}}\ntest_split: test\n"
      "doc_to_text: q\ndoc_to_target: a\n";
  folder.write("rows.jsonl", "{}\n");
  folder.write("a.yaml", "task: a\n" + rest);
  folder.write("b.yaml", "task: b\ntag: t\n" + rest);
  folder.write("c.yaml", "task: c\ntag: t\n" + rest);
  folder.write("inner.yaml", "group: inner\ntask: [t]\n");
  folder.write("outer.yaml",
               "group: outer\ntask: [inner, a, b]\naggregate_metric_list:\n"
               "  - {metric: exact_match, aggregation: mean, weight_by_size: true}\nmetadata: {version: 1}\n");
  Diagnostics diagnostics;
  const ChosenTasks chosen = choose_tasks({folder.path()}, {"outer", "a"}, diagnostics);
  CHECK_MESSAGE(diagnostics.empty(), diagnostics.render("nothing"));
  CHECK(chosen.tasks.size() == 3);
  REQUIRE(chosen.groups.size() == 2);
  CHECK(chosen.groups[0].name == "inner");
  CHECK(chosen.groups[1].tasks == std::vector<std::string>{"b", "c", "a"});
  REQUIRE(chosen.groups[1].metrics.size() == 1);
  CHECK(chosen.groups[1].metrics[0].weight_by_size);
  CHECK(chosen.groups[1].metrics[0].filters == std::vector<std::string>{"none"});
  const auto errors = [&](const std::string& text) {
    folder.write("wrong.yaml", text);
    Diagnostics wrong;
    (void)choose_tasks({folder.path()}, {"wrong"}, wrong);
    return lines_of(wrong);
  };
  CHECK(errors("group: wrong\ntask: [a, nobody, {task: b}]\nnum_fewshot: 3\n") ==
        "wrong.yaml:2:19 a task that is described within a group is not read\n"
        "wrong.yaml:3:1 a group has no key 'num_fewshot'\n"
        "wrong.yaml:2:11 no file of " +
            folder.path() + " describes the task 'nobody'\n");
  CHECK(errors("group: wrong\ntask: [wrong]\n").find("8 groups hold each other") != std::string::npos);
  CHECK(errors("group: wrong\n") == "wrong.yaml:1:8 the group has no tasks\n");
  CHECK(errors("group: wrong\ntask: [a]\naggregate_metric_list:\n"
               "  - {metric: acc}\n  - {metric: exact_match, filter_list: strict}\n"
               "  - {metric: exact_match, aggregation: median}\n") ==
        "wrong.yaml:6:40 aggregation: median of a group is not done\n"
        "wrong.yaml:4:5 no task of the group wrong has the metric acc with the filters none\n"
        "wrong.yaml:5:5 no task of the group wrong has the metric exact_match with the filters strict\n");
}

TEST_CASE("task folder: tasks by name and by tag, what they include, and where their rows lie") {
  const TaskFolder folder;
  const std::string texts = "doc_to_text: q\ndoc_to_target: a\n";
  folder.write("rows.jsonl", "{}\n");
  folder.write("_base.yaml",
               "dataset_path: json\ndataset_kwargs: {data_files: {test: rows.jsonl}}\ntest_split: test\n"
               "num_fewshot: 3\ndoc_to_text: base\ndescription: base\n");
  folder.write("sub/rows.jsonl", "{}\n");
  folder.write("sub/one.yaml", "include: ../_base.yaml\ntask: one\ntag: small\n" + texts);
  folder.write("sub/two.yml", "include: [_over.yaml, ../_base.yaml]\ntask: two\ntag: [small]\n" + texts);
  folder.write("sub/_over.yaml", "tag: small\nnum_fewshot: 1\ndescription: over\n");
  folder.write("broken.yaml", "task: three\ndoc_to_text: [\n");
  Diagnostics diagnostics;
  const auto tasks = evaluation_tasks({folder.path()}, {"two", "small"}, diagnostics);
  CHECK_MESSAGE(diagnostics.empty(), diagnostics.render("nothing"));
  REQUIRE(tasks.size() == 2);
  CHECK(tasks[0].name == "two");
  CHECK(tasks[0].num_fewshot == 1);  // the first include counts most, the file itself more
  CHECK(tasks[0].description == "over");
  CHECK(tasks[0].texts.text.as_string() == "q");
  CHECK(tasks[1].name == "one");
  CHECK(tasks[1].num_fewshot == 3);
  CHECK(tasks[1].split("test")->files == std::vector<std::string>{folder.path() + "/rows.jsonl"});  // of _base.yaml

  Diagnostics wrong;
  (void)evaluation_tasks({folder.path()}, {"twoo"}, wrong);
  CHECK(lines_of(wrong).find("describes the task 'twoo'") != std::string::npos);
  CHECK(wrong.errors().back().hint.find("did you mean 'two'") != std::string::npos);
}

TEST_CASE("task folder: files outside of the input, rows that are not there, names given twice") {
  const TaskFolder folder, other;
  other.write("rows.jsonl", "{}\n");
  other.write("base.yaml", "num_fewshot: 1\n");
  const std::string rest = "dataset_path: json\ntest_split: test\ndoc_to_text: q\ndoc_to_target: a\n";
  folder.write("a.yaml", "task: a\ndataset_kwargs: {data_files: {test: " + other.path() + "/rows.jsonl}}\n" + rest);
  folder.write("b.yaml", "task: b\ndataset_kwargs: {data_files: {test: none.jsonl}}\n" + rest);
  folder.write("c.yaml", "task: c\ninclude: " + other.path() + "/base.yaml\n");
  folder.write("d.yaml", "task: d\n");
  folder.write("e.yaml", "task: d\n");
  folder.write("g.yaml", "include: g.yaml\ntask: g\n");
  const auto errors = [&](const char* name) {
    Diagnostics diagnostics;
    (void)evaluation_tasks({folder.path()}, {name}, diagnostics);
    return lines_of(diagnostics);
  };
  CHECK(errors("a").find("a.yaml:2:30 " + other.path() + "/rows.jsonl lies outside of the stage's input\n") == 0);
  CHECK(errors("b").find("b.yaml:2:30 " + folder.path() + "/none.jsonl is not there\n") == 0);
  CHECK(errors("c").find("c.yaml:2:10 include: " + other.path() + "/base.yaml lies outside") == 0);
  CHECK(errors("d").find("e.yaml:1:0 the task d is described in") == 0);
  CHECK(errors("g").find("g.yaml:1:10 8 files include each other\n") == 0);
}

}  // namespace longhaul
