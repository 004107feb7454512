#include "resiliency/taxonomy/log_line.h"

#include <array>
#include <cstdint>

#include "resiliency/taxonomy/xid_class.h"

namespace longhaul {
namespace {

struct LinePattern {
  std::string_view begins;  // lower case, at the beginning of a word
  std::string_view also;    // anywhere in the line; "" for nothing more
  FaultClass fault;
  LineRole role;
  bool alone = false;
};

using F = FaultClass;
constexpr LineRole root = LineRole::root, cascade = LineRole::cascade, confirmation = LineRole::confirmation;

// The first that fits is taken: a device before the memory, the memory before the disk, what a library says in its
// own words before the general words of the system.
constexpr LinePattern patterns[] = {
    // Reports about others, whatever else such a line quotes.
    {"childfailederror", "", F::program, confirmation},
    {"calledprocesserror", "", F::program, confirmation},
    {"during handling of the above exception", "", F::exception, confirmation},
    // Survived, mostly: of what ended a launch afterwards it says nothing, whatever it was.
    {"longhaul-engine", ": faulted, waits for an order to restart", F::exception, cascade},
    // GPUs, their driver, their links.
    {"fallen off the bus", "", F::gpu_lost, root},
    {"gpu is lost", "", F::gpu_lost, root},
    {"no cuda-capable device is detected", "", F::gpu_lost, root},
    {"uncorrectable ecc error", "", F::gpu_memory_error, root},
    {"double bit ecc", "", F::gpu_memory_error, root},
    {"nvlink error", "", F::nvlink, root},
    {"devices are busy or unavailable", "", F::gpu_in_use, root},
    {"cuda driver version is insufficient", "", F::gpu_driver, root},
    {"driver/library version mismatch", "", F::gpu_driver, root},
    {"unsupported display driver", "", F::gpu_driver, root},
    {"system not yet initialized", "", F::gpu_driver, root},
    // Memory.
    {"oom-kill", "", F::out_of_memory, root},
    {"oom_kill", "", F::out_of_memory, root},
    {"out of memory", "", F::out_of_memory, root},
    {"out-of-memory", "", F::out_of_memory, root},
    {"outofmemoryerror", "", F::out_of_memory, root},
    {"std::bad_alloc", "", F::out_of_memory, root},
    {"cannot allocate memory", "", F::out_of_memory, root},
    {"memoryerror", "", F::out_of_memory, root},
    // Disks and what is shared.
    {"no space left on device", "/dev/shm", F::shm_full, root},
    {"insufficient shared memory", "", F::shm_full, root},
    {"no space left on device", "", F::disk_full, root},
    {"quota exceeded", "", F::disk_full, root},
    {"stale file handle", "", F::file_system, root},
    {"stale nfs file handle", "", F::file_system, root},
    {"input/output error", "", F::file_system, root},
    {"transport endpoint", "", F::file_system, root},  // a Lustre client that was evicted
    {"read-only file system", "", F::file_system, root},
    {"pytorchstreamreader failed", "", F::checkpoint_unreadable, root},
    {"safetensorerror", "", F::checkpoint_unreadable, root},
    {"checkpoint", "is damaged", F::checkpoint_unreadable, root},
    {"do not have the digest", "", F::checkpoint_unreadable, root},
    // What the scheduler did.
    {"due to time limit", "", F::wall_time, root},
    {"due to preemption", "", F::preempted, root},
    {"due to node failure", "", F::node_fail, root},
    {"node failure on", "", F::node_fail, root},
    {"orte has lost communication", "", F::host_unreachable, cascade},
    {"prte has lost communication", "", F::host_unreachable, cascade},
    {"task launch", "failed on node", F::ranks_not_started, root},
    {"task launch failed", "", F::ranks_not_started, root},
    {"mpi/pmix", "cannot send message", F::ranks_not_started, root},  // ranks would wait for each other for good
    {"unable to create step for job", "", F::ranks_not_started, root},
    {"application launch failed", "", F::ranks_not_started, confirmation},
    {"was unable to reliably start one or more daemons", "", F::ranks_not_started, root},
    {"daemon has unexpectedly failed after launch", "", F::ranks_not_started, root},
    {"mpiexec@", "unrecognized argument", F::ranks_not_started,
     root},  // MPICH's and Intel's, asked in Open MPI's words
    {"job step aborted", "", F::interrupted, cascade},
    {"step", " cancelled at ", F::interrupted, cascade},
    {"job", " cancelled at ", F::interrupted, cascade},
    // NCCL.
    {"got async event : port error", "", F::nic_down, root},
    {"local catastrophic error", "", F::nic_down, root},
    {"ibv_", "failed", F::nccl_error, root},
    {"call to ibv_", "failed", F::nccl_error, root},
    {"remote process exited", "", F::connection_lost, cascade},
    {"ncclremoteerror", "", F::connection_lost, cascade},
    {"got completion from peer", "", F::connection_lost, cascade},
    {"collective operation timeout", "", F::nccl_timeout, cascade},
    {"nccltimeout", "", F::nccl_timeout, cascade},
    // Connections: whoever says so has lost somebody else.
    {"connection closed by", "", F::connection_lost, cascade},
    {"connection reset by peer", "", F::connection_lost, cascade},
    {"broken pipe", "", F::connection_lost, cascade},
    {"connection refused", "", F::connection_lost, cascade},
    {"connection timed out", "", F::connection_lost, cascade},
    {"connection was closed", "", F::connection_lost, cascade},
    {"no route to host", "", F::connection_lost, cascade},
    {"network is unreachable", "", F::connection_lost, cascade},
    {"mpi_err_proc_failed", "", F::connection_lost, cascade},
    {"mpi_err_revoked", "", F::connection_lost, cascade},
    {"this communicator is broken", "", F::connection_lost, cascade},
    {"longhaul-engine", "silent corruption: ", F::silent_corruption, root},  // contracts/events/silent_corruption.h
    {"longhaul-engine", " left: ", F::connection_lost, cascade},
    {"longhaul-engine", ": stopped after step ", F::interrupted, root},  // a signal, and nobody here had asked
    {"longhaul-engine", "asked to stop", F::interrupted, cascade},
    {"longhaul-engine", "told to stop", F::interrupted, cascade},  // until November 2026
    {"keyboardinterrupt", "", F::interrupted, cascade},
    {"address already in use", "", F::port_in_use, root},
    // Kernels.
    {"illegal memory access", "", F::gpu_program, root},
    {"device-side assert", "", F::gpu_program, root},
    {"unspecified launch failure", "", F::gpu_program, root},
    {"misaligned address", "", F::gpu_program, root},
    {"illegal instruction was encountered", "", F::gpu_program, root},
    {"unhandled cuda error", "", F::nccl_error, cascade},
    {"unhandled system error", "", F::nccl_error, root},
    {"ncclsystemerror", "", F::nccl_error, root},
    {"ncclinternalerror", "", F::nccl_error, root},
    {"nccl error", "", F::nccl_error, root},
    // Numbers.
    {"found nan in", "", F::loss_nan, root},
    {"loss is nan", "", F::loss_nan, root},
    {"loss is not finite", "", F::loss_nan, root},
    // MPI.
    {"mpi_abort was invoked", "", F::mpi_error, confirmation},
    {"mpirun noticed that process", "", F::program, confirmation},
    {"prterun noticed that process", "", F::program, confirmation},  // Open MPI 5
    {"primary job", "terminated normally", F::program, confirmation},
    {"an error occurred in mpi_", "", F::mpi_error, root},
    {"mpi_err_", "", F::mpi_error, root},
    // Programs.
    {"cannot open shared object file", "", F::cannot_execute, root},
    {"error while loading shared libraries", "", F::cannot_execute, root},
    {"command not found", "", F::cannot_execute, root},
    {"execve()", "no such file", F::cannot_execute, root},
    {"segmentation fault", "", F::crash, root},
    {"caught signal 11", "", F::crash, root},
    {"bus error", "", F::crash, root},
    {"floating point exception", "", F::crash, root},
    {"illegal instruction", "", F::crash, root},
    {"signal: aborted", "", F::crash, root, true},  // Open MPI's handler; who aborts for a reason has said it before
    {"killed by signal: killed", "", F::killed, root},
    {"terminate called after throwing", "", F::exception, root},
    {"panicked at", "", F::exception, root},
    {"assertion", "failed", F::exception, root},
    {"srun: error:", "exited with exit code", F::program, confirmation},
    {"srun: error:", ": killed", F::killed, confirmation},
    {"srun: error:", ": aborted", F::crash, confirmation},
    {"traceback (most recent call last)", "", F::exception, confirmation},
    {"longhaul-engine", "", F::exception, root},  // begins each error that the engine ends with
};
constexpr std::size_t pattern_count = std::size(patterns);
constexpr std::uint8_t no_pattern = 255;
static_assert(pattern_count < no_pattern);

constexpr bool in_word(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}
constexpr char lower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

// The patterns that begin with a letter, chained in the order of the table: a line is read once.
struct ByLetter {
  std::array<std::uint8_t, 26> first{};
  std::array<std::uint8_t, pattern_count> next{};
};
constexpr ByLetter by_letter = [] {
  ByLetter chains;
  chains.first.fill(no_pattern);
  for (std::size_t i = pattern_count; i-- > 0;) {
    std::uint8_t& first = chains.first[static_cast<std::size_t>(patterns[i].begins[0] - 'a')];
    chains.next[i] = first;
    first = static_cast<std::uint8_t>(i);
  }
  return chains;
}();

std::uint8_t first_pattern(std::string_view line) {
  std::uint8_t best = no_pattern;
  for (std::size_t at = 0; at < line.size(); ++at) {
    if (line[at] < 'a' || line[at] > 'z' || (at > 0 && in_word(line[at - 1]))) continue;
    for (std::uint8_t i = by_letter.first[static_cast<std::size_t>(line[at] - 'a')]; i < best; i = by_letter.next[i])
      if (line.substr(at).starts_with(patterns[i].begins) && line.find(patterns[i].also) != std::string_view::npos)
        best = i;
  }
  return best;
}

// "NVRM: Xid (PCI:0000:41:00): 79, pid=1, GPU has fallen off the bus."
std::optional<LineFinding> xid_of(std::string_view line) {
  const std::size_t at = line.find("xid (");
  if (at == std::string_view::npos) return std::nullopt;
  std::size_t digit = line.find("): ", at);
  if (digit == std::string_view::npos) return std::nullopt;
  int xid = 0;
  for (digit += 3; digit < line.size() && line[digit] >= '0' && line[digit] <= '9' && xid < 10'000; ++digit)
    xid = xid * 10 + (line[digit] - '0');
  const F fault = class_of_xid(xid);
  return LineFinding{fault, fault == F::gpu_event ? confirmation : root};
}

// "ValueError: ..." or "torch.cuda.SomeException: ..." as the first word, perhaps behind "[rank3]: ": how Python ends.
bool is_raised_error(std::string_view line) {
  if (line.starts_with('[')) {
    const std::size_t end = line.find("]: ");
    if (end == std::string_view::npos) return false;
    line.remove_prefix(end + 3);
  }
  std::size_t end = 0;
  while (end < line.size() && (in_word(line[end]) || line[end] == '.')) ++end;
  const std::string_view word = line.substr(0, end);
  if (end < line.size() && line[end] != ':') return false;
  const std::string_view name = word.substr(word.rfind('.') + 1);  // npos + 1 is 0
  return name.size() > 5 && name[0] >= 'A' && name[0] <= 'Z' &&
         (name.ends_with("Error") || name.ends_with("Exception"));
}

}  // namespace

const char* to_string(LineRole role) {
  switch (role) {
    case LineRole::root: return "root";
    case LineRole::cascade: return "cascade";
    case LineRole::confirmation: return "confirmation";
  }
  return "unknown";
}

std::optional<LineFinding> classify_line(std::string_view line, std::string& scratch) {
  scratch.assign(line.size(), '\0');
  for (std::size_t i = 0; i < line.size(); ++i) scratch[i] = lower(line[i]);
  const std::string_view low = scratch;
  if (low.find("warning") != std::string_view::npos) return std::nullopt;  // its author knows that it goes on
  if (const auto xid = xid_of(low)) return xid;
  const std::uint8_t found = first_pattern(low);
  if (found != no_pattern) return LineFinding{patterns[found].fault, patterns[found].role, patterns[found].alone};
  if (is_raised_error(line)) return LineFinding{F::exception, root};
  if (low == "killed") return LineFinding{F::killed, root};  // a shell's word for it
  return std::nullopt;
}

std::optional<LineFinding> classify_line(std::string_view line) {
  std::string scratch;
  return classify_line(line, scratch);
}

}  // namespace longhaul
