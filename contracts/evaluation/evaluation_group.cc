#include "contracts/evaluation/evaluation_group.h"

#include <algorithm>

#include "base/text/text.h"
#include "contracts/evaluation/task_methods.h"

namespace longhaul {
namespace {

class GroupReader {
 public:
  GroupReader(const Value& config, Diagnostics& diagnostics) : config_(config), read_(diagnostics) {}

  EvaluationGroup read() {
    const Value& name = *config_.find("group");
    group_.where = name.pos, group_.name = read_.text(name, "group");
    for (const char c : group_.name)
      if (c == '.' || c == '/' || static_cast<unsigned char>(c) <= ' ') {
        read_.refuse(name.pos, format("the group's name '{}' holds '{}'", group_.name, c),
                     "figures are called NAME.METRIC: use letters, digits, '_' and '-'");
        break;
      }
    for (const ValueMember& member : config_.as_table()) read_member(member);
    if (group_.members.empty()) read_.refuse(group_.where, "the group has no tasks", "name them: task: [NAME, ...]");
    return std::move(group_);
  }

 private:
  void read_member(const ValueMember& member) {
    if (member.key == "group" || member.key == "group_alias" || member.key == "metadata") return;
    if (member.key == "task")
      read_tasks(member.value);
    else if (member.key == "aggregate_metric_list")
      read_metrics_of(member.value);
    else
      read_.unknown(member, "a group", {"group", "group_alias", "task", "aggregate_metric_list", "metadata"});
  }

  void read_tasks(const Value& value) {
    const std::vector<Value> all = value.is_array() ? value.as_array() : std::vector<Value>{value};
    for (const Value& one : all) {
      if (one.is_table())
        read_.refuse(one.pos, "a task that is described within a group is not read",
                     "give it a file of its own, and name it here");
      else
        group_.members.push_back({read_.text(one, "task"), one.pos});
    }
  }

  void read_metrics_of(const Value& value) {
    if (value.is_null()) return;
    const std::vector<Value> all = value.is_array() ? value.as_array() : std::vector<Value>{value};
    for (const Value& one : all) {
      GroupMetric metric;
      metric.where = one.pos;
      for (const ValueMember& member : read_.table(one, "aggregate_metric_list")) read_metric_key(member, metric);
      if (metric.metric.empty() && one.is_table())
        read_.refuse(one.pos, "an entry of aggregate_metric_list names no metric", "add metric: NAME");
      group_.metrics.push_back(std::move(metric));
    }
  }

  void read_metric_key(const ValueMember& member, GroupMetric& metric) {
    const std::string key = "aggregate_metric_list." + member.key;
    if (member.key == "metric") {
      metric.metric = read_.text(member.value, key);
    } else if (member.key == "weight_by_size") {
      metric.weight_by_size = read_.yes_or_no(member.value, key);
    } else if (member.key == "filter_list") {
      metric.filters = read_.texts(member.value, key);
    } else if (member.key == "aggregation") {
      if (const std::string name = read_.text(member.value, key); name != "mean")
        read_.refuse(member.value.pos, format("aggregation: {} of a group is not done", name), "use mean");
    } else if (member.key != "higher_is_better") {
      read_.unknown(member, "aggregate_metric_list", {"metric", "aggregation", "weight_by_size", "filter_list"});
    }
  }

  const Value& config_;
  TaskValues read_;
  EvaluationGroup group_;
};

}  // namespace

EvaluationGroup evaluation_group(const Value& config, Diagnostics& diagnostics) {
  return GroupReader(config, diagnostics).read();
}

}  // namespace longhaul
