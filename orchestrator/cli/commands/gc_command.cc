// gc: what the runs take, how they grow, and what of it may go.
#include <cstdio>

#include "base/system/clock.h"
#include "base/text/print.h"
#include "base/text/text.h"
#include "base/value/json.h"
#include "orchestrator/cli/options/json_documents.h"
#include "orchestrator/cli/session/commands.h"
#include "orchestrator/cli/session/load_workflow.h"
#include "orchestrator/render/draw/text_table.h"
#include "orchestrator/runs/garbage.h"

namespace longhaul {
namespace {

std::string size_text(const DiskUse& use) {
  return format("{} in {} files", human_bytes(static_cast<double>(use.bytes)), use.inodes);
}

void print_runs(const GarbageReport& report) {
  std::vector<std::vector<std::string>> rows = {{"run", "state", "takes", "files", "may go", "kept because"}};
  for (const RunUse& run : report.runs) {
    DiskUse garbage;
    for (const GarbageItem& item : run.items) garbage += item.use;
    std::string kept = run.kept_because;
    if (kept.empty() && !run.pinned_stages.empty()) kept = "pinned: " + join(run.pinned_stages, ", ");
    rows.push_back({run.name, run.state, human_bytes(static_cast<double>(run.use.bytes)),
                    std::to_string(run.use.inodes),
                    garbage.inodes > 0 ? human_bytes(static_cast<double>(garbage.bytes)) : "-", kept});
  }
  print_text(stdout, text_table(rows));
  for (const RunUse& run : report.runs)
    for (const GarbageItem& item : run.items) print(stdout, "\n{}\n  {}: {}", item.path, item.why, size_text(item.use));
  for (const GarbageItem& item : report.index) print(stdout, "\n{}\n  {}", item.path, item.why);
  print(stdout, "\n");
}

void print_forecast(const GarbageReport& report) {
  print(stdout, "\nall runs: {}; free: {}, {} files\n", size_text(report.use),
        human_bytes(static_cast<double>(report.free_bytes)), static_cast<long long>(report.free_inodes));
  for (const RunUse& run : report.runs)
    if (run.growth.kept_bytes > 0)
      print(stdout, "{}: its checkpoints and milestones hold at most {}; it writes {} and {:.0f} files a day\n",
            run.name, human_bytes(static_cast<double>(run.growth.kept_bytes)), human_bytes(run.growth.bytes_per_day),
            run.growth.inodes_per_day);
  if (report.bytes_per_day > 0)
    print(stdout, "runs of the last 7 days: {} a day; at that pace the file system is full in {:.0f} days\n",
          human_bytes(report.bytes_per_day), static_cast<double>(report.free_bytes) / report.bytes_per_day);
  for (const std::string& one : report.unreadable) print(stdout, "not looked at, and so no artifact goes: {}\n", one);
}

Value use_value(const DiskUse& use) {
  Value value = Value::make_table();
  value.set("bytes", static_cast<long long>(use.bytes));
  value.set("files", static_cast<long long>(use.inodes));
  return value;
}

Value item_value(const GarbageItem& item) {
  Value value = use_value(item.use);
  value.set("path", item.path);
  value.set("stage", item.stage);
  value.set("why", item.why);
  return value;
}

Value report_value(const GarbageReport& report) {
  Value runs = Value::make_array();
  for (const RunUse& run : report.runs) {
    Value one = use_value(run.use);
    one.set("name", run.name);
    one.set("state", run.state);
    one.set("kept_because", run.kept_because);
    one.set("bytes_per_day", run.growth.bytes_per_day);
    one.set("files_per_day", run.growth.inodes_per_day);
    one.set("checkpoints_at_most", static_cast<long long>(run.growth.kept_bytes));
    Value items = Value::make_array();
    for (const GarbageItem& item : run.items) items.push_back(item_value(item));
    one.set("garbage", std::move(items));
    runs.push_back(std::move(one));
  }
  Value value = Value::make_table();
  value.set("runs", std::move(runs));
  Value index = Value::make_array();
  for (const GarbageItem& item : report.index) index.push_back(item_value(item));
  value.set("index", std::move(index));
  value.set("use", use_value(report.use));
  value.set("garbage", use_value(report.garbage));
  value.set("free_bytes", static_cast<long long>(report.free_bytes));
  value.set("free_files", static_cast<long long>(report.free_inodes));
  value.set("bytes_per_day", report.bytes_per_day);
  value.set("unreadable", ValueArray(report.unreadable.begin(), report.unreadable.end()));
  return value;
}

}  // namespace

ExitCode collect_garbage(const CommandLine& line, const Installation& installation) {
  const auto site = load_site(line.site, installation.site_folders());
  if (!site.ok()) return fail(line, site.error());
  const std::string runs = runs_folder(line, site->config);
  for (const auto& [name, pinned] : {std::pair{line.pin, true}, {line.unpin, false}}) {
    if (name.empty()) continue;
    if (const auto done = set_pin(runs, name, pinned); !done.ok()) return fail(line, done.error());
    print(stdout, "{}: {}\n", name, pinned ? "pinned" : "no longer pinned");
  }
  if (!line.pin.empty() || !line.unpin.empty()) return ExitCode::ok;
  const SystemClock clock;
  const GarbageOptions options{line.keep_last};
  const auto report = find_garbage(runs, options, clock);
  if (!report.ok()) return fail(line, report.error());
  if (line.json)
    print_text(stdout, to_json_pretty(document_of("longhaul gc", 1, report_value(*report))));
  else
    print_runs(*report), print_forecast(*report);
  if (!line.erase) {
    if (!line.json && report->garbage.inodes > 0)
      print(stdout, "\nmay go: {}; nothing was deleted, --delete does\n", size_text(report->garbage));
    return ExitCode::ok;
  }
  const auto deleted = delete_garbage(*report, runs, options, clock);
  if (!deleted.ok()) return line.json ? fail_beside(line, deleted.error()) : fail(line, deleted.error());
  std::FILE* out = line.json ? stderr : stdout;
  print(out, "\ndeleted: {} things, {}\n", deleted->items, size_text(deleted->use));
  for (const std::string& left : deleted->left) print(out, "left: {}\n", left);
  return ExitCode::ok;
}

}  // namespace longhaul
