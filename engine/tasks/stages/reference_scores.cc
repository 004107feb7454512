#include "engine/tasks/stages/reference_scores.h"

#include <algorithm>

#include "engine/infer/generate/rollout_model.h"
#include "engine/tasks/drawing/drawing_weights.h"
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

// By the ranks of a replica together, a micro-batch of the training's size at a time.
Result<std::vector<double>> scores_of_replica(TaskRun& run, TrainingStage& stage,
                                              std::span<const ChatTokens* const> answers) {
  const ReplicaModel model = replica_model(run, stage);
  const auto rows = static_cast<std::size_t>(model.sequences);
  std::vector<double> scores;
  for (std::size_t at = 0; at < answers.size(); at += rows) {
    run.section("reference");
    std::vector<ScoreRequest> requests;
    for (const ChatTokens* answer : answers.subspan(at, std::min(rows, answers.size() - at)))
      requests.push_back({answer->ids, answer->loss_mask});
    LH_TRY(const std::vector<double> scored, score_by_replica(run.compute, model, requests));
    scores.insert(scores.end(), scored.begin(), scored.end());
    run.events.progress(static_cast<double>(scores.size()), static_cast<double>(answers.size()), "reference answers");
  }
  return scores;
}

// Where a rank has a part of the weights: on a processor each rank reads all of them beside that; a GPU has no room
// for them, and codes below an adapter are not what the folder has.
bool asks_replicas(const TaskRun& run, const TrainingStage& stage) {
  const ParameterStore* const frozen = stage.stores().frozen.get();
  const bool coded = frozen && frozen->has_codes_in({0, frozen->layout().flat_size()});
  return (run.gpu || coded) && computes_with_others(run.mesh.dims());
}

// The weights of a training can be gathered (ZeRO 3) while this lives; those that could before stay as they are.
class ConnectedWeights {
 public:
  ConnectedWeights(const AdapterStores& stores, Mesh& mesh) {
    for (ParameterStore* store : {stores.trained.get(), stores.frozen.get()})
      if (store && !store->is_connected()) store->connect(mesh, false), connected_.push_back(store);
  }
  ~ConnectedWeights() {
    for (ParameterStore* store : connected_) store->disconnect();
  }
  ConnectedWeights(const ConnectedWeights&) = delete;
  ConnectedWeights& operator=(const ConnectedWeights&) = delete;

 private:
  std::vector<ParameterStore*> connected_;
};

// Of a share of all answers. With ZeRO 3 replicas need each other's weights: all of them are asked as often.
Result<std::vector<double>> scores_of_share(TaskRun& run, TrainingStage& stage,
                                            std::span<const ChatTokens* const> answers) {
  if (!computes_with_others(run.mesh.dims())) return scores_of_stage(run, stage, answers);
  if (!asks_replicas(run, stage)) return scores_of_folder(run, stage.weights().compute_dtype(), answers);
  const ConnectedWeights connected(stage.stores(), run.mesh);
  return scores_of_replica(run, stage, answers);
}

}  // namespace

Result<std::vector<double>> reference_scores(TaskRun& run, TrainingStage& stage,
                                             const std::vector<const ChatTokens*>& answers) {
  run.section("reference");
  Value preparing = Value::make_table();
  preparing.set("what", "reference scores");
  run.events.write("preparing", std::move(preparing));
  const bool by_replicas = asks_replicas(run, stage);
  CollectiveGroup& sharers = by_replicas ? run.mesh.data() : run.group;
  const auto ranks = static_cast<std::size_t>(sharers.size()), rank = static_cast<std::size_t>(sharers.rank());
  const std::size_t per_rank = (answers.size() + ranks - 1) / ranks;
  const std::size_t first = std::min(answers.size(), per_rank * rank);
  const std::size_t last = std::min(answers.size(), first + per_rank);
  std::vector<const ChatTokens*> own(answers.begin() + static_cast<std::ptrdiff_t>(first),
                                     answers.begin() + static_cast<std::ptrdiff_t>(last));
  // Scores of what fills the last share up are left out below.
  if (by_replicas && !answers.empty()) own.resize(per_rank, answers.back());
  auto scores = scores_of_share(run, stage, own);
  LH_CHECK(run.group.agree(scores.ok() ? Status() : Status(scores.error())));
  std::vector<double> mine(per_rank, 0.0), all(per_rank * ranks);
  std::ranges::copy(*scores, mine.begin());
  LH_CHECK(sharers.all_gather(mine, all));
  all.resize(answers.size());
  return all;
}

}  // namespace longhaul
