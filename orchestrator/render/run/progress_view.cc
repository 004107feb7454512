#include "orchestrator/render/run/progress_view.h"

#include <algorithm>

#include "base/system/clock.h"
#include "base/text/text.h"
#include "base/text/visible_text.h"
#include "orchestrator/render/draw/text_table.h"
#include "orchestrator/render/run/failure_text.h"
#include "orchestrator/render/run/status_text.h"

namespace longhaul {
namespace {

constexpr std::size_t block_stages_max = 8;
constexpr std::int64_t plain_interval_ms = 10'000;      // of lines at tenths
constexpr std::int64_t plain_silence_max_ms = 600'000;  // then a line in any case
constexpr std::int64_t redraw_interval_ms = 200;

std::string clock_text(std::int64_t now_ms) {
  return utc_text(now_ms).substr(11, 8);
}

std::string bar(const StageStatus& stage) {
  constexpr int width = 20;
  if (stage.progress_total <= 0) return std::string(width + 2, ' ');
  const int full = static_cast<int>(width * std::clamp(stage.progress_done / stage.progress_total, 0.0, 1.0));
  return "[" + std::string(full, '#') + std::string(width - full, '.') + "]";
}

// "62 %  310/500": without unit, rate and time left.
std::string short_progress(const StageStatus& stage) {
  StageStatus without = stage;
  without.progress_unit.clear();
  without.progress_rate = without.eta_s = 0;
  return progress_text(without);
}

// What fits of: name, time, bar, figures.
std::string block_line(const StageStatus& stage, std::size_t name_width, std::int64_t now_ms, std::size_t columns) {
  const std::string name = clipped(visible_line(stage.id), name_width), time = stage_time_text(stage, now_ms);
  const std::string figures = visible_line(progress_text(stage));
  std::string line = format("{:<{}}  {:>7}  {}  {}", name, name_width, time, bar(stage), figures);
  if (code_points(line) <= columns) return line;
  line = format("{:<{}}  {:>7}  {}", name, name_width, time, figures);
  if (code_points(line) <= columns) return line;
  const std::string least = trim(visible_line(short_progress(stage)));
  for (const std::string& text : {trim(figures), least})
    if (code_points(name) + 2 + code_points(text) <= columns) return name + "  " + text;
  constexpr std::size_t name_least = 4;  // less says nothing
  const std::size_t room = columns > code_points(least) + 2 ? columns - code_points(least) - 2 : 0;
  return room >= name_least ? clipped(name, room) + "  " + least : clipped(least.empty() ? name : least, columns);
}

// Without a terminal, of a stage that runs.
std::string plain_line(const StageStatus& stage, std::int64_t now_ms) {
  std::string line = clock_text(now_ms) + "  " + stage.id + "  ";
  line += stage.progress_total > 0 ? progress_text(stage) : "running for " + stage_time_text(stage, now_ms);
  if (stage.newest_loss) line += "  loss " + figure_text(*stage.newest_loss);
  return line;
}

int tenth_of(const StageStatus& stage) {
  if (stage.progress_total <= 0) return 0;
  return static_cast<int>(10 * std::clamp(stage.progress_done / stage.progress_total, 0.0, 1.0));
}

bool worth_a_line(StageState state) {
  return state != StageState::waiting && state != StageState::ready && state != StageState::submitted;
}

}  // namespace

std::vector<std::string> progress_block(const RunStatus& status, std::int64_t now_ms, std::size_t columns) {
  std::vector<std::string> lines;
  std::size_t running = 0, done = 0, failed = 0, name_width = 8;
  for (const StageStatus& stage : status.stages) {
    if (stage.state == StageState::running)
      ++running, name_width = std::max(name_width, std::min<std::size_t>(stage.id.size(), 32));
    if (stage.state == StageState::succeeded || stage.state == StageState::cached) ++done;
    if (stage.state == StageState::failed) ++failed;
  }
  for (const StageStatus& stage : status.stages) {
    if (stage.state != StageState::running || lines.size() == block_stages_max) continue;
    lines.push_back(block_line(stage, name_width, now_ms, columns));
  }
  std::string summary = format("{}/{} stages done, {} running", done, status.stages.size(), running);
  if (running > block_stages_max) summary += format(" ({} shown)", block_stages_max);
  if (failed > 0) summary += format(", {} failed", failed);
  summary += "  " + human_duration(static_cast<double>(std::max<std::int64_t>(0, now_ms - status.created_ms)) / 1e3);
  lines.push_back(clipped(summary, columns));
  return lines;
}

std::string ProgressView::clear() {
  if (!terminal_ || drawn_ == 0) return {};
  std::string text = format("\r\x1b[{}A\x1b[J", drawn_);
  drawn_ = 0;
  return text;
}

std::string ProgressView::changes(const RunStatus& status, std::int64_t now_ms) {
  std::string text;
  for (const StageStatus& stage : status.stages) {
    Seen& seen = seen_[stage.id];
    if (seen.state != stage.state) {
      seen.state = stage.state;
      if (!worth_a_line(stage.state)) continue;
      seen.printed_ms = now_ms;
      seen.tenth = tenth_of(stage);
      std::string line = clock_text(now_ms) + "  " + stage.id + "  " + to_string(stage.state);
      if (is_final(stage.state)) {
        if (const std::string time = stage_time_text(stage, now_ms); !time.empty()) line += " after " + time;
        if (const std::string figures = figures_text(stage, 3); !figures.empty()) line += "  " + figures;
        if (!stage.cause.empty()) line += "  " + cause_sentence(stage.cause);
      } else if (stage.attempts > 1) {
        line += format(", attempt {}", stage.attempts);
      }
      text += visible_line(line) + "\n";
    } else if (!terminal_ && stage.state == StageState::running) {
      const std::int64_t silent_ms = now_ms - seen.printed_ms;
      const bool tenth = tenth_of(stage) != seen.tenth && silent_ms >= plain_interval_ms;
      if (!tenth && silent_ms < plain_silence_max_ms) continue;
      seen.printed_ms = now_ms;
      seen.tenth = tenth_of(stage);
      text += visible_line(plain_line(stage, now_ms)) + "\n";
    }
  }
  return text;
}

std::string ProgressView::update(const RunStatus& status, std::int64_t now_ms) {
  const std::string changed = changes(status, now_ms);
  if (!terminal_) return changed;
  if (changed.empty() && drawn_ > 0 && now_ms - drawn_ms_ < redraw_interval_ms) return {};
  std::string text = clear() + changed;
  for (const std::string& line : progress_block(status, now_ms, columns_)) text += line + "\n", ++drawn_;
  drawn_ms_ = now_ms;
  return text;
}

}  // namespace longhaul
