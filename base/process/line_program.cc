#include "base/process/line_program.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>

#include "base/files/files.h"
#include "base/text/text.h"
#include "base/text/visible_text.h"

namespace longhaul {

namespace {

// Memory that a child reads as its input: what is written there has no end that somebody would have to empty.
Result<FileDescriptor> memory_with(const std::string& text) {
  FileDescriptor input(::memfd_create("lines", MFD_CLOEXEC));
  if (input.get() < 0) return errno_error(ErrorCode::io, "cannot make the input of a program", errno);
  for (std::size_t at = 0; at < text.size();) {
    const ssize_t n = ::write(input.get(), text.data() + at, text.size() - at);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return errno_error(ErrorCode::io, "cannot write the input of a program", errno);
    at += static_cast<std::size_t>(n);
  }
  if (::lseek(input.get(), 0, SEEK_SET) != 0) return errno_error(ErrorCode::io, "cannot go back in a file", errno);
  return input;
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines = split(text, '\n');
  if (!lines.empty() && lines.back().find_first_not_of(" \t\r\n") == std::string::npos) lines.pop_back();
  return lines;
}

std::string end_with_error(const RunOutput& run) {
  constexpr std::size_t shown_bytes = 200;
  const std::vector<std::string> errors = lines_of(run.err);
  if (errors.empty()) return run.status.text();
  return format("{} ({})", run.status.text(), visible_line(std::string_view(errors.back()).substr(0, shown_bytes)));
}

}  // namespace

Result<PrintedLines> run_in_lines(const std::vector<std::string>& argv, const std::string& input,
                                  std::int64_t deadline_ms, std::size_t output_max) {
  LH_TRY(const FileDescriptor memory, memory_with(input));
  SpawnSpec spec;
  spec.argv = argv;
  spec.stdin_fd = memory.get();
  LH_TRY(const RunOutput run, run_captured(spec, deadline_ms, output_max));
  return PrintedLines{lines_of(run.out), end_with_error(run), !run.status.success()};
}

}  // namespace longhaul
