// The server program over a model without weights: all of it but the arithmetic. Usage as `longhaul-engine serve`;
// `--model echo` answers a prompt with itself, `--model slow` takes 20 ms a token, `--model missing` cannot be loaded.
// With `narrow` in its name a model has a context of 24 tokens, with `plain` no chat form, with `tools` the marks of
// calls (its answer to a chat is the last message, as ever).
#include "base/text/text.h"
#include "engine/infer/serve/serve.h"
#include "tests/unit/engine/infer/fake_text_model.h"

namespace {

class PlainTextModel final : public longhaul::FakeTextModel {
 public:
  using FakeTextModel::FakeTextModel;
  longhaul::Result<std::vector<std::int32_t>> encode_chat(const std::vector<longhaul::ChatMessage>&,
                                                          const longhaul::Value&) const override {
    return longhaul::make_error(longhaul::ErrorCode::unsupported, "this model has no chat form");
  }
};

}  // namespace

int main(int argc, char** argv) {
  using namespace longhaul;
  std::vector<std::string> arguments(argv + 1, argv + argc);
  if (!arguments.empty() && arguments[0] == "stop-server")
    return stop_server_main({arguments.begin() + 1, arguments.end()});
  if (!arguments.empty() && arguments[0] == "serve")
    arguments.erase(arguments.begin());  // as longhaul-engine is called
  return serve_main(arguments, [](const ServeOptions& options) -> Result<std::unique_ptr<TextModel>> {
    if (ends_with(options.model, "missing")) return make_error(ErrorCode::not_found, "no such model");
    const int step_ms = ends_with(options.model, "slow") ? 20 : 0;
    const std::int64_t context = options.model.find("narrow") != std::string::npos ? 24 : 4096;
    if (ends_with(options.model, "plain"))
      return std::unique_ptr<TextModel>(std::make_unique<PlainTextModel>(options.slots, context, step_ms));
    auto model = std::make_unique<FakeTextModel>(options.slots, context, step_ms);
    if (options.model.find("tools") != std::string::npos) model->mark_tool_calls();
    return std::unique_ptr<TextModel>(std::move(model));
  });
}
