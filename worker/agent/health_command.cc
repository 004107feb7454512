#include "worker/agent/health_command.h"

#include <cstdlib>

#include "base/text.h"

namespace longhaul {
namespace {

constexpr const char* health_usage =
    "longhaul-worker health [--json] [--nvml PATH|none] [--gpus N] [--folder PATH]... [--idle] [--check PROGRAM] "
    "[--deadline SECONDS]";

Result<int> whole_number(const std::string& word, const std::string& text) {
  char* end = nullptr;
  const long number = std::strtol(text.c_str(), &end, 10);
  if (text.empty() || *end != '\0' || number < 0 || number > 1'000'000)
    return make_error(ErrorCode::invalid_input, word + " " + text + ": expected a whole number", health_usage);
  return static_cast<int>(number);
}

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
    const bool known =
        word == "--nvml" || word == "--gpus" || word == "--folder" || word == "--check" || word == "--deadline";
    if (!known) return make_error(ErrorCode::invalid_input, "unknown option " + word, health_usage);
    if (i + 1 == words.size()) return make_error(ErrorCode::invalid_input, word + " needs a value", health_usage);
    const std::string& value = words[++i];
    if (word == "--nvml") command.options.nvml_path = value == "none" ? "" : value;
    if (word == "--folder") command.options.folders.push_back(value);
    if (word == "--check") command.options.site_check = {value};
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
  Value array = Value::make_array();
  for (const HealthFinding& finding : findings) array.push_back(to_value(finding));
  value.set("findings", std::move(array));
  return value;
}

}  // namespace longhaul
