#include "engine/model/experts/routed_rows.h"

#include <utility>

#include "engine/core/tensor/transfer.h"

namespace longhaul {

void RoutedRows::set(const ComputeContext& context, DispatchPlan plan, ExpertExchange& exchange) {
  plan_ = std::move(plan);
  route_ = exchange.route(plan_.offsets);
  of_device_ = false;
  if (context.device() != nullptr) place(context);
}

// Copies of the plan and of every rank's offsets, two in all.
void RoutedRows::place(const ComputeContext& context) {
  there_.tokens = plan_.tokens, there_.top_k = plan_.top_k, there_.experts = plan_.experts, there_.rows = plan_.rows();
  std::vector<std::int32_t> ints = plan_.row_slot;
  ints.insert(ints.end(), plan_.row_token.begin(), plan_.row_token.end());
  ints.insert(ints.end(), plan_.slot_row.begin(), plan_.slot_row.end());
  std::vector<std::int64_t> offsets = plan_.offsets;
  for (const std::vector<std::int64_t>& of_rank : route_.offsets)
    offsets.insert(offsets.end(), of_rank.begin(), of_rank.end());
  const std::span<std::int32_t> ints_there = ints_.take(static_cast<std::int64_t>(ints.size()));
  const std::span<std::int64_t> all = offsets_.take(static_cast<std::int64_t>(offsets.size()));
  copy_in(context, ConstView(std::span<const std::int32_t>(ints)), View(ints_there));
  const auto bytes = [](auto span) { return Shape{static_cast<std::int64_t>(span.size_bytes())}; };
  copy_in(context, ConstView(offsets.data(), DType::u8, bytes(std::span(offsets))),
          View(all.data(), DType::u8, bytes(all)));
  const auto rows = static_cast<std::size_t>(there_.rows);
  there_.row_slot = ints_there.first(rows), there_.row_token = ints_there.subspan(rows, rows);
  there_.slot_row = ints_there.subspan(2 * rows);
  there_.offsets = all.first(plan_.offsets.size());
  offsets_there_.clear();
  std::size_t at = plan_.offsets.size();
  for (const std::vector<std::int64_t>& of_rank : route_.offsets) {
    offsets_there_.push_back(all.subspan(at, of_rank.size()));
    at += of_rank.size();
  }
}

void RoutedRows::make_there(const ComputeContext& context, std::int64_t tokens, std::int64_t top_k,
                            std::int64_t experts, std::span<const std::int32_t> ids, std::span<const float> weights,
                            const CapacityRule* rule) {
  of_device_ = true;
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
  if (of_device_) return {0, there_.rows, there_.offsets};
  const auto r = static_cast<std::size_t>(rank);
  const bool placed = there_.tokens > 0;
  return {route_.received_from[r], route_.received_from[r + 1],
          placed ? offsets_there_[r] : std::span<const std::int64_t>(route_.offsets[r])};
}

std::int64_t RoutedRows::host_bytes() const {
  return bytes_of_vector(plan_.row_slot) + bytes_of_vector(plan_.row_token) + bytes_of_vector(plan_.slot_row);
}

}  // namespace longhaul
