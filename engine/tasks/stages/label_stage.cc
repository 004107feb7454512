#include "engine/tasks/stages/label_stage.h"

#include <algorithm>

#include "base/files/files.h"
#include "base/text/text.h"
#include "engine/align/labels/label_objective.h"
#include "engine/model/store/model_folder.h"
#include "engine/tasks/common/token_files.h"
#include "engine/tasks/common/training_check.h"
#include "engine/tasks/common/training_stage.h"
#include "engine/tasks/drawing/drawing_weights.h"
#include "engine/tasks/stages/reference_scores.h"
#include "engine/train/step/sequence_scores.h"

namespace longhaul {

namespace {

// Answers with what their reference says of them, and of the mismatched ones.
struct LabelData {
  std::vector<LabelledAnswer> answers;
  std::vector<ChatTokens> mismatched;
  std::vector<double> references, mismatched_references;
  std::vector<std::int32_t> before;  // ids before each answer; before the mismatched ones they stand already
};

// Where the answer begins: all before it is the prompt.
std::size_t prompt_tokens(const ChatTokens& tokens) {
  return static_cast<std::size_t>(std::ranges::find(tokens.loss_mask, std::uint8_t{1}) - tokens.loss_mask.begin());
}

bool same_prompt(const ChatTokens& a, const ChatTokens& b) {
  const std::size_t n = prompt_tokens(a);
  return n == prompt_tokens(b) &&
         std::equal(a.ids.begin(), a.ids.begin() + static_cast<std::ptrdiff_t>(n), b.ids.begin());
}

// Batches of labelled answers. The estimate of the divergence is made by the weights as they stand, over the answers of
// the whole global batch when a step's first samples are asked for (collective over all ranks), and over those of one
// micro-batch of held-out data (over those that hold the model together). It is a number of the batch and no gradient
// goes through it.
class LabelSource final : public BatchSource {
 public:
  // global_batch: of training; 0: held-out data. Borrows run and stage.
  LabelSource(TaskRun& run, TrainingStage& stage, const AlignSettings& settings, LabelData data,
              std::int64_t global_batch)
      : run_(run), stage_(stage), settings_(settings), data_(std::move(data)), global_batch_(global_batch) {}

  void begin_step(std::int64_t step, std::int64_t left_out) override {
    step_begin_ = (step - 1) * global_batch_ + left_out, known_ = false;
  }
  std::int64_t samples_per_epoch() const override { return static_cast<std::int64_t>(data_.answers.size()); }
  Status fill(std::int64_t first, std::int64_t count, BatchStorage& out) override {
    LH_CHECK(global_batch_ > 0 ? estimate_of_step() : estimate_of(first, count));
    std::vector<const ChatTokens*> rows;
    out.per_sequence.clear();
    for (std::int64_t k = first; k < first + count; ++k) {
      const std::size_t i = index_of(k);
      rows.push_back(&data_.answers[i].tokens);
      for (const double number : {data_.references[i], data_.answers[i].desirable ? 1.0 : 0.0, divergence_})
        out.per_sequence.push_back(number);
    }
    fill_examples(rows, settings_.sequence_length, out, data_.before);
    return {};
  }

