// runs: all runs below one or several folders, and questions about them; and `status` of several runs. Answered from an
// index that this user keeps, which is brought up to date first. Nothing below a folder of runs is written.
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <set>

#include "base/files/files.h"
#include "base/system/clock.h"
#include "base/system/user_names.h"
#include "base/text/print.h"
#include "base/text/text.h"
#include "base/value/json.h"
#include "orchestrator/cli/session/commands.h"
#include "orchestrator/cli/session/load_workflow.h"
#include "orchestrator/index/runs_index.h"
#include "orchestrator/render/run/runs_text.h"
#include "orchestrator/runs/run.h"
#include "orchestrator/state/run_status.h"
#include "orchestrator/state/status_from_ledger.h"

namespace longhaul {
namespace {

constexpr std::size_t many_runs = 1000;  // reading so many takes long enough to say so

const std::vector<std::string>& known_states() {
  static const std::vector<std::string> states = {"running", "succeeded", "failed",    "cancelled", "unreadable",
                                                  "waiting", "ready",     "submitted", "cached",    "skipped"};
  return states;
}

Result<RunsQuery> query_of(const RunsOptions& asked, std::int64_t now_ms) {
  RunsQuery query;
  query.stages = !asked.stages.empty();
  query.of_stage = asked.stages;
  query.names = asked.names;
  query.models = asked.models;
  for (const std::string& state : asked.states) {
    if (std::ranges::find(known_states(), state) == known_states().end())
      return make_error(ErrorCode::invalid_input, "there is no state '" + state + "'",
                        "there are: " + join(known_states(), ", "));
    query.states.push_back(state);
  }
  if (asked.mine) query.owners.push_back(static_cast<std::int64_t>(::geteuid()));
  for (const std::string& user : asked.users) {
    LH_TRY(const uid_t uid, user_id(user));
    query.owners.push_back(static_cast<std::int64_t>(uid));
  }
  if (!asked.since.empty()) {
    LH_TRY(query.since_ms, parse_when(asked.since, now_ms));
  }
  if (!asked.until.empty()) {
    LH_TRY(query.until_ms, parse_when(asked.until, now_ms));
  }
  for (const std::string& figure : asked.figures) {
    LH_TRY(FigureBound bound, parse_figure_bound(figure));
    query.figures.push_back(std::move(bound));
  }
  std::vector<RunsRow> none;
  LH_CHECK(sort_rows(none, asked.sort, query));  // a wrong key is refused before anything is read
  return query;
}

RunsIndexOptions index_options(const Installation& installation, bool rebuild) {
  RunsIndexOptions options;
  options.folder = installation.cache_dir;
  options.rebuild = rebuild;
  if (::isatty(STDERR_FILENO) == 1)
    options.progress = [](std::size_t read, std::size_t of) {
      if (of < many_runs) return;
      print_bytes(stderr,
                  format("\rreading runs that are new or have changed: {} of {}{}", read, of, read == of ? "\n" : ""));
      std::fflush(stderr);
    };
  return options;
}

ShownRun shown(RunsRow row) {
  ShownRun run{std::move(row), false};
  if (run.row.state == "running")
    run.driven = is_driven_by(join_path(run.row.runs_dir, run.row.name), run.row.driver_host, run.row.driver_pid,
                              run.row.driver_start_ticks);
  return run;
}

// Rows of one folder, with what was wrong with its index said on standard error.
Result<std::vector<RunsRow>> ask_folder(const std::string& folder, const RunsQuery& query,
                                        const RunsIndexOptions& options, std::int64_t now_ms, RunsIndexWork& work) {
  LH_TRY(RunsIndex index, RunsIndex::open(folder, options, now_ms));
  for (const std::string& remark : index.work().remarks) print(stderr, "{}\n", remark);
  work.runs += index.work().runs, work.read += index.work().read, work.looks += index.work().looks;
  return index.ask(query, now_ms);
}

void keep_newest_runs(std::vector<RunsRow>& rows, int newest) {
  std::set<std::pair<std::int64_t, std::string>> runs;
  for (const RunsRow& row : rows) runs.emplace(row.created_ms, row.name);
  const auto skipped = static_cast<std::ptrdiff_t>(runs.size()) - newest;
  if (newest <= 0 || skipped <= 0) return;
  const auto first = *std::next(runs.begin(), skipped);
  std::erase_if(rows, [&](const RunsRow& row) { return std::pair(row.created_ms, row.name) < first; });
}

Value work_value(const RunsIndexWork& work) {
  Value value = Value::make_table();
  value.set("runs", work.runs);
  value.set("read", work.read);
  value.set("looks", work.looks);
  return value;
}

std::vector<ShownRun> all_shown(std::vector<RunsRow>& rows) {
  std::vector<ShownRun> runs;
  runs.reserve(rows.size());
  for (RunsRow& row : rows) runs.push_back(shown(std::move(row)));
  return runs;
}

}  // namespace

ExitCode show_runs(const CommandLine& line, const Installation& installation) {
  const std::int64_t now_ms = SystemClock().wall_ms();
  const RunsOptions& asked = line.runs_asked;
  const auto query = query_of(asked, now_ms);
  if (!query.ok()) return fail(line, query.error());
  std::vector<std::string> folders = asked.folders;
  if (folders.empty()) {
    const auto site = load_site(line.site, installation.site_folders());
    if (!site.ok()) return fail(line, site.error());
    folders.push_back(runs_folder(line, site->config));
  }
  std::vector<RunsRow> rows;
  RunsIndexWork work;
  for (const std::string& folder : folders) {
    if (!asked.folders.empty() && !is_directory(folder))
      return fail(line, make_error(ErrorCode::not_found, "there is no folder " + absolute_path(folder)));
    auto found = ask_folder(folder, *query, index_options(installation, asked.rebuild), now_ms, work);
    if (!found.ok()) return fail(line, found.error());
    rows.insert(rows.end(), std::make_move_iterator(found->begin()), std::make_move_iterator(found->end()));
  }
  keep_newest_runs(rows, asked.newest);
  if (const Status sorted = sort_rows(rows, asked.sort, *query); !sorted.ok()) return fail(line, sorted.error());
  const std::vector<ShownRun> runs = all_shown(rows);
  if (line.json) {
    Value document = runs_value(runs, *query);
    document.set("index", work_value(work));
    print_text(stdout, to_json_pretty(document));
    return ExitCode::ok;
  }
  if (!runs.empty()) print_text(stdout, runs_text(runs, *query, now_ms));
  if (work.runs == 0)
    print(stderr, "there are no runs in {}\n", absolute_path(folders.front()));
  else if (runs.empty())
    print(stderr, "none of {} runs is what was asked for\n", work.runs);
  return ExitCode::ok;
}

ExitCode show_status_of_several(const CommandLine& line, const Installation& installation) {
  const std::int64_t now_ms = SystemClock().wall_ms();
  const auto site = load_site(line.site, installation.site_folders());
  if (!site.ok()) return fail(line, site.error());
  std::map<std::string, std::set<std::string>> wanted;  // names by folder
  for (const std::string& name : line.named_runs) {
    const auto run = find_run(runs_folder(line, site->config), name);
    if (!run.ok()) return fail(line, run.error());
    wanted[parent_path(*run)].insert(file_name(*run));
  }
  std::vector<RunsRow> rows;
  RunsIndexWork work;
  for (const auto& [folder, names] : wanted) {
    auto found = ask_folder(folder, RunsQuery(), index_options(installation, false), now_ms, work);
    if (!found.ok()) return fail(line, found.error());
    for (RunsRow& row : *found)
      if (names.contains(row.name)) rows.push_back(std::move(row));
  }
  const std::vector<ShownRun> runs = all_shown(rows);
  if (line.json) {
    Value document = runs_value(runs, RunsQuery());
    document.set("index", work_value(work));
    print_text(stdout, to_json_pretty(document));
  } else {
    print_text(stdout, runs_text(runs, RunsQuery(), now_ms));
  }
  const auto any = [&](const char* state) {
    return std::ranges::any_of(runs, [&](const ShownRun& run) { return run.row.state == state; });
  };
  if (any("failed")) return ExitCode::run_failed;
  return any("cancelled") ? ExitCode::interrupted : ExitCode::ok;
}

}  // namespace longhaul
