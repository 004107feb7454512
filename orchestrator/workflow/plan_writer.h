// The last step of the planner: sound drafts in the order of their needs become the stages of the plan, with the files
// that their paths name.
#pragma once

#include <string>
#include <unordered_map>
#include <vector>

#include "orchestrator/workflow/stage_draft.h"

namespace longhaul {

// Writes one plan. What is given must outlive the writer.
class PlanWriter {
 public:
  // `folder`: where relative paths start. `index`: of `drafts` by name.
  PlanWriter(const std::string& folder, const FileView& files, std::vector<StageDraft>& drafts, const StageIndex& index,
             Diagnostics& diagnostics)
      : folder_(folder), files_(files), drafts_(drafts), index_(index), diagnostics_(diagnostics) {}
  // The stages by `order`, places among the drafts; common settings, faults and settings are moved out of them. Paths
  // are looked up first, also those of stages that are not in `order`; none is written where there is any problem.
  std::vector<PlannedStage> write(const std::vector<int>& order);

 private:
  PlannedStage plan_stage(const StageDraft& draft, VariantDraft& variant);
  PlannedInput plan_input(const StageInputText& input);
  const std::vector<std::string>& expand(const std::string& path, const SourcePos& where, const std::string& what);

  const std::string& folder_;
  const FileView& files_;
  std::vector<StageDraft>& drafts_;
  const StageIndex& index_;
  Diagnostics& diagnostics_;
  std::unordered_map<std::string, std::vector<std::string>> expanded_;  // raw path as written -> files
};

}  // namespace longhaul
