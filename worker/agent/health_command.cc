#include "worker/agent/health_command.h"

#include <algorithm>
#include <chrono>
#include <future>

#include "base/options/command_options.h"
#include "base/text/text.h"
#include "base/value/json.h"
#include "resiliency/health/health_news.h"
#include "resiliency/health/host_figures.h"
#include "resiliency/health/left_folders.h"

namespace longhaul {
namespace {

constexpr std::int64_t wait_at_most_ms = 1'000;
constexpr std::int64_t quiet_at_least_ms = 60'000;

// A library without a driver is usual on hosts that have no GPUs, or another maker's; and where a site's cgroups hide
// GPUs from steps that have none, agents see not one of those that the job has. That is nobody's fault, and the lead
// reports it as GPUs that nobody watches.
bool is_of_no_gpus(const HealthFinding& one) {
  return one.fault == FaultClass::gpu_driver || (one.fault == FaultClass::gpu_lost && one.device.empty());
}

Value findings_value(const HealthFindings& findings) {
  Value array = Value::make_array();
  for (const HealthFinding& finding : findings) array.push_back(to_value(finding));
  return array;
}

// In a thread of its own, for hundreds of GB take a while, and looks go on meanwhile.
class CleanUp {
 public:
  explicit CleanUp(const HealthCommand& command) {
    if (!command.clean.empty())
      removed_ = std::async(std::launch::async, [folders = command.clean, state_dir = command.state_dir] {
        std::vector<RemovedFolder> all;
        for (const std::string& folder : folders)
          for (RemovedFolder& one : remove_left_folders(folder, state_dir)) all.push_back(std::move(one));
        return all;
      });
  }
  // What was removed, once it is known; null before, and afterwards.
  Value news() {
    if (!removed_.valid() || removed_.wait_for(std::chrono::seconds(0)) != std::future_status::ready) return {};
    Value array = Value::make_array();
    for (const RemovedFolder& one : removed_.get()) {
      Value value = Value::make_table();
      value.set("path", one.path);
      value.set("why", one.why);
      value.set("bytes", one.bytes);
      if (!one.outcome.ok()) value.set("error", one.outcome.error().message());
      array.push_back(std::move(value));
    }
    return array.as_array().empty() ? Value() : array;
  }

 private:
  std::future<std::vector<RemovedFolder>> removed_;
};

}  // namespace

Result<HealthCommand> parse_health_command(const std::vector<std::string>& arguments,
                                           std::vector<std::pair<std::string, std::string>> environment) {
  HealthCommand command;
  HostHealthOptions& host = command.options;
  host.environment = std::move(environment);
  constexpr int much = 1'000'000;
  bool idle = false;
  int deadline_s = 0, check_deadline_s = 0;
  std::string check;
  CommandOptions options("longhaul-worker health", "looks at this host: GPUs, network, disks, memory");
  options.flag("--json", command.json, "for programs");
  options.text("--nvml", "PATH", host.nvml_path, "NVIDIA's library, or none");
  options.integer("--gpus", host.gpus_expected, 0, much, "that the host has");
  options.texts("--folder", "PATH", host.folders, "that must answer; may be repeated");
  options.flag("--idle", idle, "no process may use a GPU");
  options.text("--check", "COMMAND", check, "the site's own: program and arguments, with blanks between");
  options.integer("--deadline", deadline_s, 0, much, "seconds, of a folder and of the check");
  options.integer("--check-deadline", check_deadline_s, 0, much, "seconds, of the check");
  options.number("--watch", command.watch_s, 0.1, much, "seconds between two looks, again and again");
  options.flag("--measure", command.measure, "how fast the host is, before the first look");
  options.flag("--job-pids", command.job_pids, "standard input says which processes are the job's");
  options.texts("--clean", "FOLDER", command.clean, "in which earlier jobs may have left something; may be repeated");
  options.text("--training", "STATE_DIR", command.state_dir, "whose copies in these folders stay");
  options.footer("Exit code 1: the host is not fit to work.");
  LH_TRY(command.help, options.parse(arguments));
  if (host.nvml_path == "none") host.nvml_path.clear();
  if (idle) host.ours.emplace();
  if (options.given("--check")) host.site_check = split(check, ' ');
  std::erase(host.site_check, "");
  if (options.given("--deadline")) host.file_system_deadline_ms = host.site_check_deadline_ms = deadline_s * 1000LL;
  if (options.given("--check-deadline")) host.site_check_deadline_ms = check_deadline_s * 1000LL;
  return command;
}

void watch_health(const HealthCommand& command, Clock& clock, const std::function<bool(const std::string&)>& write) {
  HostHealth host(command.options);
  const auto interval_ms = static_cast<std::int64_t>(command.watch_s * 1000);
  HealthNews news(std::max(quiet_at_least_ms, 3 * interval_ms));
  const auto fresh = [&](const HealthFindings& seen) { return news.take(seen, clock.monotonic_ns() / 1'000'000); };
  HostFigures figures;
  if (command.measure) figures = measure_host();
  bool seen_gpus = false;  // at any time
  CleanUp clean_up(command);
  for (;;) {
    const Deadline next(clock, interval_ms);
    Value line = Value::make_table();
    line.set("look", true);
    HealthFindings seen = host.look();
    seen_gpus |= host.gpus() > 0;
    if (const auto hidden = std::find_if(seen.begin(), seen.end(), is_of_no_gpus); !seen_gpus && hidden != seen.end())
      line.set("gpus_hidden", hidden->what);
    // One that is lost later is still looked for.
    const int watched = std::max(command.options.gpus_expected, static_cast<int>(host.gpus()));
    line.set("gpus_watched", seen_gpus ? watched : 0);
    if (!seen_gpus) std::erase_if(seen, is_of_no_gpus);
    line.set("findings", findings_value(fresh(seen)));
    if (figures.measured()) line.set("figures", to_value(figures));
    if (!host.gpu_script().empty()) line.set("gpu_script", host.gpu_script());
    if (!write(to_json(line) + "\n")) return;
    while (!next.passed()) {
      const HealthFindings new_findings = fresh(host.wait(std::min(wait_at_most_ms, next.left_ms())));
      const Value removed = clean_up.news();
      if (new_findings.empty() && removed.is_null()) continue;
      Value between = Value::make_table();
      between.set("findings", findings_value(new_findings));
      if (!removed.is_null()) between.set("removed", removed);
      if (!write(to_json(between) + "\n")) return;
    }
  }
}

std::string health_text(const HealthFindings& findings, const std::string& host, std::size_t gpus) {
  std::string text;
  for (const HealthFinding& finding : findings) {
    text += format("{}: {}: ", to_string(finding.severity), to_string(finding.fault));
    if (!finding.device.empty()) text += finding.device + ": ";
    text += finding.what + "; " + finding.remedy + "\n";
  }
  return text + format("{}: {}, {} GPUs, {} findings\n", host,
                       fit_to_work(findings) ? "fit to work" : "not fit to work", gpus, findings.size());
}

Value health_value(const HealthFindings& findings, const std::string& host, std::size_t gpus) {
  Value value = Value::make_table();
  value.set("host", host);
  value.set("fit", fit_to_work(findings));
  value.set("gpus", gpus);
  value.set("findings", findings_value(findings));
  return value;
}

}  // namespace longhaul