 private:
  std::size_t index_of(std::int64_t k) const {
    const std::int64_t size = samples_per_epoch();
    const bool in_order = global_batch_ == 0 || !settings_.shuffle;
    return static_cast<std::size_t>(in_order ? k % size
                                             : example_of_sample(k, size, static_cast<std::uint64_t>(settings_.seed)));
  }
  // Log-ratios of the mismatched answers of samples [first, first + count).
  Result<std::vector<double>> log_ratios(std::int64_t first, std::int64_t count) {
    std::vector<ScoreRequest> requests;
    for (std::int64_t k = first; k < first + count; ++k) {
      const ChatTokens& tokens = data_.mismatched[index_of(k)];
      requests.push_back({tokens.ids, tokens.loss_mask});
    }
    LH_TRY(std::vector<double> ratios, scores_of(requests));
    for (std::size_t i = 0; i < ratios.size(); ++i)
      ratios[i] -= data_.mismatched_references[index_of(first + static_cast<std::int64_t>(i))];
    return ratios;
  }
  // By the weights as they stand. Where ranks hold the model together they make micro-batches as long as those that
  // they train; alone a rank makes them as long as the answers are.
  Result<std::vector<double>> scores_of(std::span<const ScoreRequest> requests) {
    if (computes_with_others(run_.mesh.dims()))
      return score_by_replica(run_.compute, replica_model(run_, stage_), requests);
    LH_TRY(const std::vector<SequenceScore> scored,
           score_sequences(run_.compute, stage_.model(), stage_.tokens_max(), requests));
    std::vector<double> scores;
    for (const SequenceScore& score : scored) scores.push_back(score.log_probability);
    return scores;
  }
  Status estimate_of(std::int64_t first, std::int64_t count) {
    LH_TRY(const std::vector<double> ratios, log_ratios(first, count));
    divergence_ = divergence_estimate(ratios);
    return {};
  }
  // Each replica its share, whichever samples it is asked for: a replay asks for another one's (corruption.check).
  Status estimate_of_step() {
    if (known_) return {};
    CollectiveGroup& replicas = run_.mesh.data();
    const std::int64_t share = global_batch_ / replicas.size();
    auto mine = log_ratios(step_begin_ + replicas.rank() * share, share);
    LH_CHECK(run_.group.agree(mine.ok() ? Status() : Status(mine.error())));
    std::vector<double> all(static_cast<std::size_t>(global_batch_));
    LH_CHECK(replicas.all_gather(*mine, all));
    divergence_ = divergence_estimate(all);
    known_ = true;
    return {};
  }

