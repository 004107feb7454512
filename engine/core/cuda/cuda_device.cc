#include "engine/core/cuda/cuda_device.h"

#include <cuda_runtime_api.h>

#include <utility>

#include "base/text/text.h"
#include "engine/core/cuda/cuda_copies.h"
#include "engine/core/cuda/cuda_queue.h"
#include "engine/core/cuda/cuda_wait.h"
#include "engine/core/cuda/device_code_probe.h"
#include "engine/core/device/allocated_ranges.h"
#include "engine/core/device/device_arena.h"

namespace longhaul {
namespace {

void check(cudaError_t status, const char* call) {
  LH_ASSERT(status == cudaSuccess, format("{}: {} ({})", call, cudaGetErrorName(status), cudaGetErrorString(status)));
}

// A graph that CUDA made of what was recorded.
class CudaRecording final : public DeviceRecording {
 public:
  CudaRecording(Device& device, cudaStream_t stream, cudaGraphExec_t graph)
      : device_(device), releases_(device.releases()), stream_(stream), graph_(graph) {}
  ~CudaRecording() override {
    device_.finish();  // a replay may be under way
    (void)cudaGraphExecDestroy(graph_);
  }
  CudaRecording(const CudaRecording&) = delete;
  CudaRecording& operator=(const CudaRecording&) = delete;
  void replay() override {
    LH_ASSERT(device_.releases() == releases_, "a replay after memory was released that it may use");
    check(cudaGraphLaunch(graph_, stream_), "cudaGraphLaunch");
  }

 private:
  Device& device_;
  std::int64_t releases_;
  cudaStream_t stream_;
  cudaGraphExec_t graph_;
};

class Gpu final : public CudaDevice {
 public:
  Gpu(int index, const cudaDeviceProp& properties, cudaStream_t stream, const DeviceArena::Rule& rule,
      std::int64_t deadline_ms)
      : arena_({[this](std::int64_t bytes) { return take_segment(bytes); },
                [this](std::byte* segment) { give_back(segment); }},
               rule),
        index_(index),
        name_(properties.name),
        capability_(10 * properties.major + properties.minor),
        reads_pageable_(properties.pageableMemoryAccess != 0),
        deadline_ms_(deadline_ms),
        stream_(stream) {}
  ~Gpu() override {  // the arena goes behind it
    wait_until_idle(stream_, deadline_ms_, name());
    (void)cudaStreamDestroy(stream_);
    stream_ = nullptr;
  }
  Gpu(const Gpu&) = delete;
  Gpu& operator=(const Gpu&) = delete;

  std::string name() const override { return format("{}, GPU {}", name_, index_); }
  CUstream_st* stream() const override { return stream_; }
  int capability() const override { return capability_; }
  std::int64_t free_bytes() const override {
    std::size_t unused = 0, all = 0;
    check(cudaMemGetInfo(&unused, &all), "cudaMemGetInfo");
    return static_cast<std::int64_t>(unused) + arena_.idle_bytes();  // which are given back when they are needed
  }

  Result<std::byte*> allocate(std::int64_t bytes) override {
    not_while_recording("allocate");
    std::byte* memory = arena_.allocate(bytes);
    if (memory == nullptr && arena_.trim() > 0) memory = arena_.allocate(bytes);
    if (memory == nullptr) return no_room(bytes);
    zero(memory, bytes);
    ranges_.add(memory, bytes);
    return memory;
  }
  // Nobody waits: what is asked for in the stream from now on comes after all that still uses it.
  void release(std::byte* memory) override {
    not_while_recording("release");
    ++releases_;
    ranges_.remove(memory);
    arena_.release(memory);
  }
  void keep_released() override { arena_.keep_idle(); }

  void copy_in(const void* host, void* device, std::int64_t bytes) override {
    not_while_recording("copy_in");
    check(cudaMemcpyAsync(device, host, static_cast<std::size_t>(bytes), cudaMemcpyHostToDevice, stream_),
          "cudaMemcpyAsync to the device");
    if (must_wait_for_copy_in(pinned_.contain(host), reads_pageable_)) finish();
  }
  void copy_out(const void* device, void* host, std::int64_t bytes) override {
    not_while_recording("copy_out");
    check(cudaMemcpyAsync(host, device, static_cast<std::size_t>(bytes), cudaMemcpyDeviceToHost, stream_),
          "cudaMemcpyAsync to the host");
    finish();
  }
  void copy(const void* from, void* to, std::int64_t bytes) override {
    check(cudaMemcpyAsync(to, from, static_cast<std::size_t>(bytes), cudaMemcpyDeviceToDevice, stream_),
          "cudaMemcpyAsync within the device");
  }
  void zero(void* device, std::int64_t bytes) override {
    check(cudaMemsetAsync(device, 0, static_cast<std::size_t>(bytes), stream_), "cudaMemsetAsync");
  }
  void finish() override {
    not_while_recording("finish");
    wait_until_idle(stream_, deadline_ms_, name());
  }

