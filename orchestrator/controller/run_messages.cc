#include "orchestrator/controller/run_messages.h"

#include <sys/stat.h>

#include <algorithm>

#include "base/files/files.h"
#include "base/text/text.h"
#include "base/toml.h"
#include "orchestrator/decide/held_up.h"
#include "orchestrator/state/status_from_ledger.h"

namespace longhaul {
namespace {

constexpr std::int64_t look_interval_ns = 15'000'000'000, send_interval_ns = 1'000'000'000;
constexpr std::int64_t send_deadline_ms = 5'000;

std::int64_t changed_ms(const std::string& path) {
  struct stat info{};
  if (::stat(path.c_str(), &info) != 0) return 0;
  return static_cast<std::int64_t>(info.st_mtim.tv_sec) * 1000 + info.st_mtim.tv_nsec / 1'000'000;
}

std::int64_t newest_change_ms(const std::string& folder) {
  std::int64_t newest = changed_ms(folder);
  if (const auto names = list_directory(folder); names.ok())
    for (const std::string& name : *names) newest = std::max(newest, changed_ms(join_path(folder, name)));
  return newest;
}

// When an attempt last wrote anything, in the file system's time. What its ranks wrote is what counts: the lead's own
// claim and logs are there in any case.
std::int64_t last_sign_ms(const std::string& attempt_dir) {
  std::int64_t newest =
      std::max(changed_ms(join_path(attempt_dir, "events.jsonl")), changed_ms(join_path(attempt_dir, "claim.json")));
  const std::string launches = join_path(attempt_dir, "launches");
  if (const auto names = list_directory(launches); names.ok())
    for (const std::string& name : *names) newest = std::max(newest, newest_change_ms(join_path(launches, name)));
  return newest;
}

}  // namespace

Result<NotifyConfig> notify_config_of(const std::string& run_dir) {
  LH_TRY(const Value site, read_toml_file(join_path(run_dir, "site.toml")));
  const Value* table = site.find("notify");
  if (!table) return NotifyConfig();
  LH_TRY(NotifyConfig config, notify_fields().parse(*table, "notify"));
  const Value* can = site.find("can");
  const std::string internet = can ? can->get_string("internet") : "";
  config.compute_nodes_online = internet.empty() || internet == "yes";
  return config;
}

bool may_send_here(const NotifyConfig& config, const Environment& environment) {
  return config.compute_nodes_online || !environment || !environment("SLURM_JOB_ID");
}

RunMessages::RunMessages(const std::string& run_dir, const FrozenRun& frozen, Environment environment, Clock& clock,
                         Logger& log)
    : run_dir_(run_dir),
      maker_(frozen.name, frozen.plan.workflow, run_dir),
      environment_(environment ? std::move(environment) : [](const std::string&) { return std::nullopt; }),
      clock_(clock),
      log_(log) {
  auto config = notify_config_of(run_dir);
  if (config.ok())
    config_ = std::move(config).value();
  else
    log_.warn("event=no_messages error='" + config.error().message() + "'");
}

void RunMessages::post(const Message& message) {
  if (!config_.wants(message.event)) return;
  const Status posted = post_message(run_dir_, message);
  if (!posted.ok()) log_.warn(format("event=message_not_kept id={} error='{}'", message.id, posted.error().message()));
}

void RunMessages::take(const std::vector<Fact>& facts) {
  if (!config_.enabled()) return;
  for (const Fact& fact : facts) {
    RunNews news{to_string(fact.kind), fact.stage,         fact.attempt, fact.text("cause"),
                 fact.text("reason"),  fact.text("state"), fact.wall_ms};
    if (const auto message = maker_.take(news)) post(*message);
  }
}

void RunMessages::look_and_send(const RunLedger& ledger) {
  look_for_held_up(ledger);  // the log has it also where nobody gets messages
  if (!config_.enabled()) return;
  const std::int64_t now = clock_.monotonic_ns();
  if (config_.no_progress_after.value > 0 && now >= next_look_ns_) {
    next_look_ns_ = now + std::min(look_interval_ns, static_cast<std::int64_t>(config_.no_progress_after.value * 5e8));
    look_for_silence(ledger);
  }
  if (now >= next_send_ns_ && may_send_here(config_, environment_)) {
    next_send_ns_ = now + send_interval_ns;
    send();
  }
}

// Also of what waits in the queue for good: reported when it has stayed so for as long.
void RunMessages::look_for_held_up(const RunLedger& ledger) {
  const std::int64_t now_ms = clock_.wall_ms();
  const auto look = [&](const LedgerStage& stage, const LedgerAttempt& attempt) {
    const HeldUp& held_up = attempt.held_up;
    if (held_up.by.empty() || now_ms - held_up.since_ms < refusal_reported_after_ms) return;
    const Message message =
        maker_.held_up(stage.id, attempt.number, held_up.cause, held_up.advice, held_up.since_ms, now_ms);
    if (!held_up_.insert(message.id).second) return;
    log_.warn(format("event=held_up stage={} attempt={} by={} cause='{}'", stage.id, attempt.number, held_up.by,
                     held_up.cause));
    if (config_.enabled()) post(message);
  };
  for (const LedgerStage& stage : ledger.stages) {
    if (stage.job_open()) look(stage, *stage.newest());
    if (stage.successor_open()) look(stage, *stage.successor);
  }
}

void RunMessages::look_for_silence(const RunLedger& ledger) {
  std::int64_t file_system_now_ms = 0;  // asked for once, when a stage runs
  for (const LedgerStage& stage : ledger.stages) {
    if (stage.state != StageState::running) continue;
    const int attempt = stage.newest()->number;
    const std::int64_t sign_ms = last_sign_ms(attempt_folder(run_dir_, stage.id, attempt));
    if (sign_ms == 0) continue;
    if (file_system_now_ms == 0) {
      const std::string probe = join_path(run_dir_, "log/.now");
      if (!write_file_atomic(probe, ".").ok()) return;
      file_system_now_ms = changed_ms(probe);
    }
    const double silent_s = static_cast<double>(file_system_now_ms - sign_ms) * 1e-3;
    if (silent_s < config_.no_progress_after.value) continue;
    // One message for each silence: it is named by the moment it began.
    post(maker_.no_progress(stage.id, attempt, silent_s, static_cast<double>(sign_ms), clock_.wall_ms()));
  }
}

void RunMessages::send() {
  const DeliveryReport backlog = outbox_backlog(run_dir_);
  if (backlog.waiting == 0) return;
  DeliveryOptions options;
  options.deadline_ms = send_deadline_ms;
  const auto report = deliver_outbox(run_dir_, config_, environment_, clock_, options);
  const std::string problem = report.ok() ? report->problem : report.error().message();
  if (!problem.empty() && problem != last_problem_)
    log_.warn(format("event=message_not_sent problem='{}' waiting={}", problem, backlog.waiting));
  last_problem_ = problem;
}

}  // namespace longhaul
