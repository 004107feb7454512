#include "tests/support/emulated_gpu/emulated_device.h"

#include <sys/mman.h>

#include <cstdlib>
#include <cstring>

#include "base/text/text.h"
#include "tests/support/emulated_gpu/cuda_emulation.h"
#include "tests/support/emulated_gpu/emulated_queue.h"

namespace longhaul::testing {
namespace {

constexpr std::int64_t page = 4096;
// What open() and close() protect is a whole number of these: each is one entry in the tables of the kernel where it
// has huge pages. With small ones both took a millisecond each for the memory of a tiny training, most of its time.
constexpr std::int64_t huge_page = 2 << 20;

std::size_t whole_huge_pages(std::int64_t bytes) {
  return static_cast<std::size_t>((bytes + huge_page - 1) / huge_page * huge_page);
}

// Address space that begins where a huge page begins.
std::byte* map_huge_pages(std::int64_t bytes, bool guarded) {
  const std::size_t size = whole_huge_pages(bytes);
  void* mapped = ::mmap(nullptr, size + huge_page, guarded ? PROT_NONE : PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  LH_ASSERT(mapped != MAP_FAILED, "address space of an emulated device");
  std::byte* start = static_cast<std::byte*>(mapped);
  const std::size_t before = -reinterpret_cast<std::uintptr_t>(mapped) & (huge_page - 1);
  if (before > 0) (void)::munmap(start, before);
  (void)::munmap(start + before + size, huge_page - before);
  if (guarded) (void)::madvise(start + before, size, MADV_HUGEPAGE);
  return start + before;
}

void protect(std::byte* memory, std::int64_t used, int access) {
  LH_ASSERT(::mprotect(memory, whole_huge_pages(used), access) == 0, "mprotect");
}

struct Scope {
  explicit Scope(EmulatedDevice& device) : device_(device) { device_.open(); }
  ~Scope() { device_.close(); }
  EmulatedDevice& device_;
};

// Of a guarded device: everything is done when it is asked for.
class ImmediateQueue final : public DeviceQueue {
 public:
  explicit ImmediateQueue(EmulatedDevice& device) : device_(device) {}
  CUstream_st* stream() const override { return nullptr; }
  void follow_operations() override {}
  void copy(const void* from, void* to, std::int64_t bytes) override { device_.copy(from, to, bytes); }
  void run(std::function<void(CUstream_st*)> ask) override {
    const Scope scope(device_);
    ask(nullptr);
  }
  std::unique_ptr<QueueMark> mark() override {
    struct Reached final : QueueMark {
      bool reached() override { return true; }
    };
    return std::make_unique<Reached>();
  }
  bool idle() override { return true; }

 private:
  EmulatedDevice& device_;
};

class EmulatedKernelTimer final : public KernelTimer {
 public:
  EmulatedKernelTimer() {
    cuda::launch_observer() = [this](const char* name, std::int64_t ns) { table_.add(name, ns); };
  }
  ~EmulatedKernelTimer() override { cuda::launch_observer() = nullptr; }
  EmulatedKernelTimer(const EmulatedKernelTimer&) = delete;
  EmulatedKernelTimer& operator=(const EmulatedKernelTimer&) = delete;
  Result<KernelTable> take() override { return std::exchange(table_, {}); }
  std::int64_t lost() const override { return 0; }

 private:
  KernelTable table_;
};

}  // namespace

class EmulatedDevice::Operations final : public EmulatedStream {
 public:
  explicit Operations(EmulatedDevice& device) : device_(device) {}
  void enqueue(std::function<void()> work) override { work(); }
  void kernel_begins() override { device_.open(); }
  void kernel_ends() override { device_.close(); }
  bool keep(const std::function<void()>& work) override { return device_.keep(work); }

 private:
  EmulatedDevice& device_;
};

namespace {

class KeptWork final : public DeviceRecording {
 public:
  KeptWork(const Device& device, std::vector<std::function<void()>> work)
      : device_(device), releases_(device.releases()), work_(std::move(work)) {}
  void replay() override {
    LH_ASSERT(device_.releases() == releases_, "a replay after memory was released that it may use");
    for (const auto& work : work_) work();
  }

