// The server program over a model without weights: all of it but the arithmetic. Usage as `longhaul-engine serve`;
// `--model echo` answers a prompt with itself, `--model slow` takes 20 ms a token, `--model missing` cannot be loaded.
#include "engine/infer/serve.h"
#include "tests/unit/engine/infer/fake_text_model.h"

int main(int argc, char** argv) {
  return longhaul::serve_main(
      {argv + 1, argv + argc},
      [](const longhaul::ServeOptions& options) -> longhaul::Result<std::unique_ptr<longhaul::TextModel>> {
        if (options.model == "missing") {
          return longhaul::make_error(longhaul::ErrorCode::not_found, "no such model");
        }
        return std::unique_ptr<longhaul::TextModel>(
            std::make_unique<longhaul::FakeTextModel>(options.slots, 4096, options.model == "slow" ? 20 : 0));
      });
}
