// A guess of the tokens that come next, from the text itself: what followed the last tokens when they stood there
// before (prompt lookup; Saxena 2023, "Prompt Lookup Decoding"). It costs no model. Who asks the model for all guessed
// tokens in one step, and keeps them up to the first that is not drawn, gets several tokens for a step where texts
// repeat.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace longhaul {

// At most `count` tokens to follow `text`: those behind the latest earlier place of its last four tokens, else three,
// else two; none where those stand nowhere else. Where that place is less than `count` tokens from the end, the guess
// goes on with itself: text that repeats with a short period is guessed on with that period.
std::vector<std::int32_t> ngram_draft(std::span<const std::int32_t> text, std::int64_t count);

}  // namespace longhaul
