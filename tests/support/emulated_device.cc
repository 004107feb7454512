#include "tests/support/emulated_device.h"

#include <sys/mman.h>

#include <cstdlib>
#include <cstring>

#include "base/text.h"
#include "tests/support/cuda_emulation.h"
#include "tests/support/emulated_queue.h"

namespace longhaul::testing {
namespace {

constexpr std::int64_t page = 4096;

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

EmulatedDevice::EmulatedDevice(bool guarded, std::int64_t bytes) : guarded_(guarded), bytes_(bytes) {
  void* memory = ::mmap(nullptr, static_cast<std::size_t>(bytes), guarded ? PROT_NONE : PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  LH_ASSERT(memory != MAP_FAILED, "address space of an emulated device");
  memory_ = static_cast<std::byte*>(memory);
  if (guarded) cuda::launch_scopes()[this] = {[this] { open(); }, [this] { close(); }};
}

EmulatedDevice::~EmulatedDevice() {
  if (guarded_) cuda::launch_scopes().erase(this);
  (void)::munmap(memory_, static_cast<std::size_t>(bytes_));
}

void EmulatedDevice::open() {
  if (!guarded_ || open_++ > 0 || used_ == 0) return;
  LH_ASSERT(::mprotect(memory_, static_cast<std::size_t>(used_), PROT_READ | PROT_WRITE) == 0, "mprotect");
}

void EmulatedDevice::close() {
  if (!guarded_ || --open_ > 0 || used_ == 0) return;
  LH_ASSERT(::mprotect(memory_, static_cast<std::size_t>(used_), PROT_NONE) == 0, "mprotect");
}

Result<std::byte*> EmulatedDevice::allocate(std::int64_t bytes) {
  const std::int64_t size = std::max(page, (bytes + page - 1) / page * page);
  std::byte* memory = nullptr;
  if (const auto found = free_.find(size); found != free_.end()) {
    memory = found->second;
    free_.erase(found);
  } else {
    if (used_ + size > bytes_)
      return make_error(ErrorCode::internal,
                        format("{} bytes asked for, {} of {} are free", bytes, bytes_ - used_, bytes_));
    LH_ASSERT(!guarded_ || open_ == 0, "an allocation inside of a kernel");
    memory = memory_ + used_;
    used_ += size;
  }
  alive_[memory] = size;
  ranges_.add(memory, bytes);
  taken_ += size;
  const Scope scope(*this);
  std::memset(memory, 0, static_cast<std::size_t>(size));
  return memory;
}

// What was there is written over: whoever goes on using it computes nonsense.
void EmulatedDevice::release(std::byte* memory) {
  const auto found = alive_.find(memory);
  LH_ASSERT(found != alive_.end(), "released twice, or never taken");
  ranges_.remove(memory);
  const Scope scope(*this);
  std::memset(memory, 0xFF, static_cast<std::size_t>(found->second));
  taken_ -= found->second;
  free_.emplace(found->second, memory);
  alive_.erase(found);
}

void EmulatedDevice::copy_in(const void* host, void* device, std::int64_t bytes) {
  const Scope scope(*this);
  std::memcpy(device, host, static_cast<std::size_t>(bytes));
}
void EmulatedDevice::copy_out(const void* device, void* host, std::int64_t bytes) {
  const Scope scope(*this);
  std::memcpy(host, device, static_cast<std::size_t>(bytes));
}
void EmulatedDevice::copy(const void* from, void* to, std::int64_t bytes) {
  const Scope scope(*this);
  std::memmove(to, from, static_cast<std::size_t>(bytes));
}
void EmulatedDevice::zero(void* device, std::int64_t bytes) {
  const Scope scope(*this);
  std::memset(device, 0, static_cast<std::size_t>(bytes));
}

Result<std::unique_ptr<DeviceQueue>> EmulatedDevice::queue() {
  if (guarded_) return std::unique_ptr<DeviceQueue>(std::make_unique<ImmediateQueue>(*this));
  return std::unique_ptr<DeviceQueue>(std::make_unique<EmulatedQueue>());
}
Result<std::byte*> EmulatedDevice::allocate_host(std::int64_t bytes) {
  return static_cast<std::byte*>(::operator new(static_cast<std::size_t>(bytes), std::align_val_t{256}));
}
void EmulatedDevice::release_host(std::byte* memory) {
  ::operator delete(memory, std::align_val_t{256});
}

Result<std::unique_ptr<KernelTimer>> EmulatedGpu::time_kernels() {
  return std::unique_ptr<KernelTimer>(std::make_unique<EmulatedKernelTimer>());
}

void HostGemm::run(cudaStream_t, const GemmShape& shape, ConstView a, ConstView b, View c) {
  const Scope scope(device_);
  gemm_portable(context_, shape, a, b, c);
}

}  // namespace longhaul::testing
