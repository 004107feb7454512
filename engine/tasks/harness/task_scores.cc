#include "engine/tasks/harness/task_scores.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/text/text.h"
#include "engine/data/jinja/values/jinja_text.h"
#include "engine/data/tokenizer/utf8.h"
#include "engine/tasks/answers/answer_filters.h"
#include "engine/tasks/answers/instruction_checks.h"
#include "engine/tasks/harness/row_texts.h"

namespace longhaul {

namespace {

// The first of the largest.
std::size_t largest(const std::vector<double>& values) {
  return static_cast<std::size_t>(std::max_element(values.begin(), values.end()) - values.begin());
}

// len(re.split(r"\s+", text)).
double words_of(const std::string& text) {
  double words = 1;
  bool in_space = false;
  for (std::size_t at = 0; at < text.size();) {
    const CodePoint c = read_utf8(text, at);
    const bool space = is_python_space(c.value);
    if (space && !in_space) ++words;
    in_space = space;
    at += c.length;
  }
  return words;
}

bool is_right(const TaskQuestion& question, const TaskAnswer& answer, const TaskMetric& metric) {
  const auto among = [&](std::size_t which) { return std::ranges::count(question.right, which) > 0; };
  if (metric.name == "acc") return among(largest(answer.log_probabilities));
  if (metric.name == "exact_match")
    return std::ranges::any_of(question.right, [&](std::size_t which) { return answer.most_likely[which]; });
  std::vector<double> per_character;
  for (std::size_t i = 0; i < question.choices.size(); ++i)
    per_character.push_back(answer.log_probabilities[i] /
                            static_cast<double>(count_of_characters(question.choices[i])));
  return among(largest(per_character));
}

// The right choices' share of the probability that all choices have together (Lin et al. 2021, arXiv:2109.07958, MC2).
double mass_of_right(const TaskQuestion& question, const TaskAnswer& answer) {
  const double most = *std::ranges::max_element(answer.log_probabilities);
  double all = 0, right = 0;
  for (std::size_t i = 0; i < answer.log_probabilities.size(); ++i) {
    const double mass = std::exp(answer.log_probabilities[i] - most);
    all += mass;
    if (std::ranges::count(question.right, i) > 0) right += mass;
  }
  return right / all;
}

Value request_value(const TaskRequest& request) {
  Value made = Value::make_array();
  made.push_back(request.context);
  made.push_back(request.continuation);
  return made;
}

class TaskScorer {
 public:
  TaskScorer(const EvaluationTask& task, const std::vector<TaskQuestion>& questions,
             const std::vector<TaskAnswer>& answers, const ScoringTools& tools)
      : task_(task), questions_(questions), answers_(answers), tools_(tools) {}

  Result<MeasuredItems> score() {
    for (std::size_t i = 0; i < questions_.size(); ++i) made_.scores.items.push_back(item(i));
    made_.scores.compared = task_.name + ".questions_compared";
    if (task_.output == TaskOutput::generate_until)
      LH_CHECK(score_generated());
    else
      for (const TaskMetric& metric : task_.metrics) score_metric(metric);
    made_.figures.push_back({task_.name + ".questions", static_cast<double>(questions_.size()), ""});
    return std::move(made_);
  }

 private:
  ScoredItem item(std::size_t i) const {
    const TaskQuestion& question = questions_[i];
    const TaskAnswer& answer = answers_[i];
    ScoredItem made;
    made.line = question.line;
    made.sample = Value::make_table();
    Value requests = Value::make_array(), sums = Value::make_array(), right = Value::make_array();
    for (const TaskRequest& request : question.requests) requests.push_back(request_value(request));
    for (const double sum : answer.log_probabilities) sums.push_back(sum);
    for (const std::size_t which : question.right) right.push_back(static_cast<std::int64_t>(which));
    for (const std::string& target : question.targets) right.push_back(target);
    made.sample.set("requests", std::move(requests));
    made.sample.set("target", std::move(right));
    if (task_.output != TaskOutput::generate_until) {
      made.sample.set("log_probabilities", std::move(sums));
    } else {
      Value texts = Value::make_array();
      for (const std::string& text : answer.texts) texts.push_back(text);
      made.sample.set("answers", std::move(texts));
    }
    return made;
  }

