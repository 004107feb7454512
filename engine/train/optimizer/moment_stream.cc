#include "engine/train/optimizer/moment_stream.h"

#include <algorithm>

#include "base/text/text.h"

namespace longhaul {
namespace {

std::int64_t whole_pages(std::int64_t bytes) {
  return (bytes + state_page_bytes - 1) / state_page_bytes * state_page_bytes;
}
std::int64_t moment_bytes(DType dtype, std::int64_t elements) {
  return whole_pages(elements * dtype_bytes(dtype));
}

}  // namespace

std::int64_t MomentStream::bytes_for(const StateTypes& types, std::int64_t elements) {
  return moment_bytes(types[1], elements) + moment_bytes(types[2], elements);
}

Result<std::unique_ptr<MomentStream>> MomentStream::create(OptimizerStatePlace& place, const StateTypes& types,
                                                           std::int64_t elements, const MomentStreamOptions& options) {
  LH_ASSERT(options.block_elements > 0 && options.block_elements % 2048 == 0, std::to_string(options.block_elements));
  LH_ASSERT(place.bytes() >= bytes_for(types, elements), std::to_string(place.bytes()));
  std::unique_ptr<MomentStream> stream(new MomentStream(place, types, elements, options));
  const std::int64_t slots = std::min(slots_count, stream->blocks());
  for (std::int64_t slot = 0; slot < slots; ++slot) {
    LH_TRY(stream->slots_[slot],
           PageBuffer::create(bytes_for(types, std::min(options.block_elements, elements)), options.account));
  }
  return stream;
}

std::int64_t MomentStream::second_begin() const {
  return moment_bytes(types_[1], elements_);
}

std::int64_t MomentStream::staging_bytes() const {
  std::int64_t bytes = 0;
  for (const PageBuffer& slot : slots_) bytes += slot.bytes();
  return bytes;
}

FlatRange MomentStream::block_at(std::int64_t block) const {
  const std::int64_t begin = block * options_.block_elements;
  return {begin, std::min(elements_, begin + options_.block_elements)};
}

View MomentStream::moment(std::int64_t block, int which) {
  const std::int64_t size = block_at(block).size();
  const DType dtype = types_[static_cast<std::size_t>(which) + 1];
  std::byte* first = slots_[block % slots_count].data();
  return View(which == 0 ? first : first + moment_bytes(types_[1], size), dtype, Shape{size});
}

// Whole pages, also of the last block: what is behind it belongs to nobody.
Status MomentStream::move(std::int64_t block, bool in) {
  for (int which = 0; which < 2; ++which) {
    const View values = moment(block, which);
    const std::int64_t begin = (which == 0 ? 0 : second_begin()) + block_at(block).begin * dtype_bytes(values.dtype());
    const std::span<std::byte> bytes(static_cast<std::byte*>(values.data()),
                                     static_cast<std::size_t>(whole_pages(values.bytes())));
    LH_CHECK(in ? place_.fetch(begin, bytes) : place_.store(begin, bytes));
  }
  return {};
}

Status MomentStream::move_all(const std::atomic<bool>& cancelled) {
  const std::int64_t count = blocks();
  std::int64_t read = 0, written = 0;
  while (written < count) {
    if (read < count && read - written < slots_count) {
      LH_CHECK(move(read, true));
      const std::lock_guard lock(mutex_);
      read_ = ++read;
      changed_.notify_all();
      continue;
    }
    std::unique_lock lock(mutex_);
    while (used_ <= written) {
      if (cancelled.load(std::memory_order_relaxed)) return make_error(ErrorCode::aborted, "the update was given up");
      changed_.wait_for(lock, std::chrono::milliseconds(20));
    }
    lock.unlock();
    LH_CHECK(move(written, false));
    ++written;
  }
  return {};
}

Status MomentStream::wait_for(std::int64_t block) {
  const Deadline deadline(clock_, options_.deadline_ms);
  std::unique_lock lock(mutex_);
  while (read_ <= block) {
    if (job_.done()) return job_.take();  // it failed: it ends no sooner
    if (deadline.passed())
      return make_error(ErrorCode::timeout, format("moments of the optimizer are not there after {} s: block {} of {}",
                                                   options_.deadline_ms / 1000, block, blocks()));
    changed_.wait_for(lock, std::chrono::milliseconds(20));
  }
  return {};
}

Status MomentStream::pass(const std::function<void(FlatRange block, View exp_avg, View exp_avg_sq)>& use) {
  read_ = used_ = 0;
  job_.start([this](const std::atomic<bool>& cancelled) { return move_all(cancelled); });
  for (std::int64_t block = 0; block < blocks(); ++block) {
    LH_CHECK(wait_for(block));
    use(block_at(block), moment(block, 0), moment(block, 1));
    const std::lock_guard lock(mutex_);
    used_ = block + 1;
    changed_.notify_all();
  }
  LH_CHECK(job_.wait(clock_, options_.deadline_ms));
  return job_.take();
}

}  // namespace longhaul
