// Guessed tokens and prompts that several answers have in common: fewer steps and fewer tokens, the same answers.
#include <doctest/doctest.h>

#include <cmath>

#include "base/system/clock.h"
#include "engine/infer/generate/answer_batch.h"
#include "engine/infer/generate/generation.h"
#include "engine/infer/generate/ngram_draft.h"

namespace longhaul {
namespace {

// Each of six tokens is followed by the next one with a probability of some 0.9, else by any other or by the end; where
// it did not follow its own one, by the one after the next.
class RepeatingModel final : public TextModel {
 public:
  static constexpr std::int32_t end_token = 6;
  static constexpr std::size_t vocabulary = 7;
  explicit RepeatingModel(int slots) : texts_(static_cast<std::size_t>(slots)) {
    info_ = {vocabulary, 1000, slots, {end_token}};
    info_.copies = info_.forgets = true;
  }
  std::int64_t passes = 0, tokens_read = 0, copied = 0;
  void copy_nothing() { info_.copies = false; }
  void keep_texts() { info_.keeps = true; }
  std::span<const std::int32_t> held(int slot) const override { return texts_[static_cast<std::size_t>(slot)]; }

  static std::vector<float> logits_after(std::int32_t before, std::int32_t token) {
    std::vector<float> logits(vocabulary, 0);
    logits[static_cast<std::size_t>((token + (token == (before + 1) % 6 ? 1 : 2)) % 6)] = 4;
    logits[end_token] = -1;
    return logits;
  }
  const TextModelInfo& info() const override { return info_; }
  Result<std::vector<std::int32_t>> encode(std::string_view) const override { return std::vector<std::int32_t>(); }
  Result<std::vector<std::int32_t>> encode_chat(const std::vector<ChatMessage>&, const Value&) const override {
    return std::vector<std::int32_t>();
  }
  std::string token_bytes(std::int32_t token) const override {
    return token == end_token ? std::string() : std::string(1, static_cast<char>('a' + token));
  }
  void reset(int slot) override { text(slot).clear(); }
  std::int64_t copy_beginning(int from, int to, std::int64_t tokens) override {
    REQUIRE(text(to).empty());
    text(to).assign(text(from).begin(), text(from).begin() + tokens);
    copied += tokens;
    return tokens;
  }
  void forget_last(int slot, std::int64_t tokens) override {
    text(slot).resize(text(slot).size() - static_cast<std::size_t>(tokens));
  }
  Status forward(std::span<const TextStep> steps, std::vector<float>& logits,
                 std::vector<std::int32_t>& drawn) override {
    ++passes;
    logits.clear(), drawn.assign(steps.size(), -1);
    for (const TextStep& step : steps)
      for (std::size_t t = 0; t < step.tokens.size(); ++t) {
        text(step.slot).push_back(step.tokens[t]), ++tokens_read;
        const bool last = t + 1 == step.tokens.size();
        if (step.wanted == TextStep::Logits::none || (step.wanted == TextStep::Logits::last && !last)) continue;
        const std::vector<std::int32_t>& read = text(step.slot);
        const std::vector<float> row = logits_after(read.size() > 1 ? read[read.size() - 2] : -1, read.back());
        logits.insert(logits.end(), row.begin(), row.end());
      }
    return {};
  }

 private:
  std::vector<std::int32_t>& text(int slot) { return texts_[static_cast<std::size_t>(slot)]; }
  TextModelInfo info_;
  std::vector<std::vector<std::int32_t>> texts_;
};

std::vector<GeneratedAnswer> answers_of(RepeatingModel& model, std::span<const std::vector<std::int32_t>> prompts,
                                        std::int64_t draft_tokens, std::int64_t max_tokens = 60,
                                        double temperature = 1) {
  std::vector<AnswerRequest> requests;
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    requests.push_back({prompts[i], {}});
    requests.back().sampling.temperature = temperature;
    requests.back().sampling.seed = 7, requests.back().sampling.stream = i;
  }
  AnswerBatchOptions options;
  options.max_tokens = max_tokens, options.draft_tokens = draft_tokens;
  auto answers = generate_answers(model, SystemClock(), requests, options);
  REQUIRE_MESSAGE(answers.ok(), answers.error().message());
  return std::move(*answers);
}

const std::vector<std::vector<std::int32_t>> kRepeating(40, {0, 1, 2, 3, 4, 5, 0, 1, 2, 3, 4, 5, 0, 1});

}  // namespace

