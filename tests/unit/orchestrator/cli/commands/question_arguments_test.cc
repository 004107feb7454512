#include "orchestrator/cli/commands/question_arguments.h"

#include <doctest/doctest.h>

#include "base/files/files.h"
#include "orchestrator/forecast/serving_request.h"
#include "orchestrator/forecast/size_request.h"
#include "tests/support/scratch.h"

namespace longhaul {
namespace {

namespace question_arguments_test {

Value asked(const std::vector<std::string>& words, Diagnostics& problems, const std::string& file = "") {
  return question_value(file, words, serving_request_fields().describe(), problems);
}

TEST_CASE("arguments become what their keys are: numbers with units, text without quotes, lists") {
  Diagnostics problems;
  const Value value = asked({"gpus=8", "goal=latency", "itl_max=30ms", "weights=bf16,fp8", "caches=[\"fp8\"]",
                             "model.hidden_size=4096", "percentile=0.9", "own_server=true", "chunks=256,512"},
                            problems);
  const ServingRequest q = serving_request_fields().parse(value, "", problems);
  CHECK_MESSAGE(problems.empty(), problems.render(""));
  CHECK(q.gpus == 8);
  CHECK(q.goal == "latency");
  CHECK(q.itl_max.value == doctest::Approx(0.03));
  CHECK(q.weights == std::vector<std::string>{"bf16", "fp8"});
  CHECK(q.caches == std::vector<std::string>{"fp8"});
  CHECK(q.chunks == std::vector<std::int64_t>{256, 512});
  CHECK(q.model.hidden_size == 4096);
  CHECK(q.own_server);

  const Value size =
      question_value("", {"parameters=8B", "tokens=1.5T", "vocab_size=128K", "gpus=1e3", "batch_tokens=4M"},
                     budget_request_fields().describe(), problems);
  const BudgetRequest b = budget_request_fields().parse(size, "", problems);
  CHECK_MESSAGE(problems.empty(), problems.render(""));
  CHECK(b.parameters == 8e9);
  CHECK(b.tokens == 1.5e12);
  CHECK(b.vocab_size == 128'000);
  CHECK(b.gpus == 1000);
  CHECK(b.batch_tokens == 4'000'000);
}

TEST_CASE("everything that is wrong is said together, at its argument") {
  Diagnostics problems;
  const Value value = asked({"gpus", "=3", "model..x=1", "gpu_count=4", "goal=speed", "percentile=3"}, problems);
  serving_request_fields().parse(value, "", problems);
  const std::string text = problems.render("nothing was computed");
  for (const char* part :
       {"'gpus' is not KEY=VALUE", "'=3' is not", "'model..x=1' is not", "gpu_count", "speed", "percentile=3"})
    CHECK_MESSAGE(text.find(part) != std::string::npos, text);
  CHECK(text.find("6 errors") != std::string::npos);
}

TEST_CASE("a file gives keys, arguments win over it, its mistakes have their lines") {
  const testing::Scratch folder;
  const std::string path = join_path(folder.path(), "chat.toml");
  REQUIRE(write_file_atomic(path, "gpus = 4\nprompt_tokens = 10\n[model]\nhidden_size = 64\n").ok());
  Diagnostics problems;
  const Value value = asked({"gpus=2", "model.num_hidden_layers=3"}, problems, path);
  CHECK(problems.empty());
  CHECK(value.get_integer("gpus") == 2);
  CHECK(value.get_integer("prompt_tokens") == 10);
  CHECK(value.find("model")->size() == 2);
  REQUIRE(write_file_atomic(path, "gpus = 4\nnonsense = 1\n").ok());
  serving_request_fields().parse(asked({}, problems, path), "", problems);
  CHECK_MESSAGE(problems.render("").find("chat.toml:2") != std::string::npos, problems.render(""));
  Diagnostics absent;
  asked({}, absent, "/nowhere/question.toml");
  CHECK(absent.size() == 1);
}

}  // namespace question_arguments_test
}  // namespace
}  // namespace longhaul
