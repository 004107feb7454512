#include "engine/infer/serve/openai_api.h"

#include <algorithm>
#include <limits>

#include "base/text/text.h"
#include "base/value/json.h"
#include "engine/infer/serve/request_fields.h"

namespace longhaul {
namespace {

const char* error_type(int status) {
  switch (status) {
    case 401: return "authentication_error";
    case 404: return "not_found_error";
    case 429: return "rate_limit_error";
    case 500:
    case 504: return "server_error";
    case 503: return "overloaded_error";
    default: return "invalid_request_error";
  }
}

// Reads one body; the first problem is kept, later reads do nothing.
class Reader {
 public:
  explicit Reader(const Value& body) : body_(body) {}

  const std::optional<ApiError>& error() const { return error_; }
  void fail(const std::string& key, std::string what) {
    if (!error_) error_ = ApiError{400, std::move(what), key, "invalid_value"};
  }
  const Value* get(const std::string& key) const {
    const Value* value = body_.find(key);
    return value == nullptr || value->is_null() ? nullptr : value;
  }
  void read(const std::string& key, bool& out) {
    if (const Value* v = get(key)) v->is_bool() ? void(out = v->as_bool()) : wrong(key, "true or false", *v);
  }
  void read(const std::string& key, std::string& out) {
    if (const Value* v = get(key)) v->is_string() ? void(out = v->as_string()) : wrong(key, "a string", *v);
  }
  void read(const std::string& key, double& out) {
    if (const Value* v = get(key)) v->is_number() ? void(out = v->as_number()) : wrong(key, "a number", *v);
  }
  std::optional<std::int64_t> integer(const std::string& key, std::int64_t low, std::int64_t high) {
    const Value* v = get(key);
    if (v == nullptr) return std::nullopt;
    if (!v->is_integer()) {
      wrong(key, "an integer", *v);
      return std::nullopt;
    }
    if (v->as_integer() < low || v->as_integer() > high) {
      fail(key, format("{} = {} is outside of {}..{}", key, v->as_integer(), low, high));
      return std::nullopt;
    }
    return v->as_integer();
  }
  void wrong(const std::string& key, const char* expected, const Value& v) {
    fail(key, format("{} must be {}, not a value of kind {}", key, expected, v.kind_name()));
  }

