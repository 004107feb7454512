#include "orchestrator/decide/order_answer.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/error/diagnostics.h"
#include "base/text/text.h"
#include "contracts/settings/job/resumable.h"

namespace longhaul {
namespace {

const std::string order_forms =
    "checkpoint, stop-after STEP, set lr=VALUE, set checkpoint_interval=STEPS, stacks, fault NAME";

// Kinds whose programs read orders; a `command` may, through the heartbeat's C interface.
bool accepts_order(const PlannedStage& stage, const Order& order) {
  if (order.what == "stacks" || order.what == "fault") return true;  // its lead does that, whatever its programs are
  return trains(stage.kind) || stage.kind == "command";
}

OrderAnswer refused(const std::string& reason) {
  OrderAnswer answer;
  answer.answer = "refused: " + reason;
  return answer;
}

std::optional<double> parsed_number(const std::string& text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(value)) return std::nullopt;
  return value;
}

bool is_count(double value) {
  return value >= 1 && value <= 1e15 && value == std::floor(value);
}

// Where faults may be injected at all, and whether this one can be.
std::string problem_of_fault(const Value& written, const PlannedStage& stage) {
  if (!stage.faults.allowed)
    return format(
        "nobody may inject faults into stage {}: its workflow has neither [stage.{}.faults] nor "
        "allow_fault_injection = true in [workflow]",
        stage.id(), stage.stage);
  Diagnostics diagnostics;
  const FaultRequest request = fault_request_fields().parse(written, "fault", diagnostics);
  if (diagnostics.empty())
    check_fault_request(
        request, written, "fault",
        {stage.kind, stage.common.ranks, &stage.faults.commands, stage.common.resiliency.health != "off"}, false,
        diagnostics);
  std::vector<std::string> problems;
  for (const Error& error : diagnostics.errors()) problems.push_back(error.message());
  return join(problems, "; ");
}

// "" if the order makes sense for the stage.
std::string problem_of(const Order& order, const PlannedStage& stage) {
  if (order.what == "checkpoint" || order.what == "stacks") return {};
  if (order.what == "fault") return problem_of_fault(order.fault, stage);
  if (order.what == "stop_after") {
    if (!is_count(order.value)) return "stop-after wants a step, 1 or later";
    const std::int64_t steps = stage.settings.get_integer("steps");
    if (steps > 0 && order.value >= static_cast<double>(steps))
      return format("stage {} ends after step {} anyhow", stage.id(), steps);
    return {};
  }
  if (order.what == "checkpoint_interval")
    return is_count(order.value) ? "" : "checkpoint_interval wants steps, 1 or more";
  if (order.what == "lr") return order.value > 0 && std::isfinite(order.value) ? "" : "lr wants a number above 0";
  return "there is no order '" + order.what + "'; there are: " + order_forms;
}

}  // namespace

OrderAnswer answer_order(const RunPlan& plan, const RunLedger& ledger, const Value& arguments) {
  OrderAnswer answer;
  answer.order.what = arguments.get_string("what");
  answer.order.value = arguments.get_number("value");
  if (answer.order.what == "fault") {
    const Value* fault = arguments.find("fault");
    if (!fault || !fault->is_table()) return refused("which fault?");
    answer.order.fault = *fault;
  }
  const std::string wanted = arguments.get_string("stage");
  std::vector<std::string> open, running;
  for (const LedgerStage& stage : ledger.stages) {
    const PlannedStage* planned = plan.find(stage.id);
    if (!planned || !accepts_order(*planned, answer.order) || !stage.job_open()) continue;
    open.push_back(stage.id);
    if (planned->kind != "command") running.push_back(stage.id);  // where no stage is named: those that train
  }
  if (running.empty()) running = open;
  if (wanted.empty() && running.empty()) return refused("no stage is running that takes orders");
  if (wanted.empty() && running.size() > 1)
    return refused("several stages are running: name one with --stage: " + join(running, ", "));
  answer.stage = wanted.empty() ? running.front() : wanted;
  const PlannedStage* planned = plan.find(answer.stage);
  const LedgerStage* stage = ledger.find(answer.stage);
  if (!planned || !stage) return refused("the run has no stage '" + answer.stage + "'");
  if (!accepts_order(*planned, answer.order))
    return refused(format("stage {} is of kind {}, which takes no orders", answer.stage, planned->kind));
  if (!stage->job_open()) return refused(format("stage {} is {}, not running", answer.stage, to_string(stage->state)));
  if (stage->newest()->cancel_wanted) return refused("stage " + answer.stage + " is being cancelled");
  const std::string problem = problem_of(answer.order, *planned);
  if (!problem.empty()) return refused(problem);
  answer.accepted = true;
  answer.answer = format("{}: {}", answer.stage, answer.order.text());
  return answer;
}

