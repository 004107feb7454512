// Runs the statements of a template, once; jinja_evaluator.h evaluates their expressions and jinja_budget.h bounds
// both. Each turn of a loop, each call of a macro and each `with` has its own scope.
#pragma once

#include "engine/data/jinja/jinja_evaluator.h"

namespace longhaul {

class JinjaInterpreter {
 public:
  // `name` and `variables` must outlive the interpreter. `strict`: JinjaSetup::strict_undefined.
  JinjaInterpreter(const std::string& name, const JinjaTable& variables, const std::optional<std::tm>& now,
                   const JinjaLimits& limits, bool strict = false);
  Result<JinjaRendering> run(const JinjaNodes& nodes);

 private:
  enum class Flow { on, leave_loop, next_turn };
  using ScopePtr = std::shared_ptr<JinjaScope>;

  Result<Flow> execute(const JinjaNodes& nodes, const ScopePtr& scope, std::string& out);
  Result<Flow> execute_one(const JinjaNode& node, const ScopePtr& scope, std::string& out);
  Result<Flow> run_branches(const JinjaNode& node, const ScopePtr& scope, std::string& out);
  Result<Flow> run_loop(const JinjaNode& node, const ScopePtr& scope, std::string& out);
  Status run_set(const JinjaNode& node, const ScopePtr& scope);
  Status run_set_block(const JinjaNode& node, const ScopePtr& scope, std::string& out);
  Status run_generation(const JinjaNode& node, const ScopePtr& scope, std::string& out);
  void define_macro(const JinjaNode& node, const ScopePtr& scope);
  Result<JinjaValue> call_macro(const JinjaNode& node, const ScopePtr& scope, const JinjaArguments& arguments);
  Status assign(const std::vector<std::string>& targets, JinjaValue value, JinjaScope& scope);
  Status assign_one(const std::string& target, JinjaValue value, JinjaScope& scope);
  Status write(const JinjaValue& value, std::string& out);

  JinjaBudget budget_;
  JinjaEvaluator expressions_;
  int calls_ = 0, loops_ = 0;          // macros and loops that are being run
  const std::string* page_ = nullptr;  // the text of the whole template
  std::vector<std::pair<std::size_t, std::size_t>> answers_;
};

}  // namespace longhaul
