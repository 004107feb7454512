#include "engine/tasks/commands/checkpoint_commands.h"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <optional>

#include "base/files/files.h"
#include "base/options/command_options.h"
#include "base/system/clock.h"
#include "base/text/print.h"
#include "base/text/text.h"
#include "base/value/json.h"
#include "contracts/plan/layout_check.h"
#include "engine/tasks/commands/checkpoint_tools.h"
#include "engine/tasks/common/training_stage.h"

namespace longhaul {

namespace {

// The options of a command on a checkpoint, which it names by the word that is none.
class CheckpointOptions : public CommandOptions {
 public:
  explicit CheckpointOptions(const CheckpointCommand& command)
      : CommandOptions(std::string("longhaul-engine ") + command.name, command.summary) {
    positional("CHECKPOINT", checkpoint_, "a folder step-..., or a folder of them: then the newest").required();
  }
  void output(std::string& folder) { text("--output", "FOLDER", folder, "a new folder").required(); }
  // The checkpoint's folder; nothing: help was asked for.
  Result<std::optional<std::string>> read(const std::vector<std::string>& arguments) {
    LH_TRY(const bool helped, parse(arguments));
    if (helped) return std::optional<std::string>();
    LH_TRY(std::string found, find_checkpoint(checkpoint_));
    return std::optional(std::move(found));
  }

 private:
  std::string checkpoint_;
};

// "tp=2,pp=2,sp=yes": names of ParallelDims, and dp for dp_replicate.
Result<ParallelDims> parse_parallel(const std::string& text) {
  Value table = Value::make_table();
  for (const std::string& part : split(text, ',')) {
    if (trim(part).empty()) continue;
    const auto at = part.find('=');
    const std::string key(trim(part.substr(0, at))), value = at == std::string::npos ? "1" : part.substr(at + 1);
    if (key == "sp")
      table.set(key, value != "0" && value != "no" && value != "false");
    else
      table.set(key == "dp" ? "dp_replicate" : key, static_cast<long long>(std::atoll(value.c_str())));
  }
  return parallel_dims_fields().parse(table, "--parallel");
}

ToolProgress progress_on_terminal(const char* what) {
  if (!::isatty(STDERR_FILENO)) return {};
  return [what, shown = std::int64_t{-1}](std::int64_t done, std::int64_t total) mutable {
    const std::int64_t percent = total > 0 ? done * 100 / total : 100;
    if (percent == shown) return;
    shown = percent;
    print_bytes(stderr, format("\r{} {} %{}", what, percent, percent >= 100 ? "\n" : ""));
  };
}

Status inspect(const std::vector<std::string>& arguments, const CheckpointCommand& command) {
  bool json = false;
  CheckpointOptions options(command);
  options.flag("--json", json, "for programs");
  LH_TRY(const std::optional<std::string> checkpoint, options.read(arguments));
  if (!checkpoint) return {};
  LH_TRY(const CheckpointSummary summary, inspect_checkpoint(*checkpoint));
  print_text(stdout, json ? to_json_pretty(summary_value(summary)) + "\n" : summary_text(summary));
  return {};
}

Status verify(const std::vector<std::string>& arguments, const CheckpointCommand& command) {
  int threads = 0;
  CheckpointOptions options(command);
  options.integer("--threads", threads, 0, 4096, "that read; 0: all cores");
  LH_TRY(const std::optional<std::string> checkpoint, options.read(arguments));
  if (!checkpoint) return {};
  const SystemClock clock;
  const std::int64_t begun = clock.monotonic_ns();
  LH_TRY(const VerifiedCheckpoint verified, verify_checkpoint(*checkpoint, threads));
  const double seconds = static_cast<double>(clock.monotonic_ns() - begun) * 1e-9;
  if (!verified.damage.empty())
    return make_error(ErrorCode::corrupt, format("{} is damaged:\n  {}", *checkpoint, join(verified.damage, "\n  ")));
  print(stdout, "{} is whole: {} entries, {}, {:.2f} s\n", *checkpoint, static_cast<long long>(verified.entries),
        human_bytes(static_cast<double>(verified.bytes)), seconds);
  return {};
}

Status reshard(const std::vector<std::string>& arguments, const CheckpointCommand& command) {
  std::string output, parallel;
  CheckpointOptions options(command);
  options.output(output);
  options.text("--parallel", "LAYOUT", parallel, "for example tp=2,pp=2,dp_shard=2,zero=1; else one rank");
  LH_TRY(const std::optional<std::string> checkpoint, options.read(arguments));
  if (!checkpoint) return {};
  LH_TRY(const ParallelDims dims, parse_parallel(parallel));
  LH_TRY(const CheckpointSummary summary, inspect_checkpoint(*checkpoint));
  LayoutCheckInput layout;
  layout.shape = summary.manifest.shape, layout.dims = dims;
  LH_CHECK(check_layout_of(layout));
  LH_CHECK(reshard_checkpoint(*checkpoint, output, dims, progress_on_terminal("written")));
  print(stdout, "{}: step {} as of {}\n", output, static_cast<long long>(summary.manifest.step), dims.to_string());
  return {};
}

Status export_model(const std::vector<std::string>& arguments, const CheckpointCommand& command) {
  std::string output;
  CheckpointExport model;
  CheckpointOptions options(command);
  options.output(output);
  options.choice("--dtype", {"f32", "bf16"}, model.dtype, "of its weights");
  options.text("--tokenizer", "FOLDER", model.tokenizer_folder, "whose files go into the folder as well");
  options.integer("--max-shard-bytes", model.shard_bytes_max, 0, std::int64_t{1} << 50, "of a file of weights");
  LH_TRY(const std::optional<std::string> checkpoint, options.read(arguments));
  if (!checkpoint) return {};
  if (!model.tokenizer_folder.empty()) {
    LH_TRY(const HfConfig ids, config_for_tokenizer(model.tokenizer_folder));
    model.eos_token_ids = ids.eos_token_ids;
    model.bos_token_id = ids.bos_token_id, model.pad_token_id = ids.pad_token_id;
  }
  LH_CHECK(export_checkpoint(*checkpoint, output, model, progress_on_terminal("exported")));
  print(stdout, "{}: {} in {}\n", output, *checkpoint, model.dtype);
  LH_TRY(const CheckpointSummary summary, inspect_checkpoint(*checkpoint));
  if (const std::string notice = export_notice(summary.manifest.shape); !notice.empty())
    print(stdout, "note: {}\n", notice);
  return {};
}

}  // namespace

const std::vector<CheckpointCommand>& checkpoint_commands() {
  static const std::vector<CheckpointCommand> all = {
      {"inspect", "what a checkpoint holds", inspect},
      {"verify", "whether a checkpoint is whole: every entry against its digest", verify},
      {"reshard", "the same checkpoint as of another layout", reshard},
      {"export", "the model of a checkpoint, in Hugging Face's files", export_model},
  };
  return all;
}

bool is_checkpoint_command(const std::string& command) {
  for (const CheckpointCommand& known : checkpoint_commands())
    if (command == known.name) return true;
  return false;
}

Status run_checkpoint_command(const std::string& command, const std::vector<std::string>& arguments) {
  for (const CheckpointCommand& known : checkpoint_commands())
    if (command == known.name) return known.run(arguments, known);
  return make_error(ErrorCode::invalid_input, "unknown command " + command);
}

}  // namespace longhaul
