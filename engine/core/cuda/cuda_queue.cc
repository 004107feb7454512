#include "engine/core/cuda/cuda_queue.h"

#include <cuda_runtime_api.h>

#include <utility>

#include "base/text/text.h"

namespace longhaul {
namespace {

void check(cudaError_t status, const char* call) {
  LH_ASSERT(status == cudaSuccess, format("{}: {} ({})", call, cudaGetErrorName(status), cudaGetErrorString(status)));
}

struct DestroyEvent {
  using pointer = cudaEvent_t;
  void operator()(cudaEvent_t event) const { (void)cudaEventDestroy(event); }
};
using CudaEvent = std::unique_ptr<CUevent_st, DestroyEvent>;

CudaEvent make_event() {
  cudaEvent_t event = nullptr;
  check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "cudaEventCreateWithFlags");
  return CudaEvent(event);
}

bool has_ended(cudaError_t status, const char* call) {
  if (status == cudaErrorNotReady) return false;
  check(status, call);
  return true;
}

class CudaMark final : public QueueMark {
 public:
  explicit CudaMark(CudaEvent event) : event_(std::move(event)) {}
  bool reached() override { return has_ended(cudaEventQuery(event_.get()), "cudaEventQuery"); }

 private:
  CudaEvent event_;
};

class CudaQueue final : public DeviceQueue {
 public:
  CudaQueue(cudaStream_t operations, cudaStream_t stream)
      : operations_(operations), stream_(stream), before_(make_event()) {}
  ~CudaQueue() override { (void)cudaStreamDestroy(stream_); }
  CudaQueue(const CudaQueue&) = delete;
  CudaQueue& operator=(const CudaQueue&) = delete;

  CUstream_st* stream() const override { return stream_; }
  void follow_operations() override {
    check(cudaEventRecord(before_.get(), operations_), "cudaEventRecord");
    check(cudaStreamWaitEvent(stream_, before_.get(), 0), "cudaStreamWaitEvent");
  }
  void copy(const void* from, void* to, std::int64_t bytes) override {
    check(cudaMemcpyAsync(to, from, static_cast<std::size_t>(bytes), cudaMemcpyDefault, stream_), "cudaMemcpyAsync");
  }
  void run(std::function<void(CUstream_st*)> ask) override { ask(stream_); }
  std::unique_ptr<QueueMark> mark() override {
    CudaEvent event = make_event();
    check(cudaEventRecord(event.get(), stream_), "cudaEventRecord");
    return std::make_unique<CudaMark>(std::move(event));
  }
  bool idle() override { return has_ended(cudaStreamQuery(stream_), "cudaStreamQuery"); }

 private:
  cudaStream_t operations_, stream_;
  CudaEvent before_;
};

}  // namespace

Result<std::unique_ptr<DeviceQueue>> make_cuda_queue(CUstream_st* operations) {
  cudaStream_t stream = nullptr;
  // Ahead of the operations: what others wait for goes first where both have work.
  int least = 0, greatest = 0;
  cudaError_t status = cudaDeviceGetStreamPriorityRange(&least, &greatest);
  if (status == cudaSuccess) status = cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, greatest);
  if (status != cudaSuccess)
    return make_error(ErrorCode::internal, format("cudaStreamCreateWithPriority: {} ({})", cudaGetErrorName(status),
                                                  cudaGetErrorString(status)));
  return std::unique_ptr<DeviceQueue>(std::make_unique<CudaQueue>(operations, stream));
}

}  // namespace longhaul
