// Where the rows of a micro-batch go: to which expert, and on which rank it is. Two kinds:
//   of the host  the plan and the ways between ranks are the host's; a device gets copies of what its operations read
//   of a device  that has all experts: arrays in its memory that the host never looks at
#pragma once

#include <span>
#include <vector>

#include "engine/core/tensor/placed_array.h"
#include "engine/ops/experts/moe_dispatch.h"
#include "engine/parallel/expert/expert_exchange.h"

namespace longhaul {

class RoutedRows {
 public:
  // Rows of the experts here that came from one rank.
  struct Source {
    std::int64_t begin = 0, end = 0;
    std::span<const std::int64_t> offsets;
    std::int64_t rows() const { return end - begin; }
  };

  explicit RoutedRows(MemoryAccount* account) : ints_(account), offsets_(account) {}

  void set(const ComputeContext& context, DispatchPlan plan, ExpertExchange& exchange);
  // On the context's device; rule: null: no row is dropped.
  void make_there(const ComputeContext& context, std::int64_t tokens, std::int64_t top_k, std::int64_t experts,
                  std::span<const std::int32_t> ids, std::span<const float> weights, const CapacityRule* rule);

  DispatchView plan() const { return there_.tokens > 0 ? there_.view() : DispatchView(plan_); }
  const ExpertRoute& route() const { return route_; }  // of the host
  // That experts here work on; of a plan of the device's, at most.
  std::int64_t rows() const { return of_device_ ? there_.rows : route_.rows(); }
  Source from(int rank) const;
  std::int64_t host_bytes() const;

 private:
  void place(const ComputeContext& context);

  bool of_device_ = false;
  DispatchPlan plan_;
  ExpertRoute route_;
  std::vector<std::span<const std::int64_t>> offsets_there_;  // of each rank's rows, on a device
  PlacedArray<std::int32_t> ints_;
  PlacedArray<std::int64_t> offsets_;
  DispatchArrays there_;
};

}  // namespace longhaul