  // Other threads of the process may go on calling CUDA meanwhile; this one may not ask for what cannot be recorded.
  std::unique_ptr<DeviceRecording> record(const std::string& what, const std::function<void()>& ask) override {
    not_while_recording("record");
    check(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal), "cudaStreamBeginCapture");
    recording_ = what;
    ask();
    recording_.clear();
    cudaGraph_t graph = nullptr;
    check(cudaStreamEndCapture(stream_, &graph), "cudaStreamEndCapture");
    cudaGraphExec_t made = nullptr;
    check(cudaGraphInstantiate(&made, graph, 0), "cudaGraphInstantiate");
    check(cudaGraphDestroy(graph), "cudaGraphDestroy");
    return std::make_unique<CudaRecording>(*this, stream_, made);
  }
  std::int64_t releases() const override { return releases_; }
  std::int64_t driver_allocations() const override { return driver_allocations_; }

  bool owns(const void* address) const override { return ranges_.contain(address); }
  Result<std::unique_ptr<DeviceQueue>> queue() override {
    not_while_recording("queue");
    return make_cuda_queue(stream_);
  }
  Result<std::byte*> allocate_host(std::int64_t bytes) override {
    not_while_recording("allocate_host");
    ++driver_allocations_;
    void* memory = nullptr;
    const cudaError_t status = cudaHostAlloc(&memory, static_cast<std::size_t>(bytes), cudaHostAllocDefault);
    if (status != cudaSuccess) {
      (void)cudaGetLastError();
      return make_error(ErrorCode::internal,
                        format("{}: {:.2f} GB of pinned host memory were refused ({})", name(),
                               1e-9 * static_cast<double>(bytes), cudaGetErrorName(status)),
                        "look at the job's memory limit and at ulimit -l");
    }
    pinned_.add(static_cast<std::byte*>(memory), bytes);
    return static_cast<std::byte*>(memory);
  }
  void release_host(std::byte* memory) override {
    not_while_recording("release_host");
    ++driver_allocations_;
    pinned_.remove(memory);
    check(cudaFreeHost(memory), "cudaFreeHost");
  }
  Result<std::byte*> share(std::byte* memory, std::int64_t bytes) override {
    not_while_recording("share");
    cudaError_t status = cudaHostRegister(memory, static_cast<std::size_t>(bytes), cudaHostRegisterMapped);
    void* known_as = nullptr;
    if (status == cudaSuccess) status = cudaHostGetDevicePointer(&known_as, memory, 0);
    if (status == cudaSuccess) return static_cast<std::byte*>(known_as);
    (void)cudaGetLastError();
    return make_error(ErrorCode::unavailable,
                      format("{}: host memory cannot be shared ({})", name(), cudaGetErrorName(status)),
                      "memory of a file must be of one in memory (/dev/shm)");
  }
  void unshare(std::byte* memory) override { check(cudaHostUnregister(memory), "cudaHostUnregister"); }

 private:
  std::byte* take_segment(std::int64_t bytes) {
    ++driver_allocations_;
    void* memory = nullptr;
    taken_ = cudaMalloc(&memory, static_cast<std::size_t>(bytes));
    if (taken_ == cudaSuccess) return static_cast<std::byte*>(memory);
    (void)cudaGetLastError();  // it is reported by allocate(), and would be reported again by the next call
    return nullptr;
  }
  // cudaFree() waits for the whole GPU, for as long as that takes: what it can wait for is waited for with a deadline.
  void give_back(std::byte* segment) {
    ++driver_allocations_;
    if (stream_ != nullptr) wait_until_idle(stream_, deadline_ms_, name());
    check(cudaFree(segment), "cudaFree");
  }
  Error no_room(std::int64_t bytes) const {
    std::size_t unused = 0, all = 0;
    (void)cudaMemGetInfo(&unused, &all);
    return make_error(ErrorCode::internal,
                      format("{}: {:.2f} GB asked for, {:.2f} of {:.2f} GB are free ({}); {}", name(),
                             1e-9 * static_cast<double>(bytes), 1e-9 * static_cast<double>(unused),
                             1e-9 * static_cast<double>(all), cudaGetErrorName(taken_), arena_.usage().text()),
                      "take a smaller micro-batch, recompute more, or spread the model over more GPUs");
  }

