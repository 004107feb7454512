// What a training's checkpoints weigh, and how long they take until they are durable: the site's storage and the
// network cards of the job's nodes say how fast they can be written at best. Pure arithmetic.
#pragma once

#include <string>

#include "contracts/model/model_shape.h"
#include "contracts/settings/training/training.h"
#include "orchestrator/site/site_config.h"

namespace longhaul {

struct CheckpointForecast {
  double bytes = 0;    // of one: f32 masters and the moments, each once, however they are shared out
  double seconds = 0;  // until it is written, nothing else using the storage; 0: the site says neither of the two rates
  std::string from;    // "the site's storage, 1980 GB/s"; empty with 0 seconds
  double read_seconds = 0;  // that a job which goes on reads it in, the same way; 0: not known
};
// Of a parameter, both moments.
double moment_bytes(const OptimizerSettings& optimizer);
CheckpointForecast checkpoint_forecast(const ModelShape& shape, const OptimizerSettings& optimizer,
                                       const SiteConfig& site, int nodes);
// In a sentence; for a site without a rate it names the key that would say it.
std::string checkpoint_text(const CheckpointForecast& forecast);

}  // namespace longhaul
