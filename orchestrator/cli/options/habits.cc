#include "orchestrator/cli/options/habits.h"

#include <algorithm>
#include <span>

#include "base/error/diagnostics.h"
#include "base/text/text.h"
#include "contracts/tasks/stage_kinds.h"

namespace longhaul {
namespace {

struct Habit {
  const char *theirs, *ours;
};

std::string habit_text(std::span<const Habit> habits, std::string_view typed) {
  for (const Habit& one : habits)
    if (typed == one.theirs) return one.ours;
  return {};
}

constexpr Habit command_habits[] = {
    {"list", "longhaul runs"},
    {"ls", "longhaul runs"},
    {"ps", "longhaul runs"},
    {"history", "longhaul runs"},
    {"stop", "longhaul cancel"},
    {"kill", "longhaul cancel"},
    {"abort", "longhaul cancel"},
    {"start", "longhaul run WORKFLOW"},
    {"train", "longhaul run WORKFLOW"},
    {"launch", "longhaul run WORKFLOW"},
    {"exec", "longhaul run WORKFLOW"},
    {"restart", "longhaul resume"},
    {"continue", "longhaul resume"},
    {"check", "longhaul validate WORKFLOW"},
    {"lint", "longhaul validate WORKFLOW"},
    {"watch", "longhaul status --watch"},
    {"top", "longhaul status --watch"},
    {"tail", "longhaul logs --follow"},
    {"show", "longhaul status"},
    {"info", "longhaul status"},
    {"new", "longhaul init"},
    {"create", "longhaul init"},
    {"clean", "longhaul gc"},
    {"delete", "longhaul gc"},
    {"rm", "longhaul gc"},
    {"version", "longhaul --version"},
    {"help", "longhaul --help"},
    {"man", "longhaul --help"},
    {"serve", "a stage of the kind deploy; longhaul serving answers how a model is served best"},
    {"eval", "a stage of the kind evaluate"},
    {"evaluate", "a stage of the kind evaluate"}};

constexpr Habit option_habits[] = {{"--dry-run", "longhaul plan WORKFLOW shows what would be done"},
                                   {"-n", "longhaul plan WORKFLOW shows what would be done"},
                                   {"--follow", "--watch of status, --follow of logs"},
                                   {"-f", "the workflow is named without an option"},
                                   {"--file", "the workflow is named without an option"},
                                   {"--config", "the workflow is named without an option"},
                                   {"-c", "the workflow is named without an option"},
                                   {"--account", "--set site.account=NAME"},
                                   {"--partition", "--set stage.NAME.job.partition=PARTITION"},
                                   {"--gpu", "--set stage.NAME.device=gpu"},
                                   {"--gpus", "--set stage.NAME.job.gpus_per_node=N"},
                                   {"--force", "nothing has to be forced: leave it out"},
                                   {"-y", "nothing is asked: leave it out"},
                                   {"--yes", "nothing is asked: leave it out"}};

bool is_stage_key(const std::string& key) {
  const auto has = [&](const std::vector<FieldInfo>& fields) {
    return std::any_of(fields.begin(), fields.end(), [&](const FieldInfo& field) { return field.name == key; });
  };
  if (has(stage_common_fields().describe())) return true;
  return std::any_of(stage_kinds().begin(), stage_kinds().end(),
                     [&](const StageKind& kind) { return has(kind.fields); });
}

}  // namespace

std::string command_habit(std::string_view typed) {
  return habit_text(command_habits, typed);
}

std::string option_hint(const std::string& option, const std::vector<std::string>& known) {
  const bool is_long = starts_with(option, "--");
  const std::string nearest = is_long ? nearest_word(option, known) : "";
  if (!nearest.empty()) return "did you mean '" + nearest + "'?";
  if (std::string said = habit_text(option_habits, option); !said.empty()) return said;
  std::string key = is_long ? option.substr(2) : "";
  std::replace(key.begin(), key.end(), '-', '_');
  const bool sets = std::find(known.begin(), known.end(), "--set") != known.end();
  return sets && is_stage_key(key) ? "a setting is given as --set stage.NAME." + key + "=VALUE" : "";
}

}  // namespace longhaul
