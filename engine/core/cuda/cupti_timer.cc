#include "engine/core/cuda/cupti_timer.h"

#if __has_include(<cupti.h>)
#include <cuda_runtime_api.h>
#include <cupti.h>

#include <cstdlib>
#include <mutex>
#include <utility>

#include "base/system/shared_library.h"
#include "base/text/text.h"

namespace longhaul {
namespace {

// Records of kernels begin alike in every release since CUDA 11; the newest that these headers know is read.
#if CUPTI_API_VERSION >= 130000
using KernelRecord = CUpti_ActivityKernel10;
#else
using KernelRecord = CUpti_ActivityKernel9;
#endif

constexpr std::size_t buffer_bytes = 1 << 20, buffer_alignment = 8;

struct Cupti {
  SharedLibrary library;
  decltype(&cuptiActivityRegisterCallbacks) register_callbacks = nullptr;
  decltype(&cuptiActivityEnable) enable = nullptr;
  decltype(&cuptiActivityDisable) disable = nullptr;
  decltype(&cuptiActivityFlushAll) flush_all = nullptr;
  decltype(&cuptiActivityGetNextRecord) next_record = nullptr;
  decltype(&cuptiActivityGetNumDroppedRecords) dropped_records = nullptr;
  decltype(&cuptiGetResultString) result_text = nullptr;

  std::string text(CUptiResult result) const {
    const char* text = nullptr;
    return result_text(result, &text) == CUPTI_SUCCESS && text ? text : format("CUPTI error {}", int{result});
  }
};

Result<Cupti> open_cupti() {
  const std::string names[] = {format("libcupti.so.{}", CUDART_VERSION / 1000),
                               format("libcupti.so.{}.{}", CUDART_VERSION / 1000, CUDART_VERSION % 1000 / 10),
                               "libcupti.so"};
  Result<SharedLibrary> opened = SharedLibrary::open(names, true);
  if (!opened.ok())
    return make_error(ErrorCode::unavailable, opened.error().message(),
                      "put extras/CUPTI/lib64 of the CUDA Toolkit on LD_LIBRARY_PATH");
  Cupti cupti;
  cupti.library = std::move(*opened);
  const SharedLibrary& l = cupti.library;
  const bool whole = l.find("cuptiActivityRegisterCallbacks", cupti.register_callbacks) &&
                     l.find("cuptiActivityEnable", cupti.enable) && l.find("cuptiActivityDisable", cupti.disable) &&
                     l.find("cuptiActivityFlushAll", cupti.flush_all) &&
                     l.find("cuptiActivityGetNextRecord", cupti.next_record) &&
                     l.find("cuptiActivityGetNumDroppedRecords", cupti.dropped_records) &&
                     l.find("cuptiGetResultString", cupti.result_text);
  if (!whole)
    return make_error(ErrorCode::unavailable, l.name() + " lacks a function of CUPTI",
                      "it is another library, or an older one: look at LD_LIBRARY_PATH");
  return cupti;
}

class CuptiTimer;

// CUPTI calls back without saying for whom: the one that listens.
struct Listener {
  std::mutex mutex;
  CuptiTimer* timer = nullptr;
};
Listener& listener() {
  static Listener one;
  return one;
}

class CuptiTimer final : public KernelTimer {
 public:
  explicit CuptiTimer(Cupti cupti) : cupti_(std::move(cupti)) {
    const std::scoped_lock lock(listener().mutex);
    LH_ASSERT(listener().timer == nullptr, "two timers of kernels in one process");
    listener().timer = this;
  }
  ~CuptiTimer() override {
    if (enabled_) {
      (void)cupti_.disable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
      (void)cupti_.flush_all(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
    }
    const std::scoped_lock lock(listener().mutex);
    listener().timer = nullptr;
  }
  CuptiTimer(const CuptiTimer&) = delete;
  CuptiTimer& operator=(const CuptiTimer&) = delete;

  Status begin() {
    CUptiResult result = cupti_.register_callbacks(give_buffer, take_buffer);
    if (result == CUPTI_SUCCESS) result = cupti_.enable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
    if (result != CUPTI_SUCCESS)
      return make_error(ErrorCode::unavailable, "kernels cannot be timed: " + cupti_.text(result),
                        "is another profiler attached? trace.kernels = false goes without");
    enabled_ = true;
    return {};
  }

  Result<KernelTable> take() override {
    if (const CUptiResult result = cupti_.flush_all(0); result != CUPTI_SUCCESS)
      return make_error(ErrorCode::unavailable, "cuptiActivityFlushAll: " + cupti_.text(result));
    const std::scoped_lock lock(mutex_);
    return std::exchange(table_, {});
  }
  std::int64_t lost() const override {
    const std::scoped_lock lock(mutex_);
    return lost_;
  }

 private:
  static void CUPTIAPI give_buffer(std::uint8_t** buffer, std::size_t* bytes, std::size_t* records_max) {
    *buffer = static_cast<std::uint8_t*>(std::aligned_alloc(buffer_alignment, buffer_bytes));
    *bytes = *buffer ? buffer_bytes : 0;
    *records_max = 0;  // as many as fit
  }
  static void CUPTIAPI take_buffer(CUcontext context, std::uint32_t stream, std::uint8_t* buffer, std::size_t,
                                   std::size_t bytes) {
    {
      const std::scoped_lock lock(listener().mutex);
      if (listener().timer) listener().timer->read(context, stream, buffer, bytes);
    }
    std::free(buffer);
  }

  void read(CUcontext context, std::uint32_t stream, std::uint8_t* buffer, std::size_t bytes) {
    const std::scoped_lock lock(mutex_);
    CUpti_Activity* record = nullptr;
    while (cupti_.next_record(buffer, bytes, &record) == CUPTI_SUCCESS) {
      if (record->kind != CUPTI_ACTIVITY_KIND_KERNEL && record->kind != CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) continue;
      const auto* kernel = reinterpret_cast<const KernelRecord*>(record);
      if (kernel->end < kernel->start || kernel->start == 0) continue;  // CUPTI could not time it
      table_.add(kernel->name ? kernel->name : "", static_cast<std::int64_t>(kernel->end - kernel->start));
    }
    std::size_t dropped = 0;
    if (cupti_.dropped_records(context, stream, &dropped) == CUPTI_SUCCESS) lost_ += static_cast<std::int64_t>(dropped);
  }

  Cupti cupti_;
  bool enabled_ = false;
  mutable std::mutex mutex_;
  KernelTable table_;
  std::int64_t lost_ = 0;
};

}  // namespace

Result<std::unique_ptr<KernelTimer>> make_cupti_timer() {
  LH_TRY(Cupti cupti, open_cupti());
  auto timer = std::make_unique<CuptiTimer>(std::move(cupti));
  LH_CHECK(timer->begin());
  return std::unique_ptr<KernelTimer>(std::move(timer));
}

}  // namespace longhaul

#else  // CUDA's headers without CUPTI's

namespace longhaul {

Result<std::unique_ptr<KernelTimer>> make_cupti_timer() {
  return make_error(ErrorCode::unavailable, "this program was built without CUPTI, kernels cannot be timed",
                    "build it with the headers of extras/CUPTI in the CUDA Toolkit");
}

}  // namespace longhaul
#endif
