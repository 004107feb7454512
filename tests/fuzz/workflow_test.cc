// Workflows as people write them, damaged: planned, or refused with problems that have their places.
#include <doctest/doctest.h>

#include "base/files/files.h"
#include "base/text/text.h"
#include "orchestrator/workflow/planner.h"
#include "tests/fuzz/mutate.h"
#include "tests/support/plain_files.h"

#if defined(LONGHAUL_FUZZ_ASAN)
extern "C" const char* __asan_default_options() {
  return "max_allocation_size_mb=1024";
}
#endif

namespace longhaul {
namespace {

// Every path is there; a recipe is what the test says.
class FuzzFiles final : public testing::PlainFiles {
 public:
  std::string recipe;
  Result<std::string> read(const std::string&) const override { return recipe; }
};

bool is_planned(const std::string& text, const FuzzFiles& files, const std::vector<std::string>& sets = {}) {
  WorkflowRequest request;
  request.text = text, request.path = "w.toml", request.folder = "/flow", request.sets = sets;
  request.site.set("name", "here");
  request.recipe_folders = {"/recipes"};
  const WorkflowOutcome outcome = plan_workflow(request, files);
  for (const Error& error : outcome.diagnostics.errors()) {
    REQUIRE_FALSE(error.message().empty());
    REQUIRE(error.where.has_value());
  }
  if (outcome.diagnostics.empty()) REQUIRE_FALSE(outcome.plan.stages.empty());
  return outcome.diagnostics.empty();
}

}  // namespace

TEST_CASE("fuzz: workflows") {
  const std::string source = LONGHAUL_SOURCE_DIR;
  FuzzFiles files;
  files.recipe = read_file(source + "/workflows/recipes/quickstart-tiny.toml").value();
  std::vector<std::string> valid;
  for (const char* name : {"quickstart.toml", "examples/02-params.toml", "examples/03-matrix.toml"})
    valid.push_back(read_file(source + "/workflows/" + name).value());
  fuzz::run("workflow", valid, 700, [&](const std::string& text) { return is_planned(text, files); });
}

TEST_CASE("fuzz: recipes and --set") {
  const std::string source = LONGHAUL_SOURCE_DIR;
  const std::string workflow = read_file(source + "/workflows/quickstart.toml").value();
  FuzzFiles files;
  const std::string good = read_file(source + "/workflows/recipes/quickstart-tiny.toml").value();
  fuzz::run("recipe", {good}, 700, [&](const std::string& text) {
    files.recipe = text;
    return is_planned(workflow, files);
  });
  files.recipe = good;
  fuzz::run("set", {"params.languages=[\"ca\",\"es\"]", "stage.pretrain.optimizer.lr=1e-3"}, 700,
            [&](const std::string& text) { return is_planned(workflow, files, {text}); });
}

}  // namespace longhaul
