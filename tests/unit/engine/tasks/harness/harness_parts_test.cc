// Parts of the harness that need no model: literals, random numbers, patterns, filters, rows.
#include <doctest/doctest.h>
#include <unistd.h>

#include <cmath>

#include "base/files/files.h"
#include "base/text/text.h"
#include "base/value/json.h"
#include "engine/tasks/answers/answer_filters.h"
#include "engine/tasks/harness/group_scores.h"
#include "engine/tasks/harness/python_literal.h"
#include "engine/tasks/harness/python_random.h"
#include "engine/tasks/harness/row_texts.h"
#include "engine/tasks/harness/task_rows.h"
#include "engine/tasks/harness/task_scores.h"

namespace longhaul {
namespace {

std::string literal(const std::string& text) {
  const auto value = python_literal(text);
  return value.ok() ? to_json(*value) : "error: " + value.error().what;
}

TaskFilterStep step_of(const std::string& function) {
  TaskFilterStep step;
  step.function = function;
  return step;
}

std::string filtered(std::vector<TaskFilterStep> steps, std::vector<std::string> answers) {
  steps.push_back(step_of("take_first"));
  const auto filter = AnswerFilter::create({"f", std::move(steps)});
  REQUIRE(filter.ok());
  return filter->apply(std::move(answers)).value().front();
}

std::string by_regex(const std::string& pattern, std::int64_t group, const std::string& answer) {
  TaskFilterStep step = step_of("regex");
  step.pattern = pattern, step.group = group;
  return filtered({step}, {answer});
}

}  // namespace

TEST_CASE("python literals: what templates print of lists is read back") {
  CHECK(literal(R"(['a', "it's", 'x\n\x41\u00e9\'', 1, -2.5, None, True, (3,), (4), {'k': []},])") ==
        R"(["a","it's","x\nAé'",1,-2.5,null,true,[3],4,{"k":[]}])");
  CHECK(literal("'a' 'b'") == "\"ab\"");
  CHECK(literal("[]") == "[]");
  for (const char* wrong : {"[1 2]", "['a", "[1]x", "f(1)", "{1: 2}", "", "['a\nb']"})
    CHECK(literal(wrong).starts_with("error"));
}

TEST_CASE("python random: the examples that random.Random(1234).sample draws, from a pool and from a set") {
  // python3 -c "import random; r = random.Random(1234); print(r.sample(range(10), 3), r.sample(range(100), 6),
  //             r.sample(range(1000), 2), r.sample(range(5), 5))"
  PythonRandom random(1234);
  const auto draw = [&](std::size_t total, std::size_t count) { return random.sample(total, count); };
  using Drawn = std::vector<std::size_t>;
  CHECK(draw(10, 3) == Drawn{7, 1, 0});
  CHECK(draw(100, 6) == Drawn{11, 74, 4, 85, 88, 10});
  CHECK(draw(1000, 2) == Drawn{100, 784});
  CHECK(draw(5, 5) == Drawn{2, 1, 0, 4, 3});
}

TEST_CASE(
    "answer filters: regex takes the match that is asked for, its first group that is not empty, or the fallback") {
  const std::string answer = "Sum: 1,200. #### 42 and 7 ";
  CHECK(by_regex(R"(#### (\-?[0-9\.\,]+))", 0, answer) == "42");
  CHECK(by_regex("(-?[$0-9.,]{2,})|(-?[0-9]+)", -1, answer) == "7");
  CHECK(by_regex("(-?[$0-9.,]{2,})|(-?[0-9]+)", 0, answer) == "1,200.");
  CHECK(by_regex("[0-9]+ ", 1, answer) == "7");  // white space goes
  CHECK(by_regex("x+", 0, answer) == "[invalid]");
  CHECK(by_regex("[0-9]+", 9, answer) == "[invalid]");
  CHECK(by_regex("é(.)", 0, "aé漢") == "漢");
  TaskFilterStep bad = step_of("regex");
  bad.pattern = "(";
  bad.where = SourcePos{"t.yaml", 4, 2};
  const auto refused = AnswerFilter::create({"f", {bad}});
  REQUIRE(!refused.ok());
  CHECK(refused.error().where->line == 4);
  bad.pattern = "a\\Z";
  CHECK(!AnswerFilter::create({"f", {bad}}).ok());
}

