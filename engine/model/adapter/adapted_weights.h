// Room engine/model/adapter
// Adapters that are trained: what they make of a model's weights, and their gradients out of the weights'.
// adapted_weights.h is both; the formulas of the kinds stand in contracts/model/adapter_shape.h.
// It knows stores of parameters only, neither layers nor the trainer: a model asks its store for weights as always.
//
// A model whose weights stay as they are while an adapter of it is trained (contracts/model/adapter_shape.h). The model
// computes with W'; its backward gives dW', from which the adapter's gradients follow:
//   lora  dA = s B^T dW', dB = s dW' A^T; of a table of tokens dA = s (dW' B)^T, dB = s (A dW')^T
//   dora  with V = W + s B A and n its rows' norms: dm = rows' sums of dW' V / n, and dA, dB as above of (m / n) dW'
//   ia3   dl = rows' (columns') sums of dW' W
//   p-tuning  through the encoder (prompt_encoder.h)
// Where lora's input drops, the model computes the rest of y itself and says what dW' would be were it of W + s B A
// alone (engine/model/layers/adapter_dropout.h): then the same two formulas are right.
// W' is made a block (or its experts) at a time where it is used, and dW' is kept until its matrix is done: neither is
// there for the whole model. A table, or what follows the blocks, has memory of its own size for W'. Where W is held in
// codes, it is widened there, adapted or not. What is trained itself (a table, a norm) takes the place of W, and dW' is
// its gradient. Where matrices are split over tp, an expert's over etp, a matrix of the adapter that every rank of the
// group has whole gets an addend of its gradient on each (partial_gradients), and where a rank has some columns of a
// matrix, the norms of dora's rows are sums over the group: all of its ranks have to ask for the same weights in the
// same order. Where micro-batches that meet in an expert are kept apart, so are the adapter's gradients, one after the
// other out of the same memory. One thread.
#pragma once

#include <functional>
#include <utility>
#include <vector>

#include "engine/model/adapter/adapted_place.h"
#include "engine/model/adapter/adapter_windows.h"
#include "engine/model/store/gradient_target.h"
#include "engine/model/store/parameter_store.h"
#include "engine/parallel/mesh/mesh.h"

namespace longhaul {

class AdaptedWeights final : public WeightSource {
 public:
  // `base`: frozen, and adapted by this as long as it lives. `trained`: in f32, the same shape with its adapter, at the
  // same place of the mesh. With dora and tp or etp `mesh` adds up norms; null: one rank. All borrowed.
  AdaptedWeights(const ComputeContext& context, ParameterStore& base, ParameterStore& trained, MemoryAccounts* memory,
                 Mesh* mesh = nullptr);
  ~AdaptedWeights() override;
  AdaptedWeights(const AdaptedWeights&) = delete;
  AdaptedWeights& operator=(const AdaptedWeights&) = delete;

  // The adapter as it begins, which changes nothing of the model: random A, B = 0 (of a table the other way), l = 1, m
  // the norms of W's rows, and what is trained itself as it stands in the base. After the base has its weights;
  // collective with dora and tp, etp or ZeRO 3.
  void initialize(std::uint64_t seed);

  ConstView weights(std::int64_t begin, std::int64_t elements) override;
  LowRankDropout dropout() const override { return dropout_; }
  std::vector<LowRankMatrix> dropping(std::int64_t begin, std::int64_t end) override;
  Status status() const override { return status_; }
  // Over the communicators that the mesh has now: what went wrong with those before is over. With ZeRO 3 the base's
  // weights are gathered over them, as ParameterStore::connect says, until disconnect().
  void connect(Mesh& mesh, bool overlap, std::function<void()> before_large);
  void disconnect() { base_.disconnect(); }
  UnitGather* gather() const { return base_.gather(); }  // of the base's weights
  // Where a backward of the model writes so that `trained` gets the adapter's gradients.
  GradientTarget target(GradientTarget trained);
  // Flat ranges of the adapter's gradient of which each rank of a tp group has an addend; of experts, of an etp group.
  std::vector<std::pair<std::int64_t, std::int64_t>> partial_gradients(bool of_experts) const;

 private:
  using Place = AdaptedPlace;
  int unit_at(std::int64_t begin) const;
  std::span<const Place> places_of(int unit) const;
  std::span<const Place> places_in(std::int64_t begin, std::int64_t end) const;  // those that begin there
  float* gradient_at(std::int64_t begin);  // of the element at `begin`, in the memory of its unit's
  bool is_made(int unit) const;            // adapted, or held in codes
  ConstView window_of(int unit);
  void begin_as_base();
  void make(const Place& place, View out);
  void make_table(const Place& place, View out);
  // W + s B A in f32 [out, in], in the scratch memory; W alone with ia3.
  View sum_of(const Place& place);
  std::span<const float> factors_of(const Place& place) const;
  // With dora: `out` numbers behind the sum in the scratch memory, twice (which: 0, 1).
  std::span<float> numbers_of_rows(const Place& place, int which);
  // Of the rows of the sum, of which tp may have left this rank some columns, the squares of their norms: the first of
  // these numbers; and what dora multiplies each row by: the second.
  std::span<const float> squares_of(const Place& place, ConstView sum);
  std::span<const float> lengths_over_norms(const Place& place, std::span<const float> squares);
  // From dW' of the matrices that begin in [begin, end), which may be changed.
  void project_all(std::int64_t begin, std::int64_t end, const GradientTarget& trained);
  void project(const Place& place, View gradient, const GradientTarget& trained);
  void project_magnitude(const Place& place, View gradient, const GradientTarget& trained);
  void project_scale(const Place& place, View gradient, const GradientTarget& trained);

  const ComputeContext& context_;
  ParameterStore& base_;
  ParameterStore& trained_;
  Mesh* mesh_;
  Status status_;
  AdapterShape adapter_;
  LowRankDropout dropout_;
  std::vector<Place> places_;             // in the order of the base
  std::vector<std::size_t> first_place_;  // of each unit; and the end
  AdapterWindows windows_;
  // f32: of the largest matrix that is adapted, with dora's numbers of its rows; of the largest block or table.
  Tensor scratch_, gradient_;
};

}  // namespace longhaul
