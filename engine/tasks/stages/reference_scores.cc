#include "engine/tasks/stages/reference_scores.h"

#include <algorithm>

#include "engine/train/step/sequence_scores.h"

namespace longhaul {

Result<std::vector<double>> reference_scores(TaskRun& run, TrainingStage& stage,
                                             const std::vector<const ChatTokens*>& answers) {
  run.section("reference");
  Value preparing = Value::make_table();
  preparing.set("what", "reference scores");
  run.events.write("preparing", std::move(preparing));
  const auto ranks = static_cast<std::size_t>(run.group.size()), rank = static_cast<std::size_t>(run.group.rank());
  const std::size_t per_rank = (answers.size() + ranks - 1) / ranks;
  const std::size_t first = std::min(answers.size(), per_rank * rank);
  const std::size_t last = std::min(answers.size(), first + per_rank);
  std::vector<ScoreRequest> requests;
  for (std::size_t i = first; i < last; ++i) requests.push_back({answers[i]->ids, answers[i]->loss_mask});
  auto scores = score_sequences(run.compute, stage.model(), stage.tokens_max(), requests, [&](std::size_t done) {
    run.section("reference");
    run.events.progress(static_cast<double>(done), static_cast<double>(requests.size()), "reference answers");
  });
  LH_CHECK(run.group.agree(scores.ok() ? Status() : Status(scores.error())));
  std::vector<double> mine(per_rank, 0.0), all(per_rank * ranks);
  for (std::size_t i = 0; i < scores->size(); ++i) mine[i] = (*scores)[i].log_probability;
  LH_CHECK(run.group.all_gather(mine, all));
  all.resize(answers.size());
  return all;
}

}  // namespace longhaul
