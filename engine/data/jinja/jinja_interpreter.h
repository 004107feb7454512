// Runs the nodes of a template, once. Names are looked up from the innermost scope outwards: each turn of a loop, each
// call of a macro and each `with` has its own.
#pragma once

#include "engine/data/jinja/jinja_ast.h"
#include "engine/data/jinja/jinja_template.h"

namespace longhaul {

class JinjaInterpreter {
 public:
  // What is given must outlive the interpreter.
  JinjaInterpreter(const std::string& name, const JinjaTable& variables, const std::optional<std::tm>& now,
                   const JinjaLimits& limits);
  Result<JinjaRendering> run(const JinjaNodes& nodes);

 private:
  enum class Flow { on, leave_loop, next_turn };
  struct Scope {
    JinjaTable names;
    std::shared_ptr<Scope> outer;
  };
  using ScopePtr = std::shared_ptr<Scope>;

  Result<Flow> execute(const JinjaNodes& nodes, const ScopePtr& scope, std::string& out);
  Result<Flow> execute_one(const JinjaNode& node, const ScopePtr& scope, std::string& out);
  Result<Flow> run_branches(const JinjaNode& node, const ScopePtr& scope, std::string& out);
  Result<Flow> run_loop(const JinjaNode& node, const ScopePtr& scope, std::string& out);
  Status run_set(const JinjaNode& node, const ScopePtr& scope);
  Status run_set_block(const JinjaNode& node, const ScopePtr& scope, std::string& out);
  Status run_generation(const JinjaNode& node, const ScopePtr& scope, std::string& out);
  void define_macro(const JinjaNode& node, const ScopePtr& scope);
  Result<JinjaValue> call_macro(const JinjaNode& node, const ScopePtr& scope, const JinjaArguments& arguments);
  Status assign(const std::vector<std::string>& targets, JinjaValue value, Scope& scope);
  Status assign_one(const std::string& target, JinjaValue value, Scope& scope);
  Status write(const JinjaValue& value, std::string& out);

  Result<JinjaValue> evaluate(const JinjaNode& node, const ScopePtr& scope);
  Result<JinjaValue> evaluate_here(const JinjaNode& node, const ScopePtr& scope);
  Result<JinjaValue> look_up(const std::string& name, const Scope* scope) const;
  Result<JinjaValue> evaluate_parts(const JinjaNode& node, const ScopePtr& scope);
  Result<JinjaValue> evaluate_slice(const JinjaNode& node, const ScopePtr& scope);
  Result<JinjaValue> evaluate_logic(const JinjaNode& node, const ScopePtr& scope);
  Result<JinjaValue> evaluate_compare(const JinjaNode& node, const ScopePtr& scope);
  Result<JinjaArguments> evaluate_arguments(const JinjaNode& node, const ScopePtr& scope);
  // `captured` stands where a chain of filters of a block begins.
  Result<JinjaValue> evaluate_filters(const JinjaNode* node, const JinjaValue& captured, const ScopePtr& scope);

  void define_functions(const std::optional<std::tm>& now);
  Status spend(std::uint64_t steps);
  Status check(const JinjaValue& value);
  Error at_line(const JinjaNode& node, Error error) const;

  const std::string& name_;
  const JinjaTable& variables_;
  const JinjaLimits limits_;
  JinjaTable functions_;
  std::uint64_t steps_ = 0;
  int depth_ = 0, calls_ = 0, loops_ = 0;
  std::uint64_t names_read_ = 0;  // how often a member of a namespace was looked at
  const std::string* page_ = nullptr;
  std::vector<std::pair<std::size_t, std::size_t>> answers_;
};

}  // namespace longhaul
