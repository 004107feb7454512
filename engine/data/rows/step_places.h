// Where the numbers of an answer stand in its tokens, of answers that were written down and of those just drawn alike.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "contracts/settings/training/training.h"
#include "engine/data/template/chat.h"

namespace longhaul {

// Of each step of the answer ids[answer_begin, end) the token that ends it: that with the last byte of the separator
// behind it; of the last step the last token of all. Behind a separator that is followed by white space alone there is
// no other step. Ascending, at least one.
std::vector<std::size_t> step_places(const Tokenizer& tokenizer, std::span<const std::int32_t> ids,
                                     std::size_t answer_begin, std::string_view separator);

// Places whose numbers a reward model of this form is asked for: the last token, or of process those of the steps.
std::vector<std::size_t> asked_places(const RewardForm& form, const Tokenizer& tokenizer,
                                      std::span<const std::int32_t> ids, std::size_t answer_begin);

// A conversation as a reward model reads it: up to the last token that is learnt in tuning, which ends the answer.
struct JudgedTokens {
  std::vector<std::int32_t> ids;
  std::size_t answer_begin = 0;  // of the last answer
};
JudgedTokens judged_tokens(ChatTokens tokens);

}  // namespace longhaul
