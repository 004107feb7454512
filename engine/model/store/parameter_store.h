// Room engine/model/store
// All weights of one rank in flat memory, and how they come from and go to a model folder.
// parameter_store.h is the memory; unit_gather.h gathers shared weights; gradient_target.h takes gradients.
// model_folder.h and stored_tensors.h read and write Hugging Face's layout.
// It knows names and shapes only, not what a layer computes with them.
//
// All weights of one rank in flat memory, in the order of contracts/model/parameter_list.h: f32 masters, and for bf16
// compute a bf16 copy. Because q, k, v (and gate, up) follow each other without gaps, a block's fused [q + 2 kv,
// hidden] and [2 ffn, hidden] matrices are simply ranges of the flat array; the names and checkpoints stay unfused.
//
// With ZeRO a rank has masters of its share only (layout().owned()), and the compute weights of all units come from the
// shares of all (unit_gather.h): kept whole with ZeRO 1 and 2, a few units at a time with ZeRO 3.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "engine/core/tensor/compute_context.h"
#include "engine/core/tensor/memory_accounts.h"
#include "engine/model/store/block_codes.h"
#include "engine/model/store/unit_gather.h"
#include "engine/model/store/weight_source.h"

namespace longhaul {

class ParameterStore {
 public:
  // compute: f32 (the masters are the compute weights) or bf16.
  ParameterStore(const ModelShape& shape, DType compute, MemoryAccounts* memory = nullptr, const MeshPlace& place = {});
  // Weights that nobody trains: they are kept as they compute, without masters, whole on every rank of a replica, or
  // with ZeRO 3 shared; with another `format` than "full" (contracts/model/coded_weights.h) matrices of the blocks are
  // codes, shared as well, and only whoever adapts the store widens them.
  static ParameterStore frozen(const ModelShape& shape, DType compute, MemoryAccounts* memory, MeshPlace place,
                               const std::string& format = "full");

  const ModelShape& shape() const { return shape_; }
  const ParameterLayout& layout() const { return layout_; }
  DType compute_dtype() const { return compute_dtype_; }

  // Packed as layout().owned(): without ZeRO the flat order itself.
  std::span<float> masters() { return master_.span<float>(); }
  std::span<const float> masters() const { return master_.span<float>(); }
  // Where masters and weights lie; null: the host's memory.
  Device* device() const;
  // Of the same elements, the bf16 copy; empty in f32: that is what adamw_update wants.
  View compute_copy() { return compute_dtype_ == DType::f32 ? View() : compute_.view(); }
  // Compute weights [begin, begin + rows * columns) of the flat order as a matrix; with ZeRO 3 until other units were
  // used (UnitGather::require).
  ConstView weight(std::int64_t begin, std::int64_t rows, std::int64_t columns) const;
  ConstView vector(std::int64_t begin, std::int64_t elements) const;
  // The same as it is kept, without what an adapter makes of it. Not of codes. Collective with ZeRO.
  ConstView kept(std::int64_t begin, std::int64_t elements) const;
  // Whole parameters of one unit, or parts of what has no codes, as they are kept, in f32 or in the type that computes.
  // Collective with ZeRO.
  void widen(const ComputeContext& context, FlatRange flat, View out) const;
  bool has_codes_in(FlatRange flat) const { return codes_ && codes_->has_any_in(flat); }
  // From now on weight() and vector() are those that the adapter makes (engine/model/adapter). Borrowed; null: none.
  void adapt(WeightSource* adapted) { adapted_ = adapted; }
  bool is_adapted() const { return adapted_ != nullptr; }
  // Grows with every change of the weights.
  std::int64_t version() const { return version_; }

  // Writes all values of this rank's box of a parameter, wherever they are kept here. Not collective, but waits for
  // what is being gathered of the weights; what was gathered has the old values until the next step begins.
  void put(const ComputeContext& context, const FlatParameter& parameter, std::span<const float> box);
  // All of the flat array, to be written where it lies: of weights that nobody trains, whole and in no codes.
  View frozen_weights();
  // Masters to compute copy, after the masters were written from outside (a checkpoint). Collective with ZeRO, once
  // connected.
  void refresh_compute_copy(const ComputeContext& context);

  // With ZeRO: the ranks to gather weights with, before anything is computed. Does nothing else, and nothing without.
  // before_large: UnitGather's.
  void connect(Mesh& mesh, bool overlap = true, std::function<void()> before_large = {});
  // Nothing is gathered from other ranks any more, until the store is connected again.
  void disconnect() { gather_.reset(); }
  // Can every rank's weights be asked for?
  bool is_connected() const { return layout_.place().dims.zero < 3 || gather_ != nullptr; }
  // The optimizer has changed masters and compute_copy().
  void shares_changed();
  // Gathers weights from other ranks: finish() waits for what is under way, poll() lets it go on. Null: nothing does.
  UnitGather* gather() const { return gather_.get(); }
  // What went wrong between the ranks; nothing of the weights is of use then.
  Status status() const {
    if (adapted_) LH_CHECK(adapted_->status());
    return gather_ ? gather_->status() : Status();
  }

 private:
  bool shares() const { return layout_.place().dims.zero > 0; }
  const Tensor& own_weights() const { return compute_dtype_ == DType::f32 ? master_ : compute_; }
  // What this rank has: elements, or bytes with codes, of which the second are all of a unit.
  ConstView share() const { return codes_ ? codes_->bytes() : own_weights().view(); }
  ConstView unit_of_codes(FlatRange flat) const;
  // A box on the host, into [begin, end) of weights as they compute.
  void put_as_computed(const ComputeContext& context, std::span<const float> box, View weights);
  ParameterStore(const ModelShape& shape, DType compute, MemoryAccounts* memory, const MeshPlace& place, bool frozen,
                 const std::string& format);
  void put_frozen(const ComputeContext& context, const FlatParameter& parameter, std::span<const float> box);

  ModelShape shape_;
  ParameterLayout layout_;
  DType compute_dtype_;
  MemoryAccounts* memory_;
  std::unique_ptr<BlockCodes> codes_;  // null: all is kept as it computes
  Tensor master_, compute_;            // of what is owned; empty with codes
  Tensor whole_;                       // ZeRO 1 and 2: the compute weights of all
  std::unique_ptr<UnitGather> gather_;
  bool frozen_;
  WeightSource* adapted_ = nullptr;
  std::int64_t version_ = 0;
};

// Initial values of a box of a parameter, in C order: element i of the global tensor is Philox{seed,
// parameter_stream(name)}.normal(i) * std, or uniform between -bound and bound, so every layout gets the same bits.
void initialize_box(const ComputeContext& context, const ParameterSpec& spec, const Box& box, std::uint64_t seed,
                    std::span<float> out);
// All masters, and the compute copy.
void initialize_parameters(const ComputeContext& context, ParameterStore& store, std::uint64_t seed);

}  // namespace longhaul
