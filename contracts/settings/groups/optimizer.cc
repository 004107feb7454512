#include "contracts/settings/groups/optimizer.h"

#include "base/text/text.h"

namespace longhaul {

const FieldTable<OptimizerSettings>& optimizer_fields() {
  using O = OptimizerSettings;
  static const auto table =
      FieldTable<O>()
          .field("lr", &O::lr, {.help = "highest learning rate", .min = 0})
          .field("lr_min_ratio", &O::lr_min_ratio,
                 {.help = "smallest learning rate of the decay, as a share of lr", .min = 0, .max = 1})
          .field("warmup_steps", &O::warmup_steps, {.unit = "steps", .help = "linear warm-up", .min = 0, .max = 1e12})
          .field("lr_start_ratio", &O::lr_start_ratio,
                 {.help = "learning rate from which the warm-up rises, as a share of lr", .min = 0, .max = 1})
          .field("lr_schedule", &O::lr_schedule,
                 {.help = "shape of the decay after the warm-up; wsd holds lr and decays at the end only",
                  .choices = {"cosine", "linear", "inverse_sqrt", "wsd", "constant"}})
          .field("lr_decay_steps", &O::lr_decay_steps,
                 {.unit = "steps",
                  .help = "wsd: length of the decay at the end; 0 takes a tenth of the steps",
                  .min = 0,
                  .max = 1e12})
          .field("lr_decay_shape", &O::lr_decay_shape,
                 {.help = "wsd: shape of the decay at the end",
                  .choices = {"linear", "cosine", "one_minus_sqrt", "exponential"}})
          .field("rewarm_after", &O::rewarm_after,
                 {.unit = "steps",
                  .help = "continued pretraining: after this step the schedule begins again, over the steps that are "
                          "left; 0 never",
                  .min = 0,
                  .max = 1e12})
          .field("rewarm_steps", &O::rewarm_steps,
                 {.unit = "steps", .help = "warm-up of the schedule that begins again", .min = 0, .max = 1e12})
          .field("beta1", &O::beta1, {.help = "AdamW: decay of the first moment", .min = 0, .max = 1})
          .field("beta2", &O::beta2, {.help = "AdamW: decay of the second moment", .min = 0, .max = 1})
          .field("eps", &O::eps, {.help = "AdamW: added to the root of the second moment", .min = 0})
          .field("weight_decay", &O::weight_decay, {.help = "AdamW: decoupled decay", .min = 0})
          .field(
              "no_decay", &O::no_decay,
              {.help = "weights without decay: \"norms\", \"biases\", \"embeddings\", or names in which * stands for "
                       "anything"})
          .field("clip_grad", &O::clip_grad,
                 {.help = "largest global L2 norm of the gradient; 0 does not clip", .min = 0})
          .field(
              "moments", &O::moments,
              {.help = "what AdamW's two moments are kept in: 8, 4 or (mixed: the first in bf16, the second in f32) 6 "
                       "bytes per weight",
               .choices = {"f32", "bf16", "mixed"}})
          .field("rounding", &O::rounding,
                 {.help = "of bf16 moments: stochastic keeps changes that are too small for nearest, in the mean",
                  .choices = {"nearest", "stochastic"}})
          .field(
              "offload", &O::offload,
              {.help = "where the moments lie while the optimizer does not work: host is the memory of the host (of an "
                       "engine that computes there: where they are anyway); node_local a file of each rank on the "
                       "disk of its node, in offload_dir",
               .choices = {"none", "host", "node_local"},
               .speed_only = true})
          .field("offload_dir", &O::offload_dir,
                 {.help = "folder on every node for offload = \"node_local\", for example /local/scratch",
                  .speed_only = true});
  return table;
}

Status check_lr_schedule(const OptimizerSettings& settings, std::int64_t steps) {
  const OptimizerSettings& s = settings;
  if (s.lr_decay_steps > 0 && s.lr_schedule != "wsd")
    return make_error(ErrorCode::invalid_input,
                      format("optimizer.lr_decay_steps = {} goes with lr_schedule = \"wsd\", not with \"{}\"",
                             s.lr_decay_steps, s.lr_schedule),
                      "leave lr_decay_steps out; the other schedules decay from the warm-up to the last step");
  if (s.rewarm_steps > 0 && s.rewarm_after == 0)
    return make_error(ErrorCode::invalid_input,
                      format("optimizer.rewarm_steps = {} without rewarm_after", s.rewarm_steps),
                      "rewarm_after names the step after which the schedule begins again");
  if (steps == 0) return {};
  if (s.rewarm_after >= steps)
    return make_error(ErrorCode::invalid_input,
                      format("optimizer.rewarm_after = {} leaves nothing of steps = {}", s.rewarm_after, steps),
                      "steps counts from the very first step, also of a training that goes on");
  // Each run of the schedule: its steps, its warm-up.
  const auto fits = [&](const char* steps_key, std::int64_t length, const char* warmup_key, std::int64_t warmup) {
    if (warmup + s.lr_decay_steps <= length) return Status();
    return Status(
        make_error(ErrorCode::invalid_input,
                   format("optimizer.{} = {} and optimizer.lr_decay_steps = {} together are longer than {} = {}",
                          warmup_key, warmup, s.lr_decay_steps, steps_key, length),
                   "shorten one of them"));
  };
  if (s.lr_decay_steps == 0) return {};
  if (s.rewarm_after == 0) return fits("steps", steps, "warmup_steps", s.warmup_steps);
  LH_CHECK(fits("rewarm_after", s.rewarm_after, "warmup_steps", s.warmup_steps));
  return fits("steps - rewarm_after", steps - s.rewarm_after, "rewarm_steps", s.rewarm_steps);
}

Status check_moments(const OptimizerSettings& settings) {
  if (settings.rounding == "stochastic" && settings.moments == "f32")
    return make_error(ErrorCode::invalid_input,
                      "optimizer.rounding = \"stochastic\" with moments = \"f32\": nothing is rounded",
                      "set optimizer.moments = \"bf16\" or \"mixed\", or leave rounding out");
  const bool node_local = settings.offload == "node_local";
  if (node_local && settings.offload_dir.empty())
    return make_error(ErrorCode::invalid_input, "optimizer.offload = \"node_local\" without offload_dir",
                      "name a folder that is there on every node");
  if (!node_local && !settings.offload_dir.empty())
    return make_error(
        ErrorCode::invalid_input,
        format("optimizer.offload_dir goes with offload = \"node_local\", not with \"{}\"", settings.offload),
        "leave offload_dir out");
  return {};
}

}  // namespace longhaul
