#include "orchestrator/reuse/stage_change.h"

#include <algorithm>
#include <map>

#include "autotune/trials/layout_artifact.h"
#include "base/text/text.h"
#include "contracts/tasks/task_settings.h"

namespace longhaul {
namespace {

constexpr std::size_t shown_bytes_max = 40, files_max = 20;

std::string short_text(const Value& value) {
  std::string text = value.is_table() || value.is_null() ? std::string() : inline_toml(value);
  const bool one_line = text.find('\n') == std::string::npos && text.find("\\n") == std::string::npos;
  return text.size() <= shown_bytes_max && one_line ? text : std::string();
}

void compare_settings(const Value& then, const Value& now, const std::string& prefix,
                      std::vector<StageChange>& changes) {
  const auto name_of = [&](const std::string& key) { return prefix.empty() ? key : prefix + "." + key; };
  for (const ValueMember& member : now.as_table()) {
    const Value* before = then.find(member.key);
    if (before && *before == member.value) continue;
    if (before && before->is_table() && member.value.is_table())
      compare_settings(*before, member.value, name_of(member.key), changes);
    else
      changes.push_back({"setting", name_of(member.key), before ? short_text(*before) : "", short_text(member.value)});
  }
  for (const ValueMember& member : then.as_table())
    if (!now.find(member.key)) changes.push_back({"setting", name_of(member.key), short_text(member.value), ""});
}

const InputFiles* files_of(const StageSeen& stage, const std::string& input) {
  const auto found = std::ranges::find(stage.files, input, [](const InputFiles& one) { return one.input; });
  return found == stage.files.end() ? nullptr : &*found;
}

// Which files of a raw input differ; none: it is not known.
std::vector<StageChange> compare_files(const InputFiles* then, const InputFiles* now) {
  std::vector<StageChange> changes;
  if (!then || !now || !then->complete || !now->complete) return changes;
  std::map<std::string, std::string> before;
  for (const InputFile& file : then->files) before[file.path] = file.digest;
  for (const InputFile& file : now->files) {
    const auto known = before.find(file.path);
    if (known == before.end())
      changes.push_back({"file", file.path, "", "new"});
    else if (known->second != file.digest)
      changes.push_back({"file", file.path, "", "changed"});
    if (known != before.end()) before.erase(known);
  }
  for (const auto& [path, digest] : before) changes.push_back({"file", path, "", "gone"});
  return changes;
}

void compare_inputs(const StageSeen& then, const StageSeen& now, std::vector<StageChange>& changes) {
  for (const TaskInput& input : now.task.inputs) {
    const TaskInput* before = then.task.input(input.name);
    if (!before) {
      changes.push_back({"input", input.name, "", "new"});
      continue;
    }
    if (input.digest.empty() || before->digest == input.digest) continue;
    auto files = input.stage.empty() && before->stage.empty()
                     ? compare_files(files_of(then, input.name), files_of(now, input.name))
                     : std::vector<StageChange>();
    if (files.empty() || files.size() > files_max)
      changes.push_back({"input", input.name, before->stage.empty() ? "" : "of " + before->stage,
                         !input.stage.empty() ? "another artifact of " + input.stage
                         : !files.empty()     ? format("{} files differ", files.size())
                         : input.paths == before->paths || input.paths.empty()
                             ? "changed"
                             : "other files: " + join(input.paths, ", ")});
    else
      changes.insert(changes.end(), files.begin(), files.end());
  }
  for (const TaskInput& input : then.task.inputs)
    if (!now.task.input(input.name)) changes.push_back({"input", input.name, "", "gone"});
}

}  // namespace

std::string StageChange::text() const {
  if (what == "program") return format("the program changed: {} {} -> {}", name, from, to);
  if (what == "file") return format("input {}: {}", to, name);
  if (what == "input") return format("input {}: {}", name, to);
  if (from.empty() && to.empty()) return name + " changed";
  return format("{} {} -> {}", name, from.empty() ? "(none)" : from, to.empty() ? "(none)" : to);
}

std::vector<StageChange> stage_changes(const StageSeen& then, const StageSeen& now) {
  std::vector<StageChange> changes;
  if (then.task.kind != now.task.kind) return {{"setting", "kind", then.task.kind, now.task.kind}};
  if (then.task.kind_version != now.task.kind_version)
    changes.push_back({"program", now.task.kind, format("version {}", then.task.kind_version),
                       std::to_string(now.task.kind_version)});
  compare_settings(settings_of_key(then.task), settings_of_key(now.task), "", changes);
  compare_inputs(then, now, changes);
  return changes;
}

std::string changes_text(const std::vector<StageChange>& changes, std::size_t count) {
  std::vector<std::string> parts;
  for (const StageChange& change : changes)
    if (parts.size() < count) parts.push_back(change.text());
  if (changes.size() > count)
    parts.push_back(format("and {} more change{}", changes.size() - count, changes.size() - count == 1 ? "" : "s"));
  return join(parts, ", ");
}

}  // namespace longhaul
