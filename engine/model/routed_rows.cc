#include "engine/model/routed_rows.h"

#include <utility>

namespace longhaul {

void RoutedRows::set(DispatchPlan plan, ExpertExchange& exchange) {
  plan_ = std::move(plan);
  route_ = exchange.route(plan_.offsets);
}

void RoutedRows::make_there(const ComputeContext& context, std::int64_t tokens, std::int64_t top_k,
                            std::int64_t experts, std::span<const std::int32_t> ids, std::span<const float> weights,
                            const CapacityRule* rule) {
  there_.tokens = tokens, there_.top_k = top_k, there_.experts = experts;
  there_.rows = dispatch_rows_max(tokens, top_k, experts, rule);
  there_.offsets = offsets_.take(experts + 1);
  const auto rows = static_cast<std::size_t>(there_.rows);
  const std::span<std::int32_t> ints = ints_.take(2 * there_.rows + tokens * top_k);
  there_.row_slot = ints.first(rows), there_.row_token = ints.subspan(rows, rows);
  there_.slot_row = ints.subspan(2 * rows);
  moe_dispatch_into(context, ids, weights, rule, there_);
}

RoutedRows::Source RoutedRows::from(int rank) const {
  if (there_.tokens > 0) return {0, there_.rows, there_.offsets};
  const auto r = static_cast<std::size_t>(rank);
  return {route_.received_from[r], route_.received_from[r + 1], route_.offsets[r]};
}

std::int64_t RoutedRows::host_bytes() const {
  return bytes_of_vector(plan_.row_slot) + bytes_of_vector(plan_.row_token) + bytes_of_vector(plan_.slot_row);
}

}  // namespace longhaul
