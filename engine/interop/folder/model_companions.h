// Room engine/interop/folder
// What lies beside a model's weights: which files a stage that writes a model carries on, and as what.
// It knows no weights: engine/interop/weight_files.h says which of them count.
//
// What belongs to a model beside its weights and config.json: tokenizer, chat templates, special tokens, how it is
// meant to be sampled. Every stage that writes a model carries all of it on, as it is.
#pragma once

#include <string>
#include <vector>

#include "base/error/result.h"
#include "base/value/value.h"

namespace longhaul {

// Names within a model's folder, of those that are there; "additional_chat_templates/x.jinja" among them.
Result<std::vector<std::string>> model_companions(const std::string& folder);
// Copies them byte for byte; what stands in `to` under such a name is replaced.
Status copy_model_companions(const std::string& from, const std::string& to);

// generation_config.json of a folder; an empty table where there is none.
Result<Value> read_generation_config(const std::string& folder);

}  // namespace longhaul
