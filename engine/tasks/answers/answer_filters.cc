#include "engine/tasks/answers/answer_filters.h"

#include <algorithm>
#include <string_view>

#include "base/text/text.h"
#include "engine/data/jinja/values/jinja_text.h"
#include "engine/data/jinja/values/text_case.h"

namespace longhaul {
namespace {

// unsupported: \Z and \K, which are something else in Python.
Result<AnswerPattern> compile_of_python(const std::string& pattern) {
  for (std::size_t at = pattern.find('\\'); at != std::string::npos && at + 1 < pattern.size();
       at = pattern.find('\\', at + 2))
    if (pattern[at + 1] == 'Z' || pattern[at + 1] == 'K')
      return make_error(ErrorCode::unsupported,
                        format("\\{} in {} is another thing in Python", pattern[at + 1], pattern), "an end is $");
  return AnswerPattern::compile(pattern);
}

}  // namespace

Result<AnswerFilter> AnswerFilter::create(const TaskFilter& filter) {
  AnswerFilter made;
  made.filter_ = filter;
  for (const TaskFilterStep& step : filter.steps) {
    made.patterns_.emplace_back();
    if (step.function != "regex") continue;
    auto pattern = compile_of_python(step.pattern);
    if (!pattern.ok()) {
      Error error = pattern.error().with_context("regex_pattern");
      error.where = step.where;
      return error;
    }
    made.patterns_.back() = std::move(*pattern);
  }
  return made;
}

Result<std::string> AnswerFilter::extract(const TaskFilterStep& step, const AnswerPattern& pattern,
                                          const std::string& text) const {
  LH_TRY(const auto found, pattern.find_all(text));
  const auto count = static_cast<std::int64_t>(found.size());
  const std::int64_t which = step.group < 0 ? count + step.group : step.group;
  if (which < 0 || which >= count) return step.fallback;
  const std::vector<std::string>& groups = found[static_cast<std::size_t>(which)];
  if (groups.size() == 1) return strip_text(groups.front(), true, true);
  const auto first = std::ranges::find_if(groups, [](const std::string& group) { return !group.empty(); });
  return strip_text(first == groups.end() ? step.fallback : *first, true, true);
}

Result<std::vector<std::string>> AnswerFilter::apply(std::vector<std::string> answers) const {
  for (std::size_t i = 0; i < filter_.steps.size(); ++i) {
    const TaskFilterStep& step = filter_.steps[i];
    if (step.function == "take_first") answers.resize(1);
    if (step.function == "take_first_k") answers.resize(std::min(answers.size(), static_cast<std::size_t>(step.count)));
    if (step.function == "majority_vote") {
      const auto votes = [&](const std::string& answer) { return std::ranges::count(answers, answer); };
      std::string best = answers.front();
      for (const std::string& answer : answers)
        if (votes(answer) > votes(best)) best = answer;
      answers = {best};
    }
    for (std::string& answer : answers) {
      if (step.function == "remove_whitespace") answer = strip_text(answer, true, false);
      if (step.function == "lowercase") answer = lower_case(answer);
      if (step.function == "regex") {
        LH_TRY(answer, extract(step, *patterns_[i], answer));
      }
    }
  }
  return answers;
}

Result<ExactMatch> ExactMatch::create(const TaskMetric& metric) {
  ExactMatch made;
  made.metric_ = metric;
  for (const std::string& regex : metric.regexes_to_ignore) {
    LH_TRY(AnswerPattern pattern, compile_of_python(regex).with_context("regexes_to_ignore"));
    made.ignored_.push_back(std::move(pattern));
  }
  return made;
}

Result<std::string> ExactMatch::plain(std::string text) const {
  for (const AnswerPattern& pattern : ignored_) {
    LH_TRY(text, pattern.without(text));
  }
  if (metric_.ignore_case) text = lower_case(text);
  const auto drop = [&](std::string_view which) {
    std::erase_if(text, [&](char c) { return which.find(c) != std::string_view::npos; });
  };
  if (metric_.ignore_punctuation) drop("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~");
  if (metric_.ignore_numbers) drop("0123456789");
  return text;
}

Result<bool> ExactMatch::holds(const std::string& answer, const std::vector<std::string>& targets) const {
  LH_TRY(const std::string mine, plain(answer));
  for (const std::string& target : targets) {
    LH_TRY(const std::string right, plain(target));
    if (mine == right) return true;
  }
  return false;
}

}  // namespace longhaul
