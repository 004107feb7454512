#include "engine/data/jinja/jinja_interpreter.h"

#include "base/text/text.h"
#include "engine/data/jinja/jinja_functions.h"
#include "engine/data/jinja/values/jinja_access.h"

namespace longhaul {
namespace {

using NodeKind = JinjaNode::Kind;
using What = JinjaValue::Kind;

constexpr int calls_max = 50;

// {% generation %} lies in no other text than the page.
constexpr const char* generation_elsewhere = "generation stands within a block that is set to a name, or in a macro";

std::shared_ptr<JinjaScope> nested(const std::shared_ptr<JinjaScope>& outer) {
  return std::make_shared<JinjaScope>(JinjaScope{{}, outer});
}

}  // namespace

JinjaInterpreter::JinjaInterpreter(const std::string& name, const JinjaTable& variables,
                                   const std::optional<std::tm>& now, const JinjaLimits& limits, bool strict)
    : budget_(limits), expressions_(name, variables, now, budget_, strict) {}

Result<JinjaRendering> JinjaInterpreter::run(const JinjaNodes& nodes) {
  JinjaRendering made;
  page_ = &made.text;
  LH_TRY([[maybe_unused]] const Flow flow, execute(nodes, std::make_shared<JinjaScope>(), made.text));
  made.answers = std::move(answers_);
  return made;
}

Result<JinjaInterpreter::Flow> JinjaInterpreter::execute(const JinjaNodes& nodes, const ScopePtr& scope,
                                                         std::string& out) {
  const auto level = budget_.enter_node();
  for (const JinjaNodePtr& node : nodes) {
    Result<Flow> flow = budget_.is_too_deep() ? Result<Flow>(jinja_error("too deep within blocks and calls"))
                                              : execute_one(*node, scope, out);
    if (!flow.ok()) return expressions_.at_line(*node, flow.error());
    if (*flow != Flow::on) return flow;
  }
  return Flow::on;
}

Result<JinjaInterpreter::Flow> JinjaInterpreter::execute_one(const JinjaNode& node, const ScopePtr& scope,
                                                             std::string& out) {
  LH_CHECK(budget_.spend(1));
  switch (node.kind) {
    case NodeKind::data: LH_CHECK(write(JinjaValue::of(node.text), out)); return Flow::on;
    case NodeKind::print: {
      LH_TRY(const JinjaValue value, expressions_.evaluate(*node.parts[0], *scope));
      LH_CHECK(write(value, out));
      return Flow::on;
    }
    case NodeKind::branches: return run_branches(node, scope, out);
    case NodeKind::loop: return run_loop(node, scope, out);
    case NodeKind::set: LH_CHECK(run_set(node, scope)); return Flow::on;
    case NodeKind::set_block: LH_CHECK(run_set_block(node, scope, out)); return Flow::on;
    case NodeKind::macro: define_macro(node, scope); return Flow::on;
    case NodeKind::generation: LH_CHECK(run_generation(node, scope, out)); return Flow::on;
    case NodeKind::with: {
      const ScopePtr inner = nested(scope);
      for (std::size_t i = 0; i < node.targets.size(); ++i) {
        LH_TRY(JinjaValue value, expressions_.evaluate(*node.parts[i], *scope));
        inner->names.set(node.targets[i], std::move(value));
      }
      return execute(node.bodies[0], inner, out);
    }
    case NodeKind::leave: return node.text == "break" ? Flow::leave_loop : Flow::next_turn;
    default: break;
  }
  return make_error(ErrorCode::internal, "an expression stands where a statement should");
}

Status JinjaInterpreter::write(const JinjaValue& value, std::string& out) {
  LH_TRY(const std::string text, jinja_str(value));
  LH_CHECK(budget_.spend_bytes(text.size()));
  out += text;
  return budget_.check_output(out.size());
}

Result<JinjaInterpreter::Flow> JinjaInterpreter::run_branches(const JinjaNode& node, const ScopePtr& scope,
                                                              std::string& out) {
  std::size_t which = 0;
  for (; which < node.parts.size(); ++which) {
    LH_TRY(const JinjaValue condition, expressions_.evaluate(*node.parts[which], *scope));
    if (condition.is_true()) break;
  }
  if (which == node.bodies.size()) return Flow::on;
  return execute(node.bodies[which], scope, out);
}

Result<JinjaInterpreter::Flow> JinjaInterpreter::run_loop(const JinjaNode& node, const ScopePtr& scope,
                                                          std::string& out) {
  LH_TRY(const JinjaValue over, expressions_.evaluate(*node.parts[0], *scope));
  LH_TRY(JinjaList items, jinja_items(over));
  const auto passes = [&](const JinjaValue& item) -> Result<bool> {
    const ScopePtr inner = nested(scope);
    LH_CHECK(assign(node.targets, item, *inner));
    LH_TRY(const JinjaValue condition, expressions_.evaluate(*node.parts[1], *inner));
    return condition.is_true();
  };
  // The condition of an item is looked at before its turn, unless `loop` has to know how many there are.
  if (node.parts[1] && node.reads_loop) {
    JinjaList kept;
    const std::uint64_t before = expressions_.namespace_reads();
    for (JinjaValue& item : items) {
      LH_TRY(const bool kept_one, passes(item));
      if (kept_one) kept.push_back(std::move(item));
    }
    if (expressions_.namespace_reads() != before)
      return jinja_error("the condition of a loop that speaks of `loop` looks at a namespace",
                         "put the condition into an `if` within the loop");
    items = std::move(kept);
  }
  const JinjaBudget::Level level(loops_);
  bool turned = false;
  for (std::size_t at = 0; at < items.size(); ++at) {
    LH_CHECK(budget_.spend(1));
    if (node.parts[1] && !node.reads_loop) {
      LH_TRY(const bool kept, passes(items[at]));
      if (!kept) continue;
    }
    turned = true;
    const ScopePtr inner = nested(scope);
    if (node.reads_loop) inner->names.set("loop", JinjaValue::of(jinja_loop(items, at, loops_)));
    LH_CHECK(assign(node.targets, items[at], *inner));
    LH_TRY(const Flow flow, execute(node.bodies[0], inner, out));
    if (flow == Flow::leave_loop) return Flow::on;
  }
  if (turned) return Flow::on;
  return execute(node.bodies[1], scope, out);
}

Status JinjaInterpreter::assign(const std::vector<std::string>& targets, JinjaValue value, JinjaScope& scope) {
  if (targets.size() == 1) return assign_one(targets[0], std::move(value), scope);
  LH_TRY(const JinjaList parts, jinja_items(value));
  if (parts.size() != targets.size())
    return jinja_error(format("{} names are set to {} values", targets.size(), parts.size()));
  for (std::size_t i = 0; i < parts.size(); ++i) LH_CHECK(assign_one(targets[i], parts[i], scope));
  return {};
}

Status JinjaInterpreter::assign_one(const std::string& target, JinjaValue value, JinjaScope& scope) {
  const std::size_t dot = target.find('.');
  if (dot == std::string::npos) {
    scope.names.set(target, std::move(value));
    return {};
  }
  LH_TRY(const JinjaValue names, expressions_.look_up(target.substr(0, dot), scope));
  if (!names.is(What::names)) return jinja_error(format("'{}' is no namespace", target.substr(0, dot)));
  if (value.holds_names()) return jinja_error("a namespace within a namespace is not done here");
  names.as_names().members.set(target.substr(dot + 1), std::move(value));
  return {};
}

Status JinjaInterpreter::run_set(const JinjaNode& node, const ScopePtr& scope) {
  LH_TRY(JinjaValue value, expressions_.evaluate(*node.parts[0], *scope));
  return assign(node.targets, std::move(value), *scope);
}

Status JinjaInterpreter::run_set_block(const JinjaNode& node, const ScopePtr& scope, std::string& out) {
  std::string text;
  LH_TRY([[maybe_unused]] const Flow flow, execute(node.bodies[0], nested(scope), text));
  LH_TRY(JinjaValue value, expressions_.filtered(node.parts[0].get(), JinjaValue::of(std::move(text)), *scope));
  if (node.targets.empty()) return write(value, out);
  return assign(node.targets, std::move(value), *scope);
}

Status JinjaInterpreter::run_generation(const JinjaNode& node, const ScopePtr& scope, std::string& out) {
  if (&out != page_) return jinja_error(generation_elsewhere);
  const std::size_t begin = out.size();
  LH_TRY([[maybe_unused]] const Flow flow, execute(node.bodies[0], nested(scope), out));
  answers_.emplace_back(begin, out.size());
  return {};
}

void JinjaInterpreter::define_macro(const JinjaNode& node, const ScopePtr& scope) {
  // Weak: the scope holds the macro.
  JinjaFunction macro{node.text,
                      [this, &node, home = std::weak_ptr<JinjaScope>(scope)](const JinjaArguments& arguments) {
                        const ScopePtr outer = home.lock();
                        if (!outer)
                          return Result<JinjaValue>(jinja_error("a macro is called outside of where it was made"));
                        return call_macro(node, outer, arguments);
                      }};
  scope->names.set(node.text, JinjaValue::of(std::move(macro)));
}

Result<JinjaValue> JinjaInterpreter::call_macro(const JinjaNode& node, const ScopePtr& scope,
                                                const JinjaArguments& arguments) {
  const JinjaBudget::Level level(calls_);
  if (calls_ > calls_max) return jinja_error(format("macros call each other more than {} deep", calls_max));
  std::vector<std::string> names;
  for (const JinjaNamed& parameter : node.arguments) names.push_back(parameter.name);
  LH_TRY(const auto bound, bind_arguments("the macro " + node.text, arguments, names));
  const ScopePtr inner = nested(scope);
  for (std::size_t i = 0; i < names.size(); ++i) {
    JinjaValue value = JinjaValue::undefined(names[i]);
    if (bound[i]) {
      value = *bound[i];
    } else if (node.arguments[i].value) {
      LH_TRY(value, expressions_.evaluate(*node.arguments[i].value, *inner));
    }
    inner->names.set(names[i], std::move(value));
  }
  std::string text;
  LH_TRY([[maybe_unused]] const Flow flow, execute(node.bodies[0], inner, text));
  return JinjaValue::of(std::move(text));
}

}  // namespace longhaul
