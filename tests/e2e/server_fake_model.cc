// The server program over a model without weights: all of it but the arithmetic. Usage as `longhaul-engine serve`;
// `--model echo` answers a prompt with itself, `--model slow` takes 20 ms a token, `--model missing` cannot be loaded.
#include "base/text.h"
#include "engine/infer/serve.h"
#include "tests/unit/engine/infer/fake_text_model.h"

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
    return std::unique_ptr<TextModel>(std::make_unique<FakeTextModel>(options.slots, 4096, step_ms));
  });
}
