#include <algorithm>

#include "base/files/files.h"
#include "base/text/text.h"
#include "contracts/settings/stages/reward_form.h"
#include "engine/align/scores/attribute_objective.h"
#include "engine/align/scores/score_objective.h"
#include "engine/align/scores/step_objective.h"
#include "engine/model/store/model_folder.h"
#include "engine/tasks/common/token_files.h"
#include "engine/tasks/common/training_check.h"
#include "engine/tasks/common/training_stage.h"
#include "engine/tasks/drawing/drawing_weights.h"
#include "engine/tasks/rewards/rating_figures.h"
#include "engine/tasks/rewards/reward_accuracy.h"
#include "engine/tasks/rewards/reward_model.h"
#include "engine/tasks/stages/stages.h"

namespace longhaul {

namespace {

// What either kind of rows is read with.
struct RowReading {
  const RewardModelSettings& settings;
  const Tokenizer& tokenizer;
  const ChatEncoder& encoder;
  std::vector<std::int32_t> before;  // ids before each text

  TextRoom room() const { return {settings.sequence_length, std::ssize(before)}; }
};

void say_too_long(const TaskRun& run, std::int64_t rows, const char* what, const std::string& file, TextRoom room) {
  if (rows > 0)
    run.events.message("warn", format("{} {} of {} are longer than sequence_length = {} and were left out", rows, what,
                                      file, room.text()));
}

Result<RewardPairs> read_pair_file(TaskRun& run, const std::string& input, const std::vector<std::string>& names,
                                   const RowReading& with) {
  LH_TRY(const std::string path, run.task.input_path(input));
  LH_TRY(const std::string file, find_data_file(path, names));
  LH_TRY(RewardPairs made, read_reward_pairs(file, with.settings.ignore, with.encoder, with.room()));
  LH_CHECK(check_categories(made.pairs, file));
  say_too_long(run, made.too_long, "pairs", file, with.room());
  return made;
}

Result<RatedAnswers> read_rated_file(TaskRun& run, const std::string& input, const RowReading& with) {
  const std::string of = with.settings.method == "process" ? "steps" : "ratings";
  const std::string set = input == "data" ? "train" : "heldout";
  LH_TRY(const std::string path, run.task.input_path(input));
  LH_TRY(const std::string file, find_data_file(path, {of + "-" + set + ".jsonl", of + ".jsonl", set + ".jsonl"}));
  LH_TRY(RatedAnswers made, read_rated_answers(file, with.settings, with.settings.ignore, with.tokenizer, with.encoder,
                                               with.room(), true));
  say_too_long(run, made.too_long, "answers", file, with.room());
  return made;
}

// By the model as it stands; where ranks hold it together, the same on all of those. With ZeRO 3, and where they have
// experts of each other, replicas need each other: one with fewer than `at_least` texts judges `any` as often as it
// takes, and makes no numbers of it.
Result<std::vector<std::vector<double>>> numbers_of_share(TaskRun& run, TrainingStage& stage,
                                                          std::span<const AskedText> texts, const AskedText& any,
                                                          std::size_t at_least) {
  const auto progress = [&](std::size_t done) {
    run.section("score");
    run.events.progress(static_cast<double>(std::min(done, texts.size())), static_cast<double>(texts.size()),
                        "held-out answers");
  };
  if (!computes_with_others(run.mesh.dims()))
    return numbers_at(run.compute, stage.model(), stage.tokens_max(), texts, progress);
  std::vector<AskedText> asked(texts.begin(), texts.end());
  asked.resize(std::max(at_least, texts.size()), AskedText{any.ids, {}});
  return numbers_by_replica(run.compute, replica_model(run, stage), asked, progress);
}

// At the places of all texts: each replica its share, all have the result, `per_text` numbers of each text one behind
// the other. Collective.
Result<std::vector<double>> numbers_of_texts(TaskRun& run, TrainingStage& stage, std::span<const AskedText> texts,
                                             std::span<const std::size_t> per_text) {
  run.section("score");
  CollectiveGroup& replicas = run.mesh.data();
  const auto ranks = static_cast<std::size_t>(replicas.size()), rank = static_cast<std::size_t>(replicas.rank());
  const std::size_t per_rank = (texts.size() + ranks - 1) / ranks, first = std::min(texts.size(), per_rank * rank);
  const std::size_t count = std::min(texts.size() - first, per_rank);
  auto found = numbers_of_share(run, stage, texts.subspan(first, count), texts.front(), per_rank);
  LH_CHECK(run.group.agree(found.ok() ? Status() : Status(found.error())));
  // Replicas have different numbers of steps: each sends as many as the one with most.
  std::size_t most = 0;
  for (std::size_t r = 0; r < ranks; ++r) {
    std::size_t own = 0;
    for (std::size_t i = std::min(texts.size(), per_rank * r); i < std::min(texts.size(), per_rank * (r + 1)); ++i)
      own += per_text[i];
    most = std::max(most, own);
  }
  std::vector<double> mine, gathered(most * ranks), all;
  for (const std::vector<double>& numbers : *found) mine.insert(mine.end(), numbers.begin(), numbers.end());
  mine.resize(most);
  LH_CHECK(replicas.all_gather(mine, gathered));
  for (std::size_t i = 0, at = 0; i < texts.size(); ++i) {
    if (i % per_rank == 0) at = i / per_rank * most;
    for (std::size_t k = 0; k < per_text[i]; ++k) all.push_back(gathered[at++]);
  }
  return all;
}

Result<std::vector<double>> rewards_of_pairs(TaskRun& run, TrainingStage& stage, const std::vector<RewardPair>& pairs) {
  std::vector<std::size_t> last;
  last.reserve(2 * pairs.size());  // they are borrowed
  std::vector<AskedText> texts;
  for (const RewardPair& pair : pairs)
    for (const auto* ids : {&pair.chosen, &pair.rejected}) {
      last.push_back(ids->size() - 1);
      texts.push_back({*ids, {&last.back(), 1}});
    }
  return numbers_of_texts(run, stage, texts, std::vector<std::size_t>(texts.size(), 1));
}

Result<std::vector<std::vector<double>>> numbers_of_answers(TaskRun& run, TrainingStage& stage,
                                                            std::span<const RatedAnswer> answers) {
  std::vector<std::size_t> per_text;
  for (const RatedAnswer& answer : answers) per_text.push_back(answer.values.size());
  LH_TRY(const std::vector<double> all, numbers_of_texts(run, stage, asked_texts(answers), per_text));
  std::vector<std::vector<double>> numbers;
  auto at = all.begin();
  for (const std::size_t count : per_text) {
    numbers.emplace_back(at, at + static_cast<std::ptrdiff_t>(count));
    at += static_cast<std::ptrdiff_t>(count);
  }
  return numbers;
}

// transformers takes the last token that does not pad: where answers end with the token that pads, a batch there has to
// be padded with another one, and config.json names none.
bool ends_with_padding(const std::vector<RewardPair>& pairs, std::int64_t padding) {
  return std::ranges::any_of(
      pairs, [&](const RewardPair& pair) { return pair.chosen.back() == padding || pair.rejected.back() == padding; });
}
bool ends_with_padding(const std::vector<RatedAnswer>& answers, std::int64_t padding) {
  return std::ranges::any_of(answers, [&](const RatedAnswer& answer) { return answer.ids.back() == padding; });
}

// A head of attributes goes on only as a head of the same ones.
Result<bool> begins_new_head(const HfConfig& config, const RewardForm& form, const std::string& folder) {
  if (!config.shape.scalar_head) return true;
  LH_TRY(const RewardForm before, reward_form_of(config.reward_form, join_path(folder, "config.json")));
  const auto names = [](const RewardForm& of) {
    std::vector<std::string> all;
    for (const RewardAttribute& one : of.attributes) all.push_back(one.name);
    return join(all, ", ");
  };
  if (names(before) == names(form)) return false;
  if (before.attributes.empty() || form.attributes.empty()) return true;
  return make_error(ErrorCode::invalid_input,
                    format("{} is a reward model of {}, and the stage trains {}", folder, names(before), names(form)),
                    "name the same attributes in the same order, or begin with the language model");
}

struct RewardTraining {
  std::unique_ptr<TrainingStage> stage;
  SampleOrder order = SampleOrder::shuffled;
};

template <class Rows>
Result<RewardTraining> create_training(TaskRun& run, const RowReading& with, const std::string& model, const Rows& rows,
                                       std::int64_t sequences_per_sample) {
  const RewardModelSettings& settings = with.settings;
  TrainingStageSettings of(settings, settings);
  LH_TRY(const HfConfig config, load_any_model_config(model));
  LH_CHECK(check_vocabulary(with.tokenizer, config.shape.vocab_size, model));
  if (reward_labels(settings) > config.shape.hidden_size)
    return make_error(ErrorCode::invalid_input, format("{} attributes of a model with hidden_size = {}",
                                                       settings.attributes.size(), config.shape.hidden_size));
  of.shape = with_scalar_head(config.shape, reward_labels(settings));
  of.start_model = of.tokenizer_folder = model;
  LH_TRY(of.new_head, begins_new_head(config, settings, model));
  of.reward_form = reward_form_value(settings);
  LH_TRY(const HfConfig tokens, config_for_tokenizer(model));
  of.names_padding = !ends_with_padding(rows, tokens.pad_token_id);
  of.leave_out_balance();
  of.sequences_per_sample = sequences_per_sample;
  RewardTraining made;
  LH_TRY(made.stage, TrainingStage::create(run, of));
  if (!settings.shuffle) made.order = SampleOrder::sequential;
  return made;
}

Status train_pairs(TaskRun& run, const RowReading& with, const std::string& model) {
  LH_TRY(RewardPairs train, read_pair_file(run, "data", {"pairs-train.jsonl", "pairs.jsonl", "train.jsonl"}, with));
  RewardPairs held;
  if (run.task.input("heldout")) {
    LH_TRY(held, read_pair_file(run, "heldout", {"pairs-heldout.jsonl", "pairs.jsonl", "heldout.jsonl"}, with));
  }
  LH_TRY(const RewardTraining training, create_training(run, with, model, train.pairs, 2));
  TrainingStage& stage = *training.stage;
  std::vector<Figure> figures = {{"pairs", static_cast<double>(train.pairs.size()), ""},
                                 {"pairs_too_long", static_cast<double>(train.too_long), ""}};
  const std::int64_t length = with.settings.sequence_length;
  RewardPairSource source(std::move(train.pairs), length, static_cast<std::uint64_t>(with.settings.seed),
                          training.order, with.before);
  ScoreObjective objective(with.settings);
  if (held.pairs.empty()) return stage.train(objective, source, nullptr, figures);
  RewardPairSource heldout(std::move(held.pairs), length, 0, SampleOrder::sequential, with.before);
  figures.push_back({"heldout_pairs", static_cast<double>(heldout.samples_per_epoch()), ""});
  return stage.train(objective, source, &heldout, figures, [&](std::vector<Figure>& more) -> Status {
    LH_TRY(const std::vector<double> rewards, rewards_of_pairs(run, stage, heldout.pairs()));
    for (Figure& figure : reward_accuracy(heldout.pairs(), rewards, "heldout_")) more.push_back(std::move(figure));
    return {};
  });
}

Status train_ratings(TaskRun& run, const RowReading& with, const std::string& model) {
  const bool steps = with.settings.method == "process";
  LH_TRY(RatedAnswers train, read_rated_file(run, "data", with));
  RatedAnswers held;
  if (run.task.input("heldout")) {
    LH_TRY(held, read_rated_file(run, "heldout", with));
  }
  LH_TRY(const RewardTraining training, create_training(run, with, model, train.answers, 1));
  TrainingStage& stage = *training.stage;
  std::vector<Figure> figures = {{"answers", static_cast<double>(train.answers.size()), ""},
                                 {"answers_too_long", static_cast<double>(train.too_long), ""}};
  const std::int64_t length = with.settings.sequence_length;
  RatedAnswerSource source(std::move(train.answers), steps, length, static_cast<std::uint64_t>(with.settings.seed),
                           training.order, with.before);
  AttributeObjective of_attributes(reward_labels(with.settings));
  StepObjective of_steps;
  Objective& objective = steps ? static_cast<Objective&>(of_steps) : of_attributes;
  if (held.answers.empty()) return stage.train(objective, source, nullptr, figures);
  RatedAnswerSource heldout(std::move(held.answers), steps, length, 0, SampleOrder::sequential, with.before);
  figures.push_back({"heldout_answers", static_cast<double>(heldout.samples_per_epoch()), ""});
  return stage.train(objective, source, &heldout, figures, [&](std::vector<Figure>& more) -> Status {
    LH_TRY(const auto numbers, numbers_of_answers(run, stage, heldout.answers()));
    for (Figure& figure : steps ? step_figures(heldout.answers(), numbers, "heldout_")
                                : attribute_figures(with.settings, heldout.answers(), numbers, "heldout_"))
      more.push_back(std::move(figure));
    return {};
  });
}

}  // namespace

Status run_reward(TaskRun& run) {
  LH_TRY(const RewardModelSettings settings, run.settings(reward_model_fields()));
  LH_CHECK(check_reward_model(settings));
  LH_TRY(const std::string model, run.task.input_path("model"));
  LH_TRY(const Tokenizer tokenizer, Tokenizer::load(join_path(model, "tokenizer.json")));
  LH_TRY(const ChatEncoder encoder, ChatEncoder::create(tokenizer, model));
  LH_TRY(const HfConfig config, load_any_model_config(model));
  LH_TRY(std::vector<std::int32_t> before, ids_before_texts(config.shape, settings.adapter, settings.sequence_length));
  const RowReading with{settings, tokenizer, encoder, std::move(before)};
  return settings.method == "bradley-terry" ? train_pairs(run, with, model) : train_ratings(run, with, model);
}

}  // namespace longhaul
