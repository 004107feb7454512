#include "engine/tasks/rows/data_check_command.h"

#include <unistd.h>

#include <charconv>
#include <optional>

#include "base/files/files.h"
#include "base/text/print.h"
#include "base/value/json.h"
#include "engine/data/rows/row_check.h"

namespace longhaul {
namespace {

Result<RowCheckOptions> row_check_options(const DataCheckRequest& request) {
  RowCheckOptions options;
  for (const std::string& key : split(request.ignore, ','))
    if (!key.empty()) options.ignore.push_back(key);
  if (request.stage == "sft")
    options.use = TuningRowUse::instruction;
  else if (request.stage == "align")
    options.use = TuningRowUse::preference;
  else if (request.stage == "reward")
    options.use = TuningRowUse::reward;
  else if (!request.stage.empty())
    return make_error(ErrorCode::invalid_input, "no stage of the kind " + request.stage + " reads such rows",
                      "use sft, align or reward");
  if (const std::string& text = request.sequence_length; !text.empty()) {
    const auto read = std::from_chars(text.data(), text.data() + text.size(), options.sequence_length);
    if (read.ec != std::errc() || read.ptr != text.data() + text.size() || options.sequence_length < 1)
      return make_error(ErrorCode::invalid_input, "sequence length " + text, "a whole number from 1");
  }
  if (::isatty(STDERR_FILENO) == 1)
    options.progress = [](std::int64_t rows, double share) {
      print_bytes(stderr, format("\r{} rows, {:.0f} % of the file ", rows, 100 * share));
    };
  return options;
}

}  // namespace

Status print_data_check(const DataCheckRequest& request) {
  LH_TRY(const RowCheckOptions options, row_check_options(request));
  LH_TRY(const MappedFile file, MappedFile::open(request.file));
  std::optional<Tokenizer> tokenizer;
  std::optional<ChatEncoder> encoder;
  if (!request.model.empty()) {
    LH_TRY(tokenizer, Tokenizer::load(join_path(request.model, "tokenizer.json")));
    LH_TRY(encoder, ChatEncoder::create(*tokenizer, request.model));
  }
  LH_TRY(const RowCheck check, check_rows(file.view(), request.file, options, encoder ? &*encoder : nullptr,
                                          tokenizer ? &*tokenizer : nullptr));
  if (options.progress) print_bytes(stderr, "\n");
  print_text(stdout, request.json ? to_json_pretty(row_check_value(check, request.file))
                                  : row_check_text(check, request.file, options.sequence_length));
  if (check.lines == 0)
    return make_error(ErrorCode::invalid_input, request.file + " has no rows", "one JSON object per line is expected");
  if (check.refused == 0) return {};
  return make_error(
      ErrorCode::invalid_input,
      format("{} of {} rows are refused; a stage would read nothing of {}", check.refused, check.lines, request.file),
      "mend them, or list keys that need not be used under ignore");
}

}  // namespace longhaul
