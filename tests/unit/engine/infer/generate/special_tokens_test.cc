// Special tokens of prompts and answers: added, and shown, as a request asks.
#include <doctest/doctest.h>

#include "base/value/json.h"
#include "engine/infer/generate/generator.h"
#include "engine/infer/serve/openai_api.h"
#include "tests/unit/engine/infer/fake_text_model.h"

namespace longhaul {
namespace {

// 'S' is a control token here: no text, but with a name.
class ModelWithControls : public FakeTextModel {
 public:
  std::string token_bytes(std::int32_t token) const override {
    return token == 'S' ? std::string() : FakeTextModel::token_bytes(token);
  }
  std::string token_name(std::int32_t token) const override {
    return token == 'S' ? "<|s|>" : FakeTextModel::token_bytes(token);
  }
};

struct Collected : GenerationListener {
  std::string text;
  bool ended = false;
  void on_text(const std::string& more, const std::vector<GeneratedToken>&) override { text += more; }
  void on_end(FinishReason, const GenerationUsage&, const std::string&) override { ended = true; }
};

}  // namespace

TEST_CASE("control tokens of an answer are written only where a request asks for them") {
  for (const bool shown : {false, true}) {
    CAPTURE(shown);
    ModelWithControls model;
    model.script = [](const std::string&) { return std::string("aSb"); };
    ManualClock clock;
    Generator generator(model, clock, {});
    auto listener = std::make_shared<Collected>();
    GenerationRequest request;
    request.prompt = {'x'}, request.max_tokens = 8, request.sampling.temperature = 0;
    request.show_special = shown;
    REQUIRE(generator.submit({{request, listener}}).ok());
    while (generator.step()) {
    }
    CHECK(listener->ended);
    CHECK(listener->text == (shown ? "a<|s|>b" : "ab"));
  }
}

TEST_CASE("requests say whether special tokens are added and shown; a chat's template adds its own") {
  struct Row {
    const char* body;
    bool chat, add, skip;
    const char* refused;
  };
  const Row rows[] = {
      {R"({"prompt":"x"})", false, true, true, nullptr},
      {R"({"prompt":"x","add_special_tokens":false})", false, false, true, nullptr},
      {R"({"prompt":"x","add_special_tokens":true,"skip_special_tokens":false})", false, true, false, nullptr},
      {R"({"prompt":"x","add_special_tokens":null,"skip_special_tokens":null})", false, true, true, nullptr},
      {R"({"prompt":[1,2],"skip_special_tokens":false})", false, true, false, nullptr},
      {R"({"messages":[{"role":"user","content":"x"}]})", true, false, true, nullptr},
      {R"({"messages":[{"role":"user","content":"x"}],"add_special_tokens":false})", true, false, true, nullptr},
      {R"({"messages":[{"role":"user","content":"x"}],"skip_special_tokens":false})", true, false, false, nullptr},
      {R"({"messages":[{"role":"user","content":"x"}],"add_special_tokens":true})", true, false, true,
       "add_special_tokens"},
      {R"({"prompt":"x","skip_special_tokens":"no"})", false, true, true, "skip_special_tokens"},
      {R"({"prompt":"x","add_special_tokens":1})", false, true, true, "add_special_tokens"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.body);
    CompletionCall call;
    const auto error = parse_completion_call(parse_json(row.body).value(), row.chat, {}, call);
    REQUIRE(error.has_value() == (row.refused != nullptr));
    if (error) {
      CHECK(error->param == row.refused);
      continue;
    }
    CHECK(call.add_special_tokens == row.add);
    CHECK(call.skip_special_tokens == row.skip);
  }
}

}  // namespace longhaul
