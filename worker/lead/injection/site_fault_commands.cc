#include "worker/lead/injection/site_fault_commands.h"

#include <signal.h>

#include "base/files/files.h"
#include "base/process/process.h"
#include "base/text/text.h"

namespace longhaul {
namespace {

constexpr std::size_t output_read_max = std::size_t{1} << 20, last_line_max = 400;

std::string last_line_of(const std::string& path) {
  const auto text = read_file(path, output_read_max);
  if (!text.ok()) return {};
  const std::string said = trim(*text);
  return repair_utf8(said.substr(said.rfind('\n') + 1).substr(0, last_line_max));  // npos + 1 is 0
}

}  // namespace

Status SiteFaultCommands::start(const std::string& what, const std::vector<std::string>& arguments,
                                const std::string& output_path, std::int64_t deadline_ms) {
  SpawnSpec spec;
  spec.argv = arguments;
  spec.stdout_path = spec.stderr_path = output_path;
  spec.own_group = true;
  LH_TRY(const pid_t pid, spawn(spec));
  running_.push_back(
      {what, arguments.front(), output_path, pid, deadline_ms, clock_.monotonic_ns() + deadline_ms * 1'000'000});
  return {};
}

std::vector<std::string> SiteFaultCommands::look() {
  std::vector<std::string> problems;
  for (Running& command : running_)
    if (std::string problem = problem_of(command); !problem.empty()) problems.push_back(std::move(problem));
  std::erase_if(running_, [](const Running& command) { return command.over; });
  return problems;
}

std::string SiteFaultCommands::problem_of(Running& command) const {
  const auto exit = poll_exit(command.pid);
  if (exit.ok() && !exit->has_value()) {
    if (command.killed || clock_.monotonic_ns() < command.end_ns) return {};
    ::kill(-command.pid, SIGKILL);
    command.killed = true;  // reaped at a later look
    return format("{}: {} did not end within {}", command.what, command.program,
                  human_duration(static_cast<double>(command.deadline_ms) * 1e-3));
  }
  command.over = true;
  if (command.killed || (exit.ok() && (*exit)->success())) return {};
  const std::string said = last_line_of(command.output_path);
  return format("{}: {}: {}{}", command.what, command.program, exit.ok() ? (*exit)->text() : exit.error().message(),
                said.empty() ? "" : ": " + said);
}

}  // namespace longhaul
