// Requests, answers and figures of small tasks are lm_eval's own (tests/parity/golden/evaluation).
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "contracts/evaluation/task_folder.h"
#include "engine/data/jinja/values/text_case.h"
#include "engine/tasks/answers/answer_filters.h"
#include "engine/tasks/answers/program_tests.h"
#include "engine/tasks/harness/row_texts.h"
#include "engine/tasks/harness/task_questions.h"
#include "tests/unit/engine/tasks/stages/stage_ranks.h"

namespace longhaul {
namespace {

const std::string harness_golden = std::string(LONGHAUL_SOURCE_DIR) + "/tests/parity/golden/evaluation";
const std::vector<std::string> golden_tasks = {"choices_plain", "choices_drawn", "choices_many", "choices_letters",
                                               "contexts",      "last_words",    "documents",    "sums"};

Value golden_of(const char* part) {
  const std::string path = harness_golden + "/golden.json";
  return *parse_json(read_file(path).value(), path).value().find(part);
}

std::vector<EvaluationTask> golden_definitions(const std::vector<std::string>& names) {
  Diagnostics diagnostics;
  auto tasks = evaluation_tasks({harness_golden}, names, diagnostics);
  REQUIRE_MESSAGE(diagnostics.empty(), diagnostics.render("nothing"));
  return tasks;
}

// [[context, continuation], ...] as lm_eval has them: a rolling request is its text alone.
Value requests_of(const TaskQuestion& question, TaskOutput output) {
  Value made = Value::make_array();
  for (const TaskRequest& request : question.requests) {
    Value one = Value::make_array();
    if (output != TaskOutput::loglikelihood_rolling) one.push_back(request.context);
    if (output != TaskOutput::generate_until || !request.continuation.empty()) one.push_back(request.continuation);
    if (output == TaskOutput::generate_until) one.push_back("");
    made.push_back(std::move(one));
  }
  return made;
}

}  // namespace

TEST_CASE("harness: every context and what is scored behind it are lm_eval's, letter by letter") {
  const Value golden = golden_of("tasks");
  int requests = 0;
  const std::vector<EvaluationTask> tasks = golden_definitions(golden_tasks);
  REQUIRE(tasks.size() == golden_tasks.size());
  for (const EvaluationTask& task : tasks) {
    CAPTURE(task.name);
    const auto questions = task_questions(task);
    REQUIRE_MESSAGE(questions.ok(), questions.error().message());
    const ValueArray& rows = golden.find(task.name)->find("rows")->as_array();
    REQUIRE(questions->size() == rows.size());
    for (std::size_t i = 0; i < rows.size(); ++i) {
      CAPTURE(i);
      CHECK(to_json(requests_of((*questions)[i], task.output)) == to_json(*rows[i].find("requests")));
      requests += static_cast<int>((*questions)[i].requests.size());
    }
  }
  CHECK(requests == 12 * 4 * 4 + 8 * 2 + 10 + 6 + 8);
}

TEST_CASE(
    "harness: as turns of a conversation contexts are lm_eval's too, with examples in one turn or in turns of their "
    "own") {
  const Value cases = golden_of("chat");
  REQUIRE(cases.size() == 4);
  int rows = 0;
  for (const Value& one : cases.as_array()) {
    CAPTURE(one.get_string("template"));
    CAPTURE(one.get_bool("examples_as_turns"));
    const auto turns = ChatTemplate::parse(one.get_string("template"), "template");
    REQUIRE(turns.ok());
    for (const ValueMember& asked : one.find("tasks")->as_table()) {
      CAPTURE(asked.key);
      const auto questions =
          task_questions(golden_definitions({asked.key}).front(), {&*turns, one.get_bool("examples_as_turns")});
      REQUIRE_MESSAGE(questions.ok(), questions.error().message());
      for (std::size_t i = 0; i < asked.value.size(); ++i, ++rows) {
        Value requests = Value::make_array();
        for (const TaskRequest& request : (*questions)[i].requests) {
          Value pair = Value::make_array();
          pair.push_back(request.context), pair.push_back(request.continuation);
          requests.push_back(std::move(pair));
        }
        CHECK(to_json(requests) == to_json(asked.value.as_array()[i]));
      }
    }
  }
  CHECK(rows == 4 * 7 * 4);
}

TEST_CASE("harness: figures of a model are lm_eval's, and each answer behind them") {
  const Value golden = golden_of("tasks");
  const StageFolder folder;
  Value tasks = Value::make_array();
  for (const std::string& name : golden_tasks) tasks.push_back(name);
  tasks.push_back("small");  // a tag of three of them
  Task task = folder.task("evaluate", {}, format(R"({{"tasks": {}, "precision": "f32"}})", to_json(tasks)));
  task.inputs.push_back({"model", {std::string(LONGHAUL_SOURCE_DIR) + "/tests/parity/golden/model-untied"}, "", ""});
  task.inputs.push_back({"harness", {harness_golden}, "", ""});
  folder.run_well(task, "scores");
  int figures = 0;
  for (const std::string& name : golden_tasks)
    for (const ValueMember& member : golden.find(name)->find("figures")->as_table()) {
      const std::size_t comma = member.key.find(',');
      const std::string filter = member.key.substr(comma + 1);
      std::string metric = member.key.substr(0, comma), end;
      if (ends_with(metric, "_stderr")) end = "_stderr", metric.resize(metric.size() - end.size());
      const std::string figure = format("{}.{}{}{}", name, metric, filter == "none" ? "" : "." + filter, end);
      CAPTURE(figure);
      const double mine = folder.figure("scores", figure), theirs = member.value.as_number();
      ++figures;
      if (metric.find("perplexity") == std::string::npos)
        CHECK(std::abs(mine - theirs) <= 1e-5);
      else  // their logarithms, which are what is computed
        CHECK(std::abs(std::log(mine) / std::log(theirs) - 1) <= 1e-5);
    }
  CHECK(figures == 2 * (3 + 2 * 4 + 1 + 3) + 1 + 3);  // with their standard errors, but of perplexities
  const Value small = golden_of("small");
  for (const ValueMember& metric : small.as_table()) {
    CHECK(std::abs(folder.figure("scores", "small." + metric.key) - metric.value.get_number("value")) <= 1e-9);
    CHECK(std::abs(folder.figure("scores", "small." + metric.key + "_stderr") - metric.value.get_number("stderr")) <=
          1e-9);
  }
  CHECK(folder.figure("scores", "small.questions") == 36);

  // Item by item, in the order in which they are asked.
  const std::string lines = read_file(folder.at("scores") + "/samples.jsonl").value();
  std::map<std::string, std::vector<Value>> samples;
  for (const std::string& line : split(lines, '\n'))
    if (!line.empty()) samples[parse_json(line)->get_string("task")].push_back(*parse_json(line));
  for (const std::string& name : golden_tasks) {
    CAPTURE(name);
    const ValueArray& rows = golden.find(name)->find("rows")->as_array();
    const std::vector<Value>& mine = samples[name];
    REQUIRE(mine.size() == rows.size());
    for (std::size_t i = 0; i < rows.size(); ++i) {
      CAPTURE(i);
      CHECK(mine[i].get_integer("line") == static_cast<std::int64_t>(i) + 1);
      const ValueArray& responses = rows[i].find("responses")->as_array();
      if (const Value* answers = mine[i].find("answers")) {
        CHECK(answers->as_array()[0].as_string() == responses[0].as_array()[0].as_string());
        for (const ValueMember& filter : golden.find(name)->find("filtered")->as_table())
          CHECK(mine[i].get_string("filtered." + filter.key) == filter.value.as_array()[i].as_array()[0].as_string());
        continue;
      }
      const ValueArray& sums = mine[i].find("log_probabilities")->as_array();
      REQUIRE(sums.size() == responses.size());
      for (std::size_t j = 0; j < sums.size(); ++j) {
        const Value& response = responses[j].as_array()[0];
        const double theirs = response.is_array() ? response.as_array()[0].as_number() : response.as_number();
        CHECK(std::abs(sums[j].as_number() / theirs - 1) <= 1e-5);
      }
    }
  }
}

TEST_CASE("harness: on three ranks scores, answers and figures are those of one") {
  const StageFolder folder;
  Task task = folder.task("evaluate", {}, R"({"tasks": ["choices_plain", "documents", "sums"], "precision": "f32"})");
  task.inputs.push_back({"model", {std::string(LONGHAUL_SOURCE_DIR) + "/tests/parity/golden/model-untied"}, "", ""});
  task.inputs.push_back({"harness", {harness_golden}, "", ""});
  folder.run_well(task, "alone");
  run_on_ranks(folder, task, "together", 3);
  const Value alone = *parse_json(*read_file(folder.at("alone") + "/artifact.json"));
  int figures = 0;
  for (const ValueMember& figure : alone.find("figures")->as_table()) {
    CAPTURE(figure.key);
    CHECK(std::abs(folder.figure("together", figure.key) - figure.value.as_number()) <=
          1e-6 * std::abs(figure.value.as_number()));
    ++figures;
  }
  CHECK(figures > 20);
  const auto lines = [&](const char* out) {
    return split(read_file(folder.at(out) + "/samples.jsonl").value(), '\n').size();
  };
  CHECK(lines("together") == lines("alone"));
}

TEST_CASE("harness: groups are put together as lm_eval does it, and compared with a baseline") {
  const StageFolder folder;
  Task task = folder.task("evaluate", {}, R"({"tasks": ["all_pairs"], "precision": "f32"})");
  const std::string models = std::string(LONGHAUL_SOURCE_DIR) + "/tests/parity/golden/";
  task.inputs.push_back({"model", {models + "model-untied"}, "", ""});
  task.inputs.push_back({"baseline", {models + "model-tied-llama3"}, "", ""});
  task.inputs.push_back({"harness", {harness_golden}, "", ""});
  folder.run_well(task, "groups");
  const Value golden = golden_of("groups");
  int figures = 0;
  for (const ValueMember& group : golden.as_table())
    for (const ValueMember& figure : group.value.as_table()) {
      CAPTURE(group.key);
      CAPTURE(figure.key);
      CHECK(std::abs(folder.figure("groups", group.key + "." + figure.key) - figure.value.as_number()) <= 1e-9);
      ++figures;
    }
  CHECK(figures == 6);
  CHECK(folder.figure("groups", "all_pairs.questions") == 12 + 8 + 10 + 12);
  const double difference = folder.figure("groups", "pairs.acc_difference");
  CHECK(difference ==
        doctest::Approx(folder.figure("groups", "pairs.acc") - folder.figure("groups", "baseline_pairs.acc")));
  CHECK(folder.figure("groups", "pairs.acc_difference_low") < difference);
}

TEST_CASE("harness: answers that are drawn differ, come again with the same model, and are voted on") {
  const StageFolder folder;
  REQUIRE(make_directories(folder.at("mine")).ok());
  REQUIRE(write_file_atomic(folder.at("mine/r.jsonl"), "{\"q\": \"the sea\"}\n{\"q\": \"two and\"}\n").ok());
  REQUIRE(write_file_atomic(folder.at("mine/t.yaml"),
                            "task: t\ndataset_path: json\ndataset_kwargs: {data_files: {test: r.jsonl}}\n"
                            "test_split: test\ndoc_to_text: q\ndoc_to_target: q\nrepeats: 6\n"
                            "generation_kwargs: {max_gen_toks: 6, do_sample: true, temperature: 1.0, top_p: 0.9}\n"
                            "filter_list:\n  - name: votes\n    filter: [{function: majority_vote}, "
                            "{function: take_first}]\n")
              .ok());
  Task task = folder.task("evaluate", {}, R"({"tasks": ["t"], "precision": "f32"})");
  task.inputs.push_back({"model", {std::string(LONGHAUL_SOURCE_DIR) + "/tests/parity/golden/model-untied"}, "", ""});
  task.inputs.push_back({"harness", {folder.at("mine")}, "", ""});
  folder.run_well(task, "one");
  folder.run_well(task, "two");
  const std::string lines = read_file(folder.at("one") + "/samples.jsonl").value();
  CHECK(lines == read_file(folder.at("two") + "/samples.jsonl").value());
  std::set<std::string> seen;
  for (const std::string& line : split(lines, '\n')) {
    if (line.empty()) continue;
    const Value sample = *parse_json(line);
    const ValueArray& answers = sample.find("answers")->as_array();
    REQUIRE(answers.size() == 6);
    for (const Value& answer : answers) seen.insert(answer.as_string());
    const std::string voted = sample.get_string("filtered.votes");
    for (const Value& answer : answers)
      CHECK(std::ranges::count(answers, answer) <= std::ranges::count(answers, Value(voted)));
  }
  CHECK(seen.size() > 6);
}

TEST_CASE("harness: programs are run where the stage allows it, and nothing is asked where it does not") {
  const StageFolder folder;
  REQUIRE(make_directories(folder.at("mine")).ok());
  REQUIRE(write_file_atomic(folder.at("mine/r.jsonl"),
                            "{\"q\": \"a\", \"t\": \"assert x == 1\"}\n{\"q\": \"b\", \"t\": \"assert x == 2\"}\n")
              .ok());
  REQUIRE(write_file_atomic(folder.at("mine/t.yaml"),
                            "task: t\ndataset_path: json\ndataset_kwargs: {data_files: {test: r.jsonl}}\n"
                            "test_split: test\nunsafe_code: true\ndoc_to_text: q\ndoc_to_target: t\n"
                            "generation_kwargs: {max_gen_toks: 3}\n"
                            "metric_list: [{metric: pass_at_k, program: 'x = 1'}]\n")
              .ok());
  const auto task_with = [&](const std::string& settings) {
    Task task = folder.task("evaluate", {}, settings);
    task.inputs.push_back({"model", {std::string(LONGHAUL_SOURCE_DIR) + "/tests/parity/golden/model-untied"}, "", ""});
    task.inputs.push_back({"harness", {folder.at("mine")}, "", ""});
    return task;
  };
  const std::atomic<bool> stop{false};
  const Status refused = folder.run(task_with(R"({"tasks": ["t"]})"), "refused", stop);
  REQUIRE(!refused.ok());
  CHECK(refused.error().message().find("the task t runs programs that the model wrote") != std::string::npos);
  const Status nowhere =
      folder.run(task_with(R"({"tasks": ["t"], "run_code": true, "python": "/no/python"})"), "nowhere", stop);
  REQUIRE(!nowhere.ok());
  CHECK(nowhere.error().message().find("cannot start /no/python") != std::string::npos);
  if (const auto tests = ProgramTests::create("/usr/bin/python3"); !tests.ok()) {
    MESSAGE("skipped: " << tests.error().message());
    return;
  }
  folder.run_well(task_with(R"({"tasks": ["t"], "run_code": true, "python": "/usr/bin/python3"})"), "run");
  CHECK(folder.figure("run", "t.pass_at_1") == doctest::Approx(0.5));
}

TEST_CASE("harness: two models are compared row by row; what cannot be asked is named") {
  const StageFolder folder;
  const std::string model = std::string(LONGHAUL_SOURCE_DIR) + "/tests/parity/golden/model-untied";
  const auto task_with = [&](const std::string& settings, const std::string& harness) {
    Task task = folder.task("evaluate", {}, settings);
    task.inputs.push_back({"model", {model}, "", ""});
    task.inputs.push_back(
        {"baseline", {std::string(LONGHAUL_SOURCE_DIR) + "/tests/parity/golden/model-tied-llama3"}, "", ""});
    if (!harness.empty()) task.inputs.push_back({"harness", {harness}, "", ""});
    return task;
  };
  folder.run_well(task_with(R"({"tasks": ["choices_plain"], "precision": "f32"})", harness_golden), "both");
  CHECK(folder.figure("both", "choices_plain.acc_difference") ==
        doctest::Approx(folder.figure("both", "choices_plain.acc") -
                        folder.figure("both", "baseline_choices_plain.acc")));
  CHECK(folder.figure("both", "choices_plain.questions_compared") == 12);
  CHECK(folder.figure("both", "choices_plain.acc_norm_difference_low") <
        folder.figure("both", "choices_plain.acc_norm_difference"));
  const std::string lines = read_file(folder.at("both") + "/samples.jsonl").value();
  CHECK(std::count(lines.begin(), lines.end(), '\n') == 24);

  const std::atomic<bool> stop{false};
  const auto refused = [&](const std::string& settings, const std::string& harness) {
    const Status status = folder.run(task_with(settings, harness), "refused", stop);
    return status.ok() ? std::string() : status.error().message();
  };
  CHECK(refused(R"({"tasks": ["choices_plain"]})", "").find("the input 'harness' is missing") != std::string::npos);
  CHECK(refused(R"({"tasks": ["choices_plan"]})", harness_golden).find("did you mean 'choices_plain'") !=
        std::string::npos);
  CHECK(
      refused(R"({"tasks": ["choices_plain"], "chat_template": true})", harness_golden).find("has no chat template") !=
      std::string::npos);
  CHECK(refused(R"({"tasks": ["sums"], "context_length": 24})", harness_golden)
            .find("max_gen_toks = 24 leaves no room for a prompt in a window of 24 tokens") != std::string::npos);
  REQUIRE(make_directories(folder.at("mine")).ok());
  REQUIRE(
      write_file_atomic(folder.at("mine/t.yaml"),
                        "task: t\ndataset_path: json\ndataset_kwargs: {data_files: {test: r.jsonl}}\ntest_split: test\n"
                        "output_type: multiple_choice\ndoc_to_text: q\ndoc_to_target: a\ndoc_to_choice: [x, y]\n"
                        "num_fewshot: 0\n")
          .ok());
  const auto of_rows = [&](const std::string& rows) {
    REQUIRE(write_file_atomic(folder.at("mine/r.jsonl"), rows).ok());
    return refused(R"({"tasks": ["t"]})", folder.at("mine"));
  };
  CHECK(of_rows("{\"q\": \"a\", \"a\": 1}\n") == "");
  CHECK(of_rows("{\"q\": \"a\", \"a\": 1}\n{\"q\": \"b\", \"a\": 2}\n")
            .find("row 2 of the split test: the answer 2 is none of its 2 choices") != std::string::npos);
  CHECK(of_rows("{\"q\": null, \"a\": 1}\n").find("t.yaml:6:14: ") != std::string::npos);
  CHECK(of_rows("{\"q\": \"  \", \"a\": 1}\n").find("row 1 of the split test: a context has nothing but white space") !=
        std::string::npos);
}

TEST_CASE("harness: lower case is Python's, of every letter of Latin, Greek and Cyrillic") {
  const Value letters = golden_of("lower");
  CHECK(letters.size() > 250);
  for (const Value& pair : letters.as_array())
    CHECK(lower_case(pair.as_array()[0].as_string()) == pair.as_array()[1].as_string());
}

}  // namespace longhaul
