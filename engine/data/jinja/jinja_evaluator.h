// Evaluates the expressions of a template. Statements belong to jinja_interpreter.h; what is done to values, to
// values/. Names are looked up from the innermost scope outwards, then among the variables that the template was given,
// then among the global functions.
#pragma once

#include "engine/data/jinja/jinja_ast.h"
#include "engine/data/jinja/jinja_budget.h"

namespace longhaul {

// The names that one block sets; those of the blocks around it are seen through it.
struct JinjaScope {
  JinjaTable names;
  std::shared_ptr<JinjaScope> outer;  // null: the outermost
};

// One rendering, one thread.
class JinjaEvaluator {
 public:
  // `name` stands in errors, as name:line. All but `now` must outlive the evaluator. `strict`:
  // JinjaSetup::strict_undefined.
  JinjaEvaluator(const std::string& name, const JinjaTable& variables, const std::optional<std::tm>& now,
                 JinjaBudget& budget, bool strict = false);

  // The value of an expression; errors carry its line. It is within the budget, and its bytes are spent.
  Result<JinjaValue> evaluate(const JinjaNode& node, const JinjaScope& scope);
  // The chain of filters that ends with `node`, applied to `captured` where the chain begins with the text of a block;
  // `captured` itself where `node` is null.
  Result<JinjaValue> filtered(const JinjaNode* node, const JinjaValue& captured, const JinjaScope& scope);
  // What stands behind a name; JinjaUndefined where nothing does.
  Result<JinjaValue> look_up(const std::string& name, const JinjaScope& scope) const;
  // `error` with the line of `node`, unless it has a line already.
  Error at_line(const JinjaNode& node, Error error) const;
  // How often a member of a namespace has been read: the one kind of value that a template changes.
  std::uint64_t namespace_reads() const { return names_read_; }

 private:
  // A value that may be undefined.
  Result<JinjaValue> evaluate_leniently(const JinjaNode& node, const JinjaScope& scope, bool lenient);
  Result<JinjaValue> dispatch(const JinjaNode& node, const JinjaScope& scope);
  Result<JinjaValue> evaluate_parts(const JinjaNode& node, const JinjaScope& scope);
  Result<JinjaValue> evaluate_slice(const JinjaNode& node, const JinjaScope& scope);
  Result<JinjaValue> evaluate_logic(const JinjaNode& node, const JinjaScope& scope);
  Result<JinjaValue> evaluate_compare(const JinjaNode& node, const JinjaScope& scope);
  Result<JinjaArguments> evaluate_arguments(const JinjaNode& node, const JinjaScope& scope);

  const std::string& name_;
  const JinjaTable& variables_;
  const JinjaTable functions_;
  JinjaBudget& budget_;
  const bool strict_;
  bool lenient_ = false;  // of what is evaluated now
  std::uint64_t names_read_ = 0;
};

}  // namespace longhaul
