// The tasks of workflows/tasks ask what lm_eval's own definitions of them ask (tests/parity/golden/tasks).
#include <doctest/doctest.h>
#include <unistd.h>

#include <algorithm>

#include "base/files/files.h"
#include "base/text/text.h"
#include "base/value/json.h"
#include "contracts/evaluation/task_folder.h"
#include "engine/tasks/answers/answer_filters.h"
#include "engine/tasks/harness/task_questions.h"
#include "engine/tasks/harness/task_scores.h"

namespace longhaul {
namespace {

// As a user has them: a copy of workflows/tasks with rows beside.
class ShippedTasks {
 public:
  ShippedTasks() {
    char name[] = "/tmp/longhaul-test-XXXXXX";
    path_ = ::mkdtemp(name);
    const std::string source = LONGHAUL_SOURCE_DIR;
    copy(source + "/workflows/tasks", "");
    copy(source + "/tests/parity/golden/tasks", "");
    REQUIRE(list_directory(path_ + "/mmlu").ok());
    const auto subjects = *list_directory(path_ + "/mmlu");
    for (const std::string& file : subjects)
      if (ends_with(file, ".yaml") && file != "_mmlu.yaml")
        for (const char* split : {"dev", "test"})
          put(format("mmlu/rows/{}-{}.jsonl", file.substr(0, file.size() - 5), split),
              *read_file(path_ + format("/mmlu/rows/abstract_algebra-{}.jsonl", split)));
  }
  ~ShippedTasks() { [[maybe_unused]] const Status removed = remove_tree(path_); }
  std::vector<EvaluationTask> read(const std::vector<std::string>& names) const {
    Diagnostics diagnostics;
    auto tasks = evaluation_tasks({path_}, names, diagnostics);
    CHECK_MESSAGE(diagnostics.empty(), diagnostics.render("nothing"));
    return tasks;
  }

