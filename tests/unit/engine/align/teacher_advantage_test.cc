#include "engine/align/teacher_advantage.h"

#include <doctest/doctest.h>

#include <cmath>

#include "base/digest/philox.h"
#include "engine/align/policy_loss.h"
#include "engine/align/policy_objective.h"
#include "tests/unit/engine/align/gradient_check.h"

using namespace longhaul;

namespace {

constexpr std::size_t vocabulary = 7;
using Logits = std::array<double, vocabulary>;

std::vector<double> log_softmax(const Logits& logits) {
  double sum = 0;
  for (const double one : logits) sum += std::exp(one);
  std::vector<double> out;
  for (const double one : logits) out.push_back(one - std::log(sum));
  return out;
}

double reverse_divergence(const Logits& student, const Logits& teacher) {
  const std::vector<double> s = log_softmax(student), t = log_softmax(teacher);
  double sum = 0;
  for (std::size_t i = 0; i < vocabulary; ++i) sum += std::exp(s[i]) * (s[i] - t[i]);
  return sum;
}

AlignSettings distill_settings() {
  AlignSettings s;
  s.method = "distill", s.beta = 0;
  return s;
}

}  // namespace

TEST_CASE("a teacher's advantage of a token is its log-probability less the student's") {
  const double student[] = {-1, -2, -0.25}, teacher[] = {-0.5, -2, -4};
  CHECK(teacher_advantages(student, teacher) == std::vector<double>{0.5, 0, -3.75});
  CHECK(teacher_advantages({}, {}).empty());
}

// Summed over all tokens that may be drawn, with their probabilities: nothing is estimated.
TEST_CASE("the mean loss of drawn tokens is the reverse divergence from the teacher, and its mean slope the gradient") {
  const Philox random{7, 1};
  for (std::uint64_t trial = 0; trial < 20; ++trial) {
    CAPTURE(trial);
    Logits student, teacher;
    for (std::size_t i = 0; i < vocabulary; ++i) {
      student[i] = 4 * random.uniform_double(trial * 14 + i) - 2;
      teacher[i] = 4 * random.uniform_double(trial * 14 + 7 + i) - 2;
    }
    const std::vector<double> s = log_softmax(student), t = log_softmax(teacher);
    double mean = 0;
    Logits gradient = {};
    for (std::size_t y = 0; y < vocabulary; ++y) {
      const std::span<const double> drawn(&s[y], 1), by_teacher(&t[y], 1);
      const std::vector<double> advantages = teacher_advantages(drawn, by_teacher);
      const PolicyLoss loss = policy_loss(distill_settings(), {drawn, drawn, by_teacher, 0, advantages});
      const double p = std::exp(s[y]);
      mean += p * loss.loss;
      for (std::size_t j = 0; j < vocabulary; ++j)  // d log p_y / d logit_j
        gradient[j] += p * loss.slopes[0] * ((y == j ? 1 : 0) - std::exp(s[j]));
    }
    CHECK(mean == doctest::Approx(reverse_divergence(student, teacher)).epsilon(1e-9));
    for (std::size_t j = 0; j < vocabulary; ++j) {
      constexpr double step = 1e-5;
      Logits above = student, below = student;
      above[j] += step, below[j] -= step;
      const double slope = (reverse_divergence(above, teacher) - reverse_divergence(below, teacher)) / (2 * step);
      CHECK(gradient[j] == doctest::Approx(slope).epsilon(1e-6).scale(1e-3));
    }
  }
}

TEST_CASE("an objective with a teacher sums losses and divergences of its answers, and its gradient agrees") {
  test::TrainingSetup setup(8, 20, 4);
  BatchStorage batch;
  REQUIRE(setup.source.fill(0, 4, batch).ok());
  std::vector<float> token(batch.ids.size());
  setup.model.forward(setup.context, 0, batch.view());
  setup.model.token_losses(setup.context, 0, token);
  double divergence = 0;
  std::vector<double> of_answers(4, 0.0), tokens(4, 0.0);
  for (std::size_t t = 0; t < token.size(); ++t) {
    batch.drawn.push_back(-token[t]);
    batch.reference.push_back(-token[t] + (t % 3 == 0 ? 0.5F : -0.75F));
    batch.advantages.push_back(batch.reference[t] - batch.drawn[t]);
    if (batch.targets[t] < 0) continue;
    const std::size_t answer = t / static_cast<std::size_t>(batch.length);
    const double ratio = t % 3 == 0 ? 0.5 : -0.75;
    of_answers[answer] += std::exp(ratio) - ratio - 1, tokens[answer] += 1;
  }
  for (std::size_t answer = 0; answer < 4; ++answer) {
    for (const double field : {0.0, 1 / tokens[answer], 0.0, 0.0}) batch.per_sequence.push_back(field);
    divergence += of_answers[answer] / tokens[answer];
  }
  PolicyObjective objective(distill_settings(), {});
  CHECK(objective.extra_names() == std::vector<std::string>{"kl", "clip_fraction"});
  const ObjectiveSums sums = test::check_gradient(setup, objective, batch).sums;
  CHECK(sums.count == 4);
  CHECK(sums.extra[0] == doctest::Approx(divergence).epsilon(1e-4));
  CHECK(sums.extra[1] == 0);
}
