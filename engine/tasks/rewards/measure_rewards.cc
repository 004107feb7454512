#include "engine/tasks/rewards/measure_rewards.h"

#include <cmath>

#include "engine/tasks/rewards/rating_figures.h"
#include "engine/tasks/rewards/reward_accuracy.h"
#include "engine/tasks/scores/intervals.h"
#include "engine/train/step/sequence_rewards.h"

namespace longhaul {

namespace {

Result<std::vector<std::vector<double>>> numbers_of(TaskRun& run, ScoringModel& model,
                                                    std::span<const AskedText> texts) {
  run.section("score");
  return numbers_at(run.compute, model.llama(), model.tokens_max(), texts, [&](std::size_t done) {
    run.section("score");
    run.events.progress(static_cast<double>(done), static_cast<double>(texts.size()), "answers");
  });
}

Value list_of(std::span<const double> numbers) {
  Value list = Value::make_array();
  for (const double one : numbers) list.push_back(std::isfinite(one) ? Value(one) : Value());
  return list;
}

// What is kept of an answer, and what it adds to the figures that are compared with a baseline.
ScoredItem rated_item(const RewardForm& form, const RatedAnswer& answer, std::span<const double> numbers) {
  ScoredItem item;
  item.line = answer.line;
  item.sample.set("reward", one_reward(form, numbers));
  if (form.method == "process") {
    const std::vector<double> right = step_probabilities(numbers);
    item.sample.set("steps", list_of(right)), item.sample.set("first_error", first_wrong_step(right));
    if (!answer.category.empty()) item.sample.set("category", answer.category);
    if (const auto truth = first_wrong_label(answer.values)) item.right = {first_wrong_step(right) == *truth};
    return item;
  }
  Value attributes = Value::make_table();
  ItemAmount squared{0, 0};
  for (std::size_t a = 0; a < numbers.size(); ++a) {
    attributes.set(form.attributes[a].name, numbers[a]);
    if (std::isnan(answer.values[a])) continue;
    squared.value += std::pow(numbers[a] - answer.values[a], 2), squared.weight += 1;
  }
  item.sample.set("attributes", std::move(attributes)), item.amounts = {squared};
  return item;
}

void add_first_error_accuracy(MeasuredItems& made) {
  double right = 0;
  const auto answers = static_cast<double>(made.scores.items.size());
  for (const ScoredItem& item : made.scores.items) right += item.right.front();
  if (answers == 0) return;
  const Interval interval = wilson_interval(right, answers);
  const std::string name = made.scores.figures.front();
  made.figures.push_back({name, right / answers, ""});
  made.figures.push_back({name + "_low", interval.low, ""});
  made.figures.push_back({name + "_high", interval.high, ""});
  made.figures.push_back({name + "_stderr", share_error(right, answers), ""});
}

}  // namespace

Result<MeasuredItems> measure_rewards(TaskRun& run, ScoringModel& model, const RewardForm& form,
                                      const std::string& file, std::span<const std::string> ignore) {
  LH_TRY(const ChatEncoder encoder, ChatEncoder::create(model.tokenizer(), model.folder()));
  LH_TRY(const RewardPairs read, read_reward_pairs(file, ignore, encoder, model.room()));
  LH_CHECK(check_categories(read.pairs, file));
  std::vector<std::vector<std::size_t>> places;
  std::vector<AskedText> texts;
  places.reserve(2 * read.pairs.size());  // they are borrowed
  for (const RewardPair& pair : read.pairs)
    for (const bool chosen : {true, false}) {
      const std::vector<std::int32_t>& ids = chosen ? pair.chosen : pair.rejected;
      places.push_back(asked_places(form, model.tokenizer(), ids, chosen ? pair.chosen_begin : pair.rejected_begin));
      texts.push_back({ids, places.back()});
    }
  LH_TRY(const auto numbers, numbers_of(run, model, texts));
  std::vector<double> rewards;
  for (const std::vector<double>& own : numbers) rewards.push_back(one_reward(form, own));
  MeasuredItems made;
  made.scores.figures = {"reward_accuracy"}, made.scores.compared = "reward_pairs_compared";
  double right = 0;
  for (std::size_t i = 0; i < read.pairs.size(); ++i) {
    ScoredItem item;
    item.line = read.pairs[i].line;
    item.right = {rewards[2 * i] > rewards[2 * i + 1]};
    item.sample.set("chosen", rewards[2 * i]);
    item.sample.set("rejected", rewards[2 * i + 1]);
    if (!read.pairs[i].category.empty()) item.sample.set("category", read.pairs[i].category);
    right += item.right.front();
    made.scores.items.push_back(std::move(item));
  }
  const auto pairs = static_cast<double>(read.pairs.size());
  made.figures.push_back({"reward_accuracy", right / pairs, ""});
  made.figures.push_back({"reward_accuracy_stderr", share_error(right, pairs), ""});
  for (Figure& figure : reward_accuracy(read.pairs, rewards, "reward_")) made.figures.push_back(std::move(figure));
  made.figures.push_back({"reward_pairs", pairs, ""});
  made.figures.push_back({"reward_pairs_too_long", static_cast<double>(read.too_long), ""});
  return made;
}

Result<MeasuredItems> measure_ratings(TaskRun& run, ScoringModel& model, const RewardForm& form,
                                      const std::string& file, std::span<const std::string> ignore) {
  LH_TRY(const ChatEncoder encoder, ChatEncoder::create(model.tokenizer(), model.folder()));
  LH_TRY(const RatedAnswers read,
         read_rated_answers(file, form, ignore, model.tokenizer(), encoder, model.room(), false));
  LH_TRY(const auto numbers, numbers_of(run, model, asked_texts(read.answers)));
  const bool steps = form.method == "process";
  MeasuredItems made;
  made.scores.compared = "reward_answers_compared";
  (steps ? made.scores.figures : made.scores.means) = {steps ? "reward_first_error_accuracy" : "reward_mse"};
  ItemAmount sum{0, 0};
  for (std::size_t i = 0; i < read.answers.size(); ++i) {
    ScoredItem item = rated_item(form, read.answers[i], numbers[i]);
    if (steps && item.right.empty()) continue;  // its labels do not say where the first error is
    for (const ItemAmount& one : item.amounts) sum.value += one.value, sum.weight += one.weight;
    made.scores.items.push_back(std::move(item));
  }
  if (!steps && sum.weight > 0) made.figures.push_back({"reward_mse", sum.value / sum.weight, ""});
  if (steps) add_first_error_accuracy(made);
  const auto figures = steps ? step_figures(read.answers, numbers, "reward_")
                             : attribute_figures(form, read.answers, numbers, "reward_");
  made.figures.insert(made.figures.end(), figures.begin(), figures.end());
  made.figures.push_back({"reward_answers", static_cast<double>(read.answers.size()), ""});
  made.figures.push_back({"reward_answers_too_long", static_cast<double>(read.too_long), ""});
  return made;
}

}  // namespace longhaul
