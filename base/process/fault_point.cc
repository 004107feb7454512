#include "base/process/fault_point.h"

#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <mutex>
#include <thread>

#include "base/digest/hash.h"
#include "base/files/files.h"
#include "base/text/text.h"

namespace longhaul {
namespace {

constexpr std::array<const char*, static_cast<std::size_t>(FaultPoint::count)> names = {"controller_epoch_claimed",
                                                                                        "controller_before_intent",
                                                                                        "controller_after_intent",
                                                                                        "controller_before_submit",
                                                                                        "scheduler_in_flight",
                                                                                        "controller_after_submit",
                                                                                        "controller_before_outcome",
                                                                                        "controller_after_outcome",
                                                                                        "controller_before_messages",
                                                                                        "controller_after_request",
                                                                                        "controller_end_of_tick",
                                                                                        "lead_claimed",
                                                                                        "lead_ranks_started",
                                                                                        "lead_before_publish",
                                                                                        "lead_after_publish",
                                                                                        "lead_before_record",
                                                                                        "checkpoint_before_shard",
                                                                                        "checkpoint_after_shard",
                                                                                        "checkpoint_before_manifest",
                                                                                        "checkpoint_after_manifest",
                                                                                        "engine_step_begin",
                                                                                        "engine_before_artifact",
                                                                                        "checkpoint_staged",
                                                                                        "checkpoint_half_shard",
                                                                                        "checkpoint_after_votes",
                                                                                        "checkpoint_after_latest",
                                                                                        "checkpoint_retiring",
                                                                                        "local_copy_staged",
                                                                                        "local_copy_before_part",
                                                                                        "local_copy_after_part",
                                                                                        "local_copy_retiring",
                                                                                        "engine_backward",
                                                                                        "engine_update",
                                                                                        "engine_step_done",
                                                                                        "engine_contribution",
                                                                                        "engine_gradient",
                                                                                        "engine_loss",
                                                                                        "checkpoint_list",
                                                                                        "local_copy_removing",
                                                                                        "partner_copy",
                                                                                        "restart_piece"};

struct Action {
  FaultPoint point;
  enum class Kind { kill, exit, error, disk_full, delay, flip } kind;
  int delay_ms = 0;
  int bit = -1;  // -1: follows from the passage
  int nth = 1;
  int rank = -1;  // -1: of any
  bool always = false;
  int passages = 0;
};

// Written once before threads start, then guarded by `mutex`.
struct Plan {
  std::mutex mutex;
  std::string path, hits_path;
  int rank = -1;
  bool follow = false;
  std::size_t read_bytes = 0;  // of the plan, so far
  std::vector<Action> actions;
};
Plan& plan() {
  static Plan instance;
  return instance;
}

bool is_data(FaultPoint point) {
  return point == FaultPoint::engine_contribution || point == FaultPoint::engine_gradient ||
         point == FaultPoint::partner_copy || point == FaultPoint::restart_piece;
}

// -1 where the text is anything but `prefix` and digits.
int number_after(const std::string& prefix, const std::string& text) {
  if (!starts_with(text, prefix)) return -1;
  const std::string digits = text.substr(prefix.size());
  if (digits.empty() || digits.size() > 9 || digits.find_first_not_of("0123456789") != std::string::npos) return -1;
  return std::atoi(digits.c_str());
}

Result<Action> parse_action(const std::string& line) {
  Action action{};
  const auto tokens = split(line, ' ');
  std::size_t point = 0;
  while (point < names.size() && tokens[0] != names[point]) ++point;
  if (tokens.size() < 2 || point == names.size())
    return make_error(ErrorCode::invalid_input, "fault plan: no such point or no action: '" + line + "'");
  action.point = static_cast<FaultPoint>(point);
  if (tokens[1] == "kill")
    action.kind = Action::Kind::kill;
  else if (tokens[1] == "exit")
    action.kind = Action::Kind::exit;
  else if (tokens[1] == "error")
    action.kind = Action::Kind::error;
  else if (tokens[1] == "disk_full")
    action.kind = Action::Kind::disk_full;
  else if (starts_with(tokens[1], "delay_ms="))
    action.kind = Action::Kind::delay, action.delay_ms = number_after("delay_ms=", tokens[1]);
  else if (tokens[1] == "flip")
    action.kind = Action::Kind::flip;
  else if (starts_with(tokens[1], "flip=") && number_after("flip=", tokens[1]) >= 0)
    action.kind = Action::Kind::flip, action.bit = number_after("flip=", tokens[1]);
  else
    return make_error(ErrorCode::invalid_input, "fault plan: unknown action '" + tokens[1] + "'",
                      "kill, exit, error, disk_full, delay_ms=N, flip or flip=BIT");
  if ((action.kind == Action::Kind::flip) != is_data(action.point))
    return make_error(ErrorCode::invalid_input, "fault plan: '" + tokens[1] + "' does not go with " + tokens[0],
                      "flip is for points of data (base/process/fault_point.h), and they take nothing else");
  std::size_t next = 2;
  if (next < tokens.size() && starts_with(tokens[next], "nth=")) action.nth = number_after("nth=", tokens[next++]);
  bool readable = action.nth > 0 && (action.kind != Action::Kind::delay || action.delay_ms > 0);
  if (next < tokens.size() && starts_with(tokens[next], "rank="))
    readable &= (action.rank = number_after("rank=", tokens[next++])) >= 0;
  if (next < tokens.size() && tokens[next] == "always") action.always = true, ++next;
  if (!readable || next < tokens.size())
    return make_error(
        ErrorCode::invalid_input, "fault plan: cannot read '" + line + "'",
        "<point> <kill|exit|error|disk_full|delay_ms=N|flip[=BIT]> [nth=K] [rank=R] [always], N and K from 1");
  return action;
}

// The whole lines that the plan has got since it was read last.
Status read_further(Plan& p) {
  LH_TRY(const std::string text, read_file(p.path));
  const std::size_t end = p.follow ? text.rfind('\n') + 1 : text.size();  // its last line may be being written
  if (end <= p.read_bytes) return {};
  const std::string more = text.substr(p.read_bytes, end - p.read_bytes);
  p.read_bytes = end;
  for (const std::string& line : split(more, '\n')) {
    if (trim(line).empty() || trim(line) == "follow") continue;
    LH_TRY(const Action action, parse_action(trim(line)));
    if (action.rank >= 0 && action.rank != p.rank) continue;
    p.actions.push_back(action);
  }
  return {};
}

bool has_grown(const Plan& p) {
  struct stat info{};
  return ::stat(p.path.c_str(), &info) == 0 && static_cast<std::size_t>(info.st_size) > p.read_bytes;
}

}  // namespace

namespace fault_detail {

std::atomic<bool> armed{false};

namespace {
// What happens at this passage, which is counted; announced outside before it does.
std::optional<Action> fired_at(FaultPoint point) {
  Plan& p = plan();
  std::optional<Action> fired;
  {
    std::lock_guard lock(p.mutex);
    if (p.follow && has_grown(p)) (void)read_further(p).ok();  // what cannot be read fires nothing
    for (Action& action : p.actions) {
      if (action.point != point) continue;
      ++action.passages;
      if (action.passages == action.nth || (action.always && action.passages > action.nth)) fired = action;
    }
  }
  const std::string name = names[static_cast<std::size_t>(point)];
  if (fired) (void)append_file_synced(p.hits_path, name + " " + std::to_string(::getpid()) + "\n").ok();
  return fired;
}
}  // namespace

std::optional<std::uint64_t> bit_at(FaultPoint point) {
  const std::optional<Action> fired = fired_at(point);
  if (!fired) return std::nullopt;
  if (fired->bit >= 0) return static_cast<std::uint64_t>(fired->bit);
  return xxh3_64(names[static_cast<std::size_t>(point)], static_cast<std::uint64_t>(fired->passages));
}

std::optional<Error> passed(FaultPoint point) {
  const std::optional<Action> fired = fired_at(point);
  if (!fired) return std::nullopt;
  switch (fired->kind) {
    case Action::Kind::kill:
      ::kill(::getpid(), SIGKILL);
      ::pause();
      break;
    case Action::Kind::exit: ::_exit(70);
    case Action::Kind::delay: std::this_thread::sleep_for(std::chrono::milliseconds(fired->delay_ms)); break;
    case Action::Kind::disk_full:
      return make_error(ErrorCode::io,
                        std::string("fault injected at ") + fault_point_name(point) + ": No space left on device");
    case Action::Kind::error:
      return make_error(ErrorCode::io, std::string("fault injected at ") + fault_point_name(point));
    case Action::Kind::flip: break;  // of data, see bit_at
  }
  return std::nullopt;
}

}  // namespace fault_detail

void flip_bit(std::span<std::byte> data, std::uint64_t bit) {
  const std::uint64_t at = bit % (data.size() * 8);
  data[at / 8] ^= static_cast<std::byte>(1U << (at % 8));
}

const char* fault_point_name(FaultPoint point) {
  return names[static_cast<std::size_t>(point)];
}

std::vector<std::string> fault_point_names(const std::string& prefix) {
  std::vector<std::string> found;
  for (const char* name : names)
    if (starts_with(name, prefix)) found.emplace_back(name);
  return found;
}

Status load_fault_plan(const std::string& path, int rank) {
  LH_TRY(const std::string text, read_file(path));
  Plan& p = plan();
  p.path = path, p.hits_path = path + ".hits";
  p.rank = rank, p.read_bytes = 0;
  p.follow = starts_with(text, "follow\n");
  LH_CHECK(read_further(p));
  fault_detail::armed.store(p.follow || !p.actions.empty(), std::memory_order_relaxed);
  return {};
}

}  // namespace longhaul
