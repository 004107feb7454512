#include "engine/tasks/rewards/rated_answers.h"

#include <algorithm>
#include <cmath>

#include "base/text/text.h"
#include "engine/data/rows/rated_rows.h"
#include "engine/data/samples/instruct_data.h"

namespace longhaul {

namespace {

// Two steps that end at one token would have one number.
Status check_places(const RatedAnswer& answer, const std::string& file) {
  const bool ascending = std::ranges::adjacent_find(answer.places, std::greater_equal<>()) == answer.places.end();
  if (answer.places.size() == answer.values.size() && ascending) return {};
  return make_error(
      ErrorCode::invalid_input,
      format("{}:{}: {} steps end at {} tokens", file, answer.line, answer.values.size(), answer.places.size()),
      "use another step_separator, which the tokenizer does not join with what stands around it");
}

}  // namespace

Result<RatedAnswers> read_rated_answers(const std::string& file, const RewardForm& form,
                                        std::span<const std::string> ignore, const Tokenizer& tokenizer,
                                        const ChatEncoder& encoder, TextRoom room, bool needs_value) {
  LH_TRY(std::vector<RatedExample> examples, read_rated(file, form, ignore, needs_value));
  RatedAnswers made;
  for (RatedExample& example : examples) {
    auto encoded = encoder.encode_answer(example.prompt, example.answer, example.tools);
    LH_TRY(ChatTokens tokens, std::move(encoded).with_context(format("{}:{}", file, example.line)));
    JudgedTokens judged = judged_tokens(std::move(tokens));
    RatedAnswer answer;
    answer.values = std::move(example.values), answer.category = std::move(example.category);
    answer.line = example.line, answer.ids = std::move(judged.ids);
    if (answer.ids.empty())
      return make_error(ErrorCode::invalid_input, format("{}:{}: the answer has no tokens", file, example.line));
    if (static_cast<std::int64_t>(answer.ids.size()) > room.tokens()) {
      ++made.too_long;
      continue;
    }
    answer.places = asked_places(form, tokenizer, answer.ids, judged.answer_begin);
    if (form.method == "process") LH_CHECK(check_places(answer, file));
    made.answers.push_back(std::move(answer));
  }
  if (!made.answers.empty()) return made;
  return make_error(ErrorCode::invalid_input,
                    format("{}: none of {} answers fits into sequence_length = {}", file, made.too_long, room.text()),
                    "use a longer sequence_length");
}

Status RatedAnswerSource::fill(std::int64_t first, std::int64_t count, BatchStorage& out) {
  std::vector<std::span<const std::int32_t>> texts;
  std::vector<const RatedAnswer*> here;
  std::size_t longest = 0;
  for (std::int64_t k = first; k < first + count; ++k) {
    const std::int64_t i =
        order_ == SampleOrder::sequential ? k % samples_per_epoch() : example_of_sample(k, samples_per_epoch(), seed_);
    here.push_back(&answers_[static_cast<std::size_t>(i)]);
    texts.emplace_back(here.back()->ids);
    longest = std::max(longest, here.back()->ids.size());
  }
  longest += before_.size();
  // Few different lengths: compiled products are found again.
  fill_scored_rows(texts, std::min(sequence_length_, (static_cast<std::int64_t>(longest) + 31) / 32 * 32), out,
                   before_);
  out.per_sequence.clear();
  if (!steps_) {
    for (const RatedAnswer* answer : here)
      out.per_sequence.insert(out.per_sequence.end(), answer->values.begin(), answer->values.end());
    return {};
  }
  const auto width = static_cast<std::size_t>(out.length);
  out.returns.assign(out.ids.size(), 0.0F);
  for (std::size_t row = 0; row < here.size(); ++row) {
    const std::size_t begin = row * width + before_.size(), end = begin + here[row]->ids.size() - 1;
    out.targets[end] = no_target, out.weights[end] = 0;
    for (std::size_t i = 0; i < here[row]->places.size(); ++i) {
      if (std::isnan(here[row]->values[i])) continue;
      const std::size_t at = begin + here[row]->places[i];
      out.targets[at] = 0, out.weights[at] = 1, out.returns[at] = static_cast<float>(here[row]->values[i]);
    }
  }
  return {};
}

std::vector<AskedText> asked_texts(std::span<const RatedAnswer> answers) {
  std::vector<AskedText> texts;
  for (const RatedAnswer& answer : answers) texts.push_back({answer.ids, answer.places});
  return texts;
}

}  // namespace longhaul
