#pragma once

#include "contracts/schema/field_table.h"

namespace longhaul {

struct CheckpointSettings {
  std::int64_t every_steps = 0;  // 0: only at the end
  int keep_last = 2;
  std::int64_t keep_every = 0;  // steps; 0: none for that
  int keep_best = 0;
  bool asynchronous = true;            // the training goes on while a checkpoint is written
  bool direct_io = true;               // past the page cache
  ByteCount staging_limit;             // of a rank's copy of its share; 0: as much as it needs
  std::int64_t local_every_steps = 0;  // copies on the nodes; 0: none
  std::string local_dir;
  bool in_process = true;           // faults that all ranks survive need no new processes
  std::int64_t snapshot_every = 1;  // steps between copies in memory for it; 0: none
  bool at_end = true;               // false, for measurements: no last checkpoint, held-out loss or model
};
const FieldTable<CheckpointSettings>& checkpoint_fields();

}  // namespace longhaul