 private:
  const Value& body_;
  std::optional<ApiError> error_;
};

// Token ids, or nullopt when an element is no such thing.
std::optional<std::vector<std::int32_t>> read_tokens(const ValueArray& array) {
  std::vector<std::int32_t> out;
  for (const Value& v : array) {
    if (!v.is_integer() || v.as_integer() < 0 || v.as_integer() > std::numeric_limits<std::int32_t>::max()) return {};
    out.push_back(static_cast<std::int32_t>(v.as_integer()));
  }
  return out;
}

// A string, a list of strings, token ids, or a list of token ids.
void read_prompts(Reader& reader, const ApiLimits& limits, CompletionCall& out) {
  const Value* v = reader.get("prompt");
  if (v == nullptr) return reader.fail("prompt", "prompt is missing");
  if (v->is_string()) {
    out.prompts.push_back({v->as_string(), {}, false});
    return;
  }
  const char* expected = "a string, a list of strings, token ids or a list of token ids";
  if (!v->is_array() || v->size() == 0) return reader.wrong("prompt", expected, *v);
  if (v->as_array()[0].is_integer()) {
    auto tokens = read_tokens(v->as_array());
    if (!tokens) return reader.wrong("prompt", expected, *v);
    out.prompts.push_back({"", std::move(*tokens), true});
    return;
  }
  if (v->size() > limits.prompts_max) {
    return reader.fail("prompt", format("{} prompts; at most {} in one call", v->size(), limits.prompts_max));
  }
  for (const Value& one : v->as_array()) {
    if (one.is_string()) {
      out.prompts.push_back({one.as_string(), {}, false});
      continue;
    }
    auto tokens = one.is_array() ? read_tokens(one.as_array()) : std::nullopt;
    if (!tokens) return reader.wrong("prompt", expected, one);
    out.prompts.push_back({"", std::move(*tokens), true});
  }
}

// "text", or [{"type": "text", "text": "..."}, ...]
bool read_content(const Value& content, std::string& out) {
  if (content.is_string()) {
    out = content.as_string();
    return true;
  }
  if (!content.is_array()) return false;
  for (const Value& part : content.as_array()) {
    const Value* text = part.find("text");
    if (part.get_string("type") != "text" || text == nullptr || !text->is_string()) return false;
    out += text->as_string();
  }
  return true;
}

bool read_role(Reader& reader, const std::string& param, const Value& message, std::string& out) {
  const std::string name = message.get_string("role");
  for (const RequestRole& known : request_roles()) {
    if (name != known.name) continue;
    if (known.role) {
      out = known.role;
      return true;
    }
    reader.fail(param + ".role",
                format("{}.role is {}: not done here, the role of what a tool answers is tool", param, name));
    return false;
  }
  reader.fail(param + ".role", format("{}.role must be system, user, assistant or tool", param));
  return false;
}

// Calls of the assistant, and which call a tool answers; of others they are refused.
bool read_tool_fields(Reader& reader, const std::string& param, const Value& one, ChatMessage& message) {
  const auto fail = [&](const char* key, std::string what) {
    reader.fail(param + "." + key, std::move(what));
    return false;
  };
  const Value* calls = one.find("tool_calls");
  if (calls && (calls->is_null() || (calls->is_array() && calls->size() == 0))) calls = nullptr;
  if (calls && message.role != "assistant")
    return fail("tool_calls", format("{}.tool_calls: the assistant alone calls tools", param));
  if (calls) {
    Result<std::vector<ToolCall>> read = read_tool_calls(*calls, param + ".tool_calls");
    if (!read.ok()) return fail("tool_calls", read.error().what);
    message.tool_calls = std::move(*read);
  }
  const Value* id = one.find("tool_call_id");
  if (!id || id->is_null()) return true;
  if (!id->is_string() || message.role != "tool")
    return fail("tool_call_id", format("{}.tool_call_id must be a string, of a message of the role tool", param));
  message.tool_call_id = id->as_string();
  return true;
}

bool read_message(Reader& reader, const std::string& param, const Value& one, ChatMessage& message) {
  if (!read_role(reader, param, one, message.role)) return false;
  for (const UndoneField& field : undone_message_fields())
    if (const Value* value = one.find(field.key); value && !asks_for_nothing(field, *value)) {
      reader.fail(param + "." + field.key, format("{}.{} is not done here: {}", param, field.key, field.why));
      return false;
    }
  if (!read_tool_fields(reader, param, one, message)) return false;
  if (message.role == "tool") message.name = one.get_string("name");
  const Value* content = one.find("content");
  message.no_content = !message.tool_calls.empty() && (!content || content->is_null());
  if (message.no_content || (content && read_content(*content, message.content))) return true;
  reader.fail(param + ".content", format("{}.content must be text: only text is understood here", param));
  return false;
}

void read_messages(Reader& reader, const Value* v, const std::string& key, std::vector<ChatMessage>& out) {
  if (v == nullptr || !v->is_array() || v->size() == 0) return reader.fail(key, key + " must be a list of messages");
  for (std::size_t i = 0; i < v->size(); ++i) {
    const Value& one = v->as_array()[i];
    const std::string param = format("{}[{}]", key, i);
    if (!one.is_table()) return reader.wrong(param, "a message: {role, content}", one);
    ChatMessage message;
    if (!read_message(reader, param, one, message)) return;
    out.push_back(std::move(message));
  }
}

// Tools are shown to the model unless none is to be called. That one is called cannot be made sure of: the answer is
// not held to a grammar.
void read_tool_choice(Reader& reader, bool chat, CompletionCall& out) {
  const Value* tools = reader.get("tools");
  if (tools) {
    Result<Value> read = read_tools(*tools, "tools");
    if (!read.ok()) return reader.fail("tools", read.error().what);
    out.tools = std::move(*read);
  }
  if (!out.tools.is_null() && !chat) reader.fail("tools", "tools is not done here for prompts: a chat has them");
  const Value* choice = reader.get("tool_choice");
  const std::string chosen = choice && choice->is_string() ? choice->as_string() : choice ? "a function" : "auto";
  if (chosen == "none") out.tools = Value();
  if (chosen != "none" && chosen != "auto")
    reader.fail("tool_choice", format("tool_choice = {} is not done here: answers are not held to a grammar, so that "
                                      "a call cannot be made sure of; auto and none are done",
                                      chosen));
}

// An answer that is begun goes on, as clients that say so and those that do not expect; what they say has to fit.
void read_beginning(Reader& reader, const CompletionCall& call) {
  if (call.messages.empty()) return;
  const bool begun = call.messages.back().role == "assistant";
  bool goes_on = begun, opens = !begun;
  reader.read("continue_final_message", goes_on);
  reader.read("add_generation_prompt", opens);
  const char* const is = begun ? "the last message is the assistant's: it goes on" : "the last message is answered";
  if (goes_on != begun) reader.fail("continue_final_message", is);
  if (opens == begun) reader.fail("add_generation_prompt", is);
}

// Around a prompt the tokenizer's begin and end tokens are added unless that is not wanted. A chat's come with its
// template: there it is refused to add them once more.
void read_special(Reader& reader, bool chat, CompletionCall& out) {
  reader.read("skip_special_tokens", out.skip_special_tokens);
  bool add = !chat;
  reader.read("add_special_tokens", add);
  if (chat && add)
    reader.fail("add_special_tokens", "add_special_tokens is not done here for chats: the chat template writes them");
  out.add_special_tokens = add;
}

void read_stream_options(Reader& reader, CompletionCall& out) {
  const Value* options = reader.get("stream_options");
  if (options == nullptr) return;
  if (!options->is_table()) return reader.wrong("stream_options", "an object", *options);
  const Value* usage = options->find("include_usage");
  if (usage == nullptr || usage->is_null()) return;
  if (!usage->is_bool()) return reader.wrong("stream_options.include_usage", "true or false", *usage);
  out.include_usage = usage->as_bool();
}

void read_undone(Reader& reader) {
  for (const UndoneField& field : undone_fields())
    if (const Value* value = reader.get(field.key); value && !asks_for_nothing(field, *value))
      reader.fail(field.key, format("{} is not done here: {}", field.key, field.why));
}

void read_stops(Reader& reader, const ApiLimits& limits, CompletionCall& out) {
  const Value* v = reader.get("stop");
  if (v == nullptr) return;
  const ValueArray list = v->is_array() ? v->as_array() : ValueArray{*v};
  if (list.size() > limits.stops_max) {
    return reader.fail("stop", format("{} stop texts; at most {}", list.size(), limits.stops_max));
  }
  for (const Value& stop : list) {
    if (!stop.is_string()) return reader.wrong("stop", "a string or a list of strings", stop);
    if (stop.as_string().empty()) continue;
    if (stop.as_string().size() > limits.stop_bytes_max) {
      return reader.fail("stop", format("a stop text is longer than {} bytes", limits.stop_bytes_max));
    }
    out.stops.push_back(stop.as_string());
  }
}

void read_logprobs(Reader& reader, const ApiLimits& limits, CompletionCall& out) {
  // A number, as completions say it, or true beside top_logprobs, as chats do; either is taken by both.
  const Value* value = reader.get("logprobs");
  const auto top = reader.integer("top_logprobs", 0, limits.logprobs_max);
  if (value && value->is_bool()) {
    if (value->as_bool()) out.logprobs = static_cast<int>(top.value_or(0));
  } else if (const auto count = reader.integer("logprobs", 0, limits.logprobs_max)) {
    out.logprobs = static_cast<int>(*count);
  }
  if (top.value_or(0) > 0 && !out.logprobs)
    reader.fail("top_logprobs", "top_logprobs is given without logprobs = true");
}

void read_sampling(Reader& reader, CompletionCall& out) {
  SamplingParameters& s = out.sampling;
  reader.read("temperature", s.temperature);
  reader.read("top_p", s.top_p);
  reader.read("repetition_penalty", s.repetition_penalty);
  reader.read("presence_penalty", s.presence_penalty);
  reader.read("frequency_penalty", s.frequency_penalty);
  s.top_k = reader.integer("top_k", -1, std::numeric_limits<std::int32_t>::max()).value_or(0);
  if (s.top_k < 0) s.top_k = 0;  // -1 is off as well
  const auto seed =
      reader.integer("seed", std::numeric_limits<std::int64_t>::min(), std::numeric_limits<std::int64_t>::max());
  if (seed) out.seed = static_cast<std::uint64_t>(*seed);
  if (const Status status = check_sampling(s); !status.ok()) {
    const std::string& what = status.error().what;
    reader.fail(what.substr(0, what.find(' ')), what);
  }
}

Value usage_value(const GenerationUsage& usage) {
  Value out;
  out.set("prompt_tokens", usage.prompt_tokens);
  out.set("completion_tokens", usage.completion_tokens);
  out.set("total_tokens", usage.prompt_tokens + usage.completion_tokens);
  return out;
}

Value optional_number(const std::optional<double>& number) {
  return number ? Value(*number) : Value();
}

}  // namespace

Value error_value(const ApiError& error) {
  Value inner;
  inner.set("message", error.message);
  inner.set("type", error_type(error.status));
  inner.set("param", error.param.empty() ? Value() : Value(error.param));
  inner.set("code", error.code.empty() ? Value() : Value(error.code));
  Value out;
  out.set("error", std::move(inner));
  return out;
}

HttpResponse error_response(const ApiError& error) {
  HttpResponse response{error.status, "application/json", {}, to_json(error_value(error)) + "\n"};
  if (error.status == 503 || error.status == 429) response.headers.emplace_back("Retry-After", "1");
  if (error.status == 401) response.headers.emplace_back("WWW-Authenticate", "Bearer");
  return response;
}

std::optional<ApiError> parse_completion_call(const Value& body, bool chat, const ApiLimits& limits,
                                              CompletionCall& out) {
  if (!body.is_table()) return ApiError{400, "the body must be a JSON object", "", "invalid_value"};
  Reader reader(body);
  out.chat = chat;
  reader.read("model", out.model);
  if (chat) {
    read_messages(reader, reader.get("messages"), "messages", out.messages);
    read_beginning(reader, out);
    bool echo = false;
    reader.read("echo", echo);
    if (echo) reader.fail("echo", "echo is not done here for chats: the prompt of a chat is its messages");
  } else {
    read_prompts(reader, limits, out);
    reader.read("echo", out.echo);
  }
  read_tool_choice(reader, chat, out);
  read_special(reader, chat, out);
  out.answers = reader.integer("n", 1, limits.answers_max).value_or(1);
  constexpr std::int64_t any = std::numeric_limits<std::int64_t>::max();
  out.max_tokens = reader.integer("max_tokens", chat ? 1 : 0, any);
  if (const auto longest = reader.integer("max_completion_tokens", 1, any)) out.max_tokens = longest;
  if (out.max_tokens) out.max_tokens = std::min(*out.max_tokens, limits.max_tokens);  // finish_reason says `length`
  if (!chat && !out.max_tokens) out.max_tokens = std::min(limits.default_max_tokens, limits.max_tokens);
  reader.read("stream", out.stream);
  read_stream_options(reader, out);
  read_logprobs(reader, limits, out);
  read_stops(reader, limits, out);
  read_sampling(reader, out);
  read_undone(reader);
  return reader.error();
}

std::optional<ApiError> parse_score_call(const Value& body, const ApiLimits& limits, ScoreCall& out) {
  if (!body.is_table()) return ApiError{400, "the body must be a JSON object", "", "invalid_value"};
  Reader reader(body);
  for (const ValueMember& member : body.as_table())
    if (member.key != "model" && member.key != "messages" && member.key != "conversations" && member.key != "user")
      reader.fail(member.key, member.key + " is not done here; a reward model takes messages or conversations");
  reader.read("model", out.model);
  const Value *one = reader.get("messages"), *several = reader.get("conversations");
  if (!one == !several) reader.fail("messages", "give either messages or conversations, a list of lists of messages");
  if (one) read_messages(reader, one, "messages", out.conversations.emplace_back());
  if (several && (!several->is_array() || several->size() == 0 || several->size() > limits.prompts_max))
    reader.fail("conversations",
                format("conversations must be a list of 1 to {} lists of messages", limits.prompts_max));
  if (reader.error() || !several) return reader.error();
  for (std::size_t i = 0; i < several->size(); ++i)
    read_messages(reader, &several->as_array()[i], format("conversations[{}]", i), out.conversations.emplace_back());
  return reader.error();
}

std::uint64_t draw_stream(const CompletionCall& call, std::size_t prompt, std::int64_t answer) {
  const auto i = static_cast<std::uint64_t>(answer);
  return call.seed ? i : prompt * static_cast<std::uint64_t>(call.answers) + i;
}

AnswerFormat::AnswerFormat(const CompletionCall& call, std::string id, std::int64_t created_s, std::string model_name,
                           const TextModel& model)
    : chat_(call.chat),
      logprobs_(call.logprobs.has_value()),
      include_usage_(call.include_usage),
      id_(std::move(id)),
      created_s_(created_s),
      model_name_(std::move(model_name)),
      model_(model) {}

Value AnswerFormat::envelope(const char* object) const {
  Value out;
  out.set("id", id_);
  out.set("object", object);
  out.set("created", created_s_);
  out.set("model", model_name_);
  return out;
}

// A token that is no text of its own (part of a character) is shown as its bytes, as the OpenAI API does.
std::string AnswerFormat::token_text(std::int32_t token) const {
  const std::string bytes = model_.token_name(token);
  if (is_valid_utf8(bytes)) return bytes;
  std::string out = "bytes:";
  for (const char c : bytes) out += format("\\x{:02x}", static_cast<unsigned char>(c));
  return out;
}

Value AnswerFormat::logprobs_of_completion(const AnswerPart& part) const {
  Value tokens = Value::make_array(), logprobs = Value::make_array(), tops = Value::make_array(),
        offsets = Value::make_array();
  for (const GeneratedToken& t : part.tokens) {
    tokens.push_back(token_text(t.token));
    logprobs.push_back(optional_number(t.logprob));
    offsets.push_back(t.text_offset);
    Value top;
    if (t.logprob) {
      top = Value::make_table();
      for (const TokenLogprob& alternative : t.top) {
        const std::string text = token_text(alternative.token);
        if (top.find(text) == nullptr) top.set(text, alternative.logprob);
      }
    }
    tops.push_back(std::move(top));
  }
  Value out;
  out.set("tokens", std::move(tokens));
  out.set("token_logprobs", std::move(logprobs));
  out.set("top_logprobs", std::move(tops));
  out.set("text_offset", std::move(offsets));
  return out;
}

Value AnswerFormat::logprobs_of_chat(const AnswerPart& part) const {
  const auto entry = [&](std::int32_t token, double logprob) {
    Value bytes = Value::make_array();
    for (const char c : model_.token_bytes(token)) bytes.push_back(static_cast<int>(static_cast<unsigned char>(c)));
    Value out;
    out.set("token", token_text(token));
    out.set("logprob", logprob);
    out.set("bytes", std::move(bytes));
    return out;
  };
  Value content = Value::make_array();
  for (const GeneratedToken& t : part.tokens) {
    Value one = entry(t.token, t.logprob.value_or(0));
    Value top = Value::make_array();
    for (const TokenLogprob& alternative : t.top) top.push_back(entry(alternative.token, alternative.logprob));
    one.set("top_logprobs", std::move(top));
    content.push_back(std::move(one));
  }
  Value out;
  out.set("content", std::move(content));
  return out;
}

Value AnswerFormat::calls_of(const AnswerPart& part, bool piece) const {
  Value calls = Value::make_array();
  for (std::size_t i = 0; i < part.calls.size(); ++i) {
    const auto number = static_cast<std::size_t>(part.calls_before) + i;
    Value function, call;
    function.set("name", part.calls[i].name);
    function.set("arguments", to_json(part.calls[i].arguments));
    if (piece) call.set("index", number);
    call.set("id", format("call_{}{:02x}{:04x}", id_.substr(id_.find('-') + 1), part.index, number));
    call.set("type", "function");
    call.set("function", std::move(function));
    calls.push_back(std::move(call));
  }
  return calls;
}

Value AnswerFormat::choice(const AnswerPart& part, bool piece) const {
  Value out;
  out.set("index", part.index);
  if (chat_) {
    Value message = Value::make_table();
    if (!piece) message.set("role", "assistant");
    if (!part.text.empty() || (!piece && part.calls.empty()))
      message.set("content", part.text);
    else if (!piece)
      message.set("content", Value());
    if (!part.calls.empty()) message.set("tool_calls", calls_of(part, piece));
    out.set(piece ? "delta" : "message", std::move(message));
  } else {
    out.set("text", part.text);
  }
  Value logprobs;
  if (logprobs_) logprobs = chat_ ? logprobs_of_chat(part) : logprobs_of_completion(part);
  out.set("logprobs", std::move(logprobs));
  const bool called = part.calls_before > 0 || !part.calls.empty();
  const char* finish = part.finish ? to_string(*part.finish) : nullptr;
  if (part.finish == FinishReason::stop && called) finish = "tool_calls";
  out.set("finish_reason", finish ? Value(finish) : Value());
  return out;
}

std::string AnswerFormat::whole(const std::vector<AnswerPart>& answers, const GenerationUsage& usage) const {
  Value out = envelope(chat_ ? "chat.completion" : "text_completion");
  Value choices = Value::make_array();
  for (const AnswerPart& part : answers) choices.push_back(choice(part, false));
  out.set("choices", std::move(choices));
  out.set("usage", usage_value(usage));
  return to_json(out);
}

std::string AnswerFormat::first_piece(std::int64_t index) const {
  Value delta;
  delta.set("role", "assistant");
  delta.set("content", "");
  Value one;
  one.set("index", index);
  one.set("delta", std::move(delta));
  one.set("logprobs", Value());
  one.set("finish_reason", Value());
  Value out = envelope("chat.completion.chunk");
  out.set("choices", ValueArray{std::move(one)});
  if (include_usage_) out.set("usage", Value());
  return event_of(out);
}

std::string AnswerFormat::piece(const AnswerPart& part) const {
  Value out = envelope(chat_ ? "chat.completion.chunk" : "text_completion");
  out.set("choices", ValueArray{choice(part, true)});
  if (include_usage_) out.set("usage", Value());
  return event_of(out);
}

std::string AnswerFormat::usage_piece(const GenerationUsage& usage) const {
  Value out = envelope(chat_ ? "chat.completion.chunk" : "text_completion");
  out.set("choices", Value::make_array());
  out.set("usage", usage_value(usage));
  return event_of(out);
}

std::string event_of(const Value& value) {
  return "data: " + to_json(value) + "\n\n";
}

Value model_value(const std::string& name, std::int64_t created_s, std::int64_t context_length) {
  Value out;
  out.set("id", name);
  out.set("object", "model");
  out.set("created", created_s);
  out.set("owned_by", "longhaul");
  out.set("root", name);
  out.set("max_model_len", context_length);
  return out;
}

}  // namespace longhaul
