#include "base/process/process_signal.h"

#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

#include "base/files/files.h"
#include "base/text/text.h"

namespace longhaul {

Status signal_process(const ProcessId& process, int number) {
  if (process.pid <= 1) return make_error(ErrorCode::invalid_input, format("{} is no process of ours", process.pid));
  const FileDescriptor held(static_cast<int>(::syscall(SYS_pidfd_open, process.pid, 0)));
  if (!process_alive(process)) return {};
#ifdef SYS_pidfd_send_signal
  if (held.valid()) {
    if (::syscall(SYS_pidfd_send_signal, held.get(), number, nullptr, 0) == 0 || errno == ESRCH) return {};
    if (errno != ENOSYS && errno != EPERM)  // EPERM: so say containers that do not know the call
      return errno_error(ErrorCode::io, format("cannot signal process {}", process.pid), errno);
  }
#endif
  if (::kill(process.pid, number) == 0 || errno == ESRCH) return {};
  return errno_error(ErrorCode::io, format("cannot signal process {}", process.pid), errno);
}

}  // namespace longhaul
