#include "orchestrator/index/runs_query.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <limits>
#include <tuple>

#include "base/error/diagnostics.h"
#include "base/text/text.h"

namespace longhaul {
namespace {

constexpr const char* bound_example = "write NAME<NUMBER with one of < <= > >= = !=, for example 'heldout_loss<3'";

std::optional<double> whole_number(const std::string& text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// Of a text that is a number; unlike sorting by text, "9" comes before "10".
double or_last(const std::optional<double>& value) {
  return value.value_or(std::numeric_limits<double>::infinity());
}

}  // namespace

Result<FigureBound> parse_figure_bound(const std::string& text) {
  const std::size_t at = text.find_first_of("<>=!");
  if (at == std::string::npos || at == 0)
    return make_error(ErrorCode::invalid_input, "'" + text + "' compares no figure with a number", bound_example);
  FigureBound bound;
  bound.name = trim(text.substr(0, at));
  const std::size_t behind = text.find_first_not_of("<>=!", at);
  bound.relation = text.substr(at, behind == std::string::npos ? behind : behind - at);
  if (bound.relation == "==") bound.relation = "=";
  const std::vector<std::string> known = {"<", "<=", ">", ">=", "=", "!="};
  if (std::ranges::find(known, bound.relation) == known.end())
    return make_error(ErrorCode::invalid_input, format("'{}' in '{}' is no comparison", bound.relation, text),
                      bound_example);
  const auto value = whole_number(behind == std::string::npos ? "" : trim(text.substr(behind)));
  if (!value)
    return make_error(ErrorCode::invalid_input,
                      format("what stands behind '{}' in '{}' is no number", bound.relation, text), bound_example);
  bound.value = *value;
  return bound;
}

Result<std::int64_t> parse_when(const std::string& text, std::int64_t now_ms) {
  if (const auto seconds = parse_duration_seconds(text)) return now_ms - static_cast<std::int64_t>(*seconds * 1e3);
  int year = 0, month = 0, day = 0, hour = 0, minute = 0, second = 0, read = 0;
  const int found = std::sscanf(text.c_str(), "%4d-%2d-%2d%n", &year, &month, &day, &read);
  auto rest = static_cast<std::size_t>(read);
  bool whole = found == 3 && rest == text.size();
  if (found == 3 && rest < text.size() && (text[rest] == 'T' || text[rest] == ' ')) {
    int more = 0;
    const char* time = text.c_str() + rest + 1;
    if (std::sscanf(time, "%2d:%2d:%2d%n", &hour, &minute, &second, &more) != 3 || more == 0) {
      second = more = 0;
      if (std::sscanf(time, "%2d:%2d%n", &hour, &minute, &more) != 2) more = 0;
    }
    rest += 1 + static_cast<std::size_t>(more);
    if (more > 0 && rest < text.size() && text[rest] == 'Z') ++rest;
    whole = more > 0 && rest == text.size();
  }
  const std::chrono::year_month_day date{std::chrono::year(year), std::chrono::month(static_cast<unsigned>(month)),
                                         std::chrono::day(static_cast<unsigned>(day))};
  if (!whole || !date.ok() || hour > 23 || minute > 59 || second > 59)
    return make_error(ErrorCode::invalid_input, "'" + text + "' is no time",
                      "write how long ago, as in 12h or 2d, or a day or moment in UTC, as in 2026-11-01 or "
                      "2026-11-01T12:30");
  const auto days = std::chrono::sys_days(date).time_since_epoch().count();
  return ((static_cast<std::int64_t>(days) * 24 + hour) * 60 + minute) * 60'000 + second * 1'000;
}

const std::vector<std::string>& sort_keys() {
  static const std::vector<std::string> keys = {"created", "name", "state", "stage", "model",   "user",
                                                "step",    "loss", "hours", "ended", "workflow"};
  return keys;
}

Status sort_rows(std::vector<RunsRow>& rows, const std::string& key_given, const RunsQuery& query) {
  const bool reversed = starts_with(key_given, "-");
  const std::string key = reversed ? key_given.substr(1) : key_given;
  const auto by = [&](const auto& value_of) {
    std::ranges::stable_sort(rows, [&](const RunsRow& a, const RunsRow& b) {
      return reversed ? value_of(b) < value_of(a) : value_of(a) < value_of(b);
    });
  };
  const auto figure = std::ranges::find(query.figures, key, [](const FigureBound& bound) { return bound.name; });
  if (key == "created")
    by([](const RunsRow& row) { return std::tie(row.created_ms, row.name); });
  else if (key == "name")
    by([](const RunsRow& row) { return std::tie(row.name, row.runs_dir); });
  else if (key == "state")
    by([&](const RunsRow& row) -> const std::string& { return query.stages ? row.stage_state : row.state; });
  else if (key == "stage")
    by([](const RunsRow& row) -> const std::string& { return row.stage; });
  else if (key == "model")
    by([](const RunsRow& row) -> const std::string& { return row.model; });
  else if (key == "workflow")
    by([](const RunsRow& row) -> const std::string& { return row.workflow; });
  else if (key == "user")
    by([](const RunsRow& row) { return row.owner_uid; });
  else if (key == "step")
    by([](const RunsRow& row) { return row.step; });
  else if (key == "loss")
    by([](const RunsRow& row) { return or_last(row.loss); });
  else if (key == "hours")
    by([](const RunsRow& row) { return row.node_hours; });
  else if (key == "ended")
    by([&](const RunsRow& row) {
      const std::int64_t ended = query.stages ? row.finished_ms : row.ended_ms;
      return ended > 0 ? ended : std::numeric_limits<std::int64_t>::max();
    });
  else if (figure != query.figures.end())
    by([at = static_cast<std::size_t>(figure - query.figures.begin())](const RunsRow& row) {
      return or_last(row.figures[at]);
    });
  else
    return make_error(ErrorCode::invalid_input, "nothing is sorted by '" + key + "'",
                      "there are: " + join(sort_keys(), ", ") +
                          ", and the name of a figure that --figure asks for; '-' before it turns the order round");
  return {};
}

}  // namespace longhaul
