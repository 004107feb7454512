#include "contracts/borders/request_field.h"

namespace longhaul {
namespace request_tables {  // names of their own within a batch of files
namespace {

constexpr auto both = RequestKind::both, chat_only = RequestKind::chat, completion_only = RequestKind::completion;

constexpr DoneField fields_done[] = {
    {both, "model", "the name under which the model is served"},
    {chat_only, "messages", "the conversation; a last message of the assistant goes on"},
    {completion_only, "prompt", "a text, a list of texts, token ids, or a list of lists of them"},
    {both, "max_tokens", "at most so many tokens; what does not fit is cut to what does"},
    {both, "max_completion_tokens", "the newer name of max_tokens, and counts where both are there"},
    {both, "n", "answers to each prompt, each a draw of its own"},
    {both, "stream", "the answer in pieces, as events"},
    {both, "stream_options", "include_usage: the number of tokens at the end"},
    {completion_only, "echo", "the prompt stands before the answer"},
    {both, "logprobs", "a number, or true beside top_logprobs"},
    {both, "top_logprobs", "how many other tokens, beside logprobs = true"},
    {both, "stop", "texts that end the answer"},
    {both, "temperature", "0: the most likely token"},
    {both, "top_p", "the likeliest tokens that have this share together"},
    {both, "top_k", "the so many likeliest tokens; 0 or -1: all"},
    {both, "repetition_penalty", "1: none"},
    {both, "presence_penalty", "0: none"},
    {both, "frequency_penalty", "0: none"},
    {both, "seed", "equal seeds and prompts have equal answers"},
    {both, "add_special_tokens",
     "of prompts that are texts: the tokenizer's begin and end tokens; refused as true for chats"},
    {both, "skip_special_tokens", "false: control tokens in an answer are written by their names"},
    {chat_only, "tools",
     "written by the model's chat template, and refused where that leaves them out; calls are given back as tool_calls "
     "where the template writes them as <tool_call>{JSON}</tool_call>, otherwise as text"},
    {chat_only, "tool_choice",
     "`auto`, or `none`: the tools are not shown to the model. `required` and functions by name are refused: answers "
     "are not held to a grammar, so that a call cannot be made sure of"},
    {chat_only, "continue_final_message", "that the last message goes on: has to fit who speaks in it"},
    {chat_only, "add_generation_prompt", "that the last message is answered: has to fit who speaks in it"},
};

constexpr const char* older_calls = "tools and calls of them are written as tools and tool_calls";
constexpr const char* no_grammar = "answers are not held to a grammar";
constexpr const char* no_thoughts = "models served here write no thoughts beside the answer";
constexpr const char* no_media = "models served here read and write text alone";
constexpr const char* other_cuts = "top_p and top_k are the cuts there are";
constexpr const char* no_beams = "there is no search over beams";
constexpr const char* own_template = "a conversation is written as the model's own template says";
constexpr const char* length_name = "the length of an answer is max_tokens or max_completion_tokens";

constexpr HarmlessField fields_harmless[] = {
    {"user", "names who asks"},
    {"safety_identifier", "names who asks"},
    {"metadata", "labels for the client's own use"},
    {"store", "nothing is kept here"},
    {"service_tier", "there is one"},
    {"prompt_cache_key", "of speed alone"},
    {"prompt_cache_retention", "of speed alone"},
    {"cache_prompt", "of speed alone"},
    {"cache_salt", "of speed alone"},
    {"prediction", "of speed alone"},
    {"priority", "calls are answered as they come"},
    {"request_id", "names the call"},
    {"guided_decoding_backend", "of grammars, which are refused themselves"},
};

constexpr RequestRole roles_of_requests[] = {
    {"system", "system"},       {"developer", "system"}, {"user", "user"},
    {"assistant", "assistant"}, {"tool", "tool"},        {"function", nullptr},
};

}  // namespace
}  // namespace request_tables

std::span<const DoneField> done_fields() {
  return request_tables::fields_done;
}

std::span<const UndoneField> undone_fields() {
  using namespace request_tables;
  static const std::vector<UndoneField> fields = {
      {"parallel_tool_calls", {"true"}, "a model makes as many calls as it writes"},
      {"functions", {"[]"}, older_calls},
      {"function_call", {"\"none\"", "\"auto\""}, older_calls},
      {"web_search_options", {}, "a server here searches nothing"},
      {"response_format", {"{\"type\":\"text\"}"}, no_grammar},
      {"guided_json", {}, no_grammar},
      {"guided_regex", {}, no_grammar},
      {"guided_choice", {}, no_grammar},
      {"guided_grammar", {}, no_grammar},
      {"structured_outputs", {}, no_grammar},
      {"json_schema", {"{}"}, no_grammar},
      {"grammar", {"\"\""}, no_grammar},
      {"logit_bias", {"{}", "[]"}, "single tokens are not weighed"},
      {"bad_words", {"[]"}, "single tokens are not weighed"},
      {"allowed_token_ids", {}, "single tokens are not weighed"},
      {"best_of", {"1"}, "answers are not compared with each other; ask for n and choose"},
      {"use_beam_search", {"false"}, no_beams},
      {"length_penalty", {"1"}, no_beams},
      {"suffix", {"\"\""}, "text is not put between two others"},
      {"min_p", {"0"}, other_cuts},
      {"typical_p", {"1"}, other_cuts},
      {"tfs_z", {"1"}, other_cuts},
      {"mirostat", {"0"}, other_cuts},
      {"xtc_probability", {"0"}, other_cuts},
      {"dry_multiplier", {"0"}, other_cuts},
      {"repeat_penalty", {"1"}, "it is called repetition_penalty here"},
      {"min_tokens", {"0"}, "an answer ends where the model ends it"},
      {"ignore_eos", {"false"}, "an answer ends where the model ends it"},
      {"n_predict", {}, length_name},
      {"max_new_tokens", {}, length_name},
      {"max_output_tokens", {}, length_name},
      {"stop_sequences", {"[]"}, "texts that end an answer are called stop"},
      {"stop_token_ids", {"[]"}, "stop takes texts"},
      {"include_stop_str_in_output", {"false"}, "a stop text is no part of the answer"},
      {"prompt_logprobs", {}, "echo with logprobs gives those of the prompt"},
      {"truncate_prompt_tokens", {}, "a prompt that is too long is refused, not cut"},
      {"chat_template", {}, own_template},
      {"chat_template_kwargs", {"{}"}, own_template},
      {"documents", {"[]"}, own_template},
      {"reasoning_effort", {"\"none\""}, no_thoughts},
      {"thinking", {"{\"type\":\"disabled\"}"}, no_thoughts},
      {"verbosity", {"\"medium\""}, "an answer is as long as the model makes it"},
      {"modalities", {"[\"text\"]"}, no_media},
      {"audio", {}, no_media},
  };
  return fields;
}

std::span<const UndoneField> undone_message_fields() {
  using namespace request_tables;
  static const std::vector<UndoneField> fields = {
      {"function_call", {}, older_calls},
      {"reasoning_content", {"\"\""}, no_thoughts},
      {"reasoning", {"\"\""}, no_thoughts},
      {"thinking", {"\"\""}, no_thoughts},
      {"refusal", {"\"\""}, "what a model refuses stands in its content"},
      {"audio", {}, no_media},
      {"images", {"[]"}, no_media},
  };
  return fields;
}

std::span<const HarmlessField> harmless_fields() {
  return request_tables::fields_harmless;
}

std::span<const RequestRole> request_roles() {
  return request_tables::roles_of_requests;
}

}  // namespace longhaul
