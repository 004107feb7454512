// Files of tuning data: JSON Lines, a row of any form (engine/data/samples/tuning_rows.h) on each; forms may be mixed.
// Blank lines are skipped. All problems of a file are reported together, with their lines (at most 20 are shown).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error/result.h"
#include "engine/data/samples/batch.h"
#include "engine/data/samples/text_room.h"
#include "engine/data/samples/tuning_rows.h"
#include "engine/data/template/chat.h"

namespace longhaul {

// `ignore`: keys of rows and messages that count as not there.
Result<std::vector<InstructExample>> read_instructions(const std::string& path,
                                                       std::span<const std::string> ignore = {});
// `use`: preference, or reward.
Result<std::vector<PreferenceExample>> read_preferences(const std::string& path,
                                                        std::span<const std::string> ignore = {},
                                                        TuningRowUse use = TuningRowUse::preference);
// The same from text; `name` stands in errors.
Result<std::vector<InstructExample>> parse_instructions(std::string_view text, const std::string& name,
                                                        std::span<const std::string> ignore = {});
Result<std::vector<PreferenceExample>> parse_preferences(std::string_view text, const std::string& name,
                                                         std::span<const std::string> ignore = {},
                                                         TuningRowUse use = TuningRowUse::preference);

Result<std::vector<LabelledExample>> read_labelled(const std::string& path, std::span<const std::string> ignore = {});
Result<std::vector<LabelledExample>> parse_labelled(std::string_view text, const std::string& name,
                                                    std::span<const std::string> ignore = {});

// Ids that stand before all of an example and have no loss; nor has its first token, as without them.
void put_before(std::span<const std::int32_t> ids, ChatTokens& example);

struct TokenizedExamples {
  std::vector<ChatTokens> examples;
  std::int64_t too_long = 0;  // left out: more than room.tokens() + 1
};
// room.length: what errors call sequence_length. `before`: put_before() each of them, which the room then counts.
// ErrorCode::invalid_input if nothing is left.
Result<TokenizedExamples> tokenize_instructions(std::span<const InstructExample> examples, const ChatEncoder& encoder,
                                                TextRoom room, std::span<const std::int32_t> before = {});

struct PreferencePair {
  ChatTokens chosen, rejected;  // both with the prompt; only the answers are in the loss masks
  int line = 0;                 // of its file
  double margin = 0;            // as of its example
  std::string category = {};
};
struct TokenizedPreferences {
  std::vector<PreferencePair> pairs;
  std::int64_t too_long = 0;
};
Result<TokenizedPreferences> tokenize_preferences(std::span<const PreferenceExample> examples,
                                                  const ChatEncoder& encoder, TextRoom room);

struct LabelledAnswer {
  ChatTokens tokens;  // with the prompt; only the answer is in the loss mask
  bool desirable = false;
};
struct TokenizedLabels {
  std::vector<LabelledAnswer> answers;
  std::int64_t too_long = 0;
};
Result<TokenizedLabels> tokenize_labelled(std::span<const LabelledExample> examples, const ChatEncoder& encoder,
                                          TextRoom room);

// The order of examples over epochs, as the Sampler's: example of global sample k.
std::int64_t example_of_sample(std::int64_t k, std::int64_t examples, std::uint64_t seed);

}  // namespace longhaul
