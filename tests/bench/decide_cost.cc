// decide_cost: what one round of the controller's decisions costs on a large graph, without files and scheduler.
//
//   decide_cost [--stages 2000] [--rounds 200]
//
// Stages stand in layers of forty, each of which needs two of the layer before. The middle layer runs, all before it
// has succeeded. Prints processor milliseconds of a round without news, and of one that learns of a job's end and of
// what follows from it: the least and the median of so many rounds. It needs nothing but the public headers of
// orchestrator/decide, so the same file can be compiled at two commits.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <vector>

#include "base/text/text.h"
#include "orchestrator/decide/decide.h"

using namespace longhaul;

namespace {

constexpr int layer = 40;

std::string id_of(int stage) {
  return format("s{:05d}", stage);
}

RunPlan layered_plan(int stages) {
  RunPlan plan;
  plan.workflow = "layers";
  for (int i = 0; i < stages; ++i) {
    PlannedStage stage;
    stage.stage = id_of(i);
    stage.kind = "command";
    stage.settings = Value::make_table();
    if (i >= layer) {
      const int first = i / layer * layer - layer;
      for (const int need : {first + i % layer, first + (i + 1) % layer}) {
        stage.needs.push_back(id_of(need));
        PlannedInput input;
        input.name = id_of(need);
        input.stages = {id_of(need)};
        stage.inputs.push_back(std::move(input));
      }
    }
    plan.stages.push_back(std::move(stage));
  }
  return plan;
}

// A run and all that a round of it is decided from.
class Run {
 public:
  explicit Run(int stages) : plan_(layered_plan(stages)) {
    std::vector<std::string> ids;
    for (const PlannedStage& stage : plan_.stages) ids.push_back(stage.id());
    ledger_ = RunLedger(ids);
  }

  // Facts of one round, and the processor milliseconds that deciding took.
  std::vector<Fact> decided(double& milliseconds) {
    seen_.prepared.clear();
    for (const PlannedStage* stage : wants_preparation(plan_, ledger_))
      seen_.prepared[stage->id()].key = "key-" + stage->id();
    const std::clock_t begun = std::clock();
    std::vector<Fact> facts = decide(plan_, {}, ledger_, seen_, "run");
    milliseconds = 1e3 * static_cast<double>(std::clock() - begun) / CLOCKS_PER_SEC;
    return facts;
  }

  // A round whose submissions all arrive. Returns how many facts it wrote.
  std::size_t go_on() {
    double ignored = 0;
    const std::vector<Fact> facts = decided(ignored);
    for (const Fact& fact : facts) ledger_.apply(fact);
    std::vector<Fact> submitted;
    for (const PendingAct& act : pending_acts(ledger_).submit) {
      Fact fact{FactKind::submitted, act.stage->id, act.stage->newest()->number, Value::make_table(), 0};
      fact.fields.set("job", "job-" + act.stage->newest()->key);
      submitted.push_back(std::move(fact));
    }
    for (const Fact& fact : submitted) ledger_.apply(fact);
    return facts.size();
  }

  void end_well(int stage) {
    JobInfo info;
    info.key = ledger_.find(id_of(stage))->newest()->key;
    info.state = JobState::ended;
    info.record = JobRecord{};
    info.record->outcome = "succeeded";
    seen_.jobs[info.key] = info;
    seen_.artifacts[id_of(stage)] = {"/out/" + id_of(stage), "digest", Value::make_table()};
  }
  void end_layers(int first, int count) {
    for (int i = first; i < first + count * layer; i += layer) {
      while (go_on() > 0) {
      }
      for (int k = i; k < i + layer; ++k) end_well(k);
    }
    while (go_on() > 0) {
    }
  }
  bool refused() const { return !ledger_.refused.empty(); }

 private:
  RunPlan plan_;
  RunLedger ledger_;
  Observations seen_;
};

// Returns how many facts such a round writes.
std::size_t print_costs(const char* what, Run& run, int rounds) {
  std::vector<double> milliseconds(static_cast<std::size_t>(rounds));
  std::size_t facts = 0;
  for (double& one : milliseconds) facts = run.decided(one).size();
  std::sort(milliseconds.begin(), milliseconds.end());
  std::printf("%-28s least %8.3f ms  median %8.3f ms  %zu facts\n", what, milliseconds.front(),
              milliseconds[milliseconds.size() / 2], facts);
  return facts;
}

}  // namespace

int main(int argc, char** argv) {
  int stages = 2000, rounds = 200;
  for (int i = 1; i + 1 < argc; i += 2) {
    if (std::strcmp(argv[i], "--stages") == 0) stages = std::max(4 * layer, std::atoi(argv[i + 1]));
    if (std::strcmp(argv[i], "--rounds") == 0) rounds = std::max(1, std::atoi(argv[i + 1]));
  }
  stages -= stages % layer;
  Run run(stages);
  const int middle = stages / layer / 2;
  run.end_layers(0, middle);
  std::printf("%d stages, %d rounds of each kind, processor time\n", stages, rounds);
  const bool idle = print_costs("nothing has happened", run, rounds) == 0;
  run.end_well(middle * layer);
  const bool right = print_costs("a job has ended", run, rounds) > 0 && idle && !run.refused();
  if (!right) std::printf("the graph is not where it should be\n");
  return right ? 0 : 1;
}
