#include "orchestrator/forecast/checkpoint_forecast.h"

#include <algorithm>

#include "base/text/text.h"

namespace longhaul {
namespace {

// Of two rates, 0 where one is not known.
double slower_of(double storage, double cards) {
  if (storage <= 0 || cards <= 0) return std::max(storage, cards);
  return std::min(storage, cards);
}

}  // namespace

double moment_bytes(const OptimizerSettings& optimizer) {
  if (optimizer.moments == "bf16") return 4;
  return optimizer.moments == "mixed" ? 6 : 8;
}

CheckpointForecast checkpoint_forecast(const ModelShape& shape, const OptimizerSettings& optimizer,
                                       const SiteConfig& site, int nodes) {
  CheckpointForecast f;
  f.bytes = static_cast<double>(shape.parameter_count()) * (4 + moment_bytes(optimizer));
  const double cards = nodes * site.network.nics * site.network.nic_gbit / 8;
  const double writes = slower_of(site.network.storage_write_gbyte, cards);
  if (const double reads = slower_of(site.network.storage_read_gbyte, cards); reads > 0)
    f.read_seconds = f.bytes / (reads * 1e9);
  if (writes <= 0) return f;
  f.seconds = f.bytes / (writes * 1e9);
  f.from = writes == site.network.storage_write_gbyte
               ? format("the site's storage, {:.3g} GB/s", writes)
               : format("the network cards of {} node{}, {:.3g} GB/s", nodes, nodes == 1 ? "" : "s", writes);
  return f;
}

std::string checkpoint_text(const CheckpointForecast& f) {
  const std::string bytes = "a checkpoint is " + human_bytes(f.bytes);
  if (f.seconds <= 0) return bytes + "; the site does not say how fast its storage is (network.storage_write_gbyte)";
  return bytes + format(", written in {} at best, by {}", human_duration(f.seconds), f.from);
}

}  // namespace longhaul
