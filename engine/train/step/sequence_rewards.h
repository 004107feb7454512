// What a reward model (ModelShape::scalar_head) says of given texts, many at a time.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "engine/model/llama.h"
#include "engine/train/step/batch_source.h"
#include "engine/train/step/sequence_scores.h"

namespace longhaul {

// A row for each text, padded to `length`; the last token of each has a target, which only says where it is. Members of
// `out` beside ids, targets and weights are left as they are, and there are no positions. `before`: ids that stand
// before each text (virtual_token_ids).
void fill_scored_rows(std::span<const std::span<const std::int32_t>> texts, std::int64_t length, BatchStorage& out,
                      std::span<const std::int32_t> before = {});

// A text, and at which of its tokens the model is asked for its numbers; borrowed.
struct AskedText {
  std::span<const std::int32_t> ids;
  std::span<const std::size_t> places;
};
// The numbers of each text's places, in the order of the texts: num_labels of each place, one place behind the other.
// Texts of similar length share a micro-batch of at most `tokens_max` tokens (what the model was made for); padding
// changes none. What stands before every text by the model's shape (ModelShape::virtual_tokens) is put there; places
// count a text's own tokens alone. invalid_input: a text that is empty or longer than the model takes. `progress`
// (texts done) may be empty.
Result<std::vector<std::vector<double>>> numbers_at(const ComputeContext& context, Llama& model,
                                                    std::int64_t tokens_max, std::span<const AskedText> texts,
                                                    const std::function<void(std::size_t)>& progress = {});
// The same by a model that ranks hold together; all ranks of the replica have the numbers. Texts are at most as long as
// its micro-batches are.
Result<std::vector<std::vector<double>>> numbers_by_replica(const ComputeContext& context, const ReplicaModel& model,
                                                            std::span<const AskedText> texts,
                                                            const std::function<void(std::size_t)>& progress = {});
// The first number of each text's last token.
Result<std::vector<double>> sequence_rewards(const ComputeContext& context, Llama& model, std::int64_t tokens_max,
                                             std::span<const std::span<const std::int32_t>> texts,
                                             const std::function<void(std::size_t)>& progress = {});

}  // namespace longhaul
