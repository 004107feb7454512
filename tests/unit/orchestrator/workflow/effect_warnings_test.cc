// Settings that do not do what they seem to are warned of before anything runs.
#include "orchestrator/workflow/effect_warnings.h"

#include <doctest/doctest.h>

#include "base/text/text.h"
#include "orchestrator/workflow/planner.h"
#include "tests/support/plain_files.h"

namespace longhaul {
namespace {

namespace effect_warnings_test {

std::vector<std::string> said_of(const std::string& settings) {
  WorkflowRequest request;
  request.text = "[workflow]\nname = \"x\"\n[stage.p]\nkind = \"pretrain\"\ninputs = { tokens = \"t\" }\n" + settings;
  request.path = "w.toml", request.folder = "/flow";
  const WorkflowOutcome outcome = plan_workflow(request, testing::PlainFiles());
  REQUIRE_MESSAGE(outcome.diagnostics.empty(), outcome.diagnostics.render(""));
  return effect_warnings(outcome.written, outcome.plan);
}

TEST_CASE("effects: nothing is said of settings that do what they say") {
  CHECK(said_of("").empty());
  CHECK(said_of("epochs = 3.0\n").empty());
  CHECK(said_of("steps = 100\noptimizer = { lr = 1e-3, warmup_steps = 50 }\n").empty());
}

TEST_CASE("effects: epochs beside steps, a warm-up beyond the half, a learning rate above 1, each at its place") {
  const auto epochs = said_of("steps = 100\nepochs = 3.0\noptimizer = { warmup_steps = 0 }\n");
  REQUIRE(epochs.size() == 1);
  CHECK(epochs[0] ==
        "w.toml:7:10: stage.p: epochs is not used, for steps = 100 says how long it is; leave one of them out");
  const auto warmup = said_of("steps = 20\noptimizer = { warmup_steps = 60 }\n");
  REQUIRE(warmup.size() == 1);
  CHECK(warmup[0].find("w.toml:7:30: stage.p: optimizer.warmup_steps = 60 is more than half of 20 steps: it warms up "
                       "for 10") == 0);
  const auto lr = said_of("epochs = 1.0\noptimizer = { lr = 50.0 }\n");
  REQUIRE(lr.size() == 1);
  CHECK(lr[0].find("w.toml:7:20: stage.p: optimizer.lr = 50 is more than 1; learning rates of language models are") ==
        0);
}

}  // namespace effect_warnings_test

}  // namespace
}  // namespace longhaul
