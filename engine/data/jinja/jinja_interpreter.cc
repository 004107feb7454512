#include "engine/data/jinja/jinja_interpreter.h"

#include "base/text/text.h"
#include "engine/data/jinja/jinja_access.h"
#include "engine/data/jinja/jinja_filters.h"
#include "engine/data/jinja/jinja_lexer.h"
#include "engine/data/jinja/jinja_operators.h"
#include "engine/data/jinja/jinja_tests.h"

namespace longhaul {
namespace {

using Kind = JinjaNode::Kind;
using What = JinjaValue::Kind;

constexpr int depth_max = 800, calls_max = 50, value_depth_max = 600;
constexpr std::int64_t range_max = 100'000;  // as Jinja's sandbox

struct Deeper {
  explicit Deeper(int& depth) : depth_(depth) { ++depth_; }
  ~Deeper() { --depth_; }
  Deeper(const Deeper&) = delete;
  Deeper& operator=(const Deeper&) = delete;
  int& depth_;
};

Result<JinjaValue> make_range(const JinjaArguments& arguments) {
  std::int64_t limits[3] = {0, 0, 1};
  const JinjaList& given = arguments.positional;
  if (given.empty() || given.size() > 3 || !arguments.named.empty()) return jinja_error("range takes 1 to 3 numbers");
  for (std::size_t i = 0; i < given.size(); ++i) {
    LH_TRY(limits[given.size() == 1 ? 1 : i], whole_argument("range", &given[i], 0));
  }
  const auto [begin, end, step] = limits;
  if (step == 0) return jinja_error("the step of a range is 0");
  JinjaList list;
  for (std::int64_t at = begin; step > 0 ? at < end : at > end; at += step) {
    if (static_cast<std::int64_t>(list.size()) >= range_max)
      return jinja_error(format("a range of more than {} numbers", range_max));
    list.push_back(JinjaValue::of(at));
    if (step > 0 ? at > INT64_MAX - step : at < INT64_MIN - step) break;
  }
  return JinjaValue::of(std::move(list));
}

Result<JinjaTable> members_of(const JinjaArguments& arguments, const char* what) {
  JinjaTable members;
  if (arguments.positional.size() > 1) return jinja_error(format("{} takes one table at most", what));
  if (!arguments.positional.empty()) {
    if (!arguments.positional[0].is(What::table)) return jinja_error(format("{} of a value that is no table", what));
    members = arguments.positional[0].as_table();
  }
  for (const auto& [name, value] : arguments.named) members.set(name, value);
  return members;
}

// {% generation %} lies in no other text than the page.
constexpr const char* generation_elsewhere = "generation stands within a block that is set to a name, or in a macro";

JinjaTable loop_table(const JinjaList& items, std::size_t at, int depth) {
  JinjaTable loop;
  const auto count = static_cast<std::int64_t>(items.size()), i = static_cast<std::int64_t>(at);
  const auto set = [&](const char* name, JinjaValue value) { loop.members.emplace_back(name, std::move(value)); };
  set("index", JinjaValue::of(i + 1));
  set("index0", JinjaValue::of(i));
  set("revindex", JinjaValue::of(count - i));
  set("revindex0", JinjaValue::of(count - i - 1));
  set("first", JinjaValue::of(i == 0));
  set("last", JinjaValue::of(i + 1 == count));
  set("length", JinjaValue::of(count));
  set("depth", JinjaValue::of(static_cast<std::int64_t>(depth)));
  set("depth0", JinjaValue::of(static_cast<std::int64_t>(depth - 1)));
  set("previtem", at > 0 ? items[at - 1] : JinjaValue::undefined("loop.previtem"));
  set("nextitem", at + 1 < items.size() ? items[at + 1] : JinjaValue::undefined("loop.nextitem"));
  set("cycle", JinjaValue::of(JinjaFunction{"loop.cycle", [at](const JinjaArguments& arguments) -> Result<JinjaValue> {
                                              if (arguments.positional.empty())
                                                return jinja_error("a cycle of nothing");
                                              return arguments.positional[at % arguments.positional.size()];
                                            }}));
  set("changed", JinjaValue::of(JinjaFunction{"loop.changed", [](const JinjaArguments&) -> Result<JinjaValue> {
                                                return jinja_error("loop.changed is not done here");
                                              }}));
  return loop;
}

}  // namespace

JinjaInterpreter::JinjaInterpreter(const std::string& name, const JinjaTable& variables,
                                   const std::optional<std::tm>& now, const JinjaLimits& limits)
    : name_(name), variables_(variables), limits_(limits) {
  define_functions(now);
}

void JinjaInterpreter::define_functions(const std::optional<std::tm>& now) {
  const auto define = [&](const char* name, std::function<Result<JinjaValue>(const JinjaArguments&)> call) {
    functions_.set(name, JinjaValue::of(JinjaFunction{name, std::move(call)}));
  };
  define("range", make_range);
  define("dict", [](const JinjaArguments& arguments) -> Result<JinjaValue> {
    LH_TRY(JinjaTable members, members_of(arguments, "dict"));
    return JinjaValue::of(std::move(members));
  });
  define("namespace", [](const JinjaArguments& arguments) -> Result<JinjaValue> {
    LH_TRY(JinjaTable members, members_of(arguments, "namespace"));
    for (const auto& [name, value] : members.members)
      if (value.holds_names()) return jinja_error("a namespace within a namespace is not done here");
    return JinjaValue::of(JinjaNamespace{std::move(members)});
  });
  define("raise_exception", [](const JinjaArguments& arguments) -> Result<JinjaValue> {
    std::string text = "the template refuses the conversation";
    if (!arguments.positional.empty()) {
      LH_TRY(text, jinja_str(arguments.positional[0]));
    }
    return make_error(ErrorCode::invalid_input, "the chat template says: " + text);
  });
  if (!now) return;
  define("strftime_now", [at = *now](const JinjaArguments& arguments) -> Result<JinjaValue> {
    if (arguments.positional.size() != 1) return jinja_error("strftime_now takes one text");
    LH_TRY(const std::string form, plain_text("strftime_now", arguments.positional[0]));
    char text[512];
    const std::size_t length = std::strftime(text, sizeof text, form.c_str(), &at);
    if (length == 0 && !form.empty()) return jinja_error("strftime_now gives a text that is too long, or none");
    return JinjaValue::of(std::string(text, length));
  });
}

Status JinjaInterpreter::spend(std::uint64_t steps) {
  steps_ += steps;
  if (steps_ <= limits_.steps) return {};
  return jinja_error(format("the template has taken {} steps and has not ended", limits_.steps),
                     "does one of its loops never end?");
}

Status JinjaInterpreter::check(const JinjaValue& value) {
  if (value.depth() > value_depth_max) return jinja_error(format("values nested more than {} deep", value_depth_max));
  LH_CHECK(check_text_size(value.weight()));
  return spend(value.weight() >> 8);
}

Error JinjaInterpreter::at_line(const JinjaNode& node, Error error) const {
  if (!error.where) error.where = SourcePos{name_, node.line, 0};
  return error;
}

Result<JinjaRendering> JinjaInterpreter::run(const JinjaNodes& nodes) {
  JinjaRendering made;
  page_ = &made.text;
  LH_TRY([[maybe_unused]] const Flow flow, execute(nodes, std::make_shared<Scope>(), made.text));
  made.answers = std::move(answers_);
  return made;
}

Result<JinjaInterpreter::Flow> JinjaInterpreter::execute(const JinjaNodes& nodes, const ScopePtr& scope,
                                                         std::string& out) {
  const Deeper deeper(depth_);
  for (const JinjaNodePtr& node : nodes) {
    Result<Flow> flow = depth_ > depth_max ? Result<Flow>(jinja_error("too deep within blocks and calls"))
                                           : execute_one(*node, scope, out);
    if (!flow.ok()) return at_line(*node, flow.error());
    if (*flow != Flow::on) return flow;
  }
  return Flow::on;
}

Result<JinjaInterpreter::Flow> JinjaInterpreter::execute_one(const JinjaNode& node, const ScopePtr& scope,
                                                             std::string& out) {
  LH_CHECK(spend(1));
  switch (node.kind) {
    case Kind::data: LH_CHECK(write(JinjaValue::of(node.text), out)); return Flow::on;
    case Kind::print: {
      LH_TRY(const JinjaValue value, evaluate(*node.parts[0], scope));
      LH_CHECK(write(value, out));
      return Flow::on;
    }
    case Kind::branches: return run_branches(node, scope, out);
    case Kind::loop: return run_loop(node, scope, out);
    case Kind::set: LH_CHECK(run_set(node, scope)); return Flow::on;
    case Kind::set_block: LH_CHECK(run_set_block(node, scope, out)); return Flow::on;
    case Kind::macro: define_macro(node, scope); return Flow::on;
    case Kind::generation: LH_CHECK(run_generation(node, scope, out)); return Flow::on;
    case Kind::with: {
      const ScopePtr inner = std::make_shared<Scope>(Scope{{}, scope});
      for (std::size_t i = 0; i < node.targets.size(); ++i) {
        LH_TRY(JinjaValue value, evaluate(*node.parts[i], scope));
        inner->names.set(node.targets[i], std::move(value));
      }
      return execute(node.bodies[0], inner, out);
    }
    case Kind::leave: return node.text == "break" ? Flow::leave_loop : Flow::next_turn;
    default: break;
  }
  return make_error(ErrorCode::internal, "an expression stands where a statement should");
}

Status JinjaInterpreter::write(const JinjaValue& value, std::string& out) {
  LH_TRY(const std::string text, jinja_str(value));
  LH_CHECK(spend(text.size() >> 8));
  out += text;
  if (out.size() > limits_.output_bytes)
    return jinja_error(
        format("the template writes more than {}", human_bytes(static_cast<double>(limits_.output_bytes))),
        "does one of its loops never end?");
  return {};
}

Result<JinjaInterpreter::Flow> JinjaInterpreter::run_branches(const JinjaNode& node, const ScopePtr& scope,
                                                              std::string& out) {
  std::size_t which = 0;
  for (; which < node.parts.size(); ++which) {
    LH_TRY(const JinjaValue condition, evaluate(*node.parts[which], scope));
    if (condition.is_true()) break;
  }
  if (which == node.bodies.size()) return Flow::on;
  return execute(node.bodies[which], scope, out);
}

Result<JinjaInterpreter::Flow> JinjaInterpreter::run_loop(const JinjaNode& node, const ScopePtr& scope,
                                                          std::string& out) {
  LH_TRY(const JinjaValue over, evaluate(*node.parts[0], scope));
  LH_TRY(JinjaList items, jinja_items(over));
  const auto passes = [&](const JinjaValue& item) -> Result<bool> {
    const ScopePtr inner = std::make_shared<Scope>(Scope{{}, scope});
    LH_CHECK(assign(node.targets, item, *inner));
    LH_TRY(const JinjaValue condition, evaluate(*node.parts[1], inner));
    return condition.is_true();
  };
  // The condition of an item is looked at before its turn, unless `loop` has to know how many there are.
  if (node.parts[1] && node.reads_loop) {
    JinjaList kept;
    const std::uint64_t before = names_read_;
    for (JinjaValue& item : items) {
      LH_TRY(const bool kept_one, passes(item));
      if (kept_one) kept.push_back(std::move(item));
    }
    if (names_read_ != before)
      return jinja_error("the condition of a loop that speaks of `loop` looks at a namespace",
                         "put the condition into an `if` within the loop");
    items = std::move(kept);
  }
  const Deeper deeper(loops_);
  bool turned = false;
  for (std::size_t at = 0; at < items.size(); ++at) {
    LH_CHECK(spend(1));
    if (node.parts[1] && !node.reads_loop) {
      LH_TRY(const bool kept, passes(items[at]));
      if (!kept) continue;
    }
    turned = true;
    const ScopePtr inner = std::make_shared<Scope>(Scope{{}, scope});
    if (node.reads_loop) inner->names.set("loop", JinjaValue::of(loop_table(items, at, loops_)));
    LH_CHECK(assign(node.targets, items[at], *inner));
    LH_TRY(const Flow flow, execute(node.bodies[0], inner, out));
    if (flow == Flow::leave_loop) return Flow::on;
  }
  if (turned) return Flow::on;
  return execute(node.bodies[1], scope, out);
}

Status JinjaInterpreter::assign(const std::vector<std::string>& targets, JinjaValue value, Scope& scope) {
  if (targets.size() == 1) return assign_one(targets[0], std::move(value), scope);
  LH_TRY(const JinjaList parts, jinja_items(value));
  if (parts.size() != targets.size())
    return jinja_error(format("{} names are set to {} values", targets.size(), parts.size()));
  for (std::size_t i = 0; i < parts.size(); ++i) LH_CHECK(assign_one(targets[i], parts[i], scope));
  return {};
}

Status JinjaInterpreter::assign_one(const std::string& target, JinjaValue value, Scope& scope) {
  const std::size_t dot = target.find('.');
  if (dot == std::string::npos) {
    scope.names.set(target, std::move(value));
    return {};
  }
  LH_TRY(const JinjaValue names, look_up(target.substr(0, dot), &scope));
  if (!names.is(What::names)) return jinja_error(format("'{}' is no namespace", target.substr(0, dot)));
  if (value.holds_names()) return jinja_error("a namespace within a namespace is not done here");
  names.as_names().members.set(target.substr(dot + 1), std::move(value));
  return {};
}

Status JinjaInterpreter::run_set(const JinjaNode& node, const ScopePtr& scope) {
  LH_TRY(JinjaValue value, evaluate(*node.parts[0], scope));
  return assign(node.targets, std::move(value), *scope);
}

Status JinjaInterpreter::run_set_block(const JinjaNode& node, const ScopePtr& scope, std::string& out) {
  std::string text;
  LH_TRY([[maybe_unused]] const Flow flow, execute(node.bodies[0], std::make_shared<Scope>(Scope{{}, scope}), text));
  LH_TRY(JinjaValue value, evaluate_filters(node.parts[0].get(), JinjaValue::of(std::move(text)), scope));
  if (node.targets.empty()) return write(value, out);
  return assign(node.targets, std::move(value), *scope);
}

Status JinjaInterpreter::run_generation(const JinjaNode& node, const ScopePtr& scope, std::string& out) {
  if (&out != page_) return jinja_error(generation_elsewhere);
  const std::size_t begin = out.size();
  LH_TRY([[maybe_unused]] const Flow flow, execute(node.bodies[0], std::make_shared<Scope>(Scope{{}, scope}), out));
  answers_.emplace_back(begin, out.size());
  return {};
}

void JinjaInterpreter::define_macro(const JinjaNode& node, const ScopePtr& scope) {
  // Weak: the scope holds the macro.
  JinjaFunction macro{node.text, [this, &node, home = std::weak_ptr<Scope>(scope)](const JinjaArguments& arguments) {
                        const ScopePtr outer = home.lock();
                        if (!outer)
                          return Result<JinjaValue>(jinja_error("a macro is called outside of where it was made"));
                        return call_macro(node, outer, arguments);
                      }};
  scope->names.set(node.text, JinjaValue::of(std::move(macro)));
}

Result<JinjaValue> JinjaInterpreter::call_macro(const JinjaNode& node, const ScopePtr& scope,
                                                const JinjaArguments& arguments) {
  const Deeper deeper(calls_);
  if (calls_ > calls_max) return jinja_error(format("macros call each other more than {} deep", calls_max));
  std::vector<std::string> names;
  for (const JinjaNamed& parameter : node.arguments) names.push_back(parameter.name);
  LH_TRY(const auto bound, bind_arguments("the macro " + node.text, arguments, names));
  const ScopePtr inner = std::make_shared<Scope>(Scope{{}, scope});
  for (std::size_t i = 0; i < names.size(); ++i) {
    JinjaValue value = JinjaValue::undefined(names[i]);
    if (bound[i]) {
      value = *bound[i];
    } else if (node.arguments[i].value) {
      LH_TRY(value, evaluate(*node.arguments[i].value, inner));
    }
    inner->names.set(names[i], std::move(value));
  }
  std::string text;
  LH_TRY([[maybe_unused]] const Flow flow, execute(node.bodies[0], inner, text));
  return JinjaValue::of(std::move(text));
}

Result<JinjaValue> JinjaInterpreter::evaluate(const JinjaNode& node, const ScopePtr& scope) {
  const Deeper deeper(depth_);
  if (depth_ > depth_max) return at_line(node, jinja_error("too deep within blocks and calls"));
  Status fine = spend(1);
  if (!fine.ok()) return at_line(node, fine.error());
  Result<JinjaValue> value = evaluate_here(node, scope);
  if (!value.ok()) return at_line(node, value.error());
  if (node.kind == Kind::constant || node.kind == Kind::name) return value;
  if (fine = check(*value); !fine.ok()) return at_line(node, fine.error());
  return value;
}

Result<JinjaValue> JinjaInterpreter::evaluate_here(const JinjaNode& node, const ScopePtr& scope) {
  switch (node.kind) {
    case Kind::constant: return node.value;
    case Kind::name: return look_up(node.text, scope.get());
    case Kind::list:
    case Kind::tuple:
    case Kind::table: return evaluate_parts(node, scope);
    case Kind::attribute: {
      LH_TRY(const JinjaValue of, evaluate(*node.parts[0], scope));
      names_read_ += of.is(What::names) ? 1 : 0;
      return jinja_attribute(of, node.text);
    }
    case Kind::item: {
      LH_TRY(const JinjaValue of, evaluate(*node.parts[0], scope));
      LH_TRY(const JinjaValue index, evaluate(*node.parts[1], scope));
      names_read_ += of.is(What::names) ? 1 : 0;
      return jinja_item(of, index);
    }
    case Kind::slice: return evaluate_slice(node, scope);
    case Kind::call: {
      LH_TRY(const JinjaValue of, evaluate(*node.parts[0], scope));
      if (of.is(What::undefined)) return jinja_error(format("'{}' is called and undefined", of.undefined_name()));
      if (!of.is(What::function)) return jinja_error(format("a value of kind {} is called", of.kind_name()));
      LH_TRY(const JinjaArguments arguments, evaluate_arguments(node, scope));
      return of.as_function().call(arguments);
    }
    case Kind::filter: return evaluate_filters(&node, {}, scope);
    case Kind::test: {
      LH_TRY(const JinjaValue of, evaluate(*node.parts[0], scope));
      LH_TRY(const JinjaArguments arguments, evaluate_arguments(node, scope));
      LH_TRY(const bool holds, apply_jinja_test(node.text, of, arguments));
      return JinjaValue::of(holds);
    }
    case Kind::unary: {
      LH_TRY(const JinjaValue of, evaluate(*node.parts[0], scope));
      return node.text == "not" ? Result<JinjaValue>(JinjaValue::of(!of.is_true())) : jinja_unary(node.text, of);
    }
    case Kind::binary: return evaluate_logic(node, scope);
    case Kind::compare: return evaluate_compare(node, scope);
    case Kind::choice: {
      LH_TRY(const JinjaValue condition, evaluate(*node.parts[1], scope));
      if (condition.is_true()) return evaluate(*node.parts[0], scope);
      if (node.parts[2]) return evaluate(*node.parts[2], scope);
      return JinjaValue::undefined("the other side of an if without else");
    }
    default: break;
  }
  return make_error(ErrorCode::internal, "a statement stands where an expression should");
}

Result<JinjaValue> JinjaInterpreter::look_up(const std::string& name, const Scope* scope) const {
  for (; scope; scope = scope->outer.get())
    if (const JinjaValue* found = scope->names.find(name)) return *found;
  if (const JinjaValue* found = variables_.find(name)) return *found;
  if (const JinjaValue* found = functions_.find(name)) return *found;
  for (const char* other : {"lipsum", "cycler", "joiner"})
    if (name == other) return jinja_error(format("'{}' is not done here", name));
  return JinjaValue::undefined(name);
}

Result<JinjaValue> JinjaInterpreter::evaluate_parts(const JinjaNode& node, const ScopePtr& scope) {
  JinjaList parts;
  for (const JinjaNodePtr& part : node.parts) {
    LH_TRY(JinjaValue value, evaluate(*part, scope));
    parts.push_back(std::move(value));
  }
  if (node.kind == Kind::list) return JinjaValue::of(std::move(parts));
  if (node.kind == Kind::tuple) return JinjaValue::of(std::move(parts), What::tuple);
  JinjaTable table;
  for (std::size_t i = 0; i + 1 < parts.size(); i += 2) {
    if (!parts[i].is(What::text)) return jinja_error("keys of tables other than texts are not done here");
    table.set(parts[i].as_text(), std::move(parts[i + 1]));
  }
  return JinjaValue::of(std::move(table));
}

Result<JinjaValue> JinjaInterpreter::evaluate_slice(const JinjaNode& node, const ScopePtr& scope) {
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

Result<JinjaValue> JinjaInterpreter::evaluate_logic(const JinjaNode& node, const ScopePtr& scope) {
  LH_TRY(JinjaValue left, evaluate(*node.parts[0], scope));
  if (node.text == "and" && !left.is_true()) return left;
  if (node.text == "or" && left.is_true()) return left;
  LH_TRY(JinjaValue right, evaluate(*node.parts[1], scope));
  if (node.text == "and" || node.text == "or") return right;
  return jinja_binary(node.text, left, right);
}

Result<JinjaValue> JinjaInterpreter::evaluate_compare(const JinjaNode& node, const ScopePtr& scope) {
  LH_TRY(JinjaValue left, evaluate(*node.parts[0], scope));
  for (std::size_t i = 0; i < node.operators.size(); ++i) {
    LH_TRY(JinjaValue right, evaluate(*node.parts[i + 1], scope));
    LH_CHECK(spend((left.weight() + right.weight()) >> 8));
    LH_TRY(const bool holds, jinja_relation(node.operators[i], left, right));
    if (!holds) return JinjaValue::of(false);
    left = std::move(right);
  }
  return JinjaValue::of(true);
}

Result<JinjaArguments> JinjaInterpreter::evaluate_arguments(const JinjaNode& node, const ScopePtr& scope) {
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

Result<JinjaValue> JinjaInterpreter::evaluate_filters(const JinjaNode* node, const JinjaValue& captured,
                                                      const ScopePtr& scope) {
  if (!node) return captured;
  JinjaValue of = captured;
  if (node->parts[0] && node->parts[0]->kind == Kind::filter) {
    LH_TRY(of, evaluate_filters(node->parts[0].get(), captured, scope));
    LH_CHECK(check(of));
  } else if (node->parts[0]) {
    LH_TRY(of, evaluate(*node->parts[0], scope));
  }
  LH_TRY(const JinjaArguments arguments, evaluate_arguments(*node, scope));
  LH_CHECK(spend(of.weight() >> 8));
  return apply_jinja_filter(node->text, of, arguments);
}

}  // namespace longhaul