  void not_while_recording(const char* call) const {
    LH_ASSERT(recording_.empty(), format("{} while {} is recorded", call, recording_));
  }

  std::string recording_;  // what is being recorded; empty: nothing
  std::int64_t releases_ = 0, driver_allocations_ = 0;
  AllocatedRanges ranges_, pinned_;  // of the device, of the host
  cudaError_t taken_ = cudaSuccess;  // by the last segment
  DeviceArena arena_;
  int index_;
  std::string name_;
  int capability_;
  bool reads_pageable_;
  std::int64_t deadline_ms_;
  cudaStream_t stream_;  // null: destroyed
};

Error failed(const char* call, cudaError_t status) {
  const std::string what = format("{}: {} ({})", call, cudaGetErrorName(status), cudaGetErrorString(status));
  switch (status) {
    case cudaErrorInsufficientDriver: {
      int driver = 0, runtime = 0;
      (void)cudaDriverGetVersion(&driver), (void)cudaRuntimeGetVersion(&runtime);
      return make_error(
          ErrorCode::invalid_input,
          driver == 0 ? format("this host has no NVIDIA driver ({})", what)
                      : format("the driver knows CUDA {}.{}, this program needs {}.{} ({})", driver / 1000,
                               driver % 1000 / 10, runtime / 1000, runtime % 1000 / 10, what),
          "run on a host with GPUs and a newer driver, build with an older CUDA, or set device = \"cpu\"");
    }
    case cudaErrorNoDevice:
      return make_error(ErrorCode::invalid_input, format("this process sees no GPU ({})", what),
                        "ask for GPUs in the job (gpus_per_node), and look at CUDA_VISIBLE_DEVICES");
    case cudaErrorDevicesUnavailable:
      return make_error(ErrorCode::invalid_input, format("another process holds the GPU ({})", what),
                        "end it, or leave the node out; nvidia-smi shows processes and the compute mode");
    case cudaErrorECCUncorrectable:
    case cudaErrorHardwareStackError:
      return make_error(ErrorCode::invalid_input, format("the GPU's memory is in a bad state ({})", what),
                        "leave the node out until it was reset; longhaul-worker health shows pending repairs");
    default: return make_error(ErrorCode::internal, what, "longhaul-worker health tests the GPU");
  }
}

}  // namespace

Result<std::unique_ptr<CudaDevice>> CudaDevice::open(int local_rank, bool shared, const DeviceArena::Rule& rule,
                                                     std::int64_t deadline_ms) {
  int count = 0;
  if (const cudaError_t status = cudaGetDeviceCount(&count); status != cudaSuccess)
    return failed("cudaGetDeviceCount", status);
  // A launcher may show each rank its own.
  const int index = count == 1 ? 0 : shared && count > 0 ? local_rank % count : local_rank;
  if (index < 0 || index >= count)
    return make_error(ErrorCode::invalid_input,
                      format("this is rank {} of its host, and the process sees {} GPUs", local_rank, count),
                      "start as many ranks on a host as the job has GPUs there; communicator = \"staged\" lets several "
                      "share one");
  cudaDeviceProp properties{};
  if (const cudaError_t status = cudaGetDeviceProperties(&properties, index); status != cudaSuccess)
    return failed("cudaGetDeviceProperties", status);
  if (const cudaError_t status = cudaSetDevice(index); status != cudaSuccess) return failed("cudaSetDevice", status);
  std::size_t unused = 0, all = 0;  // makes the context: a GPU that is held or broken says so here
  if (const cudaError_t status = cudaMemGetInfo(&unused, &all); status != cudaSuccess)
    return failed("cudaMemGetInfo", status);
  if (const cudaError_t status = cuda::has_code_for_this_gpu(); status != cudaSuccess)
    return make_error(ErrorCode::invalid_input,
                      format("this build has no code for {} (compute capability {}.{}; {})", properties.name,
                             properties.major, properties.minor, cudaGetErrorName(status)),
                      format("build with -DLONGHAUL_CUDA_ARCHITECTURES={}{}", properties.major, properties.minor));
  cudaStream_t stream = nullptr;
  if (const cudaError_t status = cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking); status != cudaSuccess)
    return failed("cudaStreamCreateWithFlags", status);
  return std::unique_ptr<CudaDevice>(std::make_unique<Gpu>(index, properties, stream, rule, deadline_ms));
}

}  // namespace longhaul