  void add_share(const std::string& name, const std::vector<bool>& right) {
    const auto trials = static_cast<double>(right.size());
    const auto sum = static_cast<double>(std::ranges::count(right, true));
    const Interval interval = wilson_interval(sum, trials);
    const std::string whole = task_.name + "." + name;
    made_.figures.push_back({whole, sum / trials, ""});
    made_.figures.push_back({whole + "_stderr", share_error(sum, trials), ""});
    made_.figures.push_back({whole + "_low", interval.low, ""});
    made_.figures.push_back({whole + "_high", interval.high, ""});
    made_.scores.figures.push_back(whole);
    for (std::size_t i = 0; i < right.size(); ++i)
      made_.scores.items[i].right.push_back(right[i] ? std::uint8_t{1} : std::uint8_t{0});
  }

  // Of what is no share of questions, but a mean over them.
  void add_amounts(const std::string& name, const std::vector<ItemAmount>& amounts) {
    const WeightedMean mean = weighted_mean(amounts);
    const Interval interval = normal_interval(mean);
    add_mean(name, mean.value, mean.error, "");
    made_.figures.push_back({task_.name + "." + name + "_low", interval.low, ""});
    made_.figures.push_back({task_.name + "." + name + "_high", interval.high, ""});
    made_.scores.means.push_back(task_.name + "." + name);
    for (std::size_t i = 0; i < amounts.size(); ++i) made_.scores.items[i].amounts.push_back(amounts[i]);
  }

  void add_mean(const std::string& name, double value, double error, const char* unit) {
    made_.figures.push_back({task_.name + "." + name, value, unit});
    made_.figures.push_back({task_.name + "." + name + "_stderr", error, unit});
  }

  void score_metric(const TaskMetric& metric) {
    const bool is_choice = task_.output == TaskOutput::multiple_choice;
    if (metric.name == "mc2") {
      std::vector<ItemAmount> amounts;
      for (std::size_t i = 0; i < questions_.size(); ++i)
        amounts.push_back({mass_of_right(questions_[i], answers_[i])});
      return add_amounts(metric.name, amounts);
    }
    if (is_choice || metric.name == "acc") {
      std::vector<bool> right;
      for (std::size_t i = 0; i < questions_.size(); ++i)
        right.push_back(is_choice ? is_right(questions_[i], answers_[i], metric) : answers_[i].most_likely.front());
      return add_share(metric.name, right);
    }
    std::vector<ItemAmount> amounts;
    for (std::size_t i = 0; i < questions_.size(); ++i) {
      const std::string& text = questions_[i].targets.front();
      const double weight = metric.name == "perplexity"        ? 1.0
                            : metric.name == "word_perplexity" ? words_of(text)
                                                               : static_cast<double>(text.size());
      amounts.push_back({-answers_[i].log_probabilities.front(), weight});
    }
    const WeightedMean nats = weighted_mean(amounts);
    if (metric.name == "bits_per_byte")
      add_mean(metric.name, nats.value / std::numbers::ln2, nats.error / std::numbers::ln2, "bits");
    else
      add_mean(metric.name, std::exp(nats.value), std::exp(nats.value) * nats.error, "");
  }

  Status score_generated() {
    for (const TaskFilter& one : task_.filters) {
      LH_TRY(const AnswerFilter filter, AnswerFilter::create(one));
      filtered_.clear();
      for (std::size_t i = 0; i < questions_.size(); ++i) {
        LH_TRY(std::vector<std::string> texts, filter.apply(answers_[i].texts));
        Value kept = texts.front();
        if (task_.runs_code()) {
          kept = Value::make_array();
          for (const std::string& text : texts) kept.push_back(text);
        }
        made_.scores.items[i].sample.set("filtered." + one.name, std::move(kept));
        filtered_.push_back(std::move(texts));
      }
      end_ = task_.filters.size() > 1 ? "." + one.name : std::string();
      for (const TaskMetric& metric : task_.metrics) {
        if (metric.name == "pass_at_k")
          LH_CHECK(score_programs(metric));
        else if (is_instruction_metric(metric.name))
          LH_CHECK(score_instructions(metric.name));
        else
          LH_CHECK(score_texts(metric));
      }
    }
    return {};
  }

