#include "engine/checkpoint/local/time_line.h"

#include <algorithm>

#include "base/files/files.h"
#include "base/process/fault_point.h"
#include "base/value/json.h"
#include "contracts/checkpoints/checkpoint_files.h"

namespace longhaul {
namespace {

constexpr const char* time_line_file = "longhaul time line";
constexpr std::int64_t time_line_format = 1;

std::string time_line_path(const std::string& folder) {
  return join_path(folder, time_line_name);
}

Error damaged_line(const std::string& what) {
  return make_error(ErrorCode::corrupt, "a time line of a training: " + what,
                    "remove it only together with copies on the nodes that are newer than the newest checkpoint");
}

Result<std::int64_t> count_of(const Value& table, const char* key) {
  const Value* number = table.find(key);
  if (!number || !number->is_integer() || number->as_integer() < 0)
    return damaged_line(std::string(key) + " is no count");
  return number->as_integer();
}

}  // namespace

TimeLine TimeLine::rolled_back(std::int64_t to_step, std::optional<std::int64_t> skipped_samples, Value spent,
                               std::int64_t from_step) const {
  TimeLine next = *this;
  if (!skipped_samples) skipped_samples = skipped_from(to_step);
  for (const RollBack& before : roll_backs_)
    if (before.to_step >= to_step && from_step >= 0)
      from_step = before.from_step < 0 ? -1 : std::max(from_step, before.from_step);
  std::erase_if(next.roll_backs_, [&](const RollBack& before) { return before.to_step >= to_step; });
  next.roll_backs_.push_back({++next.number_, to_step, skipped_samples, from_step});
  next.spent_ = std::move(spent);
  return next;
}

std::int64_t TimeLine::least_step(std::int64_t step) const {
  for (auto one = roll_backs_.rbegin(); one != roll_backs_.rend(); ++one)
    if (one->to_step < step && (one->from_step < 0 || step <= one->from_step)) step = one->to_step;
  return step;
}

bool TimeLine::holds(std::int64_t step, const Value& extra) const {
  const std::int64_t made_on = extra.get_integer(time_line_key);
  return std::ranges::all_of(roll_backs_,
                             [&](const RollBack& one) { return one.line <= made_on || step <= one.to_step; });
}

std::optional<std::int64_t> TimeLine::skipped_from(std::int64_t step) const {
  for (const RollBack& one : roll_backs_)
    if (one.to_step == step) return one.skipped_samples;
  return std::nullopt;
}

Value TimeLine::spikes_of(const Value& extra, Value spikes) const {
  if (extra.get_integer(time_line_key) < number_) spikes.set("spent", spent_);
  return spikes;
}

Value TimeLine::to_value() const {
  Value value = Value::make_table(), roll_backs = Value::make_array();
  value.set("file", time_line_file);
  value.set("format", time_line_format);
  value.set("line", number_);
  for (const RollBack& one : roll_backs_) {
    Value entry = Value::make_table();
    entry.set("line", one.line);
    entry.set("to_step", one.to_step);
    if (one.from_step >= 0) entry.set("from_step", one.from_step);
    if (one.skipped_samples) entry.set("skipped_samples", *one.skipped_samples);
    roll_backs.push_back(std::move(entry));
  }
  value.set("roll_backs", std::move(roll_backs));
  value.set("spent", spent_);
  return value;
}

Result<TimeLine> TimeLine::from_value(const Value& value) {
  if (!value.is_table() || value.get_string("file") != time_line_file) return damaged_line("it is none");
  if (value.get_integer("format") != time_line_format)
    return make_error(ErrorCode::unsupported, "a time line of a training, of a format that is not known",
                      "use the version that wrote it");
  TimeLine line;
  LH_TRY(line.number_, count_of(value, "line"));
  const Value *roll_backs = value.find("roll_backs"), *spent = value.find("spent");
  if (!roll_backs || !roll_backs->is_array() || !spent || !spent->is_array()) return damaged_line("a list is missing");
  line.spent_ = *spent;
  for (const Value& entry : roll_backs->as_array()) {
    RollBack one;
    LH_TRY(one.line, count_of(entry, "line"));
    LH_TRY(one.to_step, count_of(entry, "to_step"));
    if (entry.find("from_step")) {
      LH_TRY(one.from_step, count_of(entry, "from_step"));
    }
    if (entry.find("skipped_samples")) {
      LH_TRY(one.skipped_samples, count_of(entry, "skipped_samples"));
    }
    const bool ascends = line.roll_backs_.empty() ||
                         (line.roll_backs_.back().line < one.line && line.roll_backs_.back().to_step < one.to_step);
    if (!ascends || one.line > line.number_) return damaged_line("its roll-backs are in no order");
    line.roll_backs_.push_back(one);
  }
  return line;
}

namespace {

Result<TimeLine> time_line_from(const std::string& text, const std::string& path) {
  if (text.empty()) return TimeLine();
  LH_TRY(const Value value, parse_json(text, path));
  Result<TimeLine> line = TimeLine::from_value(value);
  if (!line.ok()) return Error(line.error()).with_context(path);
  return line;
}

Result<std::string> time_line_text(const std::string& path, const FileRetry& retry) {
  return retried(retry, [&]() -> Result<std::string> {
    if (auto fault = fault_here(FaultPoint::checkpoint_list)) return *fault;
    return text_if_there(path);
  });
}

}  // namespace

Result<TimeLine> read_time_line(const std::string& folder, const FileRetry& retry) {
  LH_TRY(const std::string text, time_line_text(time_line_path(folder), retry));
  return time_line_from(text, time_line_path(folder));
}

Result<TimeLine> read_time_line(CollectiveGroup& group, const std::string& folder, const FileRetry& retry) {
  const std::string path = time_line_path(folder);
  const Result<std::string> text = group.is_first() ? time_line_text(path, retry) : std::string();
  LH_CHECK(group.agree(text.ok() ? Status() : Status(text.error())));
  LH_TRY(const std::vector<std::string> all, group.all_gather_text(*text));
  return time_line_from(all.front(), path);
}

Status write_time_line(const std::string& folder, const TimeLine& line) {
  return write_file_atomic(time_line_path(folder), to_json_pretty(line.to_value()));
}

}  // namespace longhaul
