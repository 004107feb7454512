#include "engine/tasks/rewards/pairwise_judge.h"

#include <algorithm>
#include <cmath>

#include "base/files/files.h"
#include "base/text/text.h"

namespace longhaul {

namespace {

constexpr std::size_t questions_together = 16;

Result<std::int32_t> letter_token(const Tokenizer& tokenizer, const char* letter, const std::string& folder) {
  LH_TRY(const std::vector<std::int32_t> ids, tokenizer.encode(letter));
  if (ids.size() == 1) return ids.front();
  return make_error(ErrorCode::invalid_input,
                    format("the judge {} writes the letter {} in {} tokens", folder, letter, ids.size()),
                    "use a judge whose tokenizer has a token for it");
}

}  // namespace

std::string judge_question(const std::string& question, const std::string& constitution, const ComparedAnswers& asked,
                           bool swapped) {
  const std::pair<std::string_view, const std::string*> places[] = {
      {"{constitution}", &constitution},
      {"{prompt}", &asked.prompt},
      {"{answer_a}", swapped ? &asked.second : &asked.first},
      {"{answer_b}", swapped ? &asked.first : &asked.second}};
  std::string text;
  for (std::size_t at = 0; at < question.size();) {
    const std::string_view rest = std::string_view(question).substr(at);
    const auto* place = std::ranges::find_if(places, [&](const auto& one) { return rest.starts_with(one.first); });
    if (place == std::end(places)) {
      text += question[at++];
      continue;
    }
    text += *place->second;
    at += place->first.size();
  }
  return text;
}

std::string prompt_text(std::span<const ChatMessage> messages) {
  if (messages.size() == 1) return messages.front().content;
  std::vector<std::string> turns;
  for (const ChatMessage& message : messages) turns.push_back(message.role + ": " + message.content);
  return join(turns, "\n");
}

Result<std::unique_ptr<PairwiseJudge>> PairwiseJudge::load(const TaskRun& run, const std::string& folder,
                                                           const JudgeSettings& settings,
                                                           const std::string& constitution,
                                                           const std::string& precision) {
  LH_TRY(Tokenizer tokenizer, Tokenizer::load(join_path(folder, "tokenizer.json")));
  LH_TRY(InferenceModel model, InferenceModel::load(folder, precision == "bf16" ? DType::bf16 : DType::f32));
  LH_CHECK(check_vocabulary(tokenizer, model.shape().vocab_size, folder));
  std::unique_ptr<PairwiseJudge> judge(
      new PairwiseJudge(run, std::move(tokenizer), std::move(model), settings, constitution));
  LH_TRY(judge->encoder_, ChatEncoder::create(judge->tokenizer_, folder));
  LH_TRY(judge->a_, letter_token(judge->tokenizer_, "A", folder));
  LH_TRY(judge->b_, letter_token(judge->tokenizer_, "B", folder));
  return judge;
}

Result<std::vector<std::int32_t>> PairwiseJudge::encode(const ComparedAnswers& asked, bool swapped) const {
  const ChatMessage message = {.role = "user",
                               .content = judge_question(settings_.question, constitution_, asked, swapped)};
  return encoder_->encode_prompt({&message, 1});
}

Status PairwiseJudge::ask(std::span<Question> questions) {
  const auto vocabulary = static_cast<std::size_t>(model_.shape().vocab_size);
  for (std::size_t first = 0; first < questions.size(); first += questions_together) {
    run_.section("judge");
    const auto batch = questions.subspan(first, std::min(questions_together, questions.size() - first));
    std::vector<KvCache> caches;
    for (const Question& one : batch) caches.push_back(model_.make_cache(static_cast<std::int64_t>(one.ids.size())));
    std::vector<SequenceStep> steps;
    for (std::size_t i = 0; i < batch.size(); ++i) steps.push_back({&caches[i], batch[i].ids});
    std::vector<float> logits(batch.size() * vocabulary);
    LH_CHECK(model_.forward(run_.compute, steps, LogitsWanted::last, logits));
    for (std::size_t i = 0; i < batch.size(); ++i) {
      const std::span<const float> row = std::span(logits).subspan(i * vocabulary, vocabulary);
      const double most = *std::ranges::max_element(row);
      double sum = 0;
      for (const float logit : row) sum += std::exp(logit - most);
      const double a = std::exp(row[static_cast<std::size_t>(a_)] - most) / sum;
      const double b = std::exp(row[static_cast<std::size_t>(b_)] - most) / sum;
      const double log_odds =
          static_cast<double>(row[static_cast<std::size_t>(b_)]) - row[static_cast<std::size_t>(a_)];
      batch[i].first_letter = 1 / (1 + std::exp(log_odds)), batch[i].letters = a + b;
    }
  }
  return {};
}

Result<std::vector<Preference>> PairwiseJudge::compare(std::span<const ComparedAnswers> asked) {
  std::vector<Preference> preferences(asked.size());
  std::vector<Question> questions;  // two of each that fits
  std::vector<std::size_t> whose;
  const auto longest = static_cast<std::size_t>(model_.shape().text_length_max());
  for (std::size_t i = 0; i < asked.size(); ++i) {
    LH_TRY(std::vector<std::int32_t> in_order, encode(asked[i], false));
    LH_TRY(std::vector<std::int32_t> swapped, encode(asked[i], true));
    if (const std::size_t length = std::max(in_order.size(), swapped.size()); length > longest) {
      preferences[i].problem = format("the judge's question has {} tokens, its context {}", length, longest);
      continue;
    }
    questions.push_back({std::move(in_order)}), questions.push_back({std::move(swapped)});
    whose.push_back(i);
  }
  LH_CHECK(ask(questions));
  for (std::size_t k = 0; k < whose.size(); ++k) {
    const Question &in_order = questions[2 * k], &swapped = questions[2 * k + 1];
    Preference& preference = preferences[whose[k]];
    const double first = (in_order.first_letter + 1 - swapped.first_letter) / 2;
    if (!std::isfinite(first)) {
      preference.problem = "the judge's numbers are none";
      continue;
    }
    preference.first = first;
    preference.flips = (in_order.first_letter > 0.5) == (swapped.first_letter > 0.5);
    preference.letters = (in_order.letters + swapped.letters) / 2;
  }
  return preferences;
}

}  // namespace longhaul
