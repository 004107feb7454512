// Room contracts/settings/stages
// The settings of the stages that do not train, one header for each kind of stage.
// tokenize.h is the shortest example; inference.h has evaluate, quantize, convert and deploy together.
// tuning_row_form.h is the one table of the forms in which rows of tuning data may come.
// It knows nothing of jobs; which kinds of stage exist is listed above it, in contracts/tasks/stage_kinds.h.
//
// Settings of the stage kind `tokenize`: a byte-level BPE vocabulary and the encoded corpus.
#pragma once

#include "contracts/schema/field_table.h"

namespace longhaul {

struct TokenizeSettings {
  std::int64_t vocabulary = 8192;
  std::int64_t min_frequency = 2;
  std::string pattern = "llama3";
  std::string end_of_text = "<|endoftext|>";
  std::vector<std::string> special_tokens;  // besides end_of_text and the chat form's own
};
const FieldTable<TokenizeSettings>& tokenize_fields();

}  // namespace longhaul
