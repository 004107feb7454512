// tell and notify: what goes from a person to a run, and from a run to people.
#include <cstdio>

#include "base/files/files.h"
#include "base/process/log.h"
#include "base/system/clock.h"
#include "base/text/print.h"
#include "base/text/text.h"
#include "base/toml.h"
#include "orchestrator/cli/session/asked_run.h"
#include "orchestrator/cli/session/commands.h"
#include "orchestrator/cli/session/load_workflow.h"
#include "orchestrator/cli/session/signals.h"
#include "orchestrator/controller/run_messages.h"
#include "orchestrator/controller/tick.h"
#include "orchestrator/decide/tell.h"
#include "orchestrator/runs/run.h"
#include "orchestrator/state/epoch_log.h"

namespace longhaul {
namespace {

constexpr std::int64_t poll_ms = 200, send_deadline_ms = 60'000;

// What the log says about one request so far.
struct Told {
  bool answered = false, accepted = false, ended = false, done = false;
  std::string stage, answer, outcome;
};

Result<Told> look_up(const std::string& run_dir, const std::string& id) {
  LH_TRY(const EpochRead read, read_epochs(run_dir));
  Told told;
  for (const Fact& fact : read.facts) {
    if (fact.kind == FactKind::request && fact.text("id") == id) {
      told.answered = true;
      told.accepted = fact.fields.get_bool("accepted");
      told.answer = fact.text("answer");
      told.stage = fact.text("stage");
    }
    if (fact.kind == FactKind::order_ended && fact.text("id") + ".json" == id) {
      told.ended = true;
      told.done = fact.fields.get_bool("done");
      told.outcome = fact.text("text");
    }
  }
  return told;
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

  Result<Told> wait(const std::string& id) {
    const Deadline deadline(clock_, static_cast<std::int64_t>(line_.wait_s * 1000));
    for (;;) {
      LH_CHECK(drive_if_nobody_does());
      LH_TRY(const Told told, look_up(run_dir_, id));
      if (told.ended || (told.answered && !told.accepted) || deadline.passed() || watch_.count() > 0) return told;
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

}  // namespace

ExitCode tell_run(const CommandLine& line, const Installation& installation) {
  const auto arguments = tell_arguments(line.words, line.stage);
  if (!arguments.ok()) return fail(line, arguments.error());
  const auto run = acting_run(line, installation);
  if (!run.ok()) return fail(line, run.error());
  const auto status = read_run_status(run->path);
  if (!status.ok()) return fail(line, status.error());
  if (status->state != RunState::running)
    return fail(line, make_error(ErrorCode::invalid_input,
                                 format("run {} has ended: {}", status->name, to_string(status->state)),
                                 "nothing of it runs that could be told something"));
  SystemClock clock;
  OrderWait orders(*run, line);
  ExitCode exit = ExitCode::ok;
  for (const Value& one : *arguments) {
    const auto id = request(run->path, "tell", one, clock);
    if (!id.ok()) return fail(line, id.error());
    const auto told = orders.wait(*id);
    if (!told.ok()) return fail(line, told.error());
    if (!told->answered)
      print(stdout, "left for the run's controller; see longhaul status {}\n", status->name);
    else if (!told->accepted)
      exit = fail(line, make_error(ErrorCode::invalid_input, told->answer));
    else
      print(stdout, "{}: {}\n", told->answer, told->ended ? told->outcome : "on its way");
    if (told->ended && !told->done) exit = ExitCode::invalid_input;
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
  print(stdout, "sent {}, waiting {}, given up {}\n", report->sent, report->waiting, report->given_up);
  if (report->waiting + report->given_up == 0) return ExitCode::ok;
  return fail(line, make_error(report->waiting > 0 ? ErrorCode::timeout : ErrorCode::unavailable, report->problem));
}

}  // namespace longhaul
