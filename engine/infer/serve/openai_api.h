// The OpenAI HTTP API as values: what a client asks, and the JSON that answers it. Pure; the wiring is model_server.h.
// A known parameter of a wrong type or out of bounds is an error that names it, and so is one that would change the
// answer and is not done (request_fields.h); others are ignored, as clients expect. null counts as absent.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/value/value.h"
#include "engine/infer/generate/generator.h"
#include "engine/infer/http/http_message.h"

namespace longhaul {

struct ApiError {
  int status = 400;
  std::string message;
  std::string param;  // "" is null
  std::string code;   // "" is null
};
HttpResponse error_response(const ApiError& error);  // {"error": {message, type, param, code}}
Value error_value(const ApiError& error);

struct ApiLimits {
  std::int64_t max_tokens = 256;
  std::int64_t default_max_tokens = 16;  // of /v1/completions
  std::size_t prompts_max = 64;
  std::int64_t answers_max = 16;  // n
  int logprobs_max = 20;
  std::size_t stops_max = 4;
  std::size_t stop_bytes_max = 1024;
};

struct CompletionPrompt {
  std::string text;
  std::vector<std::int32_t> tokens;
  bool is_tokens = false;
};

// A call of /v1/completions (prompts) or /v1/chat/completions (messages).
struct CompletionCall {
  bool chat = false;
  std::string model;  // "" where the client names none
  std::vector<CompletionPrompt> prompts;
  std::vector<ChatMessage> messages;
  Value tools;  // that the answer may call: a list, or null where there are none or tool_choice is "none"
  std::int64_t answers = 1;
  std::optional<std::int64_t> max_tokens;
  bool stream = false;
  bool include_usage = false;
  bool echo = false;
  bool add_special_tokens = true;  // of prompts that are texts: a chat template writes its own
  bool skip_special_tokens = true;
  std::optional<int> logprobs;
  std::vector<std::string> stops;
  SamplingParameters sampling;
  std::optional<std::uint64_t> seed;
};
// A call of /v1/score: each conversation ends with the answer that is judged. From `messages`, or `conversations`, a
// list of such lists; any other key but model and user is refused.
struct ScoreCall {
  std::string model;  // "" where the client names none
  std::vector<std::vector<ChatMessage>> conversations;
};
std::optional<ApiError> parse_score_call(const Value& body, const ApiLimits& limits, ScoreCall& out);

// Which stream of random numbers an answer is drawn from: without a seed each answer to each prompt of a call has its
// own; with one, equal prompts are answered equally.
std::uint64_t draw_stream(const CompletionCall& call, std::size_t prompt, std::int64_t answer);
std::optional<ApiError> parse_completion_call(const Value& body, bool chat, const ApiLimits& limits,
                                              CompletionCall& out);

// One answer, complete or a piece of a stream.
struct AnswerPart {
  std::int64_t index = 0;
  std::string text;
  std::vector<GeneratedToken> tokens;
  std::optional<FinishReason> finish;  // stop or length
  std::vector<ToolCall> calls = {};
  std::int64_t calls_before = 0;  // of the answer, in earlier pieces
};

// Writes the JSON of one call; all pieces carry the same id.
class AnswerFormat {
 public:
  AnswerFormat(const CompletionCall& call, std::string id, std::int64_t created_s, std::string model_name,
               const TextModel& model);
  std::string whole(const std::vector<AnswerPart>& answers, const GenerationUsage& usage) const;
  std::string first_piece(std::int64_t index) const;  // chat only: the role
  std::string piece(const AnswerPart& part) const;    // as an event: "data: {...}\n\n"
  std::string usage_piece(const GenerationUsage& usage) const;

 private:
  Value envelope(const char* object) const;
  Value choice(const AnswerPart& part, bool piece) const;
  Value calls_of(const AnswerPart& part, bool piece) const;
  Value logprobs_of_completion(const AnswerPart& part) const;
  Value logprobs_of_chat(const AnswerPart& part) const;
  std::string token_text(std::int32_t token) const;

  bool chat_, logprobs_, include_usage_;
  std::string id_;
  std::int64_t created_s_;
  std::string model_name_;
  const TextModel& model_;
};
std::string event_of(const Value& value);  // "data: {...}\n\n"
inline constexpr const char* done_event = "data: [DONE]\n\n";

Value model_value(const std::string& name, std::int64_t created_s, std::int64_t context_length);

}  // namespace longhaul
