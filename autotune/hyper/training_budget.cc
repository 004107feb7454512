#include "autotune/hyper/training_budget.h"

#include <cmath>
#include <vector>

#include "base/text/text.h"

namespace longhaul::hyper {
namespace {

constexpr double seconds_per_day = 86'400;

struct BudgetTerm {
  const char* name;
  double TrainingBudget::* member;
};
constexpr BudgetTerm budget_terms[] = {{"parameters", &TrainingBudget::parameters},
                                       {"tokens", &TrainingBudget::tokens},
                                       {"days", &TrainingBudget::days},
                                       {"gpus", &TrainingBudget::gpus},
                                       {"tflops", &TrainingBudget::tflops}};

Status check_signs(const TrainingBudget& budget) {
  std::vector<std::string> wrong;
  const auto check = [&](const char* name, double value) {
    if (value < 0 || !std::isfinite(value)) wrong.push_back(format("{} = {:g}", name, value));
  };
  for (const BudgetTerm& term : budget_terms) check(term.name, budget.*term.member);
  check("tokens_per_parameter", budget.tokens_per_parameter);
  if (!(budget.flops_per_parameter_token > 0) || !std::isfinite(budget.flops_per_parameter_token))
    wrong.push_back(format("flops_per_parameter_token = {:g}", budget.flops_per_parameter_token));
  if (wrong.empty()) return {};
  return make_error(ErrorCode::invalid_input, "of a budget: " + join(wrong, ", "), "give positive numbers");
}

}  // namespace

Result<TrainingBudget> solve_budget(const TrainingBudget& given) {
  LH_CHECK(check_signs(given));
  TrainingBudget b = given;
  const double ratio = b.tokens_per_parameter;
  if (ratio > 0 && b.parameters > 0 && b.tokens > 0)
    return make_error(ErrorCode::invalid_input,
                      format("parameters, tokens and tokens_per_parameter = {:g} are one too many", ratio),
                      "leave one of the three out");
  if (ratio > 0 && b.parameters > 0) b.tokens = ratio * b.parameters;
  if (ratio > 0 && b.tokens > 0 && b.parameters == 0) b.parameters = b.tokens / ratio;
  std::vector<std::string> missing;
  for (const BudgetTerm& term : budget_terms)
    if (b.*term.member == 0) missing.emplace_back(term.name);
  const double available = b.days * seconds_per_day * b.gpus * b.tflops * 1e12;  // 0 if one of them is missing
  const double per_token = b.flops_per_parameter_token;
  if (ratio > 0 && b.parameters == 0 && missing.size() == 2) {
    b.parameters = std::sqrt(available / (per_token * ratio));
    b.tokens = ratio * b.parameters;
    return b;
  }
  if (missing.empty())
    return make_error(ErrorCode::invalid_input, "of a budget everything is given, there is nothing to find out",
                      "leave out one of parameters, tokens, days, gpus and tflops");
  if (missing.size() > 1)
    return make_error(ErrorCode::invalid_input, "of a budget " + join(missing, ", ") + " are missing",
                      "one of them can be found out, or parameters and tokens together with tokens_per_parameter = 20");
  const double needed = per_token * b.parameters * b.tokens;
  if (b.parameters == 0) b.parameters = available / (per_token * b.tokens);
  if (b.tokens == 0) b.tokens = available / (per_token * b.parameters);
  if (b.days == 0) b.days = needed / (seconds_per_day * b.gpus * b.tflops * 1e12);
  if (b.gpus == 0) b.gpus = needed / (b.days * seconds_per_day * b.tflops * 1e12);
  if (b.tflops == 0) b.tflops = needed / (b.days * seconds_per_day * b.gpus * 1e12);
  return b;
}

}  // namespace longhaul::hyper
