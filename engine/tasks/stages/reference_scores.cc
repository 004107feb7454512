#include "engine/tasks/stages/reference_scores.h"

#include <algorithm>

#include "engine/infer/generate/rollout_model.h"
#include "engine/tasks/rollouts/whole_weights.h"
#include "engine/train/step/sequence_scores.h"

namespace longhaul {

namespace {

// By the starting model as its folder has it, whole on this rank: no rank waits for another.
Result<std::vector<double>> scores_of_folder(TaskRun& run, DType dtype, std::span<const ChatTokens* const> answers) {
  LH_TRY(const std::string folder, run.task.input_path("model"));
  LH_TRY(InferenceModel model, InferenceModel::load(folder, dtype));
  std::size_t longest = 1;
  for (const ChatTokens* answer : answers) longest = std::max(longest, answer->ids.size());
  KvCache cache = model.make_cache(static_cast<std::int64_t>(longest));
  std::vector<double> scores, tokens;
  for (const ChatTokens* answer : answers) {
    run.section("reference");
    const std::vector<std::uint8_t>& mask = answer->loss_mask;
    double sum = 0;
    // The first token is never scored: nothing is before it.
    const auto first = static_cast<std::size_t>(
        std::find(mask.begin() + std::min<std::ptrdiff_t>(1, std::ssize(mask)), mask.end(), 1) - mask.begin());
    tokens.assign(mask.size() - first, 0.0);
    if (!tokens.empty()) LH_CHECK(score_tokens(run.compute, model, cache, answer->ids, first, false, tokens));
    for (std::size_t i = 0; i < tokens.size(); ++i) sum += mask[first + i] ? tokens[i] : 0;
    scores.push_back(sum);
    run.events.progress(static_cast<double>(scores.size()), static_cast<double>(answers.size()), "reference answers");
  }
  return scores;
}

Result<std::vector<double>> scores_of_stage(TaskRun& run, TrainingStage& stage,
                                            std::span<const ChatTokens* const> answers) {
  std::vector<ScoreRequest> requests;
  for (const ChatTokens* answer : answers) requests.push_back({answer->ids, answer->loss_mask});
  LH_TRY(const std::vector<SequenceScore> scored,
         score_sequences(run.compute, stage.model(), stage.tokens_max(), requests, [&](std::size_t done) {
           run.section("reference");
           run.events.progress(static_cast<double>(done), static_cast<double>(requests.size()), "reference answers");
         }));
  std::vector<double> scores;
  for (const SequenceScore& score : scored) scores.push_back(score.log_probability);
  return scores;
}

}  // namespace

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
  const std::span<const ChatTokens* const> own = std::span(answers).subspan(first, last - first);
  auto scores = holds_parts(run.mesh.dims()) ? scores_of_folder(run, stage.weights().compute_dtype(), own)
                                             : scores_of_stage(run, stage, own);
  LH_CHECK(run.group.agree(scores.ok() ? Status() : Status(scores.error())));
  std::vector<double> mine(per_rank, 0.0), all(per_rank * ranks);
  std::ranges::copy(*scores, mine.begin());
  LH_CHECK(run.group.all_gather(mine, all));
  all.resize(answers.size());
  return all;
}

}  // namespace longhaul
