#include "engine/core/cuda/cuda_device.h"

#include <cuda_runtime_api.h>

#include <utility>

#include "base/text.h"
#include "engine/core/allocated_ranges.h"
#include "engine/core/cuda/cuda_queue.h"
#include "engine/core/cuda/device_code_probe.h"
#include "engine/core/released_blocks.h"

namespace longhaul {
namespace {

void check(cudaError_t status, const char* call) {
  LH_ASSERT(status == cudaSuccess, format("{}: {} ({})", call, cudaGetErrorName(status), cudaGetErrorString(status)));
}

class Gpu final : public CudaDevice {
 public:
  Gpu(int index, std::string name, cudaStream_t stream) : index_(index), name_(std::move(name)), stream_(stream) {}
  ~Gpu() override {
    blocks_.drain([](std::byte* memory) { (void)cudaFree(memory); });
    (void)cudaStreamDestroy(stream_);
  }
  Gpu(const Gpu&) = delete;
  Gpu& operator=(const Gpu&) = delete;

  std::string name() const override { return format("{}, GPU {}", name_, index_); }
  CUstream_st* stream() const override { return stream_; }
  std::int64_t free_bytes() const override {
    std::size_t unused = 0, all = 0;
    check(cudaMemGetInfo(&unused, &all), "cudaMemGetInfo");
    return static_cast<std::int64_t>(unused) + blocks_.bytes();
  }

  Result<std::byte*> allocate(std::int64_t bytes) override {
    void* memory = blocks_.take(bytes);
    cudaError_t status = cudaSuccess;
    if (memory == nullptr) {
      status = cudaMalloc(&memory, static_cast<std::size_t>(bytes));
      if (status == cudaErrorMemoryAllocation && blocks_.bytes() > 0) {
        (void)cudaGetLastError();
        blocks_.drain([](std::byte* released) { check(cudaFree(released), "cudaFree"); });  // waits for the device
        status = cudaMalloc(&memory, static_cast<std::size_t>(bytes));
      }
      if (status == cudaSuccess) blocks_.add(static_cast<std::byte*>(memory), bytes);
    }
    if (status != cudaSuccess) {
      (void)cudaGetLastError();  // it is told here, and would be told again by the next call
      std::size_t unused = 0, all = 0;
      (void)cudaMemGetInfo(&unused, &all);
      return make_error(ErrorCode::internal,
                        format("{}: {:.2f} GB asked for, {:.2f} of {:.2f} GB are free ({})", name(),
                               1e-9 * static_cast<double>(bytes), 1e-9 * static_cast<double>(unused),
                               1e-9 * static_cast<double>(all), cudaGetErrorName(status)),
                        "take a smaller micro-batch, recompute more, or spread the model over more GPUs");
    }
    zero(memory, bytes);
    ranges_.add(static_cast<std::byte*>(memory), bytes);
    return static_cast<std::byte*>(memory);
  }
  void release(std::byte* memory) override {
    ranges_.remove(memory);
    blocks_.release(memory);  // who gets it next uses it in the order of the stream
  }

  // From memory that is not pinned CUDA takes the bytes into its own before it comes back.
  void copy_in(const void* host, void* device, std::int64_t bytes) override {
    check(cudaMemcpyAsync(device, host, static_cast<std::size_t>(bytes), cudaMemcpyHostToDevice, stream_),
          "cudaMemcpyAsync to the device");
    if (pinned_.contain(host)) finish();
  }
  void copy_out(const void* device, void* host, std::int64_t bytes) override {
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
  void finish() override { check(cudaStreamSynchronize(stream_), "cudaStreamSynchronize"); }

  bool owns(const void* address) const override { return ranges_.contain(address); }
  Result<std::unique_ptr<DeviceQueue>> queue() override { return make_cuda_queue(stream_); }
  Result<std::byte*> allocate_host(std::int64_t bytes) override {
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
    pinned_.remove(memory);
    check(cudaFreeHost(memory), "cudaFreeHost");
  }
  Result<std::byte*> share(std::byte* memory, std::int64_t bytes) override {
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
  ReleasedBlocks blocks_;
  AllocatedRanges ranges_, pinned_;  // of the device, of the host
  int index_;
  std::string name_;
  cudaStream_t stream_;
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

Result<std::unique_ptr<CudaDevice>> CudaDevice::open(int local_rank, bool shared) {
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
  return std::unique_ptr<CudaDevice>(std::make_unique<Gpu>(index, properties.name, stream));
}

}  // namespace longhaul
