// Slips that the reader of a workflow meets are answered with what is meant. The disk is made up.
#include "orchestrator/workflow/source/written_hints.h"

#include <doctest/doctest.h>

#include "base/text/text.h"
#include "orchestrator/workflow/planner.h"
#include "tests/support/plain_files.h"

namespace longhaul {
namespace {

// Everything is there whose name does not end in "missing".
class HintFiles final : public testing::PlainFiles {
 public:
  Result<std::vector<std::string>> expand(const std::string& pattern) const override {
    if (ends_with(pattern, "missing")) return make_error(ErrorCode::not_found, pattern + " does not exist");
    return std::vector<std::string>{pattern};
  }
};

WorkflowOutcome hint_plan(const std::string& text, const std::vector<std::string>& sets = {},
                          const HintFiles& files = {}) {
  WorkflowRequest request;
  request.text = text;
  request.path = "w.toml", request.folder = "/flow", request.sets = sets;
  return plan_workflow(request, files);
}

std::string hint_problems(const std::string& text) {
  return hint_plan(text).diagnostics.render("");
}

const std::string hint_header = "[workflow]\nname = \"w\"\n";  // two lines; stages start at line 3

}  // namespace

TEST_CASE("a path that was meant as something else is answered with that") {
  const auto said = [](const std::string& path) {
    return hint_problems(hint_header +
                         "[stage.a]\nkind = \"command\"\nargv = [\"x\"]\n[stage.e]\nkind = \"convert\"\ninputs = "
                         "{ model = \"" +
                         path + "\" }\n[stage.missing]\nkind = \"command\"\nargv = [\"x\"]\n");
  };
  CHECK(said("missing") ==
        "w.toml:8:20: error: stage.e.inputs.model: /flow/missing does not exist; there is a stage "
        "'missing': write \"@missing\" for what it makes\n1 error");
  CHECK(said("a/missing").find("write \"@a/missing\" for what it makes") != std::string::npos);
  CHECK(said("~/missing").find("~ and variables of the shell are not replaced") != std::string::npos);
  CHECK(said("org/missing").find("if it is a model's name at a hub, download it first") != std::string::npos);
  CHECK(said("./x/missing").find("at a hub") == std::string::npos);
}

TEST_CASE("an adapter that is to be taken out of a model is named") {
  const std::string all =
      hint_problems(hint_header + "[stage.s]\nkind = \"convert\"\nunmerge = true\ninputs = { model = \"missing\" }\n");
  CHECK_MESSAGE(
      all.find("w.toml:5:11: error: stage.s: unmerge = true without an input adapter; name the adapter that was "
               "merged into the model: inputs.adapter") != std::string::npos,
      all);
}

TEST_CASE("a file in another format, and text without its quotes, are called so") {
  const auto said = [](const std::string& text, const std::string& path = "w.toml") {
    WorkflowRequest request;
    request.text = text;
    request.path = path;
    request.folder = "/flow";
    return plan_workflow(request, HintFiles{}).diagnostics.render("");
  };
  const auto says = [&](const std::string& words, const std::string& text, const std::string& path = "w.toml") {
    const std::string all = said(text, path);
    CHECK_MESSAGE(all.find(words) != std::string::npos, all);
  };
  says("this is YAML; a workflow is TOML", "a: b\n", "w.yaml");
  says("this is YAML", "---\nworkflow:\n  name: x\n");
  says("this is JSON; a workflow is TOML", "{ \"workflow\": {} }\n");
  says("this is a program; run it in a stage of kind \"command\": argv = [\"python3\", \"train.py\"]",
       "import torch\nprint(1)\n", "train.py");
  says("the file is UTF-16", std::string("\xff\xfe[\0w\0", 6));
  says("text needs quotes: method = \"int8\"", "[stage.q]\nmethod = int8\n");
  says("the text that begins in this line is not closed with a quote", "[workflow]\nname = \"w\n[stage.a]\n");
  says("write name = ..., with '='", "[workflow]\nname: w\n");
  CHECK(said("[workflow]\nname = \"w\"\n[stage.a]\nkind = \"command\"\nargv = [\"x\"]\n") == "0 errors");
}

TEST_CASE("what other languages write is answered with what stands here") {
  const auto said = [](const std::string& line) {
    return hint_problems(hint_header + "[stage.p]\nkind = \"pretrain\"\ninputs = { tokens = \"x\" }\n" + line + "\n");
  };
  const auto says = [&](const std::string& line, const std::string& words) {
    const std::string all = said(line);
    CHECK_MESSAGE(all.find(words) != std::string::npos, all);
  };
  says("deterministic = True", "write deterministic = true");
  says("steps = None", "leave the key out");
  says("steps = 1,000", "write steps = 1000");
  says("steps = 10k", "write steps = 10000");
  says("steps = 2M", "write steps = 2000000");
  says("steps = 5  // short", "a comment begins with #");
  says("precision = \u201cbf16\u201d", "write straight quotes");
  says("model = {\n hidden_size = 8\n}", "such a table stands in one line: model = { ... }");
  says("model = { hidden_size: 8 }", "write = between a key and its value, here too");
  says("precision \"bf16\"", "write precision = \"bf16\"");
  says("steps = 1\nseed = 2\nsteps = 3", "it stands first in line 6; keep one of the two");
  CHECK(said("precision = \"bf16").find('#') == std::string::npos);
  CHECK(said("deterministic = true") == "0 errors");
}

TEST_CASE("sections, kinds, recipes and references that are nearly right are answered with what is meant") {
  const std::string stage = "[stage.p]\nkind = \"pretrain\"\ninputs = { tokens = \"x\" }\n";
  const auto says = [](const std::string& text, const std::string& words, const HintFiles& files = {}) {
    const std::string all = hint_plan(hint_header + text, {}, files).diagnostics.render("");
    CHECK_MESSAGE(all.find(words) != std::string::npos, all);
  };
  says(stage + "[corpus]\nkind = \"curate\"\n", "unknown section 'corpus'; write [stage.corpus]");
  says("[stage.p]\nkind = \"train\"\n", "unknown stage kind 'train'; did you mean 'pretrain'?");
  says("[stage.p]\nkind = \"Finetune\"\n", "did you mean 'sft'?");
  says("[stage.p]\nkind = \"something\"\n", "one of: curate, ");
  says("[stage.p]\nkind = \"curate\"\ninputs = \"texts\"\n", "write inputs = { documents = \"texts\" }");
  says(stage + "optimizer = \"adamw\"\n", "for example optimizer = { lr = ");
  says(stage + "checkpoint = 100\n", "write checkpoint = { every_steps = 100 }");
  says("[stage.p]\nkind = \"sft\"\ninputs = { model = \"m\", data = \"x\" }\nadapter = \"lora\"\n",
       "write adapter = { kind = \"lora\" }");
  says("[params]\nsteps = 1\n" + stage + "steps = \"${steps}\"\n", "did you mean ${params.steps}?");
  says("[stage.c]\nkind = \"curate\"\ninputs = { documents = \"@texts\" }\n",
       "@ is for stages; of the file or folder here write \"texts\"");
  says("[stage.c]\nkind = \"curate\"\ninputs = { documents = \"@missing\" }\n", "stages: c");
  says(stage + "[stage.e]\nkind = \"evaluate\"\ninputs = { model = \"@p/out\", tokens = \"x\" }\n",
       "the artifact itself is \"@p\"");
  says(stage +
           "matrix = { \"optimizer.lr\" = [1e-3, 2e-3] }\n[stage.d]\nkind = \"deploy\"\ninputs = { model = \"@p\" }\n",
       "add best = { metric = \"heldout_loss\", mode = \"min\" } to [stage.p]");
}

}  // namespace longhaul
