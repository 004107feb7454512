#include "engine/tasks/harness/group_scores.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "base/text/text.h"

namespace longhaul {
namespace {

// "acc" of "piqa.acc".
std::string metric_of(const std::string& figure) {
  return figure.substr(figure.find('.') + 1);
}

// Which of a task's figures a metric is; nothing where it has none of that name.
std::optional<std::size_t> index_of(const ItemScores& task, const std::string& metric) {
  for (std::size_t i = 0; i < task.figures.size(); ++i)
    if (metric_of(task.figures[i]) == metric) return i;
  return std::nullopt;
}

// How many of a task's items are right by a metric; nothing where it has none of that name.
std::optional<double> right_of(const ItemScores& task, const std::string& metric) {
  const auto which = index_of(task, metric);
  if (!which) return std::nullopt;
  double right = 0;
  for (const ScoredItem& item : task.items) right += item.right[*which];
  return right;
}

// sqrt(sum((n - 1) n error^2) / (sum(n) - tasks) / sum(n)), n a task's questions: pooled_sample_stderr.
class PooledError {
 public:
  void add(double items, double error) {
    squares_ += (items - 1) * items * error * error;
    items_ += items, tasks_ += 1;
  }
  double value() const { return items_ > tasks_ ? std::sqrt(squares_ / (items_ - tasks_) / items_) : 0; }

