// Several sources of samples as one, by weights. The rule is Megatron-LM's, bit for bit: global sample k is the next
// one of the source that is furthest behind its share,
//
//   argmax over i of  w_i * max(k, 1) - taken_i          the first where several are equal
//
// with taken_i the samples of source i among the first k. So every prefix of the order is as close to the weights as
// whole samples allow, and the order belongs to the weights alone: no random numbers, no stored table. (Drawing a
// source at random for each sample would be simpler still, and leave a rare source short in some stretches.)
//
// taken_i has no closed form. It is counted from the nearest sample before k at which it is known: the one asked for
// last, one of the marks left every `blend_mark_every` samples, or one that a checkpoint brought (`state`, `resume`).
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "engine/data/samples/sample_source.h"

namespace longhaul {

inline constexpr std::int64_t blend_mark_every = 4096;

// Weights > 0 in any scale -> sum 1, with the bits that numpy's division by its sum has.
std::vector<double> normalized_weights(std::vector<double> weights);
// How many samples Megatron-LM asks of a part for a blend of `samples`: its share and 0.5 % more. Its orders depend on
// it.
std::int64_t megatron_part_samples(std::int64_t samples, double normalized_weight);

// Where an order stands: what its next lookups are counted from.
struct BlendState {
  std::int64_t next = 0;            // samples before this one are counted
  std::vector<std::int64_t> taken;  // of each source; the sum is `next`
  bool operator==(const BlendState&) const = default;
};

// Thread-safe.
class BlendOrder {
 public:
  // Weights > 0 in any scale, at least one.
  static Result<BlendOrder> create(const std::vector<double>& weights);

  struct Choice {
    std::size_t source = 0;
    std::int64_t sample = 0;  // of that source
  };
  // Of global sample k >= 0.
  Choice at(std::int64_t k) const;
  // How far it stands after k samples.
  BlendState state(std::int64_t k) const;
  // Makes lookups at and after state.next cheap in a fresh order. ErrorCode::corrupt if the state is of other weights.
  Status resume(const BlendState& state);

  const std::vector<double>& weights() const { return weights_; }  // sum 1

 private:
  BlendOrder() = default;
  // Under the mutex: `last` to sample k; and its next choice.
  const BlendState& move_to(std::int64_t k) const;
  std::size_t step() const;

  std::vector<double> weights_;
  struct Known {
    std::mutex mutex;
    BlendState last;  // the one asked for last
    std::map<std::int64_t, std::vector<std::int64_t>> marks;
  };
  std::unique_ptr<Known> known_;
};

struct BlendPart {
  std::string name;  // in errors
  double weight = 0;
  std::shared_ptr<const SampleSource> source;
  std::int64_t used = 0;  // of an epoch, before its sample 0: BlendPolicy::exhaust counts them
};

enum class BlendPolicy {
  repeat,   // a source that is used up begins another epoch
  exhaust,  // no sample twice: a blend that needs more of a source than it has is refused
};

class BlendedSource final : public SampleSource {
 public:
  // `samples`: how many the training takes in all; needed where a source or the policy sets an end, else it may be
  // `endless`. ErrorCode::invalid_input if a source cannot give its share, naming it and what would fit.
  static Result<BlendedSource> create(std::vector<BlendPart> parts, BlendPolicy policy, std::int64_t samples);

  std::int64_t sequence_length() const override { return parts_.front().source->sequence_length(); }
  std::int64_t samples_per_epoch() const override { return samples_per_epoch_; }
  std::int64_t size() const override { return size_; }
  void read(std::int64_t k, std::span<std::int32_t> out) const override;
  void document_begins(std::int64_t k, std::span<std::int32_t> out) const override;
  const BlendOrder& order() const { return order_; }
  BlendOrder& order() { return order_; }

 private:
  BlendedSource(std::vector<BlendPart> parts, BlendOrder order) : parts_(std::move(parts)), order_(std::move(order)) {}
  std::vector<BlendPart> parts_;
  BlendOrder order_;
  std::int64_t samples_per_epoch_ = 0, size_ = endless;
};

}  // namespace longhaul
