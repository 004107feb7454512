// Room engine/infer/serve
// The server as users see it: the OpenAI API over one model, and the processes that keep it running.
// model_server.h has routes and threads; openai_api.h the JSON; request_fields.h refuses what is not supported.
// serve.h is the program, supervisor.h restarts it, deploy.h is the stage `deploy`.
// It joins generate/ and http/, which do not know each other; engine/tasks, which starts it, is unknown here.
//
// One model behind the OpenAI HTTP API: routes, token, queue, generation, metrics. Threads: one for all connections
// (http_server.h), two that read bodies and tokenize, one that runs the model (generator.h).
//
//   GET  /health                 200 {"status":"ok"}; 503 while the model loads, hangs or the server drains. No token
//   GET  /metrics                Prometheus text
//   GET  /v1/models[/{id}]
//   POST /v1/completions         text or token ids; echo and logprobs of the prompt too
//   POST /v1/chat/completions
//
// A reward model answers POST /v1/score instead of the last two; one call computes at a time.
#pragma once

#include <memory>
#include <string>

#include "base/system/clock.h"
#include "engine/infer/http/http_server.h"
#include "engine/infer/serve/answer_judge.h"
#include "engine/infer/serve/openai_api.h"

namespace longhaul {

struct ModelServerSettings {
  HttpServerSettings http;
  GeneratorLimits generator;
  ApiLimits api;
  std::string model_name = "model";
  std::string token;  // "" asks for none
  std::int64_t request_deadline_ms = 120'000;
  std::int64_t stall_ms = 60'000;  // a step of the model that takes longer: /health says so
};

class ModelServer {
 public:
  // Listens and answers at once; completions are 503 until attach().
  static Result<std::unique_ptr<ModelServer>> start(const Clock& clock, ModelServerSettings settings);
  virtual ~ModelServer() = default;
  virtual int port() const = 0;
  // Either, once.
  virtual void attach(std::unique_ptr<TextModel> model) = 0;
  virtual void attach(std::unique_ptr<AnswerJudge> judge) = 0;
  // Ends well: nothing new, what runs or waits is finished; at the deadline the rest is cut. True: nothing was cut.
  virtual bool drain(std::int64_t deadline_ms) = 0;
};

// Equal, in a time that depends on the length of `given` only.
bool equal_in_constant_time(std::string_view given, std::string_view expected);

}  // namespace longhaul
