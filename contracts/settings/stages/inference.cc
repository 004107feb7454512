#include "contracts/settings/stages/inference.h"

#include <algorithm>

#include "base/text/text.h"
#include "contracts/settings/training/compute_device.h"

namespace longhaul {

const FieldTable<EvaluateSettings>& evaluate_fields() {
  using E = EvaluateSettings;
  static const auto table =
      FieldTable<E>()
          .field("tasks", &E::tasks,
                 {.help = "what to measure: bits_per_byte, answer_loss, preference, multiple_choice, and tasks or tags "
                          "of the input harness; or reward, how a reward model ranks pairs, with no other beside it"})
          .field("context_length", &E::context_length,
                 {.unit = "tokens", .help = "window of the model; 0 takes the model's longest", .min = 0})
          .field("stride", &E::stride,
                 {.unit = "tokens", .help = "how far the window moves; 0 is half of it", .min = 0})
          .field("precision", &E::precision, {.help = "type of the matrix products", .choices = {"bf16", "f32"}})
          .field("device", &E::device, device_options())
          .field("prompts", &E::prompts, {.help = "texts to continue; the report shows what came"})
          .field("prompt_tokens", &E::prompt_tokens,
                 {.unit = "tokens", .help = "length of those continuations", .min = 1})
          .field("chat_template", &E::chat_template,
                 {.help = "questions of tasks of the input harness are turns of the model's own chat template"})
          .field("examples_as_turns", &E::examples_as_turns,
                 {.help = "with chat_template: each few-shot example is a turn and its answer"})
          .field("run_code", &E::run_code,
                 {.help = "run programs that the model wrote, isolated from this host, where tasks of the input "
                          "harness test them (unsafe_code)"})
          .field("python", &E::python,
                 {.help = "with run_code: the interpreter, a path, or a name in /usr/local/bin, /usr/bin or /bin"})
          .field(
              "ignore", &E::ignore,
              {.help = "keys of rows of answers and pairs that are not used; others that are not known are refused"});
  return table;
}

bool measures_rewards(const EvaluateSettings& settings) {
  return std::ranges::find(settings.tasks, "reward") != settings.tasks.end();
}

Status check_evaluate(const EvaluateSettings& settings) {
  if (!measures_rewards(settings)) return {};
  if (settings.tasks.size() > 1)
    return make_error(ErrorCode::invalid_input, "the task \"reward\" beside others, which measure language models",
                      "write a stage for each");
  if (settings.prompts.empty()) return {};
  return make_error(ErrorCode::invalid_input, "prompts with the task \"reward\": a reward model writes no text",
                    "leave prompts out");
}

const FieldTable<QuantizeSettings>& quantize_fields() {
  using Q = QuantizeSettings;
  static const auto table =
      FieldTable<Q>()
          .field("method", &Q::method,
                 {.help = "weights only; int8 and fp8 (E4M3): one scale per output channel; int4: one per 128 inputs",
                  .choices = {"int8", "fp8", "int4"}})
          .field("embedding", &Q::embedding, {.help = "quantize the embedding (and a tied output) too; int8 alone"})
          .field("perplexity_loss_max_pct", &Q::perplexity_loss_max_pct,
                 {.unit = "%",
                  .help = "fail if perplexity on the held-out text rises by more; 0 does not check",
                  .min = 0});
  return table;
}

const FieldTable<ConvertSettings>& convert_fields() {
  using C = ConvertSettings;
  static const auto table =
      FieldTable<C>()
          .field("to", &C::to, {.help = "format of the result", .choices = {"huggingface", "longhaul"}})
          .field("dtype", &C::dtype, {.help = "type of the stored weights", .choices = {"f32", "bf16"}})
          .field("unmerge", &C::unmerge,
                 {.help = "the input `adapter` is taken out of weights that it was merged into (LoRA, IA3)"});
  return table;
}

Status check_convert(const ConvertSettings& settings, bool has_adapter) {
  if (!settings.unmerge || has_adapter) return {};
  return make_error(ErrorCode::invalid_input, "unmerge = true without an input adapter",
                    "name the adapter that was merged into the model: inputs.adapter");
}

const FieldTable<DeploySettings>& deploy_fields() {
  using D = DeploySettings;
  static const auto table =
      FieldTable<D>()
          .field("host", &D::host, {.help = "address to bind to; anything but loopback needs require_token"})
          .field("port", &D::port, {.help = "0 takes a free one", .min = 0, .max = 65535})
          .field("model_name", &D::model_name, {.help = "name in /v1/models; empty takes the run's name"})
          .field("leave_running", &D::leave_running,
                 {.help = "keep the server after the stage; its address is in the artifact"})
          .field("require_token", &D::require_token,
                 {.help = "clients send 'Authorization: Bearer <token>'; the token is in a 0600 file"})
          .field("slots", &D::slots, {.help = "requests generated at the same time", .min = 1, .max = 1024})
          .field("queue_max", &D::queue_max,
                 {.unit = "requests", .help = "waiting requests; more are answered 503", .min = 0})
          .field("body_max", &D::body_max, {.help = "larger request bodies are answered 413", .min = 1024})
          .field("request_deadline", &D::request_deadline, {.help = "a request that takes longer is ended", .min = 0.1})
          .field("header_deadline", &D::header_deadline,
                 {.help = "a client that sends its request slower is cut off", .min = 0.1})
          .field("max_tokens", &D::max_tokens,
                 {.unit = "tokens", .help = "longest answer a client may ask for", .min = 1})
          .field("precision", &D::precision, {.help = "type of the matrix products", .choices = {"bf16", "f32"}})
          .field("device", &D::device, device_options())
          .field("prompts", &D::prompts,
                 {.help = "asked once the server is healthy, for answers of max_tokens at most, or what the model's "
                          "context leaves; "
                          "they are in the report"});
  return table;
}

bool is_loopback(const std::string& host) {
  const bool numbers =
      host.find_first_not_of("0123456789.") == std::string::npos;  // not a name such as 127.example.org
  return host == "localhost" || host == "::1" || (starts_with(host, "127.") && numbers);
}

}  // namespace longhaul
