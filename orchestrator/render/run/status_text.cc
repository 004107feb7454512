#include "orchestrator/render/run/status_text.h"

#include <algorithm>
#include <cmath>

#include "base/system/clock.h"
#include "base/system/user_names.h"
#include "base/text/text.h"
#include "base/text/visible_text.h"
#include "orchestrator/render/draw/text_table.h"
#include "orchestrator/render/run/failure_text.h"

namespace longhaul {
namespace {

constexpr std::size_t cause_width = 100;  // in the table; longer ones are shown below it

// Figures that say most about a stage, in that order; others follow as written.
const std::vector<std::string>& main_figures() {
  static const std::vector<std::string> names = {"bits_per_byte",
                                                 "validation_loss",
                                                 "heldout_loss",
                                                 "preference_accuracy",
                                                 "accuracy",
                                                 "perplexity",
                                                 "answer_loss",
                                                 "loss",
                                                 "perplexity_change_pct",
                                                 "tokens_per_s",
                                                 "documents",
                                                 "tokens",
                                                 "vocabulary",
                                                 "parameters"};
  return names;
}

std::string state_text(const StageStatus& stage) {
  std::string text = to_string(stage.state);
  if (stage.attempts > 1) text += format(" (attempt {})", stage.attempts);
  return text;
}

}  // namespace

std::string figure_text(double value) {
  if (!std::isfinite(value)) return format("{}", value);
  if (value == std::floor(value) && std::fabs(value) < 1e6) return format("{:.0f}", value);
  if (std::fabs(value) >= 1e6) return human_count(value);
  if (std::fabs(value) >= 1e4) return format("{:.0f}", value);
  return format("{:.4g}", value);
}

std::vector<std::pair<std::string, std::string>> figures_of(const StageStatus& stage) {
  if (!stage.figures.is_table()) return {};
  std::vector<const ValueMember*> members;
  for (const ValueMember& member : stage.figures.as_table())
    if (member.value.is_number()) members.push_back(&member);
  const auto weight = [](const ValueMember* member) {
    const auto& names = main_figures();
    return std::find(names.begin(), names.end(), member->key) - names.begin();
  };
  std::stable_sort(members.begin(), members.end(),
                   [&](const ValueMember* a, const ValueMember* b) { return weight(a) < weight(b); });
  std::vector<std::pair<std::string, std::string>> figures;
  for (const ValueMember* member : members) figures.emplace_back(member->key, figure_text(member->value.as_number()));
  return figures;
}

std::string figures_text(const StageStatus& stage, std::size_t count) {
  std::vector<std::string> parts;
  for (const auto& [name, value] : figures_of(stage))
    if (parts.size() < count) parts.push_back(name + " " + value);
  return join(parts, ", ");
}

std::string progress_text(const StageStatus& stage) {
  if (stage.progress_total <= 0) return {};
  std::string text =
      format("{:3.0f} %  {}/{}", std::floor(100 * std::min(1.0, stage.progress_done / stage.progress_total)),
             figure_text(stage.progress_done), figure_text(stage.progress_total));
  if (!stage.progress_unit.empty()) text += " " + stage.progress_unit;
  if (stage.progress_rate > 0) text += "  " + figure_text(stage.progress_rate) + "/s";
  if (stage.eta_s > 0) text += "  eta " + human_duration(stage.eta_s);
  return text;
}

std::string stage_time_text(const StageStatus& stage, std::int64_t now_ms) {
  if (stage.started_ms == 0) return {};
  const std::int64_t end = stage.ended_ms > 0 ? stage.ended_ms : now_ms;
  return human_duration(static_cast<double>(std::max<std::int64_t>(0, end - stage.started_ms)) / 1e3);
}

// "refused for now, 12m 03s: MESSAGE"; "" where nothing holds it up.
std::string held_up_text(const StageStatus& stage, std::int64_t now_ms) {
  if (stage.held_up_by.empty()) return {};
  const std::int64_t ms = std::max<std::int64_t>(0, now_ms - stage.held_up_since_ms);
  return format("{}, {}: {}", stage.held_up_by == "queue" ? "does not start by itself" : "refused for now",
                human_duration(static_cast<double>(ms) * 1e-3), stage.held_up);
}

std::string stage_table(const RunStatus& status, std::int64_t now_ms) {
  std::vector<std::vector<std::string>> rows = {{"stage", "kind", "state", "time", "computes", "figures"}};
  for (const StageStatus& stage : status.stages) {
    std::string note = stage.state == StageState::running ? progress_text(stage) : figures_text(stage, 2);
    const bool shown_below = stage.state == StageState::failed || stage.state == StageState::skipped;
    if (note.empty() && !shown_below) note = clipped(stage.cause, cause_width);
    if (note.empty()) note = clipped(held_up_text(stage, now_ms), cause_width);
    if (note.empty() && !stage.waits_for.empty()) note = "waits for " + stage.waits_for;
    rows.push_back({stage.id, stage.kind, state_text(stage), stage_time_text(stage, now_ms),
                    computing_text(stage.computing), note});
  }
  return text_table(rows);
}

std::vector<std::vector<std::string>> trial_rows(const StageStatus& stage) {
  std::vector<std::vector<std::string>> rows;
  const bool is_search = stage.kind == "search";
  if (is_search && !stage.trials.empty())
    rows.push_back({"trial", "configuration", "rung", "steps", stage.trials.front().metric, "verdict"});
  for (const TrialStatus& trial : stage.trials)
    if (is_search)
      rows.push_back({trial.name, trial.settings, std::to_string(trial.rung), std::to_string(trial.steps),
                      trial.value.empty() ? "-" : trial.value, trial.why});
    else
      rows.push_back({trial.name, trial.outcome, trial.why});
  return rows;
}

namespace {

constexpr std::size_t requests_shown = 5, cached_shown = 10;

bool any_job_open(const RunStatus& status) {
  return std::ranges::any_of(status.stages, [](const StageStatus& stage) {
    return stage.state == StageState::submitted || stage.state == StageState::running;
  });
}

// A run whose controller is not at work at this moment: who goes on with it, and the command that does.
std::string undriven_text(const RunStatus& status) {
  const std::string run = shell_quoted(status.run.empty() ? status.name : status.run);
  const std::string who = status.own ? "" : "  # as its owner, or as a colleague of its group";
  if (status.driver == "lead" && any_job_open(status))
    return "\nits jobs drive this run on as they end; where none of them is in the queue any more:\n  longhaul tick " +
           run + " --until-quiet" + who + "\n";
  if (status.driver == "scrontab" || status.driver == "job")
    return format(
        "\nits {} drives this run on every few minutes; where it does not any more:\n  longhaul resume {}{}\n",
        status.driver == "job" ? "small job" : "line in scrontab", run, who);
  return format("\nnobody drives this run: {}, and nothing new starts\n  longhaul resume {}{}\n",
                any_job_open(status) ? "its jobs go on" : "none of its jobs is in the queue", run, who);
}

// What was taken from earlier runs, where it lies and whose it is.
std::string cached_stages_text(const RunStatus& status) {
  std::string text;
  std::size_t count = 0;
  for (const StageStatus& stage : status.stages) {
    if (stage.state != StageState::cached || stage.artifact.empty() || ++count > cached_shown) continue;
    text +=
        format("{}{} is cached: {}{}\n", count == 1 ? "\n" : "", visible_line(stage.id), visible_line(stage.artifact),
               stage.artifact_uid < 0                   ? ""
               : stage.artifact_uid == status.owner_uid ? ", of the same owner"
                                                        : ", of " + user_text(stage.artifact_uid) + ", verified");
  }
  if (count > cached_shown) text += format("and {} more; --json names all\n", count - cached_shown);
  return text;
}

// Whose run it is, where that is another one than who looks, and who asked what of it.
std::string people_text(const RunStatus& status) {
  std::string text;
  if (!status.own) text += "\na run of " + user_text(status.owner_uid) + "\n";
  if (status.driver_uid >= 0 && status.owner_uid >= 0 && status.driver_uid != status.owner_uid)
    text += "\nlast driven by " + user_text(status.driver_uid) + "\n";
  const std::size_t first = status.requests.size() - std::min(status.requests.size(), requests_shown);
  for (std::size_t i = first; i < status.requests.size(); ++i) {
    const RequestStatus& one = status.requests[i];
    text += format("\nasked: {}, {}, by {}: {}\n", visible_line(one.what), utc_text(one.at_ms),
                   one.uid >= 0 ? user_text(one.uid) : "an unknown user", visible_line(one.answer));
  }
  return text;
}

}  // namespace

std::string status_text(const RunStatus& status, std::int64_t now_ms) {
  const std::int64_t end = status.ended_ms > 0 ? status.ended_ms : now_ms;
  std::string text =
      format("run {}: {}, {}\n\n", visible_line(status.name), to_string(status.state),
             human_duration(static_cast<double>(std::max<std::int64_t>(0, end - status.created_ms)) / 1e3));
  text += stage_table(status, now_ms) + failures_text(status);
  for (const StageStatus& stage : status.stages)
    if (const std::string held_up = held_up_text(stage, now_ms); !held_up.empty())
      text += "\n" + visible_line(stage.id) + " " + visible_paragraph(held_up) +
              (stage.held_up_advice.empty() ? "" : "; " + visible_paragraph(stage.held_up_advice)) + "\n";
  for (const StageStatus& stage : status.stages) {
    auto rows = trial_rows(stage);
    for (auto& row : rows) {
      row.front() = "  " + row.front();
      if (stage.kind == "search") row.back() = clipped(row.back(), cause_width);
    }
    if (!rows.empty()) text += "\ntrials of " + visible_line(stage.id) + "\n" + text_table(rows);
    for (const std::string& what : stage.set_aside) text += "  set aside: " + visible_line(what) + "\n";
  }
  for (const OrderStatus& order : status.orders)
    text += format("\norder to {}: {}: {}\n", visible_line(order.stage), visible_line(order.text),
                   order.outcome.empty() ? "on its way" : visible_paragraph(order.outcome));
  for (const std::string& note : status.notes) text += "\n" + visible_paragraph(note) + "\n";
  text += cached_stages_text(status) + people_text(status);
  if (status.state == RunState::running && !status.driven) text += undriven_text(status);
  return text + next_step_text(status);
}

std::string watch_text(const std::string& run_dir) {
  return "run:    " + run_dir + "\nwatch:  longhaul status " + shell_quoted(run_dir) + "\n";
}

std::string run_end_text(const RunStory& story, std::int64_t now_ms) {
  std::string text = status_text(story.status, now_ms);
  for (const StageStory& stage : story.stages) {
    const StageStatus* status = story.status.find(stage.id);
    if (!status || status->kind != "deploy") continue;
    for (const Sample& sample : stage.samples)
      text += "\nasked:    " + visible_paragraph(trim(sample.prompt)) +
              "\nanswered: " + visible_paragraph(trim(sample.text)) + "\n";
  }
  return text;
}

}  // namespace longhaul