 private:
  const Device& device_;
  std::int64_t releases_;
  std::vector<std::function<void()>> work_;
};

}  // namespace

// Small segments, so that tests see what happens between them.
EmulatedDevice::EmulatedDevice(bool guarded, std::int64_t bytes)
    : guarded_(guarded),
      bytes_(bytes),
      arena_({[this](std::int64_t size) { return take_segment(size); }, [this](std::byte* s) { give_back(s); }},
             {.shared_segment = 256 * page, .own_from = 64 * page, .granularity = page, .idle_max = bytes}) {
  memory_ = map_huge_pages(bytes, guarded);
  stream_ = std::make_unique<Operations>(*this);
}

EmulatedDevice::~EmulatedDevice() {
  (void)::munmap(memory_, whole_huge_pages(bytes_));
}

void EmulatedDevice::open() {
  if (!guarded_ || open_++ > 0 || used_ == 0) return;
  protect(memory_, used_, PROT_READ | PROT_WRITE);
}

void EmulatedDevice::close() {
  if (!guarded_ || --open_ > 0 || used_ == 0) return;
  protect(memory_, used_, PROT_NONE);
}

CUstream_st* EmulatedDevice::stream() const {
  return reinterpret_cast<CUstream_st*>(stream_.get());
}

void EmulatedDevice::not_while_recording(const char* call) const {
  LH_ASSERT(recording_.empty(), format("{} while {} is recorded", call, recording_));
}

bool EmulatedDevice::keep(const std::function<void()>& work) {
  if (recording_.empty()) return false;
  kept_.push_back(work);
  return true;
}

std::unique_ptr<DeviceRecording> EmulatedDevice::record(const std::string& what, const std::function<void()>& ask) {
  not_while_recording("record");
  LH_ASSERT(!what.empty(), "a recording without a name");
  recording_ = what;
  ask();
  recording_.clear();
  LH_ASSERT(!kept_.empty(), format("nothing was asked for while {} was recorded", what));
  return std::make_unique<KeptWork>(*this, std::exchange(kept_, {}));
}

std::byte* EmulatedDevice::take_segment(std::int64_t bytes) {
  LH_ASSERT(!guarded_ || open_ == 0, "an allocation inside of a kernel");
  ++driver_allocations_;
  std::byte* segment = nullptr;
  if (const auto found = free_.lower_bound(bytes); found != free_.end()) {
    segment = found->second;
    segments_[segment] = found->first;
    free_.erase(found);
  } else {
    if (used_ + bytes > bytes_) return nullptr;
    segment = memory_ + used_;
    segments_[segment] = bytes;
    used_ += bytes;
  }
  return segment;
}

void EmulatedDevice::give_back(std::byte* segment) {
  ++driver_allocations_;
  free_.emplace(segments_.at(segment), segment);
  segments_.erase(segment);
}

Result<std::byte*> EmulatedDevice::allocate(std::int64_t bytes) {
  not_while_recording("allocate");
  std::byte* memory = arena_.allocate(bytes);
  if (memory == nullptr && arena_.trim() > 0) memory = arena_.allocate(bytes);
  if (memory == nullptr)
    return make_error(ErrorCode::internal, format("{} bytes asked for, {} of {} are free; {}", bytes, free_bytes(),
                                                  bytes_, arena_.usage().text()));
  ranges_.add(memory, bytes);
  taken_ += bytes;
  zero(memory, bytes);
  return memory;
}

// What was there is written over: whoever goes on using it computes nonsense.
void EmulatedDevice::release(std::byte* memory) {
  not_while_recording("release");
  ++releases_;
  ranges_.remove(memory);
  const std::int64_t bytes = arena_.release(memory);
  {
    const Scope scope(*this);
    std::memset(memory, 0xFF, static_cast<std::size_t>(bytes));
  }
  taken_ = arena_.usage().asked;
}

void EmulatedDevice::copy_in(const void* host, void* device, std::int64_t bytes) {
  not_while_recording("copy_in");
  const Scope scope(*this);
  std::memcpy(device, host, static_cast<std::size_t>(bytes));
}
void EmulatedDevice::copy_out(const void* device, void* host, std::int64_t bytes) {
  not_while_recording("copy_out");
  ++waits_, bytes_to_host_ += bytes;
  const Scope scope(*this);
  std::memcpy(host, device, static_cast<std::size_t>(bytes));
}
void EmulatedDevice::copy(const void* from, void* to, std::int64_t bytes) {
  if (keep([=, this] { copy(from, to, bytes); })) return;
  const Scope scope(*this);
  std::memmove(to, from, static_cast<std::size_t>(bytes));
}
void EmulatedDevice::zero(void* device, std::int64_t bytes) {
  if (keep([=, this] { zero(device, bytes); })) return;
  const Scope scope(*this);
  std::memset(device, 0, static_cast<std::size_t>(bytes));
}

Result<std::unique_ptr<DeviceQueue>> EmulatedDevice::queue() {
  not_while_recording("queue");
  if (guarded_) return std::unique_ptr<DeviceQueue>(std::make_unique<ImmediateQueue>(*this));
  return std::unique_ptr<DeviceQueue>(std::make_unique<EmulatedQueue>([this](const void* to, std::int64_t bytes) {
    if (!owns(to)) bytes_to_host_ += bytes;
  }));
}
Result<std::byte*> EmulatedDevice::allocate_host(std::int64_t bytes) {
  not_while_recording("allocate_host");
  ++driver_allocations_;
  return static_cast<std::byte*>(::operator new(static_cast<std::size_t>(bytes), std::align_val_t{256}));
}
void EmulatedDevice::release_host(std::byte* memory) {
  ++driver_allocations_;
  ::operator delete(memory, std::align_val_t{256});
}

Result<std::unique_ptr<KernelTimer>> EmulatedGpu::time_kernels() {
  return std::unique_ptr<KernelTimer>(std::make_unique<EmulatedKernelTimer>());
}

void HostGemm::run(cudaStream_t stream, const GemmShape& shape, ConstView a, ConstView b, View c) {
  if (device_.keep([=, this] { run(stream, shape, a, b, c); })) return;
  const Scope scope(device_);
  gemm_packed(context_, shape, a, b, c);
}

}  // namespace longhaul::testing
