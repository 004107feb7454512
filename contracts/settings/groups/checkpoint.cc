#include "contracts/settings/groups/checkpoint.h"

namespace longhaul {

const FieldTable<CheckpointSettings>& checkpoint_fields() {
  using C = CheckpointSettings;
  static const auto table =
      FieldTable<C>()
          .field("every_steps", &C::every_steps,
                 {.unit = "steps",
                  .help = "save a checkpoint this often; 0 only at the end",
                  .min = 0,
                  .speed_only = true})
          .field("keep_last", &C::keep_last, {.help = "older checkpoints are removed", .min = 1, .speed_only = true})
          .field("keep_every", &C::keep_every,
                 {.unit = "steps",
                  .help = "checkpoints of every such step stay for good; 0 none",
                  .min = 0,
                  .max = 1e12,
                  .speed_only = true})
          .field("keep_best", &C::keep_best,
                 {.help = "as many of the smallest held-out loss stay (training loss where none is measured); 0 none",
                  .min = 0,
                  .max = 1e6,
                  .speed_only = true})
          .field(
              "asynchronous", &C::asynchronous,
              {.help = "the training goes on while a copy of it is written; no waits for the disk", .speed_only = true})
          .field("direct_io", &C::direct_io,
                 {.help = "write past the page cache, where the file system can: it costs the training less",
                  .speed_only = true})
          .field("staging_limit", &C::staging_limit,
                 {.help = "largest copy that a rank may hold for asynchronous; where its share is larger the training "
                          "waits for the disk; 0 no limit",
                  .min = 0,
                  .speed_only = true})
          .field(
              "local_every_steps", &C::local_every_steps,
              {.unit = "steps",
               .help = "keep a copy of the state on the nodes this often, each rank's also on its partner's; a restart "
                       "takes the newest good of these and of the checkpoints; needs local_dir; 0 never",
               .min = 0,
               .max = 1e12,
               .speed_only = true})
          .field("local_dir", &C::local_dir,
                 {.help = "folder on every node for those copies: /local/scratch, or in memory /dev/shm",
                  .speed_only = true})
          .field("in_process", &C::in_process,
                 {.help = "a fault that all ranks survive is got over without new processes, where the job's lead "
                          "orders it; no ends the ranks, which are then started again",
                  .speed_only = true})
          .field("snapshot_every", &C::snapshot_every,
                 {.unit = "steps",
                  .help = "for in_process each rank keeps a copy of its state in memory, at most this often and so "
                          "seldom that it costs a hundredth of the time; 0 never, then some faults need new processes",
                  .min = 0,
                  .max = 1e12,
                  .speed_only = true})
          .field("at_end", &C::at_end,
                 {.help = "save the last state, measure the held-out loss and publish the model; no is for "
                          "measurements of time, whose artifact has figures only and is not offered to other runs",
                  .speed_only = true});
  return table;
}

}  // namespace longhaul
