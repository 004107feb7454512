#include "orchestrator/controller/checkpoint_forecast.h"

#include "base/text.h"

namespace longhaul {
namespace {

double moment_bytes(const OptimizerSettings& optimizer) {
  if (optimizer.moments == "bf16") return 4;
  return optimizer.moments == "mixed" ? 6 : 8;
}

}  // namespace

CheckpointForecast checkpoint_forecast(const ModelShape& shape, const OptimizerSettings& optimizer,
                                       const SiteConfig& site, int nodes) {
  CheckpointForecast f;
  f.bytes = static_cast<double>(shape.parameter_count()) * (4 + moment_bytes(optimizer));
  const double storage = site.network.storage_write_gbyte;
  const double cards = nodes * site.network.nics * site.network.nic_gbit / 8;
  if (storage <= 0 && cards <= 0) return f;
  const bool by_storage = cards <= 0 || (storage > 0 && storage <= cards);
  const double rate = by_storage ? storage : cards;
  f.seconds = f.bytes / (rate * 1e9);
  f.from = by_storage ? format("the site's storage, {:.0f} GB/s", storage)
                      : format("the network cards of {} node{}, {:.0f} GB/s", nodes, nodes == 1 ? "" : "s", cards);
  return f;
}

std::string checkpoint_text(const CheckpointForecast& f) {
  const std::string bytes = "a checkpoint is " + human_bytes(f.bytes);
  if (f.seconds <= 0) return bytes + "; the site does not say how fast its storage is (network.storage_write_gbyte)";
  return bytes + format(", written in {} at best, by {}", human_duration(f.seconds), f.from);
}

}  // namespace longhaul
