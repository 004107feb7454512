#include "orchestrator/workflow/command_steps.h"

#include <algorithm>
#include <cctype>
#include <map>

#include "base/text/text.h"
#include "contracts/settings/stages/command.h"

namespace longhaul {
namespace {

constexpr std::size_t step_name_max = 32;

bool is_step_name(const std::string& name) {
  if (name.empty() || name.size() > step_name_max || !std::isalpha(static_cast<unsigned char>(name[0]))) return false;
  return std::all_of(name.begin(), name.end(), [](unsigned char c) { return std::isalnum(c) || c == '_' || c == '-'; });
}

class StepsCheck {
 public:
  StepsCheck(const std::string& where, const Value& table, const std::vector<CommandStep>& steps,
             Diagnostics& diagnostics)
      : where_(where), table_(table), written_(*table.find("step")), steps_(steps), diagnostics_(diagnostics) {}

  void run(StageCommon& common) {
    if (steps_.empty())
      return diagnostics_.add(written_.pos, where_ + " has no steps",
                              "write [" + where_ + ".step.NAME] for each, or remove step");
    check_stage();
    std::map<std::string, std::string> by_variable;
    for (const CommandStep& step : steps_) {
      check_step(step);
      const auto [same, fresh] = by_variable.emplace(step_variable(step.name), step.name);
      if (!fresh)
        diagnostics_.add(place(step, ""),
                         where_ + ".step: '" + same->second + "' and '" + step.name +
                             "' would have the same variables, LONGHAUL_STEP_HOSTS_" + same->first,
                         "choose another name");
    }
    if (std::all_of(steps_.begin(), steps_.end(), [](const CommandStep& step) { return step.service; }))
      diagnostics_.add(place(steps_[0], "service"), where_ + ": every step is a service, so the stage would never end",
                       "remove service = true from a step that ends by itself");
    common.nodes = nodes_of_stage(common);
    common.ranks = 0;
    for (const CommandStep& step : steps_) {
      const int nodes = step.nodes > 0 ? step.nodes : common.nodes;
      if (step.ranks % nodes != 0)
        diagnostics_.add(place(step, "ranks"),
                         format("{}: {} rank{} cannot be shared evenly by {} nodes", path(step), step.ranks,
                                step.ranks == 1 ? "" : "s", nodes),
                         "use ranks that are a multiple of nodes");
      common.ranks += step.ranks;
    }
  }

 private:
  std::string path(const CommandStep& step) const { return where_ + ".step." + step.name; }
  SourcePos place(const CommandStep& step, const char* key) const {
    const Value* of_step = written_.find(step.name);
    const Value* value = of_step->find(key);
    return value ? value->pos : of_step->pos;
  }

  // Steps have programs and sizes of their own.
  void check_stage() {
    for (const char* key : {"argv", "script"})
      if (const Value* value = table_.find(key))
        diagnostics_.add(value->pos, where_ + " has both " + key + " and steps",
                         "move it into [" + where_ + ".step.NAME]");
    for (const char* key : {"ranks", "threads", "parallel"})
      if (const Value* value = table_.find(key))
        diagnostics_.add(value->pos, where_ + "." + key + " is set beside steps",
                         std::string(key) == "parallel" ? "remove it" : "say it in each step");
    if (const Value* job = table_.find("job"))
      if (const Value* value = job->find("ranks_per_node"))
        diagnostics_.add(value->pos, where_ + ".job.ranks_per_node is set beside steps",
                         "say ranks and nodes in each step");
  }

  void check_step(const CommandStep& step) {
    if (!is_step_name(step.name))
      diagnostics_.add(place(step, ""), "'" + step.name + "' cannot name a step",
                       format("use a letter, then up to {} letters, digits, '-' and '_'", step_name_max - 1));
    const bool argv = !step.argv.empty(), script = !step.script.empty();
    if (argv == script)
      diagnostics_.add(place(step, ""),
                       path(step) + (argv ? " has both argv and script" : " says no argv and no script"),
                       "give one of them");
  }

  int nodes_of_stage(const StageCommon& common) {
    int sum = 0;
    const CommandStep* without = nullptr;
    for (const CommandStep& step : steps_) {
      sum += step.nodes;
      if (step.nodes == 0) without = &step;
    }
    if (sum == 0) return common.nodes;  // all share them
    if (without)
      diagnostics_.add(place(*without, ""), path(*without) + " says no nodes, and other steps do",
                       "say nodes in every step, or in none: then all share every node of the stage");
    const Value* said = table_.find("nodes");
    if (said && common.nodes != sum && !without)
      diagnostics_.add(said->pos,
                       format("{}.nodes = {}, but its steps have {} node{} of their own", where_, common.nodes, sum,
                              sum == 1 ? "" : "s"),
                       "remove it: it follows from the steps; or remove nodes from the steps: then they share all");
    return sum;
  }

  const std::string& where_;
  const Value& table_;
  const Value& written_;
  const std::vector<CommandStep>& steps_;
  Diagnostics& diagnostics_;
};

}  // namespace

void check_command(const std::string& where, const Value& table, const Value& settings, StageCommon& common,
                   Diagnostics& diagnostics) {
  if (table.find("step")) {
    Diagnostics reported;  // when the settings were made
    const CommandSettings command = command_fields().parse(settings, where, reported);
    StepsCheck(where, table, command.steps, diagnostics).run(common);
    return;
  }
  const bool argv = settings.find("argv")->size() > 0, script = !settings.get_string("script").empty();
  if (argv == script)
    diagnostics.add(table.pos, where + (argv ? " has both argv and script" : " says no argv and no script"),
                    "give one of them");
}

}  // namespace longhaul