  Status score_texts(const TaskMetric& metric) {
    LH_TRY(const ExactMatch match, ExactMatch::create(metric));
    std::vector<bool> right;
    for (std::size_t i = 0; i < questions_.size(); ++i) {
      LH_TRY(const bool holds, match.holds(filtered_[i].front(), questions_[i].targets));
      right.push_back(holds);
    }
    add_share(metric.name + end_, right);
    return {};
  }

  // Each row's instructions, of which an answer follows some. By prompts: whether it follows all of them.
  Status score_instructions(const std::string& metric) {
    const bool loose = metric.find("_loose_") != std::string::npos;
    std::vector<bool> all;
    std::vector<ItemAmount> amounts;
    for (std::size_t i = 0; i < questions_.size(); ++i) {
      LH_TRY(const InstructionChecks checks, InstructionChecks::create(questions_[i].row));
      const std::string& answer = filtered_[i].front();
      LH_TRY(const std::vector<bool> follows, loose ? checks.loose(answer) : checks.strict(answer));
      const std::int64_t count = std::ranges::count(follows, true);
      all.push_back(count == static_cast<std::int64_t>(follows.size()));
      amounts.push_back({static_cast<double>(count), static_cast<double>(follows.size())});
      Value kept = Value::make_array();
      for (const bool one : follows) kept.push_back(one);
      made_.scores.items[i].sample.set(std::string(loose ? "follows_loose" : "follows_strict") + end_, std::move(kept));
    }
    if (metric.starts_with("prompt_"))
      add_share(metric + end_, all);
    else
      add_amounts(metric + end_, amounts);
    return {};
  }

  // Every answer as a program with the row's tests behind it.
  Status score_programs(const TaskMetric& metric) {
    if (!tools_.judge)
      return make_error(ErrorCode::unsupported, "programs that a model wrote are not run", "set run_code = true");
    Value source(metric.program);
    source.pos = metric.program_where;
    LH_TRY(const RowText text, RowText::create(source, "metric_list.program", {}));
    std::vector<TestedProgram> programs;
    for (std::size_t i = 0; i < questions_.size(); ++i)
      for (const std::string& answer : filtered_[i]) {
        Value row = questions_[i].row;
        row.set("answer", answer);
        LH_TRY(const Value program, text.of(row));
        programs.push_back({program.as_string(), questions_[i].targets.front()});
      }
    LH_TRY(const std::vector<ProgramVerdict> verdicts, tools_.judge(programs));
    auto next = verdicts.begin();
    std::vector<std::int64_t> passed;
    for (std::size_t i = 0; i < questions_.size(); ++i) {
      Value kept = Value::make_array();
      passed.push_back(0);
      for (std::size_t j = 0; j < filtered_[i].size(); ++j, ++next) {
        passed.back() += next->passed ? 1 : 0;
        kept.push_back(next->passed ? std::string("passed") : next->why);
      }
      made_.scores.items[i].sample.set("verdicts" + end_, std::move(kept));
    }
    for (const std::int64_t tries : metric.tries) {
      std::vector<ItemAmount> amounts;
      for (std::size_t i = 0; i < questions_.size(); ++i)
        amounts.push_back({pass_at_k(static_cast<std::int64_t>(filtered_[i].size()), passed[i], tries)});
      add_amounts(format("pass_at_{}{}", tries, end_), amounts);
    }
    return {};
  }

  const EvaluationTask& task_;
  const std::vector<TaskQuestion>& questions_;
  const std::vector<TaskAnswer>& answers_;
  const ScoringTools& tools_;
  MeasuredItems made_;
  // Of the filters that are being scored: what they left of each question's answers, and what figures' names end with.
  std::vector<std::vector<std::string>> filtered_;
  std::string end_;
};

}  // namespace

Result<MeasuredItems> score_task(const EvaluationTask& task, const std::vector<TaskQuestion>& questions,
                                 const std::vector<TaskAnswer>& answers, const ScoringTools& tools) {
  LH_ASSERT(questions.size() == answers.size(), format("{} answers to {} questions", answers.size(), questions.size()));
  return TaskScorer(task, questions, answers, tools).score();
}

}  // namespace longhaul