TEST_CASE("a guess is what followed the longest, latest place of the last tokens, and goes on with its own period") {
  using Tokens = std::vector<std::int32_t>;
  CHECK(ngram_draft(Tokens{1, 2, 3, 4, 9, 1, 2, 3, 4}, 3) == Tokens{9, 1, 2});
  CHECK(ngram_draft(Tokens{5, 1, 2, 8, 7, 1, 2, 9, 6, 1, 2}, 1) == Tokens{9});  // the latest of two places
  CHECK(ngram_draft(Tokens{3, 1, 2, 8, 7, 1, 2, 9, 3, 1, 2}, 1) == Tokens{8});  // three tokens before two
  CHECK(ngram_draft(Tokens{7, 1, 2, 1, 2}, 5) == Tokens{1, 2, 1, 2, 1});        // beyond the end of the text
  CHECK(ngram_draft(Tokens{4, 4, 4}, 3) == Tokens{4, 4, 4});
  CHECK(ngram_draft(Tokens{1, 2, 3, 4, 5}, 4).empty());
  CHECK(ngram_draft(Tokens{1, 2, 3, 1, 2}, 0).empty());
  for (const Tokens& text : {Tokens{}, Tokens{1}, Tokens{1, 1}}) CHECK(ngram_draft(text, 4).empty());
}

TEST_CASE("answers with guessed tokens are those without, token by token, in fewer passes of the model") {
  RepeatingModel plain(8), guessing(8);
  const std::vector<GeneratedAnswer> expected = answers_of(plain, kRepeating, 0),
                                     got = answers_of(guessing, kRepeating, 8);
  std::int64_t drafted = 0, accepted = 0, tokens = 0, steps = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    CHECK(got[i].tokens == expected[i].tokens);
    CHECK(got[i].logprobs == expected[i].logprobs);
    CHECK(got[i].text == expected[i].text);
    CHECK(got[i].cut == expected[i].cut);
    CHECK(expected[i].drafted == 0);
    CHECK(expected[i].decode_steps == std::ssize(expected[i].tokens) - 1);
    drafted += got[i].drafted, accepted += got[i].accepted;
    tokens += std::ssize(got[i].tokens), steps += got[i].decode_steps;
  }
  CHECK(accepted > 0);
  CHECK(accepted < drafted);
  CHECK(steps == tokens - std::ssize(got) - accepted);  // a step gives a token, and those guessed rightly
  CHECK(3 * guessing.passes < 2 * plain.passes);
}

TEST_CASE("what is drawn behind a guess has the model's probabilities, whether the guess was right or not") {
  RepeatingModel model(8);
  const std::vector<std::vector<std::int32_t>> prompts(2000, kRepeating.front());
  double behind = 0;  // tokens that follow 1, 2 in answers
  std::vector<double> counts(RepeatingModel::vocabulary);
  for (const GeneratedAnswer& answer : answers_of(model, prompts, 4, 12))
    for (std::size_t t = 2; t < answer.tokens.size(); ++t)
      if (answer.tokens[t - 2] == 1 && answer.tokens[t - 1] == 2)
        ++behind, ++counts[static_cast<std::size_t>(answer.tokens[t])];
  const std::vector<float> logits = RepeatingModel::logits_after(1, 2);
  double whole = 0, chi_square = 0;
  for (const float logit : logits) whole += std::exp(logit);
  for (std::size_t token = 0; token < counts.size(); ++token) {
    const double expected = behind * std::exp(logits[token]) / whole;
    chi_square += (counts[token] - expected) * (counts[token] - expected) / expected;
  }
  CHECK(behind > 1000);
  CHECK(chi_square < 22.5);  // six degrees of freedom: 0.999
}

