#include "engine/model/moe_state.h"

#include <algorithm>
#include <numeric>

namespace longhaul {

MoeState::MoeState(const ModelShape& shape, const MoeSettings& settings, Mesh* mesh, int slots, MemoryAccount* account)
    : gradients(account),
      again(account),
      x32(account),
      router(account),
      bias(account),
      rows(account),
      answers(account),
      activated(account),
      own(account),
      dlogits_x(account),
      settings_(settings),
      top_k_(shape.num_experts_per_tok),
      exchange_(mesh ? ExpertExchange(*mesh) : ExpertExchange()),
      account_(account),
      pooled_(static_cast<std::size_t>(slots), RouterStatistics(shape.num_local_experts)) {
  totals_.layers = shape.num_hidden_layers, totals_.experts = shape.num_local_experts;
  take_totals();
}

RouterLoss MoeState::balance_loss(const RouterStatistics& statistics) const {
  if (settings_.balance != "aux" || settings_.aux_loss_coef == 0) return {};
  return moe_balance_loss(statistics, top_k_, settings_.aux_loss_coef,
                          pools() ? BalanceLoss::hugging_face : BalanceLoss::megatron);
}

RouterLoss MoeState::z_loss(const RouterStatistics& statistics) const {
  return settings_.z_loss_coef == 0 ? RouterLoss() : moe_z_loss(statistics, settings_.z_loss_coef);
}

MoeTotals MoeState::take_totals() {
  MoeTotals taken = totals_;
  totals_.values.assign(static_cast<std::size_t>(totals_.layers * (totals_.experts + 2)), 0.0F);
  return taken;
}

ExpertLoad expert_load(MoeTotals& totals) {
  ExpertLoad load;
  for (std::int64_t layer = 0; layer < totals.layers; ++layer) {
    const std::span<float> counts = totals.counts(layer);
    const double sum = std::accumulate(counts.begin(), counts.end(), 0.0);
    if (!(sum > 0)) continue;
    const double busiest = static_cast<double>(*std::max_element(counts.begin(), counts.end())) /
                           (sum / static_cast<double>(totals.experts));
    load.worst = std::max(load.worst, busiest);
    load.mean += busiest / static_cast<double>(totals.layers);
  }
  return load;
}

}  // namespace longhaul
