#include "engine/data/rows/step_places.h"

#include <string>

#include "base/text/text.h"

namespace longhaul {

namespace {

constexpr const char* white_space = " \t\r\n";

}  // namespace

std::vector<std::size_t> step_places(const Tokenizer& tokenizer, std::span<const std::int32_t> ids,
                                     std::size_t answer_begin, std::string_view separator) {
  LH_ASSERT(!separator.empty() && !ids.empty(), "steps of an answer without tokens");
  std::vector<std::size_t> places;
  std::string text;  // behind the last separator
  for (std::size_t i = answer_begin; i < ids.size(); ++i) {
    if (!tokenizer.is_special(ids[i])) text += tokenizer.token_bytes(ids[i]);
    for (std::size_t at = text.find(separator); at != std::string::npos; at = text.find(separator)) {
      if (text.find_first_not_of(white_space) < at) places.push_back(i);
      text.erase(0, at + separator.size());
    }
  }
  if (places.empty() || text.find_first_not_of(white_space) != std::string::npos) places.push_back(ids.size() - 1);
  return places;
}

std::vector<std::size_t> asked_places(const RewardForm& form, const Tokenizer& tokenizer,
                                      std::span<const std::int32_t> ids, std::size_t answer_begin) {
  if (form.method == "process") return step_places(tokenizer, ids, answer_begin, form.step_separator);
  return {ids.size() - 1};
}

JudgedTokens judged_tokens(ChatTokens tokens) {
  while (!tokens.ids.empty() && !tokens.loss_mask[tokens.ids.size() - 1]) tokens.ids.pop_back();
  std::size_t begin = tokens.ids.size();
  while (begin > 0 && tokens.loss_mask[begin - 1]) --begin;
  return {std::move(tokens.ids), begin};
}

}  // namespace longhaul
