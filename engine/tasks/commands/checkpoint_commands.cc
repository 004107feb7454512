#include "engine/tasks/commands/checkpoint_commands.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <set>

#include "base/files/files.h"
#include "base/system/clock.h"
#include "base/text/print.h"
#include "base/text/text.h"
#include "base/value/json.h"
#include "contracts/plan/layout_check.h"
#include "engine/tasks/commands/checkpoint_tools.h"
#include "engine/tasks/common/training_stage.h"

namespace longhaul {

const char* const checkpoint_commands_usage =
    "       longhaul-engine inspect CHECKPOINT [--json]\n"
    "       longhaul-engine verify CHECKPOINT [--threads N]\n"
    "       longhaul-engine reshard CHECKPOINT --output FOLDER [--parallel tp=2,pp=2,dp_shard=2,zero=1]\n"
    "       longhaul-engine export CHECKPOINT --output FOLDER [--dtype f32|bf16] [--tokenizer FOLDER]\n"
    "                              [--max-shard-bytes N]\n"
    "CHECKPOINT is a folder step-..., or a folder of them: then the newest\n";

namespace {

struct Arguments {
  std::string checkpoint;
  std::map<std::string, std::string> options;
  std::set<std::string> flags;

  static Result<Arguments> parse(const std::vector<std::string>& words, const std::set<std::string>& options,
                                 const std::set<std::string>& flags) {
    Arguments arguments;
    const auto wrong = [](const std::string& what) {
      return make_error(ErrorCode::invalid_input, what, std::string("usage:\n") + checkpoint_commands_usage);
    };
    for (std::size_t i = 0; i < words.size(); ++i) {
      const std::string name = starts_with(words[i], "--") ? words[i].substr(2) : "";
      if (name.empty()) {
        if (!arguments.checkpoint.empty()) return wrong("more than one checkpoint: " + words[i]);
        arguments.checkpoint = words[i];
      } else if (flags.contains(name)) {
        arguments.flags.insert(name);
      } else if (!options.contains(name)) {
        return wrong("there is no option " + words[i]);
      } else if (i + 1 == words.size()) {
        return wrong(words[i] + " needs a value");
      } else {
        arguments.options[name] = words[++i];
      }
    }
    if (arguments.checkpoint.empty()) return wrong("which checkpoint?");
    LH_TRY(arguments.checkpoint, find_checkpoint(arguments.checkpoint));
    return arguments;
  }
  std::string get(const std::string& name, const std::string& otherwise = "") const {
    const auto found = options.find(name);
    return found == options.end() ? otherwise : found->second;
  }
  Result<std::string> output() const {
    const std::string folder = get("output");
    if (folder.empty()) return make_error(ErrorCode::invalid_input, "--output is missing", "name a new folder");
    return folder;
  }
  Result<std::int64_t> number(const std::string& name, std::int64_t otherwise) const {
    const std::string text = get(name);
    if (text.empty()) return otherwise;
    char* end = nullptr;
    const std::int64_t value = std::strtoll(text.c_str(), &end, 10);
    if (*end != '\0' || value < 0)
      return make_error(ErrorCode::invalid_input, format("--{} {} is no whole number from 0", name, text));
    return value;
  }
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

Status inspect(const std::vector<std::string>& words) {
  LH_TRY(const Arguments arguments, Arguments::parse(words, {}, {"json"}));
  LH_TRY(const CheckpointSummary summary, inspect_checkpoint(arguments.checkpoint));
  const std::string text =
      arguments.flags.contains("json") ? to_json_pretty(summary_value(summary)) + "\n" : summary_text(summary);
  print_text(stdout, text);
  return {};
}

Status verify(const std::vector<std::string>& words) {
  LH_TRY(const Arguments arguments, Arguments::parse(words, {"threads"}, {}));
  LH_TRY(const std::int64_t threads, arguments.number("threads", 0));
  const SystemClock clock;
  const std::int64_t begun = clock.monotonic_ns();
  LH_TRY(const VerifiedCheckpoint verified, verify_checkpoint(arguments.checkpoint, static_cast<int>(threads)));
  const double seconds = static_cast<double>(clock.monotonic_ns() - begun) * 1e-9;
  if (!verified.damage.empty())
    return make_error(ErrorCode::corrupt,
                      format("{} is damaged:\n  {}", arguments.checkpoint, join(verified.damage, "\n  ")));
  print(stdout, "{} is whole: {} entries, {}, {:.2f} s\n", arguments.checkpoint,
        static_cast<long long>(verified.entries), human_bytes(static_cast<double>(verified.bytes)), seconds);
  return {};
}

Status reshard(const std::vector<std::string>& words) {
  LH_TRY(const Arguments arguments, Arguments::parse(words, {"output", "parallel"}, {}));
  LH_TRY(const std::string output, arguments.output());
  LH_TRY(const ParallelDims dims, parse_parallel(arguments.get("parallel")));
  LH_TRY(const CheckpointSummary summary, inspect_checkpoint(arguments.checkpoint));
  LayoutCheckInput layout;
  layout.shape = summary.manifest.shape, layout.dims = dims;
  LH_CHECK(check_layout_of(layout));
  LH_CHECK(reshard_checkpoint(arguments.checkpoint, output, dims, progress_on_terminal("written")));
  print(stdout, "{}: step {} as of {}\n", output, static_cast<long long>(summary.manifest.step), dims.to_string());
  return {};
}

Status export_model(const std::vector<std::string>& words) {
  LH_TRY(const Arguments arguments, Arguments::parse(words, {"output", "dtype", "tokenizer", "max-shard-bytes"}, {}));
  LH_TRY(const std::string output, arguments.output());
  CheckpointExport options;
  options.dtype = arguments.get("dtype", options.dtype);
  if (options.dtype != "f32" && options.dtype != "bf16")
    return make_error(ErrorCode::invalid_input, "--dtype " + options.dtype + " is neither f32 nor bf16");
  LH_TRY(options.shard_bytes_max, arguments.number("max-shard-bytes", options.shard_bytes_max));
  options.tokenizer_folder = arguments.get("tokenizer");
  if (!options.tokenizer_folder.empty()) {
    LH_TRY(const HfConfig ids, config_for_tokenizer(options.tokenizer_folder));
    options.eos_token_ids = ids.eos_token_ids;
    options.bos_token_id = ids.bos_token_id, options.pad_token_id = ids.pad_token_id;
  }
  LH_CHECK(export_checkpoint(arguments.checkpoint, output, options, progress_on_terminal("exported")));
  print(stdout, "{}: {} in {}\n", output, arguments.checkpoint, options.dtype);
  return {};
}

struct Command {
  const char* name;
  Status (*run)(const std::vector<std::string>&);
};
constexpr Command commands[] = {
    {"inspect", inspect}, {"verify", verify}, {"reshard", reshard}, {"export", export_model}};

}  // namespace

bool is_checkpoint_command(const std::string& command) {
  for (const Command& known : commands)
    if (command == known.name) return true;
  return false;
}

Status run_checkpoint_command(const std::string& command, const std::vector<std::string>& arguments) {
  if (std::find(arguments.begin(), arguments.end(), "--help") != arguments.end()) {
    print(stdout, "usage:\n{}", checkpoint_commands_usage);
    return {};
  }
  for (const Command& known : commands)
    if (command == known.name) return known.run(arguments);
  return make_error(ErrorCode::invalid_input, "unknown command " + command);
}

}  // namespace longhaul
