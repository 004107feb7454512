// A queue of a device beside that of its operations: copies and kernels go through it in the order in which they are
// asked for, while the operations go on. Nothing here waits but the end of the queue, which must come when everything
// in it has ended (idle()). One thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

struct CUstream_st;  // as cuda_runtime_api.h declares it

namespace longhaul {

// A place in a queue: reached when everything asked for before it has ended.
class QueueMark {
 public:
  virtual ~QueueMark() = default;
  virtual bool reached() = 0;
};

class DeviceQueue {
 public:
  virtual ~DeviceQueue() = default;
  // As libraries of CUDA take it.
  virtual CUstream_st* stream() const = 0;
  // What is asked for here from now on begins when all operations that the device was asked for have ended.
  virtual void follow_operations() = 0;
  // Memory of the device, or of the host where it came from Device::allocate_host(). Both stay until it has ended.
  virtual void copy(const void* from, void* to, std::int64_t bytes) = 0;
  // `ask` starts kernels on the stream that it is given; it is called once, now or when the queue has come to it, by
  // whatever thread.
  virtual void run(std::function<void(CUstream_st*)> ask) = 0;
  virtual std::unique_ptr<QueueMark> mark() = 0;
  virtual bool idle() = 0;  // everything asked for has ended
};

}  // namespace longhaul
