// What a training loop keeps in a checkpoint's extra table, beside what contracts/records/checkpoint_format.h names.
#pragma once

namespace longhaul {

inline constexpr const char* ordered_lr_key = "ordered_lr";        // the peak that an order set
inline constexpr const char* spikes_key = "spikes";                // SpikeGuard::state
inline constexpr const char* low_precision_key = "low_precision";  // LowPrecisionState::state
inline constexpr const char* skipped_key = "skipped_samples";      // left out by rollbacks

}  // namespace longhaul
