// Where a command starts, and what is said of its files before anything runs. The disk is made up.
#include "orchestrator/workflow/command_files.h"

#include <doctest/doctest.h>

#include <set>

#include "base/text/text.h"
#include "contracts/settings/stages/command.h"
#include "orchestrator/workflow/planner.h"
#include "tests/support/plain_files.h"

namespace longhaul {
namespace {

class ProgramFiles final : public testing::PlainFiles {
 public:
  std::set<std::string> there = {"/flow", "/flow/train.py", "/flow/run.sh", "/flow/bin/tool", "/flow/src"};
  std::set<std::string> runs = {"/flow/bin/tool"};
  Result<std::vector<std::string>> expand(const std::string& pattern) const override {
    if (!there.contains(pattern)) return make_error(ErrorCode::not_found, pattern + " does not exist");
    return std::vector<std::string>{pattern};
  }
  bool executable(const std::string& path) const override { return runs.contains(path); }
};

WorkflowOutcome outcome_of_command(const std::string& stage) {
  WorkflowRequest request;
  request.text = "[workflow]\nname = \"w\"\n[stage.s]\nkind = \"command\"\n" + stage;
  request.path = "w.toml";
  request.folder = "/flow";
  return plan_workflow(request, ProgramFiles());
}

std::string command_problems(const std::string& stage) {
  const auto outcome = outcome_of_command(stage);
  return outcome.diagnostics.empty() ? "" : outcome.diagnostics.render("");
}

std::string folder_of_command(const std::string& stage) {
  const auto outcome = outcome_of_command(stage);
  REQUIRE_MESSAGE(outcome.diagnostics.empty(), outcome.diagnostics.render(""));
  return working_folder(command_fields().parse(outcome.plan.stages[0].settings, "").value());
}

}  // namespace

TEST_CASE("a command starts where the workflow lies, or in its workdir; in a container in its artifact's folder") {
  CHECK(folder_of_command("script = 'x'\n") == "/flow");
  CHECK(folder_of_command("script = 'x'\nworkdir = \"src\"\n") == "/flow/src");
  CHECK(folder_of_command("script = 'x'\njob = { container = \"image.sif\" }\n").empty());
  CHECK(folder_of_command("script = 'x'\nworkdir = \"/work\"\njob = { container = \"image.sif\" }\n") == "/work");
}

TEST_CASE("a workdir that is not there is refused at its place") {
  const std::string said = command_problems("script = 'x'\nworkdir = \"sources\"\n");
  CHECK(said.find("6:11: error: stage.s.workdir: /flow/sources does not exist") != std::string::npos);
}

TEST_CASE("a script without execute bit, one that is missing, and one that PATH does not have are answered by name") {
  CHECK(command_problems("argv = [\"./run.sh\", \"1\"]\n").find("chmod +x /flow/run.sh, or write argv = [\"bash\", ") !=
        std::string::npos);
  CHECK(command_problems("argv = [\"./train.py\"]\n").find("argv = [\"python3\", \"./train.py\"]") !=
        std::string::npos);
  CHECK(command_problems("argv = [\"./gone.sh\"]\n").find("/flow/gone.sh does not exist") != std::string::npos);
  CHECK(command_problems("argv = [\"python3\", \"gone.py\"]\n").find("/flow/gone.py does not exist") !=
        std::string::npos);
  CHECK(command_problems("argv = [\"run.sh\"]\n").find("write \"./run.sh\"") != std::string::npos);
  const std::string step =
      command_problems("[stage.s.step.a]\nargv = [\"./run.sh\"]\n[stage.s.step.b]\nscript = 'x'\n");
  CHECK(step.find("6:8: error: stage.s: /flow/run.sh may not be executed") != std::string::npos);
}

TEST_CASE("what can be run, lies in a container or is the machine's is left alone") {
  for (const char* good :
       {"argv = [\"bin/tool\"]\n", "argv = [\"python3\", \"train.py\"]\n", "argv = [\"python3\", \"-m\", \"gone\"]\n",
        "argv = [\"torchrun\", \"train.py\"]\n", "argv = [\"/opt/site/tool\"]\n",
        "argv = [\"bash\", \"-c\", \"gone.sh\"]\n", "argv = [\"./gone.sh\"]\njob = { container = \"image.sif\" }\n"}) {
    CAPTURE(good);
    CHECK(command_problems(good) == "");
  }
}

TEST_CASE("the name of a script in place of its text is answered with the line that runs it") {
  CHECK(command_problems("script = 'train.py'\n")
            .find("5:10: error: stage.s.script is the text of a script, and train.py the name of a file; write argv = "
                  "[\"python3\", \"train.py\"]") != std::string::npos);
  CHECK(command_problems("script = './run.sh'\n").find("write argv = [\"bash\", \"./run.sh\"]") != std::string::npos);
  CHECK(command_problems("script = 'bash run.sh'\n").empty());
  CHECK(command_problems("script = 'other.sh'\n").empty());  // which may be on PATH
  CHECK(command_problems("script = './bin/tool'\n").empty());
}

}  // namespace longhaul
