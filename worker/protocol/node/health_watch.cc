#include "worker/protocol/node/health_watch.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>

#include "base/process/process.h"
#include "base/text/text.h"
#include "base/value/json.h"
#include "worker/protocol/node/job_pids.h"

namespace longhaul {
namespace {

constexpr std::size_t notes_max = 32;  // a report stays small; the lead reads them within a second
constexpr std::size_t line_max = 1 << 20;
constexpr std::int64_t start_again_ms = 30'000;  // one that has ended by itself
constexpr std::int64_t file_system_ms = 5'000;   // HostHealthOptions::file_system_deadline_ms
constexpr const char* node_memory_folder = "/dev/shm";
constexpr std::int64_t slack_ms = 60'000;  // a GPU's driver that is slow to start, foreign processes

std::string local_copies_folder(const Value& task) {
  const Value* const checkpoint = task.is_table() ? task.find("checkpoint") : nullptr;
  if (!checkpoint || !checkpoint->is_table() || checkpoint->get_integer("local_every_steps") <= 0) return {};
  return checkpoint->get_string("local_dir");
}

}  // namespace

HealthWatchOptions health_watch_options(const Attempt& attempt, const Value& task, const std::string& worker_program) {
  const ResiliencySettings& settings = attempt.resiliency;
  HealthWatchOptions options;
  if (settings.health == "off") return options;
  options.program = {worker_program, "health",         "--watch", format("{:.3f}", settings.health_interval.value),
                     "--folder",     attempt.stage_dir};
  options.silent_max_ms =
      static_cast<std::int64_t>(settings.health_interval.value * 1000) + 2 * file_system_ms + slack_ms;
  if (const std::string folder = local_copies_folder(task); !folder.empty()) {
    options.program.insert(options.program.end(), {"--folder", folder});
    options.silent_max_ms += file_system_ms;
  }
  // What earlier jobs have left: in the node's memory, and where this training keeps its copies.
  std::set<std::string> cleaned = {node_memory_folder};
  if (const std::string folder = local_copies_folder(task); !folder.empty()) cleaned.insert(folder);
  for (const std::string& folder : cleaned) options.program.insert(options.program.end(), {"--clean", folder});
  options.program.insert(options.program.end(), {"--training", attempt.state_dir(), "--job-pids"});
  if (attempt.gpus_per_node > 0)
    options.program.insert(options.program.end(), {"--gpus", format("{}", attempt.gpus_per_node)});
  if (settings.preflight_floor > 0) options.program.push_back("--measure");
  if (!settings.health_command.empty()) {
    const auto deadline_s = static_cast<std::int64_t>(settings.health_command_deadline.value + 0.5);
    options.program.insert(options.program.end(),
                           {"--check", settings.health_command, "--check-deadline", format("{}", deadline_s)});
    options.silent_max_ms += deadline_s * 1000;
  }
  return options;
}

HealthWatch::HealthWatch(HealthWatchOptions options, Clock& clock, Logger& log)
    : options_(std::move(options)), clock_(clock), log_(log) {}

HealthWatch::~HealthWatch() {
  end_program();
  if (pid_ > 0) (void)poll_exit(pid_);
}

void HealthWatch::end_program() {
  if (pid_ > 0) ::kill(pid_, SIGKILL);
  killed_ = true;
  lines_.reset();
  orders_.reset();
}

void HealthWatch::start() {
  const std::int64_t now = clock_.monotonic_ns();
  next_start_ns_ = now + start_again_ms * 1'000'000;
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0) return;
  lines_ = FileDescriptor(ends[0]);
  const FileDescriptor write_end(ends[1]);
  (void)::fcntl(ends[1], F_SETFL, 0);  // its writes wait
  int orders[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, orders) != 0) return lines_.reset();
  orders_ = FileDescriptor(orders[0]);
  const FileDescriptor read_end(orders[1]);
  job_pids_sent_ = false;
  SpawnSpec spec;
  spec.argv = options_.program;
  spec.stdin_fd = read_end.get();
  spec.stdout_fd = write_end.get();
  spec.dies_with_starter = true;
  const auto pid = spawn(spec);
  if (!pid.ok()) {
    log_.warn("event=no_health_watch error='" + pid.error().message() + "'");
    lines_.reset();
    orders_.reset();
    return;
  }
  pid_ = *pid, killed_ = false, said_ns_ = now;
  unread_.clear();
  if (report_.since == 0) report_.since = ::getpid();
  report_job_pids();
}

