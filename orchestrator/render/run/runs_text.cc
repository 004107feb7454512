#include "orchestrator/render/run/runs_text.h"

#include <algorithm>
#include <set>

#include "base/system/user_names.h"
#include "base/text/text.h"
#include "base/text/visible_text.h"
#include "orchestrator/render/draw/text_table.h"
#include "orchestrator/render/run/status_text.h"

namespace longhaul {
namespace {

constexpr int runs_format = 1;
constexpr std::size_t problem_width = 60, left_shown = 3;

std::string duration_text(std::int64_t from_ms, std::int64_t to_ms) {
  return human_duration(static_cast<double>(std::max<std::int64_t>(0, to_ms - from_ms)) / 1e3);
}

std::string row_steps_text(const RunsRow& row) {
  if (row.step < 0) return row.steps > 0 ? format("-/{}", row.steps) : "-";
  return row.steps > 0 ? format("{}/{}", row.step, row.steps) : std::to_string(row.step);
}

std::string row_loss_text(const RunsRow& row) {
  return row.loss ? figure_text(*row.loss) : "-";
}

bool is_left(const ShownRun& run) {
  return run.row.state == "running" && !run.driven && run.row.driver == "here";
}

// What is shown besides the columns that are always there.
struct Columns {
  bool users = false, folders = false;
};

Columns columns_of(const std::vector<ShownRun>& runs) {
  std::set<std::int64_t> users;
  std::set<std::string> folders;
  for (const ShownRun& run : runs) users.insert(run.row.owner_uid), folders.insert(run.row.runs_dir);
  return {users.size() > 1, folders.size() > 1};
}

std::string run_text(const RunsRow& row, const Columns& columns) {
  return columns.folders ? row.runs_dir + "/" + row.name : row.name;
}

void add_figures(const RunsRow& row, std::vector<std::string>& cells) {
  for (const auto& figure : row.figures) cells.push_back(figure ? figure_text(*figure) : "-");
}

std::vector<std::string> head_of(const RunsQuery& query, const Columns& columns) {
  std::vector<std::string> head = {"run"};
  if (columns.users) head.emplace_back("user");
  const std::vector<std::string> rest =
      query.stages ? std::vector<std::string>{"stage", "kind", "state", "step", "loss", "time", "node-hours", "job"}
                   : std::vector<std::string>{"state", "stage", "step", "loss", "age", "node-hours"};
  head.insert(head.end(), rest.begin(), rest.end());
  for (const FigureBound& bound : query.figures) head.push_back(bound.name);
  return head;
}

std::vector<std::string> run_row(const ShownRun& run, const Columns& columns, std::int64_t now_ms) {
  const RunsRow& row = run.row;
  std::vector<std::string> cells = {run_text(row, columns)};
  if (columns.users) cells.push_back(user_name(row.owner_uid));
  std::string stage = row.stage.empty() ? "-" : row.stage;
  if (row.state == "running" && row.stage_state != "running") stage += " (" + row.stage_state + ")";
  if (!row.problem.empty()) stage = clipped(row.problem, problem_width);
  cells.insert(cells.end(),
               {is_left(run) ? "left" : row.state, stage, row_steps_text(row), row_loss_text(row),
                row.created_ms > 0 ? duration_text(row.created_ms, now_ms) : "-", format("{:.2f}", row.node_hours)});
  add_figures(row, cells);
  return cells;
}

std::vector<std::string> stage_row(const ShownRun& run, const Columns& columns, std::int64_t now_ms) {
  const RunsRow& row = run.row;
  std::vector<std::string> cells = {run_text(row, columns)};
  if (columns.users) cells.push_back(user_name(row.owner_uid));
  const std::string time =
      row.started_ms > 0 ? duration_text(row.started_ms, row.finished_ms > 0 ? row.finished_ms : now_ms) : "-";
  cells.insert(cells.end(), {row.stage, row.kind, row.stage_state, row_steps_text(row), row_loss_text(row), time,
                             format("{:.2f}", row.node_hours), row.job.empty() ? "-" : row.job});
  add_figures(row, cells);
  return cells;
}

Value time_value(std::int64_t ms) {
  return ms > 0 ? Value(static_cast<long long>(ms)) : Value();
}

void put_stage(const RunsRow& row, Value& into) {
  into.set("id", row.stage);
  into.set("kind", row.kind);
  into.set("state", row.stage_state);
  into.set("model", row.model);
  into.set("attempts", row.attempts);
  into.set("submitted_ms", time_value(row.submitted_ms));
  into.set("started_ms", time_value(row.started_ms));
  into.set("ended_ms", time_value(row.finished_ms));
  into.set("job", row.job);
  into.set("cause", row.cause);
  into.set("step", row.step >= 0 ? Value(static_cast<long long>(row.step)) : Value());
  into.set("steps", row.steps > 0 ? Value(static_cast<long long>(row.steps)) : Value());
  into.set("loss", row.loss ? Value(*row.loss) : Value());
}

Value run_value(const ShownRun& run, const RunsQuery& query) {
  const RunsRow& row = run.row;
  Value value = Value::make_table();
  value.set("runs_dir", row.runs_dir);
  value.set("name", row.name);
  value.set("workflow", row.workflow);
  value.set("state", row.state);
  value.set("problem", row.problem);
  value.set("owner_uid", static_cast<long long>(row.owner_uid));
  value.set("created_ms", time_value(row.created_ms));
  value.set("ended_ms", time_value(row.ended_ms));
  value.set("driver", row.driver);
  value.set("driven", run.driven);
  value.set("node_hours", row.node_hours);
  Value& figures = value.set("figures", Value::make_table());
  for (std::size_t i = 0; i < row.figures.size(); ++i)
    figures.set(query.figures[i].name, row.figures[i] ? Value(*row.figures[i]) : Value());
  Value stage;
  if (!row.stage.empty()) {
    stage = Value::make_table();
    put_stage(row, stage);
  }
  value.set("stage", std::move(stage));
  return value;
}

}  // namespace

std::string runs_text(const std::vector<ShownRun>& runs, const RunsQuery& query, std::int64_t now_ms) {
  const Columns columns = columns_of(runs);
  std::vector<std::vector<std::string>> rows = {head_of(query, columns)};
  for (const ShownRun& run : runs)
    rows.push_back(query.stages ? stage_row(run, columns, now_ms) : run_row(run, columns, now_ms));
  std::string text = text_table(rows);
  std::vector<std::string> left;
  for (const ShownRun& run : runs)
    if (!query.stages && is_left(run)) left.push_back(run.row.runs_dir + "/" + run.row.name);
  if (left.empty()) return text;
  text += "\nnobody drives the runs that were left; to go on with one:\n";
  for (std::size_t i = 0; i < std::min(left.size(), left_shown); ++i)
    text += "  longhaul resume " + visible_line(shell_quoted(left[i])) + "\n";
  if (left.size() > left_shown) text += format("  and {} more\n", left.size() - left_shown);
  return text;
}

Value runs_value(const std::vector<ShownRun>& runs, const RunsQuery& query) {
  Value document = Value::make_table();
  document.set("file", "longhaul runs");
  document.set("format", runs_format);
  Value& list = document.set(query.stages ? "stages" : "runs", Value::make_array());
  for (const ShownRun& run : runs) list.push_back(run_value(run, query));
  return document;
}

}  // namespace longhaul
