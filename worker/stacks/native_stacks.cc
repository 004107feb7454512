#include "worker/stacks/native_stacks.h"

#include "base/text/text.h"

#if LONGHAUL_HAVE_LIBDW

#include <cxxabi.h>
#include <elfutils/libdwfl.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/wait.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "base/files/files.h"

namespace longhaul {
namespace {

constexpr int frames_max = 128;
constexpr std::int64_t stop_within_ms = 300;  // of a thread; one in an uninterruptible call never stops

std::string dwfl_problem() {
  const char* text = dwfl_errmsg(-1);
  return text ? text : "unknown";
}

// Why the kernel does not let us, as far as it can be known from outside.
std::string why_not_traced(pid_t tid) {
  const auto status = read_file(format("/proc/{}/status", tid));
  if (!status.ok()) return "it has ended";
  for (const std::string& line : split(*status, '\n'))
    if (starts_with(line, "TracerPid:") && trim(line.substr(10)) != "0")
      return format("process {} traces it already", trim(line.substr(10)));
  const auto scope = read_file("/proc/sys/kernel/yama/ptrace_scope");
  if (scope.ok() && trim(*scope) != "0")
    return format("kernel.yama.ptrace_scope is {}: only {} may look into processes", trim(*scope),
                  trim(*scope) == "1" ? "parents and root" : (trim(*scope) == "2" ? "root" : "nobody"));
  return "it belongs to another user, or has privileges that this process lacks";
}

// One thread, seized, and let go at the end whatever happened in between.
class SeizedThread {
 public:
  SeizedThread(pid_t tid, const Deadline& deadline) : tid_(tid) {
    if (::ptrace(PTRACE_SEIZE, tid, nullptr, nullptr) != 0) {
      problem_ = errno == ESRCH ? "it has ended" : format("cannot be traced: {}", why_not_traced(tid));
      return;
    }
    if (::ptrace(PTRACE_INTERRUPT, tid, nullptr, nullptr) != 0) {
      problem_ = "it has ended";
      return;
    }
    const SystemClock clock;
    const Deadline stop(clock, stop_within_ms);
    for (;;) {
      int status = 0;
      const pid_t got = ::waitpid(tid, &status, __WALL | WNOHANG);
      if (got == tid && WIFSTOPPED(status)) {
        stopped_ = true;
        // A signal that came at the same moment is passed on; a trap of ours is not one.
        if (status >> 16 == 0) signal_ = WSTOPSIG(status);
        return;
      }
      if (got == tid || (got < 0 && errno != EINTR)) {
        problem_ = "it has ended";
        return;
      }
      if (stop.passed() || deadline.passed()) {
        problem_ = "it does not stop: it is in a call of the kernel that cannot be interrupted";
        return;  // the kernel lets go of it when this process ends
      }
      const timespec pause{0, 20'000};
      ::nanosleep(&pause, nullptr);
    }
  }
  ~SeizedThread() {
    // ptrace(2) takes the signal in the place of a pointer. NOLINTNEXTLINE(performance-no-int-to-ptr)
    if (stopped_) ::ptrace(PTRACE_DETACH, tid_, nullptr, reinterpret_cast<void*>(static_cast<std::intptr_t>(signal_)));
  }
  SeizedThread(const SeizedThread&) = delete;
  SeizedThread& operator=(const SeizedThread&) = delete;
  const std::string& problem() const { return problem_; }

 private:
  pid_t tid_;
  bool stopped_ = false;
  int signal_ = 0;
  std::string problem_;
};

int take_frame(Dwfl_Frame* frame, void* argument) {
  auto& stack = *static_cast<NativeStack*>(argument);
  Dwarf_Addr address = 0;
  bool activation = false;
  if (!dwfl_frame_pc(frame, &address, &activation)) return DWARF_CB_ABORT;
  stack.frames.push_back({address, !activation});
  return stack.frames.size() < frames_max ? DWARF_CB_OK : DWARF_CB_ABORT;
}

int load_unwind_table(Dwfl_Module* module, void**, const char*, Dwarf_Addr, void* argument) {
  Dwarf_Addr bias = 0;
  (void)dwfl_module_eh_cfi(module, &bias);
  return static_cast<const Deadline*>(argument)->passed() ? DWARF_CB_ABORT : DWARF_CB_OK;
}

std::string demangled(const char* name) {
  int status = -1;
  const std::unique_ptr<char, decltype(&std::free)> text(abi::__cxa_demangle(name, nullptr, nullptr, &status),
                                                         &std::free);
  return status == 0 && text ? text.get() : name;
}

struct EndDwfl {
  void operator()(Dwfl* dwfl) const noexcept { dwfl_end(dwfl); }
};

}  // namespace

struct NativeStacks::Parts {
  Dwfl_Callbacks callbacks{};
  std::unique_ptr<Dwfl, EndDwfl> dwfl;
};

NativeStacks::NativeStacks(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}
NativeStacks::~NativeStacks() = default;

Result<std::unique_ptr<NativeStacks>> NativeStacks::open(pid_t pid, const Deadline& deadline) {
  auto parts = std::make_unique<Parts>();
  parts->callbacks.find_elf = dwfl_linux_proc_find_elf;
  parts->callbacks.find_debuginfo = dwfl_standard_find_debuginfo;
  parts->dwfl.reset(dwfl_begin(&parts->callbacks));
  if (!parts->dwfl) return make_error(ErrorCode::internal, "libdw: " + dwfl_problem());
  const int unread = dwfl_linux_proc_report(parts->dwfl.get(), pid);
  if (unread != 0 || dwfl_report_end(parts->dwfl.get(), nullptr, nullptr) != 0)
    return make_error(ErrorCode::unavailable, unread == EACCES || unread == EPERM
                                                  ? "its memory cannot be read: " + why_not_traced(pid)
                                                  : "its files cannot be read: " + std::string(std::strerror(unread)));
  if (const int problem = dwfl_linux_proc_attach(parts->dwfl.get(), pid, /*assume_ptrace_stopped=*/true); problem != 0)
    return make_error(ErrorCode::unavailable,
                      "libdw: " + (problem > 0 ? std::string(std::strerror(problem)) : dwfl_problem()));
  Deadline until = deadline;
  (void)dwfl_getmodules(parts->dwfl.get(), load_unwind_table, &until, 0);
  return std::unique_ptr<NativeStacks>(new NativeStacks(std::move(parts)));
}

NativeStack NativeStacks::walk(pid_t tid, const Deadline& deadline) {
  NativeStack stack;
  const SystemClock clock;
  const std::int64_t start = clock.monotonic_ns();
  {
    const SeizedThread thread(tid, deadline);
    stack.problem = thread.problem();
    if (!stack.problem.empty()) return stack;
    const int end = dwfl_getthread_frames(parts_->dwfl.get(), tid, take_frame, &stack);
    if (end == -1) stack.problem = "ends here: " + dwfl_problem();
    if (stack.frames.size() >= frames_max) stack.problem = format("cut after {} frames", frames_max);
  }
  stack.stopped_ns = clock.monotonic_ns() - start;
  return stack;
}

std::string NativeStacks::name(const NativeFrame& frame) {
  const Dwarf_Addr address = frame.address - (frame.called ? 1 : 0);
  Dwfl_Module* const module = dwfl_addrmodule(parts_->dwfl.get(), address);
  if (!module) return "in no file";
  const char* const file = dwfl_module_info(module, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr);
  GElf_Off offset = 0;
  GElf_Sym symbol{};
  const char* const function = dwfl_module_addrinfo(module, address, &offset, &symbol, nullptr, nullptr, nullptr);
  std::string text =
      function ? format("{}+0x{:x}", demangled(function), offset + (frame.called ? 1 : 0)) : std::string("??");
  text += format(" in {}", file ? file : "?");
  if (Dwfl_Line* const line = dwfl_module_getsrc(module, address)) {
    int number = 0;
    const char* const source = dwfl_lineinfo(line, nullptr, &number, nullptr, nullptr, nullptr);
    if (source) text += format(" ({}:{})", file_name(source), number);
  }
  return text;
}

}  // namespace longhaul

#else

namespace longhaul {

struct NativeStacks::Parts {};
NativeStacks::NativeStacks(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}
NativeStacks::~NativeStacks() = default;
Result<std::unique_ptr<NativeStacks>> NativeStacks::open(pid_t, const Deadline&) {
  return make_error(ErrorCode::unsupported, "this build has no libdw", "install libdw-dev and build again");
}
NativeStack NativeStacks::walk(pid_t, const Deadline&) {
  return {};
}
std::string NativeStacks::name(const NativeFrame&) {
  return {};
}

}  // namespace longhaul

#endif