 private:
  double squares_ = 0, items_ = 0, tasks_ = 0;
};

// What a task's figures call a metric after some filters.
std::string figure_of(const EvaluationTask& task, const std::string& metric, const std::string& filter) {
  return task.name + "." + metric + (task.filters.size() > 1 ? "." + filter : std::string());
}

bool has_filter(const EvaluationTask& task, const std::string& filter) {
  return std::ranges::any_of(task.filters, [&](const TaskFilter& one) { return one.name == filter; });
}

// A task's items by one metric, shares as amounts of 0 and 1; nothing where it has none of that name. pass_at_k stands
// for the figure of the first number of tries.
std::optional<std::vector<ItemAmount>> amounts_of(const GroupTask& of, const std::string& metric,
                                                  const std::string& filter) {
  if (!has_filter(*of.task, filter)) return std::nullopt;
  std::string named = metric;
  for (const TaskMetric& one : of.task->metrics)
    if (one.name == metric && metric == "pass_at_k") named = format("pass_at_{}", one.tries.front());
  const std::string figure = figure_of(*of.task, named, filter);
  std::vector<ItemAmount> made;
  for (std::size_t i = 0; i < of.scores->figures.size(); ++i)
    if (of.scores->figures[i] == figure)
      for (const ScoredItem& item : of.scores->items) made.push_back({static_cast<double>(item.right[i])});
  for (std::size_t i = 0; i < of.scores->means.size(); ++i)
    if (of.scores->means[i] == figure)
      for (const ScoredItem& item : of.scores->items) made.push_back(item.amounts[i]);
  if (made.empty()) return std::nullopt;
  return made;
}

std::string name_of(const EvaluationGroup& group, const GroupMetric& metric, const std::string& filter) {
  return group.name + "." + metric.metric + (metric.filters.size() > 1 ? "." + filter : std::string());
}

}  // namespace

std::vector<Figure> pooled_figures(const std::string& tag, const std::vector<const ItemScores*>& tasks) {
  std::vector<Figure> made;
  double questions = 0;
  for (const ItemScores* task : tasks) questions += static_cast<double>(task->items.size());
  for (const std::string& figure : tasks.front()->figures) {
    const std::string metric = metric_of(figure), name = format("{}.{}", tag, metric);
    double right = 0;
    PooledError error;
    bool all = true;
    for (const ItemScores* task : tasks) {
      const auto of_task = right_of(*task, metric);
      all = all && of_task.has_value();
      const auto items = static_cast<double>(task->items.size());
      error.add(items, share_error(of_task.value_or(0), items));
      right += of_task.value_or(0);
    }
    if (!all) continue;
    const Interval interval = wilson_interval(right, questions);
    made.push_back({name, right / questions, ""});
    made.push_back({name + "_stderr", error.value(), ""});
    made.push_back({name + "_low", interval.low, ""});
    made.push_back({name + "_high", interval.high, ""});
  }
  made.push_back({tag + ".questions", questions, ""});
  return made;
}

ItemScores pooled_scores(const std::string& tag, const std::vector<const ItemScores*>& tasks) {
  ItemScores made;
  made.compared = tag + ".questions_compared";
  for (const std::string& figure : tasks.front()->figures) {
    const std::string metric = metric_of(figure);
    if (std::ranges::all_of(tasks, [&](const ItemScores* task) { return index_of(*task, metric).has_value(); }))
      made.figures.push_back(format("{}.{}", tag, metric));
  }
  for (const ItemScores* task : tasks)
    for (const ScoredItem& item : task->items) {
      ScoredItem pooled;
      pooled.line = static_cast<int>(made.items.size()) + 1;
      for (const std::string& figure : made.figures)
        pooled.right.push_back(item.right[index_of(*task, metric_of(figure)).value()]);
      made.items.push_back(std::move(pooled));
    }
  return made;
}

std::vector<Figure> group_figures(const EvaluationGroup& group, const std::vector<GroupTask>& tasks) {
  std::vector<Figure> made;
  for (const GroupMetric& metric : group.metrics)
    for (const std::string& filter : metric.filters) {
      double sum = 0, weights = 0;
      PooledError error;
      for (const GroupTask& task : tasks) {
        const auto amounts = amounts_of(task, metric.metric, filter);
        if (!amounts) continue;
        const WeightedMean mean = weighted_mean(*amounts);
        const auto items = static_cast<double>(amounts->size());
        const double weight = metric.weight_by_size ? items : 1;
        sum += weight * mean.value, weights += weight;
        error.add(items, mean.error);
      }
      if (weights == 0) continue;
      made.push_back({name_of(group, metric, filter), sum / weights, ""});
      made.push_back({name_of(group, metric, filter) + "_stderr", error.value(), ""});
    }
  double questions = 0;
  for (const GroupTask& task : tasks) questions += static_cast<double>(task.scores->items.size());
  made.push_back({group.name + ".questions", questions, ""});
  return made;
}

std::vector<Figure> group_differences(const EvaluationGroup& group, const std::vector<GroupTask>& tasks,
                                      const std::vector<GroupTask>& baseline) {
  std::vector<Figure> made;
  for (const GroupMetric& metric : group.metrics)
    for (const std::string& filter : metric.filters) {
      WeightedMean difference;
      double weights = 0, variance = 0;
      for (std::size_t i = 0; i < tasks.size(); ++i) {
        auto amounts = amounts_of(tasks[i], metric.metric, filter);
        const auto others = amounts_of(baseline[i], metric.metric, filter);
        if (!amounts || !others || amounts->size() != others->size()) continue;
        for (std::size_t j = 0; j < amounts->size(); ++j) (*amounts)[j].value -= (*others)[j].value;
        const WeightedMean mean = weighted_mean(*amounts);
        const double weight = metric.weight_by_size ? static_cast<double>(amounts->size()) : 1;
        difference.value += weight * mean.value, weights += weight;
        variance += weight * weight * mean.error * mean.error;
      }
      if (weights == 0) continue;
      difference.value /= weights, difference.error = std::sqrt(variance) / weights;
      const Interval interval = normal_interval(difference);
      const std::string name = name_of(group, metric, filter) + "_difference";
      made.push_back({name, difference.value, ""});
      made.push_back({name + "_low", interval.low, ""});
      made.push_back({name + "_high", interval.high, ""});
    }
  return made;
}

}  // namespace longhaul
