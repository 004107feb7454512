// Keeps count of what each step of a curation removes.
#pragma once

#include <string>
#include <vector>

#include "base/value/value.h"
#include "engine/curate/curate_task.h"

namespace longhaul {

class Waterfall {
 public:
  // The step that the next calls are about; `documents` and `bytes` go in.
  void begin(std::string step, std::int64_t documents, std::int64_t bytes);
  void removed(const std::string& reason, std::int64_t documents, std::int64_t bytes);
  void end(std::int64_t documents, std::int64_t bytes, double seconds);

  const std::vector<WaterfallStep>& steps() const { return steps_; }

 private:
  std::vector<WaterfallStep> steps_;
};

Value to_value(const std::vector<WaterfallStep>& steps);
Value to_value(const std::vector<LanguageShare>& languages,
               const std::map<std::string, std::map<std::string, std::int64_t>>& rules_left_out);

// For an empty corpus: which step took most documents, for what reason, and what to change. `heldout_key`: the setting
// that decided what is held out, as the user wrote it; "": none.
Error empty_corpus_error(const std::vector<WaterfallStep>& steps, const std::string& heldout_key);

}  // namespace longhaul