TEST_CASE("guesses end with the answer: at its longest, at an end token, and where the likeliest is taken") {
  RepeatingModel plain(1), guessing(1);
  const std::vector<std::vector<std::int32_t>> one(1, kRepeating.front());
  for (const std::int64_t longest : {1, 2, 3, 9}) {
    CAPTURE(longest);
    const auto expected = answers_of(plain, one, 0, longest, 0), got = answers_of(guessing, one, 8, longest, 0);
    CHECK(std::ssize(got[0].tokens) == longest);
    CHECK(got[0].tokens == expected[0].tokens);
    CHECK(got[0].cut);
    CHECK(got[0].drafted <= std::max<std::int64_t>(0, longest - 2));
    CHECK(got[0].accepted == got[0].drafted);
  }
}

TEST_CASE("answers to one prompt read it once where the model copies beginnings") {
  std::vector<std::vector<std::int32_t>> prompts(6, kRepeating[0]);
  prompts.resize(12, {3, 4, 5, 0, 1, 2, 3});
  prompts.resize(14, {2});
  RepeatingModel apart(14), copying(14), few(3);
  apart.copy_nothing();
  const auto expected = answers_of(apart, prompts, 0), got = answers_of(copying, prompts, 0);
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    CHECK(got[i].tokens == expected[i].tokens);
    CHECK(got[i].logprobs == expected[i].logprobs);
  }
  CHECK(copying.copied == 5 * (13 + 6));
  CHECK(apart.tokens_read - copying.tokens_read == copying.copied);
  const auto in_turn = answers_of(few, prompts, 0);  // of a group some have ended when others begin
  for (std::size_t i = 0; i < prompts.size(); ++i) CHECK(in_turn[i].tokens == expected[i].tokens);
}

TEST_CASE("a text that goes on is read from where its slot ends, and the answers are the same") {
  for (const std::int64_t drafts : {0, 4})
    for (const int slots : {14, 5}) {
      CAPTURE(drafts);
      CAPTURE(slots);
      RepeatingModel fresh(slots), keeping(slots);
      keeping.keep_texts();
      std::vector<std::vector<std::int32_t>> prompts(6, kRepeating[0]);
      prompts.resize(12, {3, 4, 5, 0, 1, 2, 3});
      prompts.resize(14, {2});
      std::vector<std::int64_t> read[2] = {{0, 0, 0}, {0, 0, 0}};
      for (std::size_t turn = 0; turn < 3; ++turn) {
        const auto expected = answers_of(fresh, prompts, drafts, 12), got = answers_of(keeping, prompts, drafts, 12);
        for (std::size_t i = 0; i < prompts.size(); ++i) {
          CHECK(got[i].tokens == expected[i].tokens);
          CHECK(got[i].logprobs == expected[i].logprobs);
          read[0][turn] += expected[i].read, read[1][turn] += got[i].read;
          // Its answer, and what somebody said then.
          prompts[i].insert(prompts[i].end(), got[i].tokens.begin(), got[i].tokens.end());
          prompts[i].insert(prompts[i].end(), {0, 1});
        }
      }
      CHECK(read[1][0] == read[0][0]);
      for (const std::size_t turn : {1, 2}) {
        // The last token of a turn, unless it was guessed, and two more.
        if (slots == 14) CHECK(read[1][turn] <= 14 * 3);
        if (slots == 14 && drafts == 0) CHECK(read[1][turn] == 14 * 3);
        CHECK(read[1][turn] < read[0][turn]);
      }
    }
}

TEST_CASE("a model that forgets nothing refuses guesses") {
  TextModelInfo info;
  info.vocabulary = 10, info.context_length = 10;
  GenerationRequest request;
  request.prompt = {1}, request.max_tokens = 2;
  CHECK(check_request(request, info).ok());
  request.draft_tokens = 2;
  CHECK_FALSE(check_request(request, info).ok());
  info.forgets = true;
  CHECK(check_request(request, info).ok());
  info.draws = true;
  CHECK_FALSE(check_request(request, info).ok());
}

}  // namespace longhaul