TEST_CASE("answer filters: white space, lower case, votes; the steps follow each other") {
  CHECK(filtered({step_of("remove_whitespace")}, {"\n\t x "}) == "x ");
  CHECK(filtered({step_of("lowercase")}, {"ÀB ΣΑΣ"}) == "àb σας");
  CHECK(filtered({step_of("majority_vote")}, {"a", "b", "c", "b", "a"}) == "a");
  CHECK(filtered({step_of("majority_vote")}, {"a", "b", "c", "b"}) == "b");
  CHECK(filtered({step_of("remove_whitespace"), step_of("lowercase"), step_of("majority_vote")}, {"X", " y", "Y"}) ==
        "y");
}

TEST_CASE("exact match: both sides as the options leave them, any of several answers") {
  const auto holds = [](const TaskMetric& metric, const std::string& answer, const std::vector<std::string>& targets) {
    return ExactMatch::create(metric).value().holds(answer, targets).value();
  };
  CHECK(holds({"exact_match", false, false, false, {}}, "a", {"b", "a"}));
  CHECK(!holds({"exact_match", false, false, false, {}}, "A", {"a"}));
  CHECK(holds({"exact_match", true, false, false, {}}, "A", {"a"}));
  CHECK(holds({"exact_match", false, true, false, {}}, "it's, so.", {"its so"}));
  CHECK(holds({"exact_match", false, false, true, {}}, "a1b", {"ab22"}));
  CHECK(holds({"exact_match", false, false, false, {",", "\\$", "(?s).*#### "}}, "1200", {"so it is\n#### $1,200"}));
  CHECK(!holds({"exact_match", false, false, false, {"x*"}}, "b", {"c"}));
}

TEST_CASE("task rows: JSON Lines, a list, CSV and lines of text; columns that a line leaves out are null") {
  char name[] = "/tmp/longhaul-test-XXXXXX";
  const std::string folder = ::mkdtemp(name);
  const auto rows = [&](const std::string& format_, const std::string& text) {
    REQUIRE(write_file_atomic(folder + "/rows", text).ok());
    EvaluationTask task;
    task.name = "one", task.format = format_, task.splits = {{"test", {folder + "/rows"}}};
    const auto read = read_task_rows(task, "test");
    if (!read.ok()) return read.error().message();
    std::string all;
    for (const Value& row : read->rows) all += to_json(row) + "\n";
    return all;
  };
  CHECK(rows("json", "{\"a\": 1}\n\n{\"b\": [2]}\n") == "{\"a\":1,\"b\":null}\n{\"a\":null,\"b\":[2]}\n");
  CHECK(rows("json", " [{\"a\": 1},\n {\"a\": 2}]") == "{\"a\":1}\n{\"a\":2}\n");
  CHECK(rows("csv", "a,b,c,d\r\n1,x,,True\r\n2,\"q \"\"r\"\"\n,s\",0.5,False\r\n") ==
        "{\"a\":1,\"b\":\"x\",\"c\":null,\"d\":true}\n{\"a\":2,\"b\":\"q \\\"r\\\"\\n,s\",\"c\":0.5,\"d\":false}\n");
  CHECK(rows("text", "one\n\ntwo") == "{\"text\":\"one\"}\n{\"text\":\"\"}\n{\"text\":\"two\"}\n");
  CHECK(rows("json", "{\"a\": 1}\n[2]\n").find("rows:2: error: the line is not a JSON object") != std::string::npos);
  CHECK(rows("csv", "a,b\n1\n").find("rows:2: 1 fields where the first line names 2") != std::string::npos);
  CHECK(rows("csv", "a\n\"x\n").find("rows:2: a quoted field has no end") != std::string::npos);
  CHECK(rows("json", "\n").find("has no rows") != std::string::npos);
  REQUIRE(remove_tree(folder).ok());
}

