// What golden files of trainings say of their optimizer ("adamw": lr, betas, eps, weight_decay, clip_grad).
#pragma once

#include "base/value/value.h"
#include "engine/train/step/trainer.h"

namespace longhaul {

// `sequences`: samples of a step, which is one micro-batch.
inline TrainerOptions golden_options(const Value& adamw, std::int64_t steps, std::int64_t sequences) {
  TrainerOptions options;
  options.optimizer.lr = adamw.get_number("lr"), options.optimizer.eps = adamw.get_number("eps");
  options.optimizer.beta1 = adamw.find("betas")->as_array()[0].as_number();
  options.optimizer.beta2 = adamw.find("betas")->as_array()[1].as_number();
  options.optimizer.weight_decay = adamw.get_number("weight_decay");
  options.optimizer.clip_grad = adamw.get_number("clip_grad");
  options.optimizer.lr_schedule = "constant", options.optimizer.warmup_steps = 0;
  options.steps = steps;
  options.global_batch_size = options.micro_batch_size = sequences;
  return options;
}

}  // namespace longhaul
