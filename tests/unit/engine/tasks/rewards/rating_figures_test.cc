#include "engine/tasks/rewards/rating_figures.h"

#include <doctest/doctest.h>

#include <cmath>

using namespace longhaul;

namespace {

RatedAnswer answer_with(std::vector<double> values, const std::string& category = "") {
  return {{1, 2, 3}, {2}, std::move(values), category};
}
double rating_figure(const std::vector<Figure>& figures, const std::string& name) {
  for (const Figure& figure : figures)
    if (figure.name == name) return figure.value;
  FAIL("no figure ", name);
  return 0;
}
bool has_figure(const std::vector<Figure>& figures, const std::string& name) {
  for (const Figure& figure : figures)
    if (figure.name == name) return true;
  return false;
}

}  // namespace

TEST_CASE("attributes: squared errors beside those of the mean alone, and correlations with Fisher's interval") {
  RewardForm form;
  form.method = "attributes", form.attributes = {{"help"}, {"length"}, {"rare"}};
  const std::vector<RatedAnswer> answers = {answer_with({0, 1, NAN}), answer_with({1, 1, NAN}),
                                            answer_with({2, 1, NAN}), answer_with({4, NAN, NAN}),
                                            answer_with({3, 1, NAN})};
  const std::vector<std::vector<double>> numbers = {{0.5, 1, 0}, {1, 2, 0}, {1.5, 0, 0}, {3, 9, 0}, {4, 1, 0}};
  const auto figures = attribute_figures(form, answers, numbers, "reward_");
  CHECK(rating_figure(figures, "reward_values_help") == 5);
  CHECK(rating_figure(figures, "reward_mse_help") == doctest::Approx((0.25 + 0 + 0.25 + 1 + 1) / 5).epsilon(1e-12));
  CHECK(rating_figure(figures, "reward_mean_only_mse_help") == doctest::Approx(2).epsilon(1e-12));
  // Of 0 1 2 4 3 with 0.5 1 1.5 3 4: 8 / sqrt(10 * 8.5).
  const double r = 8 / std::sqrt(10 * 8.5);
  CHECK(rating_figure(figures, "reward_pearson_help") == doctest::Approx(r).epsilon(1e-12));
  CHECK(rating_figure(figures, "reward_pearson_help_low") ==
        doctest::Approx(std::tanh(std::atanh(r) - 1.959963984540054 / std::sqrt(2.0))).epsilon(1e-9));
  CHECK(rating_figure(figures, "reward_pearson_help_high") < 1);
  CHECK(rating_figure(figures, "reward_values_length") == 4);
  CHECK(rating_figure(figures, "reward_mse_length") == doctest::Approx(0.5));
  CHECK_FALSE(has_figure(figures, "reward_pearson_length"));  // its values are all the same
  CHECK(rating_figure(figures, "reward_values_rare") == 0);
  CHECK_FALSE(has_figure(figures, "reward_mse_rare"));
}

TEST_CASE("steps: the first that is not likelier right than wrong, beside the first label that is not right") {
  const double right[] = {0.9, 0.51}, wrong[] = {0.9, 0.5, 0.9}, odd[] = {0.9, NAN};
  CHECK(first_wrong_step(right) == -1);
  CHECK(first_wrong_step(wrong) == 1);
  CHECK(first_wrong_step(odd) == 1);
  const double all_right[] = {1, 0.5}, known[] = {1, 0, NAN}, unknown[] = {1, NAN}, before[] = {NAN, 0};
  CHECK(first_wrong_label(all_right) == -1);
  CHECK(first_wrong_label(known) == 1);
  CHECK_FALSE(first_wrong_label(unknown).has_value());
  CHECK_FALSE(first_wrong_label(before).has_value());
}

TEST_CASE("steps: ProcessBench's F1 is the harmonic mean of the shares of answers with and without a wrong step") {
  // Found: 1 of 2 wrong ones, 2 of 3 right ones; one answer does not say where its first wrong step is.
  const std::vector<RatedAnswer> answers = {answer_with({1, 0, NAN}, "sums"), answer_with({0, 1}, "sums"),
                                            answer_with({1, 1}, "sums"),      answer_with({1}, "other"),
                                            answer_with({1, 1}, "other"),     answer_with({1, NAN}, "other")};
  const std::vector<std::vector<double>> numbers = {{2, -1, 5}, {3, 3}, {1, 0.1}, {-0.1}, {1, 2}, {-1, 5}};
  const auto figures = step_figures(answers, numbers, "reward_");
  CHECK(rating_figure(figures, "reward_wrong_accuracy") == 0.5);
  CHECK(rating_figure(figures, "reward_right_accuracy") == doctest::Approx(2.0 / 3));
  CHECK(rating_figure(figures, "reward_first_error_f1") == doctest::Approx(2 * 0.5 * (2.0 / 3) / (0.5 + 2.0 / 3)));
  CHECK(rating_figure(figures, "reward_wrong_accuracy_low") < 0.5);
  CHECK(rating_figure(figures, "reward_first_error_f1_sums") == doctest::Approx(2 * 0.5 / 1.5));
  CHECK(rating_figure(figures, "reward_right_accuracy_other") == 0.5);
  CHECK_FALSE(has_figure(figures, "reward_first_error_f1_other"));  // none of them is wrong
  // Steps with a label: 2 and 1 and 2 and 0 and 2 and 0 of 10 on their side.
  CHECK(rating_figure(figures, "reward_step_accuracy") == doctest::Approx(7.0 / 10));
  CHECK(step_figures({}, {}, "reward_").empty());
}
