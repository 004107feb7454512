#include "orchestrator/render/run/failure_text.h"

#include <algorithm>
#include <cctype>
#include <map>

#include "base/text/text.h"
#include "base/text/visible_text.h"
#include "resiliency/taxonomy/fault_class.h"

namespace longhaul {
namespace {

constexpr std::size_t lines_shown = 3, line_width = 80;

// Takes `text` off the front.
bool take(std::string& from, const std::string& text) {
  if (!starts_with(from, text)) return false;
  from.erase(0, text.size());
  return true;
}

// Takes what stands before the first ": " and that itself, if it begins so.
std::string take_before_colon(std::string& from, const std::string& begin) {
  const std::size_t colon = from.find(": ");
  if (!starts_with(from, begin) || colon == std::string::npos) return {};
  std::string taken = from.substr(0, colon);
  from.erase(0, colon + 2);
  return taken;
}

std::string who_ended(std::string& rest) {
  if (take(rest, "the ranks ended: ")) return "all ranks";
  const std::string mark = " ended: ";
  const std::size_t at = rest.find(mark);
  if (!starts_with(rest, "rank ") || at == std::string::npos || at > std::string("rank 123456").size()) return {};
  std::string who = rest.substr(0, at);
  rest.erase(0, at + mark.size());
  return who;
}

bool is_of_settings(const RunStatus& status) {
  return std::any_of(status.stages.begin(), status.stages.end(), [](const StageStatus& stage) {
    return stage.state == StageState::failed && !stage.fault.empty() &&
           group_of(fault_class_of(stage.fault)) == FaultGroup::hopeless;
  });
}

}  // namespace

std::string cause_sentence(const std::string& cause) {
  std::string rest = cause;
  const std::string step = take_before_colon(rest, "step ");
  const std::string who = who_ended(rest);
  const std::string how = who.empty() ? "" : take_before_colon(rest, "exit code ");
  if (how.empty()) return cause;  // a signal, or no more than its end
  (void)take_before_colon(rest, "longhaul-engine rank ");
  (void)take_before_colon(rest, "stage ");
  (void)take(rest, "error: ");
  return (step.empty() ? "" : step + ": ") + rest + " (" + who + ", " + how + ")";
}

std::string failures_text(const RunStatus& status) {
  std::string text;
  std::map<std::string, std::vector<std::string>> skipped;  // stages by cause
  for (const StageStatus& stage : status.stages) {
    if (stage.state == StageState::skipped && !stage.cause.empty()) skipped[stage.cause].push_back(stage.id);
    if (stage.state != StageState::failed || stage.cause.empty()) continue;
    text += "\n" + visible_line(stage.id) + " failed: " + visible_paragraph(cause_sentence(stage.cause)) + "\n";
    if (!stage.verdict.empty()) text += "not tried again: " + visible_paragraph(stage.verdict) + "\n";
  }
  for (const auto& [cause, stages] : skipped)
    text += "\nskipped: " + visible_line(join(stages, ", ")) + ": " + visible_paragraph(cause) + "\n";
  return text;
}

std::string next_step_text(const RunStatus& status) {
  if (status.state != RunState::failed && status.state != RunState::cancelled) return {};
  const std::string resume = "longhaul resume " + shell_quoted(status.run.empty() ? status.name : status.run);
  if (status.workflow_path.empty()) return "\ngo on from here:\n  " + resume + "\n";
  const std::string again =
      std::string(status.driver == "here" ? "longhaul run " : "longhaul submit ") + shell_quoted(status.workflow_path);
  if (is_of_settings(status))
    return "\ncorrect " + visible_line(status.workflow_path) +
           ", or what it names; then, with the options of this run:\n  " + again +
           "\nwhat has ended well is taken from this run; `longhaul resume` would repeat it with the same settings\n";
  std::string text = "\ngo on from here:\n  " + resume + "\n";
  if (status.state == RunState::failed)
    text += "after a change of the workflow, which resume does not see:\n  " + again + "\n";
  return text;
}

std::string changed_workflow_text(const std::string& path, const std::string& now, const std::string& copy) {
  if (now == copy) return {};
  const auto lines_now = split(now, '\n'), lines_then = split(copy, '\n');
  std::string text = visible_line(path) + " has changed since this run was made, which goes on with its own copy:\n";
  std::size_t shown = 0, differ = 0;
  for (std::size_t i = 0; i < std::max(lines_now.size(), lines_then.size()); ++i) {
    const std::string a = i < lines_then.size() ? trim(lines_then[i]) : "",
                      b = i < lines_now.size() ? trim(lines_now[i]) : "";
    if (a == b || ++differ > lines_shown) continue;
    ++shown;
    text += format("  line {}: {} -> {}\n", i + 1, clipped(visible_line(a.empty() ? "(nothing)" : a), line_width),
                   clipped(visible_line(b.empty() ? "(nothing)" : b), line_width));
  }
  if (differ > shown) text += format("  and {} more lines\n", differ - shown);
  return text + "to use the changed file: longhaul run " + shell_quoted(path) + " (finished stages are cached)\n";
}

}  // namespace longhaul