namespace {

// "SIGKILL", "rank=1", "step=20", "after=10s": as the table of a workflow has it.
Result<Value> fault_of_arguments(const std::vector<std::string>& arguments) {
  const std::string usage =
      "fault NAME [rank=R] [step=S | after=10s] [lasts=5s] [xid=79]; names: docs/reference/faults.md";
  if (arguments.size() < 2) return make_error(ErrorCode::invalid_input, "which fault?", usage);
  Value written = Value::make_table();
  written.set("name", arguments[1]);
  for (std::size_t i = 2; i < arguments.size(); ++i) {
    const std::size_t equals = arguments[i].find('=');
    const std::string key = arguments[i].substr(0, equals);
    if (equals == std::string::npos || key == "name")
      return make_error(ErrorCode::invalid_input, "cannot read '" + arguments[i] + "'", usage);
    const std::string text = arguments[i].substr(equals + 1);
    const auto number = parsed_number(text);
    if (text == "true" || text == "false")
      written.set(key, text == "true");
    else if (number && *number == std::floor(*number))
      written.set(key, static_cast<std::int64_t>(*number));
    else
      written.set(key, text);
  }
  Diagnostics diagnostics;
  const FaultRequest request = fault_request_fields().parse(written, "fault", diagnostics);
  // What the stage and its site can be given is the controller's to judge.
  check_fault_request(request, written, "fault", {"", ranks_max}, false, diagnostics);
  LH_CHECK(diagnostics.to_status("no order was given"));
  return written;
}

}  // namespace

Result<std::vector<Value>> parse_order_arguments(const std::vector<std::string>& arguments, const std::string& stage) {
  std::vector<Value> all;
  const auto add = [&](const std::string& what, double value) {
    Value arguments = Value::make_table();
    arguments.set("what", what);
    arguments.set("value", value);
    arguments.set("stage", stage);
    all.push_back(std::move(arguments));
  };
  const auto wrong = [](const std::string& what) {
    return make_error(ErrorCode::invalid_input, what, "orders: " + order_forms);
  };
  if (arguments.empty()) return wrong("no order is given");
  if (arguments[0] == "checkpoint" || arguments[0] == "stacks") {
    if (arguments.size() > 1) return wrong(arguments[0] + " takes nothing behind it");
    add(arguments[0], 0);
  } else if (arguments[0] == "fault") {
    LH_TRY(Value fault, fault_of_arguments(arguments));
    add("fault", 0);
    all.back().set("fault", std::move(fault));
  } else if (arguments[0] == "stop-after") {
    const auto step = arguments.size() == 2 ? parsed_number(arguments[1]) : std::nullopt;
    if (!step || !is_count(*step)) return wrong("stop-after wants one step, 1 or later");
    add("stop_after", *step);
  } else if (arguments[0] == "set") {
    if (arguments.size() == 1) return wrong("set wants KEY=VALUE");
    for (std::size_t i = 1; i < arguments.size(); ++i) {
      const std::size_t equals = arguments[i].find('=');
      const std::string key = arguments[i].substr(0, equals);
      if (key != "lr" && key != "checkpoint_interval")
        return wrong("'" + key +
                     "' cannot be changed while a stage runs; `longhaul fork` starts anew with other settings");
      const auto value = equals == std::string::npos ? std::nullopt : parsed_number(arguments[i].substr(equals + 1));
      if (!value || *value <= 0 || (key != "lr" && !is_count(*value)))
        return wrong(key + (key == "lr" ? " wants a number above 0" : " wants steps, 1 or more"));
      add(key, *value);
    }
  } else {
    const std::string nearest = nearest_word(arguments[0], {"checkpoint", "stop-after", "set", "stacks", "fault"});
    return wrong("a run takes no order '" + arguments[0] + "'" +
                 (nearest.empty() ? "" : "; did you mean " + nearest + "?"));
  }
  return all;
}

}  // namespace longhaul
