// Settings of the stages that use a trained model: evaluate, quantize, convert, deploy.
#pragma once

#include "contracts/schema/field_table.h"

namespace longhaul {

struct EvaluateSettings {
  std::vector<std::string> tasks = {"bits_per_byte"};
  std::int64_t context_length = 0;  // 0: the model's
  std::int64_t stride = 0;          // 0: half the context
  std::string precision = "bf16";
  std::string device = "auto";  // | cpu | gpu: contracts/settings/training/compute_device.h
  std::vector<std::string> prompts;
  std::int64_t prompt_tokens = 64;
  bool chat_template = false;       // of tasks of the input harness
  bool examples_as_turns = false;   // with chat_template
  bool run_code = false;            // of tasks whose answers are programs (docs/evaluation.md)
  std::string python = "python3";   // with run_code
  std::vector<std::string> ignore;  // keys of rows that are not used (contracts/settings/stages/tuning_row_form.h)
};
const FieldTable<EvaluateSettings>& evaluate_fields();
// The model is a reward model, of which nothing else can be asked (invalid_input).
bool measures_rewards(const EvaluateSettings& settings);
Status check_evaluate(const EvaluateSettings& settings);

struct QuantizeSettings {
  std::string method = "int8";
  bool embedding = false;
  double perplexity_loss_max_pct = 0;  // 0: no bar
};
const FieldTable<QuantizeSettings>& quantize_fields();

struct ConvertSettings {
  std::string to = "huggingface";
  std::string dtype = "f32";
  bool unmerge = false;
};
const FieldTable<ConvertSettings>& convert_fields();
Status check_convert(const ConvertSettings& settings, bool has_adapter);

struct DeploySettings {
  std::string host = "127.0.0.1";
  int port = 0;  // 0: a free one
  std::string model_name;
  bool leave_running = false;
  bool require_token = true;
  int slots = 4;
  int queue_max = 32;
  ByteCount body_max{1 << 20};
  Seconds request_deadline{120};
  Seconds header_deadline{10};
  std::int64_t max_tokens = 256;
  std::string precision = "bf16";
  std::string device = "auto";  // | cpu | gpu: contracts/settings/training/compute_device.h
  std::vector<std::string> prompts;
};
const FieldTable<DeploySettings>& deploy_fields();
// May a server on this host do without a token?
bool is_loopback(const std::string& host);

}  // namespace longhaul
