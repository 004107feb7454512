#include "engine/model/experts/moe_state.h"

#include <algorithm>
#include <numeric>

#include "engine/core/device/device.h"

namespace longhaul {

MoeState::MoeState(const ModelShape& shape, const MoeSettings& settings, Mesh* mesh, int slots, MemoryAccount* account)
    : gradients(account),
      again(account),
      scratch(account),
      settings_(settings),
      exchange_(mesh ? ExpertExchange(*mesh, account) : ExpertExchange()),
      account_(account),
      layers_(shape.num_hidden_layers),
      totals_(account) {
  terms_.experts = shape.num_local_experts, terms_.top_k = shape.num_experts_per_tok;
  terms_.balance_coefficient = settings.balance == "aux" ? settings.aux_loss_coef : 0;
  terms_.definition = pools() ? BalanceLoss::hugging_face : BalanceLoss::megatron;
  terms_.z_coefficient = settings.z_loss_coef;
  for (int slot = 0; slot < slots; ++slot) pooled_.emplace_back(account).take(2 * terms_.experts + 2);
  totals_.take(layers_ * (terms_.experts + 2));  // zeros
}

std::span<float> MoeState::totals(std::int64_t layer) {
  const auto width = static_cast<std::size_t>(terms_.experts + 2);
  return totals_.span().subspan(static_cast<std::size_t>(layer) * width, width);
}

MoeTotals MoeState::take_totals() {
  MoeTotals taken{layers_, terms_.experts, std::vector<float>(totals_.span().size())};
  const std::span<float> all = totals_.span();
  if (Device* device = account_ ? account_->device : nullptr) {
    const auto bytes = static_cast<std::int64_t>(all.size_bytes());
    device->copy_out(all.data(), taken.values.data(), bytes);
    device->zero(all.data(), bytes);
  } else {
    std::copy(all.begin(), all.end(), taken.values.begin());
    std::fill(all.begin(), all.end(), 0.0F);
  }
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
