#include "engine/data/samples/instruct_data.h"

#include <algorithm>

#include "base/files/files.h"
#include "base/text/text.h"
#include "base/value/json_lines.h"
#include "engine/data/samples/permutation.h"

namespace longhaul {
namespace {

Result<ChatTokens> at_line(int line, Result<ChatTokens> tokens) {
  return line > 0 ? std::move(tokens).with_context(format("line {}", line)) : std::move(tokens);
}

Error nothing_fits(std::size_t examples, TextRoom room) {
  return make_error(ErrorCode::invalid_input,
                    format("none of {} examples fits into sequence_length = {}", examples, room.text()),
                    room.before > 0 ? "use a longer sequence_length, or fewer adapter.virtual_tokens"
                                    : "use a longer sequence_length");
}

}  // namespace

Result<std::vector<InstructExample>> parse_instructions(std::string_view text, const std::string& name,
                                                        std::span<const std::string> ignore) {
  std::vector<InstructExample> examples;
  LH_CHECK(for_each_json_row(text, {name, "examples"}, [&](const Value& row, int line) -> Status {
    LH_TRY(InstructExample example, instruction_of_row(row, ignore));
    example.line = line;
    examples.push_back(std::move(example));
    return {};
  }));
  return examples;
}

Result<std::vector<PreferenceExample>> parse_preferences(std::string_view text, const std::string& name,
                                                         std::span<const std::string> ignore, TuningRowUse use) {
  std::vector<PreferenceExample> examples;
  LH_CHECK(for_each_json_row(text, {name, "examples"}, [&](const Value& row, int line) -> Status {
    LH_TRY(std::vector<PreferenceExample> pairs, preferences_of_row(row, ignore, use));
    for (PreferenceExample& pair : pairs) {
      pair.line = line;
      examples.push_back(std::move(pair));
    }
    return {};
  }));
  return examples;
}

Result<std::vector<InstructExample>> read_instructions(const std::string& path, std::span<const std::string> ignore) {
  LH_TRY(const MappedFile file, MappedFile::open(path));
  return parse_instructions(file.view(), path, ignore);
}
Result<std::vector<PreferenceExample>> read_preferences(const std::string& path, std::span<const std::string> ignore,
                                                        TuningRowUse use) {
  LH_TRY(const MappedFile file, MappedFile::open(path));
  return parse_preferences(file.view(), path, ignore, use);
}

Result<std::vector<LabelledExample>> parse_labelled(std::string_view text, const std::string& name,
                                                    std::span<const std::string> ignore) {
  std::vector<LabelledExample> examples;
  LH_CHECK(for_each_json_row(text, {name, "examples"}, [&](const Value& row, int line) -> Status {
    LH_TRY(LabelledExample example, labelled_of_row(row, ignore));
    example.line = line;
    examples.push_back(std::move(example));
    return {};
  }));
  return examples;
}

Result<std::vector<LabelledExample>> read_labelled(const std::string& path, std::span<const std::string> ignore) {
  LH_TRY(const MappedFile file, MappedFile::open(path));
  return parse_labelled(file.view(), path, ignore);
}

Result<TokenizedLabels> tokenize_labelled(std::span<const LabelledExample> examples, const ChatEncoder& encoder,
                                          TextRoom room) {
  TokenizedLabels made;
  for (const LabelledExample& example : examples) {
    LH_TRY(ChatTokens tokens,
           at_line(example.line, encoder.encode_answer(example.prompt, example.answer, example.tools)));
    if (static_cast<std::int64_t>(tokens.ids.size()) > room.tokens() + 1)
      ++made.too_long;
    else
      made.answers.push_back({std::move(tokens), example.desirable});
  }
  if (made.answers.empty()) return nothing_fits(examples.size(), room);
  return made;
}

void put_before(std::span<const std::int32_t> ids, ChatTokens& example) {
  if (ids.empty()) return;
  if (!example.loss_mask.empty()) example.loss_mask.front() = 0;
  example.ids.insert(example.ids.begin(), ids.begin(), ids.end());
  example.loss_mask.insert(example.loss_mask.begin(), ids.size(), std::uint8_t{0});
}

Result<TokenizedExamples> tokenize_instructions(std::span<const InstructExample> examples, const ChatEncoder& encoder,
                                                TextRoom room, std::span<const std::int32_t> before) {
  room.before = std::max(room.before, std::ssize(before));
  TokenizedExamples made;
  for (const InstructExample& example : examples) {
    LH_TRY(ChatTokens tokens,
           at_line(example.line, example.text.empty() ? encoder.encode(example.messages, false, example.tools)
                                                      : encoder.encode_text(example.text)));
    if (static_cast<std::int64_t>(tokens.ids.size()) > room.tokens() + 1) {
      ++made.too_long;
      continue;
    }
    put_before(before, tokens);
    made.examples.push_back(std::move(tokens));
  }
  if (made.examples.empty()) return nothing_fits(examples.size(), room);
  return made;
}

Result<TokenizedPreferences> tokenize_preferences(std::span<const PreferenceExample> examples,
                                                  const ChatEncoder& encoder, TextRoom room) {
  TokenizedPreferences made;
  for (const PreferenceExample& example : examples) {
    const auto answered = [&](const std::vector<ChatMessage>& answers) {
      return at_line(example.line, encoder.encode_answer(example.prompt, answers, example.tools));
    };
    LH_TRY(ChatTokens chosen, answered(example.chosen));
    LH_TRY(ChatTokens rejected, answered(example.rejected));
    PreferencePair pair{std::move(chosen), std::move(rejected), example.line, example.margin, example.category};
    const std::size_t longest = std::max(pair.chosen.ids.size(), pair.rejected.ids.size());
    if (static_cast<std::int64_t>(longest) > room.tokens() + 1)
      ++made.too_long;
    else
      made.pairs.push_back(std::move(pair));
  }
  if (made.pairs.empty()) return nothing_fits(examples.size(), room);
  return made;
}

std::int64_t example_of_sample(std::int64_t k, std::int64_t examples, std::uint64_t seed) {
  LH_ASSERT(k >= 0 && examples > 0, format("sample {} of {} examples", k, examples));
  const Permutation order(static_cast<std::uint64_t>(examples), seed, data_order_stream(k / examples));
  return static_cast<std::int64_t>(order(static_cast<std::uint64_t>(k % examples)));
}

}  // namespace longhaul