TEST_CASE("row texts: a field that is missing in a template is an error with its place, a template keeps its lines") {
  const Value row = *parse_json(R"({"q": "why", "n": 2, "list": ["a", "b"]})");
  const auto text_of = [&](const std::string& source) {
    TaskTexts texts;
    texts.text = Value(source), texts.choice = Value("list"), texts.target = Value(0);
    texts.text.pos = SourcePos{"t.yaml", 7, 14};
    auto made = RowTexts::create(texts, {"q", "n", "list"});
    if (!made.ok()) return made.error().message();
    const auto value = made->text(row);
    return value.ok() ? to_json(*value) : value.error().message();
  };
  CHECK(text_of("q") == "\"why\"");
  CHECK(text_of("n") == "2");
  CHECK(text_of("{{q}}?\n") == "\"why?\\n\"");
  CHECK(text_of("{% if q %}\nx{% endif %}\n") == "\"\\nx\\n\"");
  CHECK(text_of("{{list|length}}") == "2");  // the index of a choice
  CHECK(text_of("{{nothing|default('-')}}{{ 'd' if x is defined else 'u' }}") == "\"-u\"");
  CHECK(text_of("{{nothing}}").find("t.yaml:7:14: doc_to_text: 'nothing' is undefined") == 0);
  CHECK(text_of("{% if nothing %}{% endif %}").find("'nothing' is undefined") != std::string::npos);
  CHECK(text_of("a\n{{ q | regex_replace('a', 'b') }}").find("t.yaml:7:14: doc_to_text, line 2: ") == 0);
}

TEST_CASE("task scores: shares, perplexities and their standard errors by hand") {
  EvaluationTask task;
  task.name = "t", task.output = TaskOutput::multiple_choice;
  task.metrics = {{"acc", false, false, false, {}}, {"acc_norm", false, false, false, {}}};
  const std::vector<TaskQuestion> questions = {{1, {{"q", " é"}, {"q", " long one"}}, {"é", "long one"}, {1}, {}},
                                               {2, {{"q", " x"}, {"q", " y"}}, {"x", "y"}, {0}, {}},
                                               {3, {{"q", " x"}, {"q", " y"}}, {"x", "y"}, {0, 1}, {}}};
  const std::vector<TaskAnswer> answers = {{{-2, -4}, {false, false}, {}}, {{-3, -1}, {}, {}}, {{-1, -2}, {}, {}}};
  const auto scored = score_task(task, questions, answers);
  REQUIRE(scored.ok());
  const auto figure = [&](const MeasuredItems& of, const std::string& name) {
    for (const Figure& one : of.figures)
      if (one.name == name) return one.value;
    return -1e9;
  };
  CHECK(figure(*scored, "t.acc") == doctest::Approx(1.0 / 3));
  CHECK(figure(*scored, "t.acc_norm") == doctest::Approx(2.0 / 3));  // by characters, of which é is one
  CHECK(figure(*scored, "t.acc_stderr") == doctest::Approx(std::sqrt(2.0 / 9 / 2)));
  CHECK(figure(*scored, "t.questions") == 3);
  REQUIRE(scored->scores.items.size() == 3);
  CHECK(scored->scores.items[2].right == std::vector<std::uint8_t>{1, 1});

  task.output = TaskOutput::loglikelihood_rolling;
  task.metrics = {{"word_perplexity", false, false, false, {}}, {"bits_per_byte", false, false, false, {}}};
  const std::vector<TaskQuestion> texts = {{1, {{"", "a b  c"}}, {}, {}, {"a b  c"}},
                                           {2, {{"", "dé "}}, {}, {}, {"dé "}}};
  const auto rolled = score_task(task, texts, {{{-6}, {}, {}}, {{-2}, {}, {}}});
  REQUIRE(rolled.ok());
  CHECK(figure(*rolled, "t.word_perplexity") == doctest::Approx(std::exp(8.0 / 5)));  // "dé " is two words there
  CHECK(figure(*rolled, "t.bits_per_byte") == doctest::Approx(8.0 / 10 / std::log(2.0)));
  // Residuals 6 - 0.8 * 6 and 2 - 0.8 * 4: 1.2 and -1.2; sqrt(2 * 2.88) / 10 nats.
  CHECK(figure(*rolled, "t.bits_per_byte_stderr") == doctest::Approx(0.24 / std::log(2.0)));
}

