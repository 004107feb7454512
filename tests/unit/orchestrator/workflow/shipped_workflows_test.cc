// Every workflow that the project ships, and every example of its guide, is right.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "base/files/files.h"
#include "base/text/text.h"
#include "orchestrator/workflow/planner.h"
#include "tests/support/plain_files.h"

namespace longhaul {
namespace {

std::string shipped_problems(const std::string& text, const std::string& path) {
  WorkflowRequest request;
  request.text = text;
  request.path = path;
  request.folder = "/somewhere";
  request.site.set("name", "local");
  request.site.set("data", "/data");
  request.recipe_folders = {LONGHAUL_SOURCE_DIR "/workflows/recipes"};
  const auto outcome = plan_workflow(request, testing::DiskFiles());
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

namespace {

// The TOML that a page shows: a block without [workflow] goes on from the one before it.
std::vector<std::string> shown_workflows(const std::string& page) {
  const std::string begin = "\n```toml\n";
  std::vector<std::string> found;
  for (std::size_t at = page.find(begin); at != std::string::npos; at = page.find(begin, at)) {
    at += begin.size();
    const std::size_t end = page.find("\n```", at);
    REQUIRE(end != std::string::npos);
    const std::string block = page.substr(at, end - at) + "\n";
    const bool goes_on = !found.empty() && block.find("[workflow]") == std::string::npos;
    found.push_back(goes_on ? found.back() + block : block);
  }
  return found;
}

}  // namespace

TEST_CASE("every workflow that README and the pages show is valid") {
  int count = 0;
  const std::string docs = LONGHAUL_SOURCE_DIR "/docs";
  std::vector<std::string> pages = {LONGHAUL_SOURCE_DIR "/README.md"};
  const auto names = list_directory(docs);
  REQUIRE(names.ok());
  for (const std::string& name : *names)
    if (ends_with(name, ".md")) pages.push_back(join_path(docs, name));
  for (const std::string& path : pages)
    for (const std::string& example : shown_workflows(read_file(path).value())) {
      CAPTURE(example);
      CHECK(shipped_problems(example, path) == "");
      ++count;
    }
  CHECK(count >= 16);
}

}  // namespace longhaul
