#include "engine/infer/request_fields.h"

#include <algorithm>

#include "base/json.h"

namespace longhaul {
namespace {

constexpr const char* no_tools = "models served here call no tools";
constexpr const char* no_grammar = "answers are not held to a grammar";

}  // namespace

std::span<const UndoneField> undone_fields() {
  static const std::vector<UndoneField> fields = {
      {"tools", {"[]"}, no_tools},
      {"tool_choice", {"\"none\"", "\"auto\""}, no_tools},
      {"functions", {"[]"}, no_tools},
      {"function_call", {"\"none\"", "\"auto\""}, no_tools},
      {"response_format", {"{\"type\":\"text\"}"}, no_grammar},
      {"guided_json", {}, no_grammar},
      {"guided_regex", {}, no_grammar},
      {"guided_choice", {}, no_grammar},
      {"guided_grammar", {}, no_grammar},
      {"grammar", {"\"\""}, no_grammar},
      {"logit_bias", {"{}"}, "single tokens are not weighed"},
      {"bad_words", {"[]"}, "single tokens are not weighed"},
      {"best_of", {"1"}, "answers are not compared with each other; ask for n and choose"},
      {"use_beam_search", {"false"}, "there is no search over beams"},
      {"length_penalty", {"1"}, "there is no search over beams"},
      {"suffix", {"\"\""}, "text is not put between two others"},
      {"min_p", {"0"}, "top_p and top_k are the cuts there are"},
      {"typical_p", {"1"}, "top_p and top_k are the cuts there are"},
      {"min_tokens", {"0"}, "an answer ends where the model ends it"},
      {"ignore_eos", {"false"}, "an answer ends where the model ends it"},
      {"stop_token_ids", {"[]"}, "stop takes texts"},
      {"include_stop_str_in_output", {"false"}, "a stop text is no part of the answer"},
      {"prompt_logprobs", {}, "echo with logprobs tells those of the prompt"},
      {"modalities", {"[\"text\"]"}, "models served here write text alone"},
      {"audio", {}, "models served here write text alone"},
  };
  return fields;
}

bool asks_for_nothing(const UndoneField& field, const Value& value) {
  if (value.is_null()) return true;
  return std::any_of(field.harmless.begin(), field.harmless.end(), [&](const char* json) {
    const Value harmless = parse_json(json).value();
    if (harmless.is_number() && value.is_number()) return harmless.as_number() == value.as_number();
    return to_json(harmless) == to_json(value);
  });
}

}  // namespace longhaul
