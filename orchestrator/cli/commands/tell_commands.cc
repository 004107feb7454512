// tell and notify: what goes from a person to a run, and from a run to people.
#include <cstdio>

#include "base/files/files.h"
#include "base/process/log.h"
#include "base/system/clock.h"
#include "base/text/print.h"
#include "base/text/text.h"
#include "base/toml.h"
#include "base/value/json.h"
#include "orchestrator/cli/options/json_documents.h"
#include "orchestrator/cli/session/asked_run.h"
#include "orchestrator/cli/session/commands.h"
#include "orchestrator/cli/session/load_workflow.h"
#include "orchestrator/cli/session/signals.h"
#include "orchestrator/controller/run_messages.h"
#include "orchestrator/controller/tick.h"
#include "orchestrator/decide/order_answer.h"
#include "orchestrator/runs/run.h"
#include "orchestrator/state/epoch_log.h"

namespace longhaul {
namespace {

constexpr std::int64_t poll_ms = 200, send_deadline_ms = 60'000;

// What the log says about one request so far.
struct OrderState {
  bool answered = false, accepted = false, ended = false, done = false;
  std::string stage, answer, outcome;
};

Result<OrderState> look_up(const std::string& run_dir, const std::string& id) {
  LH_TRY(const EpochRead read, read_epochs(run_dir));
  OrderState order;
  for (const Fact& fact : read.facts) {
    if (fact.kind == FactKind::request && fact.text("id") == id) {
      order.answered = true;
      order.accepted = fact.fields.get_bool("accepted");
      order.answer = fact.text("answer");
      order.stage = fact.text("stage");
    }
    if (fact.kind == FactKind::order_ended && fact.text("id") + ".json" == id) {
      order.ended = true;
      order.done = fact.fields.get_bool("done");
      order.outcome = fact.text("text");
    }
  }
  return order;
}

// Waits for an answer and an outcome; where nobody drives the run, this process does meanwhile.
class OrderWait {
 public:
  OrderWait(const ActingRun& run, const CommandLine& line)
      : run_dir_(run.path),
        line_(line),
        log_("controller", "run=" + file_name(run_dir_), LogLevel::info, join_path(run_dir_, "controller.log")) {
    options_.programs_dir = run.programs_dir;
    options_.worker_fault_plan = line.worker_fault_plan;
    options_.environment = process_environment();
    if (const auto site = read_toml_file(join_path(run_dir_, "site.toml")); site.ok())
      options_.cpu_slots = static_cast<int>(site->get_integer("cpu_slots"));
  }

  Result<OrderState> wait(const std::string& id) {
    const Deadline deadline(clock_, static_cast<std::int64_t>(line_.wait_s * 1000));
    for (;;) {
      LH_CHECK(drive_if_nobody_does());
      LH_TRY(const OrderState order, look_up(run_dir_, id));
      if (order.ended || (order.answered && !order.accepted) || deadline.passed() || watch_.count() > 0) return order;
      clock_.sleep_ms(poll_ms);
    }
  }

 private:
  Status drive_if_nobody_does() {
    if (epoch_ == 0) {
      LH_TRY(const RunStatus status, read_run_status(run_dir_));
      if (status.driven || status.state != RunState::running) return {};
    }
    const auto outcome = tick(run_dir_, epoch_, options_, clock_, log_);
    if (!outcome.ok() && outcome.error().code != ErrorCode::conflict) return outcome.error();
    if (!outcome.ok()) epoch_ = 0;  // somebody else drives now
    return {};
  }

