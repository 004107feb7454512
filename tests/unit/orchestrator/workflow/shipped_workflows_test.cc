// Every workflow that the project ships, and every example of its guide, is right.
#include <doctest/doctest.h>

#include "base/files/files.h"
#include "base/text/text.h"
#include "orchestrator/workflow/planner.h"

namespace longhaul {
namespace {

// Recipes are real; raw inputs are taken to exist.
class ShippedFiles final : public FileView {
 public:
  Result<std::string> read(const std::string& path) const override { return read_file(path); }
  Result<std::vector<std::string>> expand(const std::string& pattern) const override {
    return std::vector<std::string>{pattern};
  }
};

std::string shipped_problems(const std::string& text, const std::string& path) {
  WorkflowRequest request;
  request.text = text;
  request.path = path;
  request.folder = "/somewhere";
  request.site.set("name", "local");
  request.site.set("data", "/data");
  request.recipe_folders = {LONGHAUL_SOURCE_DIR "/workflows/recipes"};
  const auto outcome = plan_workflow(request, ShippedFiles());
  return outcome.diagnostics.empty() ? "" : outcome.diagnostics.render("");
}

}  // namespace

TEST_CASE("shipped workflows are valid") {
  int count = 0;
  for (const char* folder : {LONGHAUL_SOURCE_DIR "/workflows", LONGHAUL_SOURCE_DIR "/workflows/examples"}) {
    const auto names = list_directory(folder);
    REQUIRE(names.ok());
    for (const std::string& name : *names) {
      if (!ends_with(name, ".toml")) continue;
      const std::string path = join_path(folder, name);
      CHECK(shipped_problems(read_file(path).value(), path) == "");
      ++count;
    }
  }
  CHECK(count >= 4);
}

TEST_CASE("the guide's examples are valid") {
  const std::string path = LONGHAUL_SOURCE_DIR "/docs/workflows.md";
  const std::string guide = read_file(path).value();
  int count = 0;
  for (std::size_t at = guide.find("```toml\n"); at != std::string::npos; at = guide.find("```toml\n", at)) {
    at += 8;
    const std::size_t end = guide.find("```", at);
    REQUIRE(end != std::string::npos);
    const std::string example = guide.substr(at, end - at);
    CAPTURE(example);
    CHECK(shipped_problems(example, path) == "");
    ++count;
  }
  CHECK(count >= 4);
}

}  // namespace longhaul
