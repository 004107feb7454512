// The two moments of a rank's weights in a place outside of memory (optimizer_state_place.h), and their way through a
// few buffers beside the update: while AdamW works on one block, a thread reads the next and writes the last one back.
#pragma once

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>

#include "base/system/clock.h"
#include "engine/checkpoint/format/page_buffer.h"
#include "engine/checkpoint/global/background_job.h"
#include "engine/checkpoint/state/training_state.h"

namespace longhaul {

struct MomentStreamOptions {
  std::int64_t block_elements = std::int64_t{1} << 20;  // a multiple of 2048, so that blocks are whole pages
  std::int64_t deadline_ms = 600'000;                   // of every wait for a block
  MemoryAccount* account = nullptr;                     // of the buffers
};

class MomentStream {
 public:
  // How much a place must have for so many elements of each moment.
  static std::int64_t bytes_for(const StateTypes& types, std::int64_t elements);
  // The place is borrowed and must have bytes_for() of them. ErrorCode::unavailable: no memory for the buffers.
  static Result<std::unique_ptr<MomentStream>> create(OptimizerStatePlace& place, const StateTypes& types,
                                                      std::int64_t elements, const MomentStreamOptions& options = {});

  // use(block, its first moments, its second moments) for one block after the other, on this thread; what it leaves in
  // the views is written back. After an error the moments are partly those before and partly those after.
  Status pass(const std::function<void(FlatRange block, View exp_avg, View exp_avg_sq)>& use);

  // While no pass is under way.
  StateArray exp_avg() { return {place_, 0, types_[1], elements_}; }
  StateArray exp_avg_sq() { return {place_, second_begin(), types_[2], elements_}; }
  std::int64_t staging_bytes() const;

 private:
  static constexpr std::int64_t slots_count = 3;  // one that is computed with, one to come, one to go
  MomentStream(OptimizerStatePlace& place, const StateTypes& types, std::int64_t elements,
               const MomentStreamOptions& options)
      : place_(place), types_(types), elements_(elements), options_(options) {}
  std::int64_t second_begin() const;
  std::int64_t blocks() const { return (elements_ + options_.block_elements - 1) / options_.block_elements; }
  FlatRange block_at(std::int64_t block) const;
  View moment(std::int64_t block, int which);  // in its slot
  Status move(std::int64_t block, bool in);
  Status move_all(const std::atomic<bool>& cancelled);  // the thread
  // Until the block is there.
  Status wait_for(std::int64_t block);

  OptimizerStatePlace& place_;
  StateTypes types_;
  std::int64_t elements_;
  MomentStreamOptions options_;
  SystemClock clock_;
  PageBuffer slots_[slots_count];
  // How many blocks of the pass have been read and computed with.
  std::mutex mutex_;
  std::condition_variable changed_;
  std::int64_t read_ = 0, used_ = 0;
  BackgroundJob job_;  // last: its thread ends before what it works on
};

}  // namespace longhaul
