#include "engine/data/jinja/jinja_evaluator.h"

#include <utility>

#include "base/text/text.h"
#include "engine/data/jinja/jinja_functions.h"
#include "engine/data/jinja/values/jinja_access.h"
#include "engine/data/jinja/values/jinja_filters.h"
#include "engine/data/jinja/values/jinja_operators.h"
#include "engine/data/jinja/values/jinja_tests.h"

namespace longhaul {
namespace {

using What = JinjaValue::Kind;
using NodeKind = JinjaNode::Kind;

}  // namespace

JinjaEvaluator::JinjaEvaluator(const std::string& name, const JinjaTable& variables, const std::optional<std::tm>& now,
                               JinjaBudget& budget, bool strict)
    : name_(name), variables_(variables), functions_(jinja_functions(now)), budget_(budget), strict_(strict) {}

Error JinjaEvaluator::at_line(const JinjaNode& node, Error error) const {
  if (!error.where) error.where = SourcePos{name_, node.line, 0};
  return error;
}

Result<JinjaValue> JinjaEvaluator::evaluate(const JinjaNode& node, const JinjaScope& scope) {
  const auto level = budget_.enter_node();
  if (budget_.is_too_deep()) return at_line(node, jinja_error("too deep within blocks and calls"));
  Status fine = budget_.spend(1);
  if (!fine.ok()) return at_line(node, fine.error());
  Result<JinjaValue> value = dispatch(node, scope);
  if (!value.ok()) return at_line(node, value.error());
  if (strict_ && !lenient_ && value->is(What::undefined))
    return at_line(node, jinja_error(format("'{}' is undefined", value->undefined_name())));
  if (node.kind == NodeKind::constant || node.kind == NodeKind::name) return value;
  if (fine = budget_.check(*value); !fine.ok()) return at_line(node, fine.error());
  return value;
}

Result<JinjaValue> JinjaEvaluator::evaluate_leniently(const JinjaNode& node, const JinjaScope& scope, bool lenient) {
  const bool before = std::exchange(lenient_, lenient);
  Result<JinjaValue> value = evaluate(node, scope);
  lenient_ = before;
  return value;
}

Result<JinjaValue> JinjaEvaluator::dispatch(const JinjaNode& node, const JinjaScope& scope) {
  switch (node.kind) {
    case NodeKind::constant: return node.value;
    case NodeKind::name: return look_up(node.text, scope);
    case NodeKind::list:
    case NodeKind::tuple:
    case NodeKind::table: return evaluate_parts(node, scope);
    case NodeKind::attribute: {
      LH_TRY(const JinjaValue of, evaluate(*node.parts[0], scope));
      names_read_ += of.is(What::names) ? 1 : 0;
      return jinja_attribute(of, node.text);
    }
    case NodeKind::item: {
      LH_TRY(const JinjaValue of, evaluate(*node.parts[0], scope));
      LH_TRY(const JinjaValue index, evaluate(*node.parts[1], scope));
      names_read_ += of.is(What::names) ? 1 : 0;
      return jinja_item(of, index);
    }
    case NodeKind::slice: return evaluate_slice(node, scope);
    case NodeKind::call: {
      LH_TRY(const JinjaValue of, evaluate(*node.parts[0], scope));
      if (of.is(What::undefined)) return jinja_error(format("'{}' is called and undefined", of.undefined_name()));
      if (!of.is(What::function)) return jinja_error(format("a value of kind {} is called", of.kind_name()));
      LH_TRY(const JinjaArguments arguments, evaluate_arguments(node, scope));
      return of.as_function().call(arguments);
    }
    case NodeKind::filter: return filtered(&node, {}, scope);
    case NodeKind::test: {
      const bool asks = node.text == "defined" || node.text == "undefined";
      LH_TRY(const JinjaValue of, evaluate_leniently(*node.parts[0], scope, asks));
      LH_TRY(const JinjaArguments arguments, evaluate_arguments(node, scope));
      LH_TRY(const bool holds, apply_jinja_test(node.text, of, arguments));
      return JinjaValue::of(holds);
    }
    case NodeKind::unary: {
      LH_TRY(const JinjaValue of, evaluate(*node.parts[0], scope));
      return node.text == "not" ? Result<JinjaValue>(JinjaValue::of(!of.is_true())) : jinja_unary(node.text, of);
    }
    case NodeKind::binary: return evaluate_logic(node, scope);
    case NodeKind::compare: return evaluate_compare(node, scope);
    case NodeKind::choice: {
      LH_TRY(const JinjaValue condition, evaluate(*node.parts[1], scope));
      if (condition.is_true()) return evaluate(*node.parts[0], scope);
      if (node.parts[2]) return evaluate(*node.parts[2], scope);
      return JinjaValue::undefined("the other side of an if without else");
    }
    default: break;
  }
  return make_error(ErrorCode::internal, "a statement stands where an expression should");
}

Result<JinjaValue> JinjaEvaluator::look_up(const std::string& name, const JinjaScope& scope) const {
  for (const JinjaScope* at = &scope; at; at = at->outer.get())
    if (const JinjaValue* found = at->names.find(name)) return *found;
  if (const JinjaValue* found = variables_.find(name)) return *found;
  if (const JinjaValue* found = functions_.find(name)) return *found;
  for (const char* other : {"lipsum", "cycler", "joiner"})
    if (name == other) return jinja_error(format("'{}' is not done here", name));
  return JinjaValue::undefined(name);
}

Result<JinjaValue> JinjaEvaluator::evaluate_parts(const JinjaNode& node, const JinjaScope& scope) {
  JinjaList parts;
  for (const JinjaNodePtr& part : node.parts) {
    LH_TRY(JinjaValue value, evaluate(*part, scope));
    parts.push_back(std::move(value));
  }
  if (node.kind == NodeKind::list) return JinjaValue::of(std::move(parts));
  if (node.kind == NodeKind::tuple) return JinjaValue::of(std::move(parts), What::tuple);
  JinjaTable table;
  for (std::size_t i = 0; i + 1 < parts.size(); i += 2) {
    if (!parts[i].is(What::text)) return jinja_error("keys of tables other than texts are not done here");
    table.set(parts[i].as_text(), std::move(parts[i + 1]));
  }
  return JinjaValue::of(std::move(table));
}

Result<JinjaValue> JinjaEvaluator::evaluate_slice(const JinjaNode& node, const JinjaScope& scope) {
  LH_TRY(const JinjaValue of, evaluate(*node.parts[0], scope));
  JinjaSlice slice;
  std::optional<std::int64_t>* const ends[3] = {&slice.begin, &slice.end, &slice.step};
  for (std::size_t i = 0; i < 3; ++i) {
    if (!node.parts[i + 1]) continue;
    LH_TRY(const JinjaValue end, evaluate(*node.parts[i + 1], scope));
    if (end.is(What::none)) continue;
    LH_TRY(*ends[i], whole_argument("a slice", &end, 0));
  }
  return jinja_slice(of, slice);
}

Result<JinjaValue> JinjaEvaluator::evaluate_logic(const JinjaNode& node, const JinjaScope& scope) {
  LH_TRY(JinjaValue left, evaluate(*node.parts[0], scope));
  if (node.text == "and" && !left.is_true()) return left;
  if (node.text == "or" && left.is_true()) return left;
  LH_TRY(JinjaValue right, evaluate(*node.parts[1], scope));
  if (node.text == "and" || node.text == "or") return right;
  return jinja_binary(node.text, left, right);
}

Result<JinjaValue> JinjaEvaluator::evaluate_compare(const JinjaNode& node, const JinjaScope& scope) {
  LH_TRY(JinjaValue left, evaluate(*node.parts[0], scope));
  for (std::size_t i = 0; i < node.operators.size(); ++i) {
    LH_TRY(JinjaValue right, evaluate(*node.parts[i + 1], scope));
    LH_CHECK(budget_.spend_bytes(left.weight() + right.weight()));
    LH_TRY(const bool holds, jinja_relation(node.operators[i], left, right));
    if (!holds) return JinjaValue::of(false);
    left = std::move(right);
  }
  return JinjaValue::of(true);
}

Result<JinjaArguments> JinjaEvaluator::evaluate_arguments(const JinjaNode& node, const JinjaScope& scope) {
  JinjaArguments arguments;
  for (const JinjaNamed& argument : node.arguments) {
    LH_TRY(JinjaValue value, evaluate(*argument.value, scope));
    if (argument.name.empty())
      arguments.positional.push_back(std::move(value));
    else
      arguments.named.emplace_back(argument.name, std::move(value));
  }
  return arguments;
}

Result<JinjaValue> JinjaEvaluator::filtered(const JinjaNode* node, const JinjaValue& captured,
                                            const JinjaScope& scope) {
  if (!node) return captured;
  JinjaValue of = captured;
  if (node->parts[0] && node->parts[0]->kind == NodeKind::filter) {
    LH_TRY(of, filtered(node->parts[0].get(), captured, scope));
    LH_CHECK(budget_.check(of));
  } else if (node->parts[0]) {
    LH_TRY(of, evaluate_leniently(*node->parts[0], scope, node->text == "default" || node->text == "d"));
  }
  LH_TRY(const JinjaArguments arguments, evaluate_arguments(*node, scope));
  LH_CHECK(budget_.spend_bytes(of.weight()));
  return apply_jinja_filter(node->text, of, arguments);
}

}  // namespace longhaul
