// recipe = "llama3-8b": a file of settings below those of a stage.
#pragma once

#include <string>
#include <unordered_map>
#include <vector>

#include "base/error/diagnostics.h"
#include "orchestrator/workflow/source/file_view.h"
#include "orchestrator/workflow/source/interpolate.h"

namespace longhaul {

class Recipes {
 public:
  // All borrowed; looked for in these folders, in order.
  Recipes(const std::vector<std::string>& folders, const FileView& files, Diagnostics& diagnostics)
      : folders_(folders), files_(files), diagnostics_(diagnostics) {}

  // Fills in what the table of `stage` does not say, if it names a recipe. Each file is read once.
  void merge_into(Value& table, const std::string& stage, Interpolator& interpolator);
  // The workflow with the recipes that its stages have taken, all as they were written: with their references.
  Value written_whole(const Value& workflow) const;

 private:
  struct Recipe {
    Value written, resolved;
  };
  const Recipe* find(const std::string& name, Interpolator& interpolator);
  // Of a recipe that is not there: the one that may be meant, what there is, and where it was looked for.
  std::string hint_of(const std::string& name) const;

  const std::vector<std::string>& folders_;
  const FileView& files_;
  Diagnostics& diagnostics_;
  std::unordered_map<std::string, Recipe> recipes_;
};

}  // namespace longhaul
