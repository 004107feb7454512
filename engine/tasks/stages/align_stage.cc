#include "base/files/files.h"
#include "base/text/text.h"
#include "contracts/settings/stages/alignment.h"
#include "engine/align/preference_objective.h"
#include "engine/model/store/model_folder.h"
#include "engine/tasks/common/token_files.h"
#include "engine/tasks/common/training_check.h"
#include "engine/tasks/common/training_stage.h"
#include "engine/tasks/stages/label_stage.h"
#include "engine/tasks/stages/reference_scores.h"
#include "engine/tasks/stages/rollout_stage.h"
#include "engine/tasks/stages/stages.h"

namespace longhaul {

namespace {

Result<TokenizedPreferences> read_pairs(TaskRun& run, const std::string& input, const std::vector<std::string>& names,
                                        const ChatEncoder& encoder, const AlignSettings& settings) {
  const TextRoom room(settings.sequence_length, settings.adapter.tokens_before());
  LH_TRY(const std::string path, run.task.input_path(input));
  LH_TRY(const std::string file, find_data_file(path, names));
  LH_TRY(const std::vector<PreferenceExample> examples, read_preferences(file, settings.ignore));
  LH_TRY(TokenizedPreferences pairs, tokenize_preferences(examples, encoder, room));
  if (pairs.too_long > 0)
    run.events.message("warn", format("{} pairs of {} are longer than sequence_length = {} and were left out",
                                      pairs.too_long, file, room.text()));
  return pairs;
}

// Chosen and rejected of each pair. Zeros for a method that has no reference: nothing is computed then.
Result<std::vector<double>> pair_references(TaskRun& run, TrainingStage& stage, const AlignSettings& settings,
                                            const std::vector<PreferencePair>& pairs) {
  if (!align_method(settings.method).reference) return std::vector<double>(pairs.size() * 2);
  std::vector<const ChatTokens*> answers;
  for (const PreferencePair& pair : pairs) answers.push_back(&pair.chosen), answers.push_back(&pair.rejected);
  return reference_scores(run, stage, answers);
}

}  // namespace

Status run_align(TaskRun& run) {
  LH_TRY(const AlignSettings settings, run.settings(align_fields()));
  LH_CHECK(check_alignment(settings));
  if (learns_from_rollouts(settings.method)) return run_rollouts(run, settings);
  LH_CHECK(check_reward_input(settings, run.task.input("reward") != nullptr));
  LH_CHECK(check_teacher_input(settings, run.task.input("teacher") != nullptr));
  if (align_method(settings.method).labels) return run_labels(run, settings);
  LH_TRY(const std::string model, run.task.input_path("model"));
  LH_TRY(const Tokenizer tokenizer, Tokenizer::load(join_path(model, "tokenizer.json")));
  LH_TRY(const ChatEncoder encoder, ChatEncoder::create(tokenizer, model));
  LH_TRY(const HfConfig config, load_model_config(model));
  LH_CHECK(check_vocabulary(tokenizer, config.shape.vocab_size, model));
  LH_TRY(const std::vector<std::int32_t> before,
         ids_before_texts(config.shape, settings.adapter, settings.sequence_length));
  LH_TRY(TokenizedPreferences train,
         read_pairs(run, "data", {"pairs-train.jsonl", "pairs.jsonl", "train.jsonl"}, encoder, settings));
  TokenizedPreferences held;
  if (run.task.input("heldout")) {
    LH_TRY(held,
           read_pairs(run, "heldout", {"pairs-heldout.jsonl", "pairs.jsonl", "heldout.jsonl"}, encoder, settings));
  }

  TrainingStageSettings stage_settings(settings, settings);
  stage_settings.shape = config.shape;
  stage_settings.start_model = stage_settings.tokenizer_folder = model;
  stage_settings.leave_out_balance();
  stage_settings.sequences_per_sample = 2;
  LH_TRY(const std::unique_ptr<TrainingStage> stage, TrainingStage::create(run, stage_settings));

  // Before a checkpoint is loaded the weights are those of the starting model: the reference, in a resumed training
  // too. What the adapter puts before texts is not there yet.
  LH_TRY(std::vector<double> references, pair_references(run, *stage, settings, train.pairs));
  std::vector<Figure> figures = {{"pairs", static_cast<double>(train.pairs.size()), ""}};
  PairSource source(std::move(train.pairs), std::move(references), settings.sequence_length,
                    static_cast<std::uint64_t>(settings.seed),
                    settings.shuffle ? SampleOrder::shuffled : SampleOrder::sequential, before);
  std::optional<PairSource> heldout;
  if (!held.pairs.empty()) {
    LH_TRY(std::vector<double> held_references, pair_references(run, *stage, settings, held.pairs));
    heldout.emplace(std::move(held.pairs), std::move(held_references), settings.sequence_length, 0,
                    SampleOrder::sequential, before);
    figures.push_back({"heldout_pairs", static_cast<double>(heldout->samples_per_epoch()), ""});
  }
  PreferenceObjective objective(settings);
  return stage->train(objective, source, heldout ? &*heldout : nullptr, figures);
}

}  // namespace longhaul