TEST_CASE("task scores: the probability of all right choices together, also where all are tiny") {
  EvaluationTask task;
  task.name = "t", task.output = TaskOutput::multiple_choice;
  task.metrics = {{"mc2", false, false, false, {}}};
  const std::vector<TaskQuestion> questions = {{1, {}, {"a", "b", "c"}, {0, 2}, {}}, {2, {}, {"a", "b"}, {1}, {}}};
  const std::vector<TaskAnswer> answers = {{{std::log(0.1), std::log(0.2), std::log(0.3)}, {}, {}},
                                           {{-2000, -2000 + std::log(3.0)}, {}, {}}};
  const auto scored = score_task(task, questions, answers);
  REQUIRE(scored.ok());
  REQUIRE(scored->figures.front().name == "t.mc2");
  CHECK(scored->figures.front().value == doctest::Approx((4.0 / 6 + 0.75) / 2));
  CHECK(scored->figures[1].value == doctest::Approx((0.75 - 4.0 / 6) / 2));  // two items: half of what is between
  CHECK(scored->scores.means == std::vector<std::string>{"t.mc2"});
  CHECK(scored->scores.items[1].amounts[0].value == doctest::Approx(0.75));
}

TEST_CASE("task scores: programs are made of rows and answers, judged, and counted by tries") {
  EvaluationTask task;
  task.name = "t", task.repeats = 3;
  TaskMetric metric;
  metric.name = "pass_at_k", metric.tries = {1, 2}, metric.program = "{{head}}{{answer}}";
  task.metrics = {metric};
  task.filters = {{"none", {}}};
  std::vector<TaskQuestion> questions(2);
  for (int i = 0; i < 2; ++i) {
    questions[static_cast<std::size_t>(i)].line = i + 1;
    questions[static_cast<std::size_t>(i)].targets = {format("test {}", i)};
    questions[static_cast<std::size_t>(i)].row = *parse_json(format(R"({{"head": "h{} "}})", i));
  }
  const std::vector<TaskAnswer> answers = {{{}, {}, {"good", "bad", "bad"}}, {{}, {}, {"bad", "bad", "bad"}}};
  CHECK(score_task(task, questions, answers).error().message().find("run_code") != std::string::npos);
  std::vector<std::string> asked;
  ScoringTools tools;
  tools.judge = [&](const std::vector<TestedProgram>& programs) -> Result<std::vector<ProgramVerdict>> {
    std::vector<ProgramVerdict> verdicts;
    for (const TestedProgram& one : programs) {
      asked.push_back(one.program + "|" + one.tests);
      verdicts.push_back({one.program == "h0 good", "NameError"});
    }
    return verdicts;
  };
  const auto scored = score_task(task, questions, answers, tools);
  REQUIRE(scored.ok());
  CHECK(asked.size() == 6);
  CHECK(asked[0] == "h0 good|test 0");
  CHECK(asked[5] == "h1 bad|test 1");
  CHECK(scored->figures[0].name == "t.pass_at_1");
  CHECK(scored->figures[0].value == doctest::Approx((1.0 / 3 + 0) / 2));
  CHECK(scored->figures[4].name == "t.pass_at_2");
  CHECK(scored->figures[4].value == doctest::Approx((2.0 / 3 + 0) / 2));
  CHECK(to_json(*scored->scores.items[0].sample.find("verdicts")) == R"(["passed","NameError","NameError"])");
}

