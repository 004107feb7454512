#include "engine/tasks/rewards/reward_pairs.h"

#include <algorithm>
#include <limits>

#include "base/text/text.h"
#include "engine/train/step/sequence_rewards.h"

namespace longhaul {

Result<RewardPairs> read_reward_pairs(const std::string& file, std::span<const std::string> ignore,
                                      const ChatEncoder& encoder, TextRoom room) {
  LH_TRY(const std::vector<PreferenceExample> examples, read_preferences(file, ignore, TuningRowUse::reward));
  LH_TRY(TokenizedPreferences tokenized,
         tokenize_preferences(examples, encoder, std::numeric_limits<std::int32_t>::max()));
  RewardPairs made;
  for (PreferencePair& pair : tokenized.pairs) {
    JudgedTokens chosen = judged_tokens(std::move(pair.chosen)), rejected = judged_tokens(std::move(pair.rejected));
    RewardPair one{std::move(chosen.ids), std::move(rejected.ids), pair.margin, std::move(pair.category), pair.line,
                   chosen.answer_begin,   rejected.answer_begin};
    if (one.chosen == one.rejected)
      return make_error(ErrorCode::invalid_input,
                        format("{}:{}: 'chosen' and 'rejected' are the same tokens", file, pair.line),
                        "the model cannot distinguish them: leave the row out");
    const std::size_t longest = std::max(one.chosen.size(), one.rejected.size());
    if (static_cast<std::int64_t>(longest) > room.tokens())
      ++made.too_long;
    else
      made.pairs.push_back(std::move(one));
  }
  if (!made.pairs.empty()) return made;
  return make_error(ErrorCode::invalid_input,
                    format("{}: none of {} pairs fits into sequence_length = {}", file, made.too_long, room.text()),
                    "use a longer sequence_length");
}

Status RewardPairSource::fill(std::int64_t first, std::int64_t count, BatchStorage& out) {
  std::vector<std::span<const std::int32_t>> texts;
  std::size_t longest = 0;
  out.per_sequence.clear();
  for (std::int64_t k = first; k < first + count; ++k) {
    const std::int64_t pairs = samples_per_epoch();
    const std::int64_t i = order_ == SampleOrder::sequential ? k % pairs : example_of_sample(k, pairs, seed_);
    const RewardPair& pair = pairs_[static_cast<std::size_t>(i)];
    for (const std::vector<std::int32_t>* text : {&pair.chosen, &pair.rejected}) {
      texts.emplace_back(*text);
      longest = std::max(longest, text->size());
    }
    out.per_sequence.push_back(pair.margin), out.per_sequence.push_back(0);
  }
  longest += before_.size();
  // Few different lengths: compiled products are found again.
  fill_scored_rows(texts, std::min(sequence_length_, (static_cast<std::int64_t>(longest) + 31) / 32 * 32), out,
                   before_);
  return {};
}

}  // namespace longhaul
