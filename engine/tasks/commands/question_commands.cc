#include "engine/tasks/commands/question_commands.h"

#include <cstdio>

#include "base/options/command_options.h"
#include "base/process/program_trust.h"
#include "base/system/clock.h"
#include "base/text/print.h"
#include "base/text/text.h"
#include "base/value/json.h"
#include "engine/comm/mpi_library.h"
#include "engine/core/site_libraries.h"
#include "engine/tasks/commands/measure_processor.h"
#include "engine/tasks/commands/processor_info.h"
#include "engine/tasks/common/parity_commands.h"
#include "engine/tasks/rows/data_check_command.h"

namespace longhaul {
namespace {

std::string name_of(const QuestionCommand& command) {
  return std::string("longhaul-engine ") + command.name;
}

std::string cuda_text(const OpenGpu& open) {
  if (!open) return "none";
  const Result<std::unique_ptr<Gpu>> gpu = open(0, false);
  return gpu.ok() ? "built in; " + (*gpu)->device().name() : "built in; not usable here: " + gpu.error().message();
}

// What this build computes with, here: a line per fact, for `longhaul doctor`.
Status print_info(const EngineEnvironment& around) {
  print(stdout, "{}\ncommunicators: threads, mpi{}\ncuda operations: {}\n", processor_text(processor_facts()),
        around.start_nccl ? ", nccl" : "", cuda_text(around.open_gpu));
#ifdef LONGHAUL_HAVE_CURATE
  print(stdout, "curation: built in\n");
#else
  print(stdout, "curation: not built\n");
#endif
  const MpiLibrary mpi = mpi_library();
  print(stdout, "mpi: {}, {} ({})\n", mpi.version, mpi.path, owner_text(mpi.path));
  for (const SiteLibrary& library : site_libraries()) print(stdout, "{}: {}\n", library.name, library.state);
  return {};
}

// What `longhaul` asks before it plans: whether GPUs are built in, which takes no GPU.
void print_cuda(const EngineEnvironment& around) {
  print(stdout, "cuda operations: {}\n", around.open_gpu ? "built in" : "none");
}

// And whether the last of so many ranks of this host would have one.
void print_gpu(const EngineEnvironment& around, int rank, bool shared) {
  if (!around.open_gpu) {
    print(stdout, "gpu: this engine was built without CUDA\n");
    return;
  }
  const auto gpu = around.open_gpu(rank, shared);
  print(stdout, "gpu: {}\n", gpu.ok() ? "usable; " + (*gpu)->device().name() : gpu.error().message());
}

Status info(const Question& question, const QuestionCommand& command) {
  std::string only, shared = "no";
  int rank = 0;
  CommandOptions options(name_of(command), command.summary);
  options.choice("--only", {"cuda", "gpu"}, only, "one fact: are GPUs built in; is one usable");
  options.integer("--rank", rank, 0, 1 << 20, "with --only gpu: of this host");
  options.choice("--shared", {"yes", "no"}, shared, "with --only gpu: ranks share one");
  LH_TRY(const bool helped, options.parse(question.arguments));
  if (helped) return {};
  if (only == "cuda")
    print_cuda(question.around);
  else if (only == "gpu")
    print_gpu(question.around, rank, shared == "yes");
  else
    return print_info(question.around);
  return {};
}

// What `plan`, `tune` and `run` ask before they predict (contracts/plan/processor_speed.h).
Status measure(const Question& question, const QuestionCommand& command) {
  MeasureOptions asked;
  std::string only;
  CommandOptions options(name_of(command), command.summary);
  options.integer("--ranks", asked.ranks, 1, measured_ranks_max, "that work at the same time");
  options.integer("--threads", asked.threads, 1, 4096, "of each rank");
  options.choice("--precision", {"bf16", "f32"}, asked.precision, "of products");
  options.integer("--beside", asked.beside.ranks, 0, measured_ranks_max, "ranks that draw answers meanwhile");
  options.integer("--beside-threads", asked.beside.threads, 0, 4096, "of each of these");
  options.number("--seconds", asked.seconds, 0, 3600, "no new round begins after that");
  options.choice("--only", {"identity"}, only, "which processor it is, nothing timed");
  LH_TRY(const bool helped, options.parse(question.arguments));
  if (helped) return {};
  if (only == "identity") {
    LH_TRY(const ProcessorIdentity identity, this_processor());
    print_text(stdout, to_json_pretty(identity_to_value(identity)));
    return {};
  }
  asked.stop = &question.listen_to_signals();
  LH_TRY(const ProcessorSpeed speed, measure_processor(asked, SystemClock()));
  print_text(stdout, to_json_pretty(processor_speed_to_value(speed)));
  return {};
}

Status tokenize_ids(const Question& question, const QuestionCommand& command) {
  std::string tokenizer, documents;
  CommandOptions options(name_of(command), command.summary);
  options.text("--tokenizer", "FILE", tokenizer, "tokenizer.json").required();
  options.text("--documents", "FILE", documents, "JSON Lines with a \"text\" each, or one text").required();
  LH_TRY(const bool helped, options.parse(question.arguments));
  return helped ? Status() : print_token_ids(tokenizer, documents);
}

Status render_chat(const Question& question, const QuestionCommand& command) {
  std::string chat, variables;
  CommandOptions options(name_of(command), command.summary);
  options.text("--template", "FILE", chat, "a chat template").required();
  options.text("--variables", "FILE", variables, "a JSON table of what it sees, a line each").required();
  LH_TRY(const bool helped, options.parse(question.arguments));
  return helped ? Status() : print_rendered(chat, variables);
}

Status data_check(const Question& question, const QuestionCommand& command) {
  DataCheckRequest asked;
  std::string json = "no";
  CommandOptions options(name_of(command), command.summary);
  options.text("--file", "FILE", asked.file, "JSON Lines").required();
  options.text("--model", "FOLDER", asked.model, "whose tokenizer counts");
  options.text("--ignore", "KEYS", asked.ignore, "that need not be used, with commas between");
  options.text("--for", "KIND", asked.stage, "of the stage that is to read them: sft, align or reward");
  options.text("--sequence-length", "N", asked.sequence_length, "which rows would be cut");
  options.choice("--json", {"yes", "no"}, json, "for programs");
  LH_TRY(const bool helped, options.parse(question.arguments));
  asked.json = json == "yes";
  return helped ? Status() : print_data_check(asked);
}

// What the two that compute with a model have in common.
void add_model(CommandOptions& options, std::string& model, InferenceChoice& choice) {
  options.text("--model", "FOLDER", model, "config.json, weights, tokenizer.json").required();
  options.choice("--precision", {"f32", "bf16"}, choice.precision, "it computes in");
  options.choice("--device", {"cpu", "gpu"}, choice.device, "it computes on");
}

Status logits(const Question& question, const QuestionCommand& command) {
  std::string model, tokens;
  InferenceChoice choice;
  CommandOptions options(name_of(command), command.summary);
  add_model(options, model, choice);
  options.text("--tokens", "FILE", tokens, "a JSON array of ids, or {\"tokens\": [...]}").required();
  LH_TRY(const bool helped, options.parse(question.arguments));
  return helped ? Status() : print_logits(model, tokens, choice, question.around.open_gpu);
}

Status generate(const Question& question, const QuestionCommand& command) {
  std::string model, prompt;
  std::int64_t tokens_max = 64;
  InferenceChoice choice;
  CommandOptions options(name_of(command), command.summary);
  add_model(options, model, choice);
  options.text("--prompt", "TEXT", prompt, "one that begins with a dash: --prompt=-a").required();
  options.integer("--max-tokens", tokens_max, 0, 1 << 30, "of the answer");
  LH_TRY(const bool helped, options.parse(question.arguments));
  return helped ? Status() : print_generated(model, prompt, tokens_max, choice, question.around.open_gpu);
}

}  // namespace

const std::vector<QuestionCommand>& question_commands() {
  static const std::vector<QuestionCommand> all = {
      {"info", "what this engine is built with, and what it finds here", info},
      {"measure", "how fast ranks on this processor are, as JSON", measure},
      {"tokenize-ids", "token ids of each document's text, one JSON array a line", tokenize_ids},
      {"render-chat", "a chat template with each line of variables, a JSON table a line", render_chat},
      {"data-check", "what a file of tuning data is, row by row", data_check},
      {"logits", "f32 logits of tokens, as JSON", logits},
      {"generate", "the greedy continuation of a prompt", generate},
  };
  return all;
}

}  // namespace longhaul
