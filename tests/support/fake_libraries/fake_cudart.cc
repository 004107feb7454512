#include "tests/support/fake_libraries/fake_cudart.h"

#include <cuda_runtime_api.h>

#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <set>
#include <vector>

#include "engine/core/cuda/device_code_probe.h"

namespace longhaul::testing {

FakeCuda& fake_cuda() {
  static FakeCuda one;
  return one;
}

}  // namespace longhaul::testing

namespace longhaul::cuda {
cudaError_t has_code_for_this_gpu() {
  return cudaSuccess;
}
}  // namespace longhaul::cuda

struct CUstream_st {
  std::deque<std::function<void()>> asked;
};
struct CUevent_st {};

namespace {

std::set<const void*>& pinned() {
  static std::set<const void*> all;
  return all;
}
void carry_out(CUstream_st* stream) {
  while (!stream->asked.empty()) stream->asked.front()(), stream->asked.pop_front();
}
cudaError_t taken(void** memory, size_t bytes) {
  *memory = std::aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
  return *memory != nullptr ? cudaSuccess : cudaErrorMemoryAllocation;
}

}  // namespace

extern "C" {

const char* CUDARTAPI cudaGetErrorName(cudaError_t) {
  return "an error of the stand-in";
}
const char* CUDARTAPI cudaGetErrorString(cudaError_t) {
  return "an error of the stand-in";
}
cudaError_t CUDARTAPI cudaGetLastError() {
  return cudaSuccess;
}
cudaError_t CUDARTAPI cudaDriverGetVersion(int* version) {
  return *version = CUDART_VERSION, cudaSuccess;
}
cudaError_t CUDARTAPI cudaRuntimeGetVersion(int* version) {
  return *version = CUDART_VERSION, cudaSuccess;
}
cudaError_t CUDARTAPI cudaGetDeviceCount(int* count) {
  return *count = 1, cudaSuccess;
}
cudaError_t CUDARTAPI cudaGetDeviceProperties(cudaDeviceProp* properties, int) {
  *properties = {};
  std::strcpy(properties->name, "stand-in");
  properties->major = 9;
  properties->pageableMemoryAccess = longhaul::testing::fake_cuda().reads_pageable ? 1 : 0;
  return cudaSuccess;
}
cudaError_t CUDARTAPI cudaSetDevice(int) {
  return cudaSuccess;
}
cudaError_t CUDARTAPI cudaMemGetInfo(size_t* unused, size_t* all) {
  return *unused = *all = size_t{1} << 34, cudaSuccess;
}
cudaError_t CUDARTAPI cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  return *stream = new CUstream_st, cudaSuccess;
}
cudaError_t CUDARTAPI cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned, int) {
  return *stream = new CUstream_st, cudaSuccess;
}
cudaError_t CUDARTAPI cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  return *least = 0, *greatest = -5, cudaSuccess;
}
cudaError_t CUDARTAPI cudaStreamDestroy(cudaStream_t stream) {
  delete stream;
  return cudaSuccess;
}
cudaError_t CUDARTAPI cudaStreamQuery(cudaStream_t stream) {
  if (longhaul::testing::fake_cuda().stopped) return cudaErrorNotReady;
  carry_out(stream);
  return cudaSuccess;
}
// As the real one: where the device has stopped it does not come back.
cudaError_t CUDARTAPI cudaStreamSynchronize(cudaStream_t stream) {
  while (longhaul::testing::fake_cuda().stopped) continue;
  carry_out(stream);
  return cudaSuccess;
}
cudaError_t CUDARTAPI cudaStreamWaitEvent(cudaStream_t, cudaEvent_t, unsigned) {
  return cudaSuccess;
}
cudaError_t CUDARTAPI cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
  return *event = new CUevent_st, cudaSuccess;
}
cudaError_t CUDARTAPI cudaEventDestroy(cudaEvent_t event) {
  delete event;
  return cudaSuccess;
}
cudaError_t CUDARTAPI cudaEventRecord(cudaEvent_t, cudaStream_t) {
  return cudaSuccess;
}
cudaError_t CUDARTAPI cudaEventQuery(cudaEvent_t) {
  return cudaSuccess;
}
cudaError_t CUDARTAPI cudaMalloc(void** memory, size_t bytes) {
  ++longhaul::testing::fake_cuda().mallocs;
  return taken(memory, bytes);
}
cudaError_t CUDARTAPI cudaFree(void* memory) {
  ++longhaul::testing::fake_cuda().frees;
  std::free(memory);
  return cudaSuccess;
}
cudaError_t CUDARTAPI cudaHostAlloc(void** memory, size_t bytes, unsigned) {
  const cudaError_t status = taken(memory, bytes);
  pinned().insert(*memory);
  return status;
}
cudaError_t CUDARTAPI cudaFreeHost(void* memory) {
  pinned().erase(memory);
  std::free(memory);
  return cudaSuccess;
}
cudaError_t CUDARTAPI cudaHostRegister(void*, size_t, unsigned) {
  return cudaSuccess;
}
cudaError_t CUDARTAPI cudaHostUnregister(void*) {
  return cudaSuccess;
}
cudaError_t CUDARTAPI cudaHostGetDevicePointer(void** device, void* host, unsigned) {
  return *device = host, cudaSuccess;
}
cudaError_t CUDARTAPI cudaMemsetAsync(void* memory, int value, size_t bytes, cudaStream_t stream) {
  stream->asked.push_back([=] { std::memset(memory, value, bytes); });
  return cudaSuccess;
}
cudaError_t CUDARTAPI cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind,
                                      cudaStream_t stream) {
  const bool early = pinned().contains(from) || longhaul::testing::fake_cuda().reads_pageable;
  if (kind != cudaMemcpyHostToDevice || early) {
    stream->asked.push_back([=] { std::memcpy(to, from, bytes); });
    return cudaSuccess;
  }
  const auto* first = static_cast<const unsigned char*>(from);
  stream->asked.push_back(
      [=, own = std::vector<unsigned char>(first, first + bytes)] { std::memcpy(to, own.data(), bytes); });
  return cudaSuccess;
}
cudaError_t CUDARTAPI cudaStreamBeginCapture(cudaStream_t, cudaStreamCaptureMode) {
  return cudaErrorNotSupported;
}
cudaError_t CUDARTAPI cudaStreamEndCapture(cudaStream_t, cudaGraph_t*) {
  return cudaErrorNotSupported;
}
cudaError_t CUDARTAPI cudaGraphDestroy(cudaGraph_t) {
  return cudaErrorNotSupported;
}
cudaError_t CUDARTAPI cudaGraphExecDestroy(cudaGraphExec_t) {
  return cudaErrorNotSupported;
}
cudaError_t CUDARTAPI cudaGraphLaunch(cudaGraphExec_t, cudaStream_t) {
  return cudaErrorNotSupported;
}
cudaError_t CUDARTAPI cudaGraphInstantiate(cudaGraphExec_t*, cudaGraph_t, unsigned long long) {
  return cudaErrorNotSupported;
}

}  // extern "C"