 private:
  void put(const std::string& name, const std::string& text) const {
    REQUIRE(make_directories(parent_path(path_ + "/" + name)).ok());
    REQUIRE(write_file_renamed(path_ + "/" + name, text).ok());
  }
  void copy(const std::string& from, const std::string& to) const {
    const auto names = list_tree(from);
    REQUIRE(names.ok());
    for (const std::string& name : *names) put(to + name, *read_file(from + "/" + name));
  }
  std::string path_;
};

}  // namespace

TEST_CASE("shipped tasks: requests, answers and metrics are those of lm_eval's own definitions, letter by letter") {
  const ShippedTasks shipped;
  const std::string path = std::string(LONGHAUL_SOURCE_DIR) + "/tests/parity/golden/tasks/golden.json";
  const Value golden = *parse_json(read_file(path).value(), path);
  const ValueTable& theirs = golden.find("tasks")->as_table();
  CHECK(theirs.size() == 14);
  for (const ValueMember& one : theirs) {
    CAPTURE(one.key);
    const auto tasks = shipped.read({one.key});
    REQUIRE(tasks.size() == 1);
    const EvaluationTask& task = tasks.front();
    const auto questions = task_questions(task);
    REQUIRE_MESSAGE(questions.ok(), questions.error().message());
    const ValueArray &rows = one.value.find("rows")->as_array(), &targets = one.value.find("targets")->as_array();
    REQUIRE(questions->size() == rows.size());
    for (std::size_t i = 0; i < rows.size(); ++i) {
      CAPTURE(i);
      const TaskQuestion& question = (*questions)[i];
      Value requests = Value::make_array();
      for (const TaskRequest& request : question.requests) {
        Value pair = Value::make_array();
        pair.push_back(request.context), pair.push_back(request.continuation);
        requests.push_back(std::move(pair));
      }
      CHECK(to_json(requests) == to_json(rows[i]));
      if (task.output != TaskOutput::multiple_choice)
        CHECK(question.targets ==
              std::vector<std::string>{targets[i].is_string() ? targets[i].as_string() : to_json(targets[i])});
      else if (one.key == "truthfulqa_mc2")  // all that are true, of which theirs names the first
        CHECK(question.right.front() == 0);
      else if (targets[i].is_integer())  // of winogrande the index is in the question
        CHECK(question.right == std::vector<std::size_t>{static_cast<std::size_t>(targets[i].as_integer())});
    }
    Value metrics = Value::make_array(), until = Value::make_array();
    for (const TaskMetric& metric : task.metrics) metrics.push_back(metric.name);
    for (const std::string& text : task.until) until.push_back(text);
    if (one.key == "truthfulqa_mc2")
      CHECK(to_json(metrics) == "[\"mc2\"]");  // which is called acc there
    else
      CHECK(to_json(metrics) == to_json(*one.value.find("metrics")));
    if (task.output == TaskOutput::generate_until) CHECK(to_json(until) == to_json(*one.value.find("until")));
  }
}

TEST_CASE("shipped tasks: winogrande's right name, all subjects of MMLU by their tag, the numbers of GSM8K") {
  const ShippedTasks shipped;
  const auto names = shipped.read({"winogrande"});
  const auto questions = task_questions(names.front()).value();
  for (std::size_t i = 0; i < questions.size(); ++i) CHECK(questions[i].right == std::vector<std::size_t>{i % 2});

  const auto subjects = shipped.read({"mmlu"});
  CHECK(subjects.size() == 57);
  for (const EvaluationTask& subject : subjects) CHECK(task_questions(subject).value().size() == 2);

  const auto sums = shipped.read({"gsm8k"});
  const auto asked = task_questions(sums.front()).value();
  const auto match = ExactMatch::create(sums.front().metrics.front());
  REQUIRE(match.ok());
  const auto right = [&](std::size_t filter, const std::string& answer) {
    const auto made = AnswerFilter::create(sums.front().filters[filter]);
    REQUIRE(made.ok());
    return match->holds(made->apply({answer}).value().front(), asked.front().targets).value();
  };
  REQUIRE(asked.front().targets.front() == "2 times 3 is 6.\n#### 6,000");
  CHECK(right(0, " 2 times 3, so it is #### 6000."));
  CHECK(!right(0, " 2 times 3, so it is 6000"));
  CHECK(right(1, " 2 times 3, so it is $6,000."));
  CHECK(!right(1, " 6,000 is no answer to 2"));
}

TEST_CASE("shipped tasks: all true answers of TruthfulQA, BBH's answers behind a chain of thought, its group") {
  const ShippedTasks shipped;
  const auto truths = shipped.read({"truthfulqa"});
  REQUIRE(truths.size() == 2);
  const auto asked = task_questions(truths[1]).value();
  CHECK(asked[0].right == std::vector<std::size_t>{0, 1});
  CHECK(asked[1].right == std::vector<std::size_t>{0});

  const auto bbh = shipped.read({"bbh_boolean_expressions"});
  const auto filter = AnswerFilter::create(bbh.front().filters.front());
  REQUIRE(filter.ok());
  CHECK(filter->apply({"not True is False. So the answer is False."}).value().front() == "False");
  CHECK(filter->apply({"It is False."}).value().front() == "[invalid]");
  Diagnostics diagnostics;
  const auto all = choose_tasks({std::string(LONGHAUL_SOURCE_DIR) + "/workflows/tasks"}, {"bbh"}, diagnostics);
  CHECK(all.tasks.size() == 27);
  REQUIRE(all.groups.size() == 1);
  CHECK(all.groups[0].tasks.size() == 27);
  for (const Error& error : diagnostics.errors())  // rows are the user's
    CHECK_MESSAGE(error.what.find("is not there") != std::string::npos, error.message());
}

TEST_CASE("shipped tasks: a solution of HumanEval's form passes its tests, another does not") {
  const ShippedTasks shipped;
  const auto tasks = shipped.read({"humaneval"});
  const auto questions = task_questions(tasks.front()).value();
  ConfinedLimits limits = ProgramTests::usual_limits();
  limits.processor_s = 60, limits.deadline_ms = 120'000;
  const auto tests = ProgramTests::create("/usr/bin/python3", limits);
  if (!tests.ok()) {
    MESSAGE("skipped: " << tests.error().message());
    return;
  }
  ScoringTools tools;
  tools.judge = [&](const std::vector<TestedProgram>& programs) { return tests->judge_all(programs, 2); };
  const auto scored =
      score_task(tasks.front(), questions, {{{}, {}, {"    return a + b\n"}}, {{}, {}, {"    return a + b\n"}}}, tools);
  REQUIRE_MESSAGE(scored.ok(), scored.error().message());
  CHECK(scored->figures.front().name == "humaneval.pass_at_1");
  CHECK(scored->figures.front().value == doctest::Approx(0.5));  // the second adds one more
  CHECK(to_json(*scored->scores.items[1].sample.find("verdicts")) == "[\"AssertionError\"]");
}

}  // namespace longhaul