TEST_CASE("task scores: instructions by prompt and by instruction, strict and loose") {
  EvaluationTask task;
  task.name = "t";
  for (const char* name :
       {"prompt_level_strict_acc", "inst_level_strict_acc", "prompt_level_loose_acc", "inst_level_loose_acc"})
    task.metrics.push_back({name, false, false, false, {}});
  task.filters = {{"none", {step_of("take_first")}}};
  std::vector<TaskQuestion> questions(2);
  questions[0].row = *parse_json(R"({"instruction_id_list": ["punctuation:no_comma", "startend:quotation",
                                     "detectable_format:title"], "kwargs": [{}, {}, null]})");
  questions[1].row = *parse_json(R"({"instruction_id_list": ["punctuation:no_comma"], "kwargs": [{"x": null}]})");
  const auto scored = score_task(task, questions, {{{}, {}, {"So,\n\"<<a>>\""}}, {{}, {}, {"So"}}});
  REQUIRE_MESSAGE(scored.ok(), scored.error().message());
  const auto figure = [&](const std::string& name) {
    for (const Figure& one : scored->figures)
      if (one.name == "t." + name) return one.value;
    return -1.0;
  };
  CHECK(figure("prompt_level_strict_acc") == doctest::Approx(0.5));
  CHECK(figure("inst_level_strict_acc") == doctest::Approx(2.0 / 4));
  CHECK(figure("prompt_level_loose_acc") == doctest::Approx(1));  // without its first line
  CHECK(figure("inst_level_loose_acc") == doctest::Approx(1));
  CHECK(to_json(*scored->scores.items[0].sample.find("follows_strict")) == "[false,false,true]");
}

TEST_CASE("group scores: of a tag two models are compared on the items of all its tasks") {
  ItemScores first, second;
  first.figures = {"a.acc", "a.acc_norm"}, second.figures = {"b.acc_norm", "b.acc"};
  for (const int line : {1, 2}) {
    ScoredItem item;
    item.line = line, item.right = {1, 0};
    first.items.push_back(item);
    second.items.push_back(std::move(item));
  }
  second.figures.pop_back();
  for (ScoredItem& item : second.items) item.right = {1};
  const ItemScores pooled = pooled_scores("t", {&first, &second});
  CHECK(pooled.figures == std::vector<std::string>{"t.acc_norm"});
  REQUIRE(pooled.items.size() == 4);
  CHECK(pooled.items[1].right == std::vector<std::uint8_t>{0});
  CHECK(pooled.items[2].right == std::vector<std::uint8_t>{1});
  CHECK(pooled.items[3].line == 4);
}

TEST_CASE("group scores: the mean of tasks or of questions, errors pooled, differences of two models") {
  std::vector<EvaluationTask> tasks(2);
  tasks[0].name = "a", tasks[1].name = "b";
  for (EvaluationTask& task : tasks) task.filters = {{"none", {}}};
  const auto of = [](const std::string& figure, std::vector<int> right) {
    ItemScores scores;
    scores.figures = {figure};
    for (const int one : right) {
      ScoredItem item;
      item.right = {static_cast<std::uint8_t>(one)};
      scores.items.push_back(std::move(item));
    }
    return scores;
  };
  const ItemScores a = of("a.acc", {1, 1, 0, 0}), b = of("b.acc", {1, 0}), c = of("a.acc", {0, 1, 0, 0});
  EvaluationGroup group;
  group.name = "g", group.metrics = {{"acc", false, {"none"}, {}}};
  const std::vector<GroupTask> both = {{&tasks[0], &a}, {&tasks[1], &b}};
  auto figures = group_figures(group, both);
  CHECK(figures[0].name == "g.acc");
  CHECK(figures[0].value == doctest::Approx(0.5));
  group.metrics[0].weight_by_size = true;
  const ItemScores d = of("a.acc", {1, 1, 1, 0});
  figures = group_figures(group, {{&tasks[0], &d}, {&tasks[1], &b}});
  CHECK(figures[0].value == doctest::Approx(4.0 / 6));
  const double first = 0.75 * 0.25 / 3, second = 0.25;  // squared errors
  CHECK(figures[1].value == doctest::Approx(std::sqrt((3 * 4 * first + 1 * 2 * second) / 4 / 6)));
  CHECK(figures[2].name == "g.questions");
  CHECK(figures[2].value == 6);
  const auto differences = group_differences(group, both, {{&tasks[0], &c}, {&tasks[1], &b}});
  CHECK(differences[0].name == "g.acc_difference");
  CHECK(differences[0].value == doctest::Approx(1.0 / 6));
  CHECK(differences[2].value - differences[0].value ==
        doctest::Approx(1.959964 * 4.0 / 6 * 0.25));  // of (1, 0, 0, 0): deviation 0.5, error 0.25
}

}  // namespace longhaul