  TaskRun& run_;
  TrainingStage& stage_;
  AlignSettings settings_;
  LabelData data_;
  std::int64_t global_batch_;
  std::int64_t step_begin_ = 0;  // the first sample of the step's global batch
  bool known_ = false;
  double divergence_ = 0;
};

Result<std::vector<LabelledAnswer>> read_answers(TaskRun& run, const std::string& input,
                                                 const std::vector<std::string>& names, const ChatEncoder& encoder,
                                                 const AlignSettings& settings) {
  LH_TRY(const std::string path, run.task.input_path(input));
  LH_TRY(const std::string file, find_data_file(path, names));
  LH_TRY(const std::vector<LabelledExample> examples, read_labelled(file, settings.ignore));
  const TextRoom room(settings.sequence_length, settings.adapter.tokens_before());
  LH_TRY(TokenizedLabels made, tokenize_labelled(examples, encoder, room));
  if (made.too_long > 0)
    run.events.message("warn", format("{} answers of {} are longer than sequence_length = {} and were left out",
                                      made.too_long, file, room.text()));
  const auto good = std::ranges::count(made.answers, true, &LabelledAnswer::desirable);
  const auto all = static_cast<std::ptrdiff_t>(made.answers.size());
  if (input == "data" && (good == 0 || good == all))
    return make_error(ErrorCode::invalid_input, format("all {} answers of {} are {}", all, file, good ? "good" : "bad"),
                      good ? "sft learns from good answers alone" : "kto learns from good and bad answers");
  return std::move(made.answers);
}

// Before a checkpoint is loaded: the weights are those of the reference.
Result<LabelData> with_references(TaskRun& run, TrainingStage& stage, const AlignSettings& settings,
                                  std::vector<LabelledAnswer> answers) {
  LabelData data;
  data.before = virtual_token_ids(stage.weights().shape());
  data.mismatched = mismatched_answers(answers, settings.sequence_length + 1 - std::ssize(data.before));
  data.answers = std::move(answers);
  std::vector<const ChatTokens*> all;
  for (const LabelledAnswer& answer : data.answers) all.push_back(&answer.tokens);
  for (const ChatTokens& tokens : data.mismatched) all.push_back(&tokens);
  LH_TRY(const std::vector<double> scores, reference_scores(run, stage, all));
  const auto half = scores.begin() + static_cast<std::ptrdiff_t>(data.answers.size());
  data.references.assign(scores.begin(), half), data.mismatched_references.assign(half, scores.end());
  for (ChatTokens& tokens : data.mismatched) put_before(data.before, tokens);
  return data;
}

}  // namespace

std::vector<ChatTokens> mismatched_answers(const std::vector<LabelledAnswer>& answers, std::int64_t tokens_max) {
  std::vector<ChatTokens> made;
  for (std::size_t i = 0; i < answers.size(); ++i) {
    std::size_t other = i + 1;
    while (other < i + answers.size() && same_prompt(answers[i].tokens, answers[other % answers.size()].tokens))
      ++other;
    if (other == i + answers.size()) other = i + 1;
    const ChatTokens &own = answers[i].tokens, &next = answers[other % answers.size()].tokens;
    const auto prompt = static_cast<std::ptrdiff_t>(prompt_tokens(own));
    const auto answer = static_cast<std::ptrdiff_t>(prompt_tokens(next));
    ChatTokens& tokens = made.emplace_back();
    tokens.ids.assign(own.ids.begin(), own.ids.begin() + prompt);
    tokens.loss_mask.assign(own.loss_mask.begin(), own.loss_mask.begin() + prompt);
    tokens.ids.insert(tokens.ids.end(), next.ids.begin() + answer, next.ids.end());
    tokens.loss_mask.insert(tokens.loss_mask.end(), next.loss_mask.begin() + answer, next.loss_mask.end());
    const std::size_t size = std::min(tokens.ids.size(), static_cast<std::size_t>(tokens_max));
    tokens.ids.resize(size), tokens.loss_mask.resize(size);
  }
  return made;
}

Status run_labels(TaskRun& run, const AlignSettings& settings) {
  LH_TRY(const std::string model, run.task.input_path("model"));
  LH_TRY(const Tokenizer tokenizer, Tokenizer::load(join_path(model, "tokenizer.json")));
  LH_TRY(const ChatEncoder encoder, ChatEncoder::create(tokenizer, model));
  LH_TRY(const HfConfig config, load_model_config(model));
  LH_CHECK(check_vocabulary(tokenizer, config.shape.vocab_size, model));
  LH_CHECK(ids_before_texts(config.shape, settings.adapter, settings.sequence_length));
  LH_TRY(std::vector<LabelledAnswer> train,
         read_answers(run, "data", {"labels-train.jsonl", "labels.jsonl", "train.jsonl"}, encoder, settings));
  std::vector<LabelledAnswer> held;
  if (run.task.input("heldout")) {
    LH_TRY(held,
           read_answers(run, "heldout", {"labels-heldout.jsonl", "labels.jsonl", "heldout.jsonl"}, encoder, settings));
  }
  TrainingStageSettings stage_settings(settings, settings);
  stage_settings.shape = config.shape;
  stage_settings.start_model = stage_settings.tokenizer_folder = model;
  stage_settings.leave_out_balance();
  LH_TRY(const std::unique_ptr<TrainingStage> stage, TrainingStage::create(run, stage_settings));
  const auto good = std::ranges::count(train, true, &LabelledAnswer::desirable);
  std::vector<Figure> figures = {{"answers", static_cast<double>(train.size()), ""},
                                 {"desirable_answers", static_cast<double>(good), ""}};
  LH_TRY(LabelData data, with_references(run, *stage, settings, std::move(train)));
  LabelSource source(run, *stage, settings, std::move(data), settings.global_batch_size);
  std::optional<LabelSource> heldout;
  if (!held.empty()) {
    figures.push_back({"heldout_answers", static_cast<double>(held.size()), ""});
    LH_TRY(LabelData held_data, with_references(run, *stage, settings, std::move(held)));
    heldout.emplace(run, *stage, settings, std::move(held_data), 0);
  }
  LabelObjective objective(settings);
  return stage->train(objective, source, heldout ? &*heldout : nullptr, figures);
}

}  // namespace longhaul