  std::string run_dir_;
  const CommandLine& line_;
  SystemClock clock_;
  Logger log_;
  SignalWatch watch_;
  TickOptions options_;
  std::int64_t epoch_ = 0;
};

Value order_value(const OrderState& order) {
  Value value = Value::make_table();
  value.set("stage", order.stage);
  value.set("accepted", order.answered ? Value(order.accepted) : Value());
  value.set("answer", order.answered ? Value(order.answer) : Value());
  value.set("done", order.ended ? Value(order.done) : Value());
  value.set("outcome", order.ended ? Value(order.outcome) : Value());
  return value;
}

void print_order(const CommandLine& line, const std::string& run, const OrderState& order) {
  if (!order.answered)
    print(stdout, "left for the run's controller; see longhaul status {}\n", run);
  else if (!order.accepted)
    (void)fail(line, make_error(ErrorCode::invalid_input, order.answer));
  else
    print(stdout, "{}: {}\n", order.answer, order.ended ? order.outcome : "on its way");
}

}  // namespace

ExitCode tell_run(const CommandLine& line, const Installation& installation) {
  const auto arguments = parse_order_arguments(line.arguments, line.stage);
  if (!arguments.ok()) return fail(line, arguments.error());
  const auto run = acting_run(line, installation);
  if (!run.ok()) return fail(line, run.error());
  const auto status = read_run_status(run->path);
  if (!status.ok()) return fail(line, status.error());
  if (status->state != RunState::running)
    return fail(line, make_error(ErrorCode::invalid_input,
                                 format("run {} has ended: {}", status->name, to_string(status->state)),
                                 "nothing of it runs that takes orders"));
  SystemClock clock;
  OrderWait orders(*run, line);
  ExitCode exit = ExitCode::ok;
  Value list = Value::make_array();
  for (const Value& one : *arguments) {
    const auto id = request(run->path, "tell", one, clock);
    if (!id.ok()) return fail(line, id.error());
    const auto order = orders.wait(*id);
    if (!order.ok()) return fail(line, order.error());
    list.push_back(order_value(*order));
    if (!line.json) print_order(line, status->name, *order);
    if ((order->answered && !order->accepted) || (order->ended && !order->done)) exit = ExitCode::invalid_input;
  }
  if (line.json) {
    Value document = document_of("longhaul tell", 1);
    document.set("run", run->path);
    document.set("orders", std::move(list));
    print_text(stdout, to_json_pretty(document));
  }
  return exit;
}

ExitCode send_run_messages(const CommandLine& line, const Installation& installation) {
  const auto run = acting_run(line, installation);
  if (!run.ok()) return fail(line, run.error());
  const auto config = notify_config_of(run->path);
  if (!config.ok()) return fail(line, config.error());
  if (!config->enabled())
    return fail(line, make_error(ErrorCode::invalid_input, "the run's site names no webhook",
                                 "[notify] with url_file or url_env in the site file"));
  SystemClock clock;
  if (line.test) {
    Message message;
    message.id = format("test-{}", clock.wall_ms());
    message.event = "test";
    message.run = file_name(run->path);
    message.run_dir = run->path;
    message.wall_ms = clock.wall_ms();
    message.text = format("run {}: a test of its webhook", message.run);
    if (const auto posted = post_message(run->path, message); !posted.ok()) return fail(line, posted.error());
  }
  DeliveryOptions options;
  options.deadline_ms = send_deadline_ms;
  options.wait = options.again = true;
  const auto report = deliver_outbox(run->path, *config, process_environment(), clock, options);
  if (!report.ok()) return fail(line, report.error());
  if (line.json) {
    Value document = document_of("longhaul notify", 1);
    document.set("run", run->path);
    document.set("sent", report->sent);
    document.set("waiting", report->waiting);
    document.set("given_up", report->given_up);
    document.set("problem", report->problem);
    print_text(stdout, to_json_pretty(document));
  } else {
    print(stdout, "sent {}, waiting {}, given up {}\n", report->sent, report->waiting, report->given_up);
  }
  if (report->waiting + report->given_up == 0) return ExitCode::ok;
  return fail_beside(line,
                     make_error(report->waiting > 0 ? ErrorCode::timeout : ErrorCode::unavailable, report->problem));
}

}  // namespace longhaul