void HealthWatch::set_job_pids(std::set<int> pids) {
  if (job_pids_ && *job_pids_ == pids) return;
  job_pids_ = std::move(pids);
  job_pids_sent_ = false;
  report_job_pids();
}

// One that does not read has a full socket: it is sent again with the next look. A line that is cut off is none to it.
void HealthWatch::report_job_pids() {
  if (job_pids_sent_ || !job_pids_ || !orders_.valid()) return;
  const std::string line = "\n" + job_pids_line(*job_pids_);
  job_pids_sent_ =
      ::send(orders_.get(), line.data(), line.size(), MSG_DONTWAIT | MSG_NOSIGNAL) == static_cast<ssize_t>(line.size());
}

void HealthWatch::look() {
  if (options_.program.empty()) return;
  const std::int64_t now = clock_.monotonic_ns();
  if (pid_ > 0) {
    report_job_pids();
    read_lines();
    const auto exit = poll_exit(pid_);
    if (exit.ok() && !exit->has_value()) {
      if (!killed_ && now - said_ns_ > options_.silent_max_ms * 1'000'000) {
        add(health_finding("watch", FaultClass::health_silent, "",
                           format("nothing was heard of the checks for {}",
                                  human_duration(static_cast<double>(now - said_ns_) * 1e-9))));
        end_program();  // one that waits in the kernel goes when its call returns
      }
      return;
    }
    read_lines();  // its last ones
    log_.warn(format("event=health_watch_ended status='{}' next=start_again",
                     exit.ok() ? (*exit)->text() : exit.error().message()));
    pid_ = -1;
    lines_.reset();
    orders_.reset();
  }
  if (now >= next_start_ns_) start();
}

void HealthWatch::read_lines() {
  if (!lines_.valid()) return;
  std::array<char, 16384> room;
  for (;;) {
    const ssize_t got = ::read(lines_.get(), room.data(), room.size());
    if (got <= 0) break;
    unread_.append(room.data(), static_cast<std::size_t>(got));
  }
  for (std::size_t end = unread_.find('\n'); end != std::string::npos; end = unread_.find('\n')) {
    take(unread_.substr(0, end));
    unread_.erase(0, end + 1);
  }
  if (unread_.size() > line_max) unread_.clear();
}

void HealthWatch::take(const std::string& line) {
  const auto value = parse_json(line);
  if (!value.ok() || !value->is_table()) {
    log_.warn("event=health_line_not_understood line='" + line.substr(0, 200) + "'");
    return;
  }
  said_ns_ = clock_.monotonic_ns();
  if (const Value* figures = value->find("figures")) report_.figures = host_figures_from_value(*figures);
  if (const Value* findings = value->find("findings"); findings && findings->is_array())
    for (const Value& one : findings->as_array()) add(health_finding_from_value(one));
  if (const Value* removed = value->find("removed"); removed && removed->is_array())
    for (const Value& one : removed->as_array()) report_removed(one);
  if (!value->get_bool("look", false)) return;
  ++report_.looks;
  report_.gpu_script = value->get_string("gpu_script");
  report_.gpus_watched = static_cast<int>(value->get_integer("gpus_watched"));
  report_.gpus_hidden = value->get_string("gpus_hidden");
}

// What earlier jobs of this user have left on the node (resiliency/health/left_folders.h).
void HealthWatch::report_removed(const Value& one) {
  const std::string error = one.get_string("error");
  const std::string text = format("event=left_folder folder={} bytes={} why='{}'", one.get_string("path"),
                                  one.get_integer("bytes"), one.get_string("why"));
  if (error.empty()) return log_.info(text + " next=removed");
  log_.warn(text + " next=stays error='" + error + "'");
}

void HealthWatch::add(const HealthFinding& finding) {
  if (report_.since == 0) report_.since = ::getpid();
  report_.notes.push_back({++serial_, finding});
  if (report_.notes.size() > notes_max) report_.notes.erase(report_.notes.begin());
}

}  // namespace longhaul
