#include "worker/agent/health_command.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <future>
#include <set>

#include "base/text/text.h"
#include "base/value/json.h"
#include "resiliency/health/health_news.h"
#include "resiliency/health/host_figures.h"
#include "resiliency/health/left_folders.h"

namespace longhaul {
namespace {

constexpr const char* health_usage =
    "longhaul-worker health [--json] [--nvml PATH|none] [--gpus N] [--folder PATH]... [--idle] "
    "[--check 'PROGRAM ARGUMENT...'] [--deadline SECONDS] [--check-deadline SECONDS] [--watch SECONDS] [--measure] "
    "[--job-pids] [--clean FOLDER]... [--training STATE_DIR]";

Result<int> whole_number(const std::string& word, const std::string& text) {
  char* end = nullptr;
  const long number = std::strtol(text.c_str(), &end, 10);
  if (text.empty() || *end != '\0' || number < 0 || number > 1'000'000)
    return make_error(ErrorCode::invalid_input, word + " " + text + ": expected a whole number", health_usage);
  return static_cast<int>(number);
}

constexpr std::int64_t wait_at_most_ms = 1'000;
constexpr std::int64_t quiet_at_least_ms = 60'000;

// A library without a driver is usual on hosts that have no GPUs, or another maker's; and where a site's cgroups hide
// GPUs from steps that have none, agents see not one of those that the job has. That is nobody's fault, and the lead
// tells of it as GPUs that nobody watches.
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

Result<HealthCommand> parse_health_command(const std::vector<std::string>& words,
                                           std::vector<std::pair<std::string, std::string>> environment) {
  HealthCommand command;
  command.options.environment = std::move(environment);
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i];
    if (word == "--json") {
      command.json = true;
      continue;
    }
    if (word == "--idle") {
      command.options.ours.emplace();
      continue;
    }
    if (word == "--measure") {
      command.measure = true;
      continue;
    }
    if (word == "--job-pids") {
      command.job_pids = true;
      continue;
    }
    const std::set<std::string> known = {"--nvml",     "--gpus",           "--folder", "--check",   "--watch",
                                         "--deadline", "--check-deadline", "--clean",  "--training"};
    if (!known.count(word)) return make_error(ErrorCode::invalid_input, "unknown option " + word, health_usage);
    if (i + 1 == words.size()) return make_error(ErrorCode::invalid_input, word + " needs a value", health_usage);
    const std::string& value = words[++i];
    if (word == "--nvml") command.options.nvml_path = value == "none" ? "" : value;
    if (word == "--folder") command.options.folders.push_back(value);
    if (word == "--clean") command.clean.push_back(value);
    if (word == "--training") command.state_dir = value;
    if (word == "--check") {
      command.options.site_check = split(value, ' ');
      std::erase(command.options.site_check, "");
    }
    if (word == "--watch") {
      char* end = nullptr;
      command.watch_s = std::strtod(value.c_str(), &end);
      if (value.empty() || *end != '\0' || !(command.watch_s >= 0.1) || command.watch_s > 1e6)
        return make_error(ErrorCode::invalid_input, word + " " + value + ": expected seconds, at least 0.1",
                          health_usage);
    }
    if (word == "--check-deadline") {
      LH_TRY(const int seconds, whole_number(word, value));
      command.options.site_check_deadline_ms = seconds * 1000LL;
    }
    if (word == "--gpus") {
      LH_TRY(command.options.gpus_expected, whole_number(word, value));
    }
    if (word == "--deadline") {
      LH_TRY(const int seconds, whole_number(word, value));
      command.options.file_system_deadline_ms = command.options.site_check_deadline_ms = seconds * 1000LL;
    }
  }
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
      const HealthFindings told = fresh(host.wait(std::min(wait_at_most_ms, next.left_ms())));
      const Value removed = clean_up.news();
      if (told.empty() && removed.is_null()) continue;
      Value between = Value::make_table();
      between.set("findings", findings_value(told));
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
