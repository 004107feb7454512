#include <algorithm>
#include <cmath>

#include "orchestrator/decide/job_room.h"
#include "orchestrator/decide/round.h"

namespace longhaul {
namespace {

constexpr double maintenance_margin_s = 300;   // a shortened job ends this long before
constexpr double shortened_wall_min_s = 1800;  // shorter ones are not worth their start

bool is_untried(const LedgerStage& stage) {
  return stage.attempts.size() == stage.attempts_before_reset;
}

// One job, or the tasks of an array, at these positions.
void submit_group(Round& round, const std::vector<std::size_t>& group) {
  std::vector<LedgerStage>& stages = round.now.stages;
  const int number = stages[group.front()].next_number();
  if (group.size() == 1) {
    const LedgerStage& stage = stages[group.front()];
    return round.emit(FactKind::submit, stage.id, number, submission_intent(round, stage, number));
  }
  std::string ids;
  for (const std::size_t at : group) ids += stages[at].id + "\n";
  const std::string array = submission_key(round.run_name, ids, number);
  for (std::size_t task = 0; task < group.size(); ++task) {
    const LedgerStage& stage = stages[group[task]];
    Value fields = submission_intent(round, stage, number);
    fields.set("key", array_task_key(array, static_cast<int>(task)));
    fields.set("array", array);
    fields.set("task", task);
    round.emit(FactKind::submit, stage.id, number, std::move(fields));
  }
}

}  // namespace

std::vector<std::size_t> array_of(const Round& round, std::size_t first, int tasks_max) {
  const std::vector<LedgerStage>& stages = round.now.stages;
  const std::vector<PlannedStage>& planned = round.plan.stages;
  const LedgerStage& leader = stages[first];
  std::vector<std::size_t> group = {first};
  if (!is_untried(leader)) return group;
  for (std::size_t i = first + 1; i < stages.size() && static_cast<int>(group.size()) < tasks_max; ++i)
    if (stages[i].state == StageState::ready && planned[i].stage == planned[first].stage && is_untried(stages[i]) &&
        stages[i].next_number() == leader.next_number() &&
        round.rules.stages[i].shape == round.rules.stages[first].shape)
      group.push_back(i);
  return group;
}

void submit_what_is_ready(Round& round) {
  int room = room_left(round.rules, round.now, nullptr);
  std::map<std::string, int> room_of_class;
  for (std::size_t i = 0; i < round.now.stages.size() && room > 0; ++i) {
    if (round.now.stages[i].state != StageState::ready) continue;
    const StageRules* rules = round.rules_of(round.now.stages[i]);
    int* left = nullptr;
    if (rules && rules->class_submitted_max > 0)
      left =
          &room_of_class.try_emplace(rules->job_class, class_room_left(round.rules, round.now, *rules)).first->second;
    if (left && *left <= 0) continue;  // a stage of another class may still go
    std::vector<std::size_t> group = {i};
    if (round.rules.array_tasks_max > 1 && !round.plan.stages[i].variant.empty())
      group = array_of(round, i, std::min({room, round.rules.array_tasks_max, left ? *left : room}));
    room -= static_cast<int>(group.size());
    if (left) *left -= static_cast<int>(group.size());
    submit_group(round, group);
  }
}

Value submission_intent(Round& round, const LedgerStage& stage, int number) {
  Value fields = Value::make_table();
  fields.set("key", submission_key(round.run_name, stage.id, number));
  if (stage.job_open()) fields.set("after", stage.newest()->number);
  const StageRules* rules = round.rules_of(stage);
  if (round.rules.can_exclude && !round.suspects().empty())
    put_exclusions(exclusions_for(stage, round.suspects(), rules ? rules->hosts : HostNeed{}, round.seen.hosts),
                   fields);
  if (rules && rules->resumable && rules->wall_s > 0 && round.rules.maintenance_ms > 0) {
    const double left_s =
        static_cast<double>(round.rules.maintenance_ms - round.seen.now_ms) * 1e-3 - maintenance_margin_s;
    if (left_s >= shortened_wall_min_s && left_s < rules->wall_s) fields.set("wall_s", std::floor(left_s / 60) * 60);
  }
  return fields;
}

}  // namespace longhaul
