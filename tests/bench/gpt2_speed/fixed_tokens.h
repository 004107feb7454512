// What the programs that measure whole steps train, and on what.
#pragma once

#include <vector>

#include "base/digest/philox.h"
#include "engine/train/step/batch_source.h"

namespace longhaul::bench {

inline ModelShape gpt2_124m() {
  ModelShape shape;
  shape.architecture = "gpt2";
  shape.vocab_size = 50257, shape.hidden_size = 768, shape.num_hidden_layers = 12, shape.num_attention_heads = 12;
  shape.max_position_embeddings = 1024;
  return resolve_shape(shape).value();
}

// The same made-up sequences for ever.
class FixedTokens final : public BatchSource {
 public:
  FixedTokens(std::int64_t sequences, std::int64_t length, std::int64_t vocab)
      : sequences_(sequences), length_(length) {
    PhiloxSequence random(42, 0);
    for (std::int64_t i = 0; i < sequences * (length + 1); ++i)
      tokens_.push_back(static_cast<std::int32_t>(random.next_below(static_cast<std::uint64_t>(vocab))));
  }
  Status fill(std::int64_t first, std::int64_t count, BatchStorage& out) override {
    out.sequences = count, out.length = length_;
    out.ids.clear(), out.targets.clear();
    for (std::int64_t k = first; k < first + count; ++k) {
      const auto* row = tokens_.data() + k % sequences_ * (length_ + 1);
      out.ids.insert(out.ids.end(), row, row + length_);
      out.targets.insert(out.targets.end(), row + 1, row + 1 + length_);
    }
    out.weights.assign(out.ids.size(), 1.0F);
    return {};
  }
  std::int64_t samples_per_epoch() const override { return sequences_; }

 private:
  std::int64_t sequences_, length_;
  std::vector<std::int32_t> tokens_;
};

}  // namespace longhaul::bench
