#include "engine/infer/serve/model_server.h"

#include <sys/random.h>

#include <atomic>
#include <cmath>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>

#include "base/text/text.h"
#include "base/value/json.h"
#include "engine/infer/serve/own_requests.h"
#include "engine/infer/serve/tool_calls.h"

namespace longhaul {
namespace {

constexpr int body_threads = 2;

std::uint64_t random_u64() {
  std::uint64_t value = 0;
  if (::getrandom(&value, sizeof value, 0) != sizeof value) value = 0x9E3779B97F4A7C15;
  return value;
}

// Bodies wait here to be read and tokenized; bounded, so a flood is refused instead of kept.
class BodyQueue {
 public:
  explicit BodyQueue(std::size_t size_max) : size_max_(size_max) {
    for (int i = 0; i < body_threads; ++i) threads_.emplace_back([this] { work(); });
  }
  ~BodyQueue() {
    {
      std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    wake_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }
  bool push(std::function<void()> job) {
    {
      std::lock_guard lock(mutex_);
      if (jobs_.size() >= size_max_) return false;
      jobs_.push_back(std::move(job));
    }
    wake_.notify_one();
    return true;
  }

 private:
  void work() {
    while (true) {
      std::function<void()> job;
      {
        std::unique_lock lock(mutex_);
        wake_.wait(lock, [this] { return stopping_ || !jobs_.empty(); });
        if (stopping_) return;
        job = std::move(jobs_.front());
        jobs_.pop_front();
      }
      job();
    }
  }
  const std::size_t size_max_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<std::function<void()>> jobs_;
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

// One call: collects or streams its answers. Every method runs on the generator's thread.
class CallAnswer {
 public:
  // `calls_tools`: what is marked as a call in the answer is given back as one.
  CallAnswer(std::shared_ptr<HttpExchange> exchange, AnswerFormat answer_format, const CompletionCall& call,
             std::size_t answers, bool calls_tools)
      : exchange_(std::move(exchange)),
        format_(std::move(answer_format)),
        chat_(call.chat),
        stream_(call.stream),
        include_usage_(call.include_usage),
        calls_tools_(calls_tools),
        per_prompt_(static_cast<std::size_t>(call.answers)),
        parts_(answers),
        readers_(answers),
        left_(answers) {
    for (std::size_t i = 0; i < answers; ++i) parts_[i].index = static_cast<std::int64_t>(i);
  }

  void on_text(std::size_t index, const std::string& text, const std::vector<GeneratedToken>& tokens) {
    if (failed_) return;
    take(index, calls_tools_ ? readers_[index].push(text) : ToolCallReader::Part{text, {}}, tokens);
  }

  void on_end(std::size_t index, FinishReason reason, const GenerationUsage& usage, const std::string& error) {
    --left_;
    if (index % per_prompt_ == 0) usage_.prompt_tokens += usage.prompt_tokens;  // n answers share one prompt
    usage_.completion_tokens += usage.completion_tokens;
    if (reason != FinishReason::stop && reason != FinishReason::length) return fail(reason, usage, error);
    if (failed_) return;
    if (calls_tools_) take(index, readers_[index].finish(), {});
    parts_[index].finish = reason;
    if (stream_) {
      begin(index);
      exchange_->write(
          format_.piece({static_cast<std::int64_t>(index), "", {}, reason, {}, parts_[index].calls_before}));
    }
    if (left_ > 0) return;
    if (!stream_) return exchange_->respond({200, "application/json", {}, format_.whole(parts_, usage_)});
    if (include_usage_) exchange_->write(format_.usage_piece(usage_));
    exchange_->write(done_event);
    exchange_->finish();
  }

 private:
  void take(std::size_t index, ToolCallReader::Part part, const std::vector<GeneratedToken>& tokens) {
    AnswerPart& answer = parts_[index];
    if (stream_) {
      if (calls_tools_ && part.text.empty() && part.calls.empty() && tokens.empty()) return;  // held back
      begin(index);
      const auto calls = static_cast<std::int64_t>(part.calls.size());
      exchange_->write(format_.piece({static_cast<std::int64_t>(index), std::move(part.text), tokens, std::nullopt,
                                      std::move(part.calls), answer.calls_before}));
      answer.calls_before += calls;
      return;
    }
    answer.text += part.text;
    answer.tokens.insert(answer.tokens.end(), tokens.begin(), tokens.end());
    answer.calls.insert(answer.calls.end(), part.calls.begin(), part.calls.end());
  }
  void begin(std::size_t index) {
    if (!begun_) exchange_->begin_stream({200, "text/event-stream", {{"Cache-Control", "no-cache"}}, ""});
    begun_ = true;
    if (chat_ && parts_[index].text.empty()) {
      exchange_->write(format_.first_piece(static_cast<std::int64_t>(index)));
      parts_[index].text = "begun";
    }
  }
  void fail(FinishReason reason, const GenerationUsage& usage, const std::string& error) {
    if (failed_) return;
    failed_ = true;
    ApiError e{500, error, "", "generation_failed"};
    if (reason == FinishReason::cancelled) e = {503, "the server is shutting down", "", "shutting_down"};
    if (reason == FinishReason::deadline) {
      const bool never_ran = usage.completion_tokens == 0;
      e = {never_ran ? 503 : 504, error, "", never_ran ? "overloaded" : "deadline"};
    }
    if (!begun_) return exchange_->respond(error_response(e));
    exchange_->write(event_of(error_value(e)));
    exchange_->finish();
  }

  const std::shared_ptr<HttpExchange> exchange_;
  const AnswerFormat format_;
  const bool chat_, stream_, include_usage_, calls_tools_;
  const std::size_t per_prompt_;
  std::vector<AnswerPart> parts_;
  std::vector<ToolCallReader> readers_;
  std::size_t left_;
  GenerationUsage usage_;
  bool begun_ = false, failed_ = false;
};

class CallListener final : public GenerationListener {
 public:
  CallListener(std::shared_ptr<CallAnswer> answer, std::size_t index) : answer_(std::move(answer)), index_(index) {}
  void on_text(const std::string& text, const std::vector<GeneratedToken>& tokens) override {
    answer_->on_text(index_, text, tokens);
  }
  void on_end(FinishReason reason, const GenerationUsage& usage, const std::string& error) override {
    answer_->on_end(index_, reason, usage, error);
  }

 private:
  std::shared_ptr<CallAnswer> answer_;
  std::size_t index_;
};

std::optional<ApiError> other_model(const std::string& asked, const std::string& served) {
  if (asked.empty() || asked == served) return std::nullopt;
  return ApiError{404, format("the model '{}' is not served here; this is '{}'", asked, served), "model",
                  "model_not_found"};
}

// What the score is made of.
void add_parts(Value& entry, const JudgedAnswer& judged) {
  Value attributes = Value::make_table(), steps = Value::make_array();
  for (const auto& [name, number] : judged.attributes) attributes.set(name, number);
  for (const double right : judged.steps) steps.push_back(right);
  if (!judged.attributes.empty()) entry.set("attributes", std::move(attributes));
  if (!judged.steps.empty()) entry.set("steps", std::move(steps));
}

HttpResponse scores_response(const std::vector<JudgedAnswer>& judged, const std::string& id, std::int64_t created_s,
                             const std::string& model_name) {
  Value data = Value::make_array(), usage, out;
  std::int64_t tokens = 0;
  for (std::size_t i = 0; i < judged.size(); ++i) {
    if (!std::isfinite(judged[i].score))
      return error_response({500, format("the model gives conversation {} no number", i), "", "no_number"});
    Value entry;
    entry.set("object", "score"), entry.set("index", static_cast<std::int64_t>(i)), entry.set("score", judged[i].score);
    add_parts(entry, judged[i]);
    data.push_back(std::move(entry));
    tokens += judged[i].tokens;
  }
  usage.set("prompt_tokens", tokens), usage.set("total_tokens", tokens);
  out.set("id", id), out.set("object", "list"), out.set("created", created_s), out.set("model", model_name);
  out.set("data", std::move(data)), out.set("usage", std::move(usage));
  return {200, "application/json", {}, to_json(out)};
}

class ModelServerImpl final : public ModelServer {
 public:
  ModelServerImpl(const Clock& clock, ModelServerSettings settings)
      : clock_(clock), settings_(std::move(settings)), created_s_(clock.wall_ms() / 1000), seed_base_(random_u64()) {}
  ~ModelServerImpl() override { shut_down(); }

  Status listen() {
    HttpHandlers handlers;
    handlers.admit = [this](const HttpRequest& head) { return admit(head); };
    handlers.handle = [this](HttpRequest request, const std::shared_ptr<HttpExchange>& exchange) {
      handle(std::move(request), exchange);
    };
    handlers.error = [](int status, const std::string& what) { return error_response({status, what, "", ""}); };
    LH_TRY(http_, HttpServer::create(clock_, settings_.http, std::move(handlers)));
    bodies_ = std::make_unique<BodyQueue>(static_cast<std::size_t>(settings_.generator.queue_max) + 16);
    http_->start();
    return {};
  }
  int port() const override { return http_->port(); }

  void attach(std::unique_ptr<TextModel> model) override {
    model_ = std::move(model);
    generator_ = std::make_unique<Generator>(*model_, clock_, settings_.generator);
    thread_ = std::thread([this] { generator_->run(stop_generator_); });
    ready_.store(true, std::memory_order_release);
  }

  void attach(std::unique_ptr<AnswerJudge> judge) override {
    judge_ = std::move(judge);
    ready_.store(true, std::memory_order_release);
  }

  bool drain(std::int64_t deadline_ms) override {
    draining_ = true;
    const bool well = http_->drain(deadline_ms);
    if (!well && generates()) {
      generator_->cancel_all();
      http_->drain(2'000);
    }
    shut_down();
    return well;
  }

 private:
  std::optional<HttpResponse> admit(const HttpRequest& head) const;
  void handle(HttpRequest request, const std::shared_ptr<HttpExchange>& exchange);
  void complete(const std::string& body, bool chat, const std::shared_ptr<HttpExchange>& exchange);
  Result<std::vector<GenerationRequest>> requests_of(CompletionCall& call);
  bool known_path(const std::string& path, std::string& allowed) const;
  HttpResponse health(bool names_model) const;
  bool has_token(const HttpRequest& head) const;
  HttpResponse metrics() const;
  HttpResponse models(const std::string& path) const;
  void score(const std::string& body, const std::shared_ptr<HttpExchange>& exchange);
  bool ready() const { return ready_.load(std::memory_order_acquire); }
  bool generates() const { return ready() && generator_; }
  std::int64_t context_length() const {
    if (!ready()) return 0;
    return judge_ ? judge_->context_length() : model_->info().context_length;
  }

  void shut_down() {
    if (http_) http_->stop();
    bodies_.reset();
    if (thread_.joinable()) {
      generator_->cancel_all();
      stop_generator_ = true;
      thread_.join();
    }
  }

  const Clock& clock_;
  const ModelServerSettings settings_;
  const std::int64_t created_s_;
  const std::uint64_t seed_base_;
  std::atomic<std::uint64_t> calls_{0};
  std::atomic<bool> ready_{false}, draining_{false}, stop_generator_{false};
  std::unique_ptr<TextModel> model_;      // set before ready_
  std::unique_ptr<Generator> generator_;  // set before ready_
  std::unique_ptr<AnswerJudge> judge_;    // in place of both; set before ready_
  std::thread thread_;
  std::unique_ptr<BodyQueue> bodies_;
  std::unique_ptr<HttpServer> http_;
};

bool ModelServerImpl::known_path(const std::string& path, std::string& allowed) const {
  if (path == "/v1/completions" || path == "/v1/chat/completions" || path == "/v1/score") return allowed = "POST", true;
  if (path == "/health" || path == "/metrics" || path == "/v1/models" || starts_with(path, "/v1/models/")) {
    return allowed = "GET", true;
  }
  return false;
}

bool ModelServerImpl::has_token(const HttpRequest& head) const {
  const std::string* given = head.header("authorization");
  const std::string_view value = given == nullptr ? std::string_view() : std::string_view(*given);
  const bool bearer = value.size() > 7 && (starts_with(value, "Bearer ") || starts_with(value, "bearer "));
  return bearer && equal_in_constant_time(value.substr(7), settings_.token);
}

// Everything that can be refused without reading the body.
std::optional<HttpResponse> ModelServerImpl::admit(const HttpRequest& head) const {
  if (settings_.token.empty()) {
    if (const auto error = not_of_own_programs(head)) return error_response(*error);
  }
  if (head.path == "/health" && head.method == "GET") return std::nullopt;
  if (!settings_.token.empty() && !has_token(head)) {
    return error_response(
        {401, "send 'Authorization: Bearer <token>' with this server's token", "", "invalid_api_key"});
  }
  std::string allowed;
  if (!known_path(head.path, allowed))
    return error_response({404, "no such path: " + repair_utf8(head.path), "", "not_found"});
  if (head.method != allowed) {
    HttpResponse response = error_response({405, format("{} takes {}", head.path, allowed), "", "method_not_allowed"});
    response.headers.emplace_back("Allow", allowed);
    return response;
  }
  return std::nullopt;
}

void ModelServerImpl::handle(HttpRequest request, const std::shared_ptr<HttpExchange>& exchange) {
  if (request.path == "/health") return exchange->respond(health(settings_.token.empty() || has_token(request)));
  if (request.path == "/metrics") return exchange->respond(metrics());
  if (starts_with(request.path, "/v1/models")) return exchange->respond(models(request.path));
  if (!ready()) return exchange->respond(error_response({503, "the model is being loaded", "", "loading"}));
  const bool chat = request.path == "/v1/chat/completions", scores = request.path == "/v1/score";
  if (scores != (judge_ != nullptr))
    return exchange->respond(
        error_response({404,
                        scores ? "the model that is served here writes text and scores none: there is no /v1/score"
                               : "a reward model is served here, which writes no text: POST /v1/score",
                        "", "not_found"}));
  const bool taken = bodies_->push([this, chat, scores, body = std::move(request.body), exchange] {
    scores ? score(body, exchange) : complete(body, chat, exchange);
  });
  if (!taken)
    exchange->respond(error_response({503, "too many requests are waiting; try again later", "", "overloaded"}));
}

// The call as one generation request per answer; echoes the errors of encoding.
Result<std::vector<GenerationRequest>> ModelServerImpl::requests_of(CompletionCall& call) {
  std::vector<std::vector<std::int32_t>> prompts;
  if (call.chat) {
    LH_TRY(auto tokens, model_->encode_chat(call.messages, call.tools));
    prompts.push_back(std::move(tokens));
  }
  for (CompletionPrompt& prompt : call.prompts) {
    if (prompt.is_tokens) {
      prompts.push_back(std::move(prompt.tokens));
    } else {
      LH_TRY(auto tokens,
             call.add_special_tokens ? model_->encode_with_special(prompt.text) : model_->encode(prompt.text));
      prompts.push_back(std::move(tokens));
    }
  }
  const std::uint64_t call_number = calls_.fetch_add(1);
  call.sampling.seed = call.seed.value_or(seed_base_ + call_number);
  std::vector<GenerationRequest> out;
  for (std::size_t which = 0; which < prompts.size(); ++which) {
    const std::vector<std::int32_t>& prompt = prompts[which];
    const std::int64_t room = model_->info().context_length - static_cast<std::int64_t>(prompt.size());
    for (std::int64_t i = 0; i < call.answers; ++i) {
      GenerationRequest request;
      request.prompt = prompt;
      request.sampling = call.sampling;
      request.sampling.stream = draw_stream(call, which, i);
      request.stops = call.stops;
      // What there is room for, at the most: a prompt that leaves none is refused by the generator.
      request.max_tokens =
          std::min(call.max_tokens.value_or(settings_.api.max_tokens), std::max<std::int64_t>(room, 1));
      request.echo = call.echo;
      request.show_special = !call.skip_special_tokens;
      request.logprobs = call.logprobs;
      request.deadline_ms = settings_.request_deadline_ms;
      out.push_back(std::move(request));
    }
  }
  return out;
}

void ModelServerImpl::complete(const std::string& body, bool chat, const std::shared_ptr<HttpExchange>& exchange) {
  if (exchange->gone()) return;
  const auto refuse = [&](const ApiError& error) { exchange->respond(error_response(error)); };
  const Result<Value> json = parse_json(body, "request body");
  if (!json) return refuse({400, json.error().what, "", "invalid_json"});
  CompletionCall call;
  if (const auto error = parse_completion_call(*json, chat, settings_.api, call)) return refuse(*error);
  if (const auto other = other_model(call.model, settings_.model_name)) return refuse(*other);
  Result<std::vector<GenerationRequest>> requests = requests_of(call);
  if (!requests) {
    const bool by_tools = !call.tools.is_null() && requests.error().code == ErrorCode::unsupported;
    const char* param = by_tools ? "tools" : chat ? "messages" : "prompt";
    return refuse({400, requests.error().message(), param, "invalid_value"});
  }

  const std::string id = format("{}-{:016x}{:08x}", chat ? "chatcmpl" : "cmpl", seed_base_, calls_.load());
  auto answer = std::make_shared<CallAnswer>(
      exchange, AnswerFormat(call, id, clock_.wall_ms() / 1000, settings_.model_name, *model_), call, requests->size(),
      !call.tools.is_null() && model_->info().marks_tool_calls);
  std::vector<Generator::Submission> group;
  for (std::size_t i = 0; i < requests->size(); ++i) {
    group.push_back({std::move((*requests)[i]), std::make_shared<CallListener>(answer, i)});
  }
  const Result<std::vector<GenerationId>> ids = generator_->submit(std::move(group));
  if (!ids) {
    if (ids.error().code == ErrorCode::unavailable) return refuse({503, ids.error().message(), "", "overloaded"});
    const bool too_long = ids.error().what.find("do not fit the model's context") != std::string::npos;
    return refuse({400, ids.error().message(), too_long ? (chat ? "messages" : "prompt") : "",
                   too_long ? "context_length_exceeded" : "invalid_value"});
  }
  exchange->on_gone([this, ended = *ids] {
    for (const GenerationId one : ended) generator_->cancel(one);
  });
}

void ModelServerImpl::score(const std::string& body, const std::shared_ptr<HttpExchange>& exchange) {
  if (exchange->gone()) return;
  const auto refuse = [&](const ApiError& error) { exchange->respond(error_response(error)); };
  const Result<Value> json = parse_json(body, "request body");
  if (!json) return refuse({400, json.error().what, "", "invalid_json"});
  ScoreCall call;
  if (const auto error = parse_score_call(*json, settings_.api, call)) return refuse(*error);
  if (const auto other = other_model(call.model, settings_.model_name)) return refuse(*other);
  const Result<std::vector<JudgedAnswer>> judged = judge_->judge(call.conversations);
  if (!judged) return refuse({400, judged.error().message(), "messages", "invalid_value"});
  const std::string id = format("score-{:016x}{:08x}", seed_base_, calls_.fetch_add(1));
  exchange->respond(scores_response(*judged, id, clock_.wall_ms() / 1000, settings_.model_name));
}

HttpResponse ModelServerImpl::health(bool names_model) const {
  const char* status = "ok";
  if (!ready()) status = "loading";
  if (generates() && clock_.monotonic_ns() - generator_->last_alive_ns() > settings_.stall_ms * 1'000'000)
    status = "stalled";
  if (draining_) status = "draining";
  Value out;
  out.set("status", status);
  if (names_model) out.set("model", settings_.model_name);
  return {std::string(status) == "ok" ? 200 : 503, "application/json", {}, to_json(out) + "\n"};
}

HttpResponse ModelServerImpl::models(const std::string& path) const {
  const Value model = model_value(settings_.model_name, created_s_, context_length());
  if (path == "/v1/models") {
    Value out;
    out.set("object", "list");
    out.set("data", ValueArray{model});
    return {200, "application/json", {}, to_json(out)};
  }
  const std::string name = path.substr(std::string("/v1/models/").size());
  if (name != settings_.model_name) {
    return error_response(
        {404, format("the model '{}' is not served here", repair_utf8(name)), "model", "model_not_found"});
  }
  return {200, "application/json", {}, to_json(model)};
}

HttpResponse ModelServerImpl::metrics() const {
  const GeneratorCounters g = generates() ? generator_->counters() : GeneratorCounters{};
  const HttpCounters h = http_->counters();
  std::string out;
  const auto add = [&](const char* type, const std::string& name, const std::string& help, double value) {
    out += format("# HELP longhaul_{0} {1}\n# TYPE longhaul_{0} {2}\nlonghaul_{0} {3}\n", name, help, type, value);
  };
  add("gauge", "requests_running", "answers being generated", g.running);
  add("gauge", "requests_waiting", "answers waiting for a slot", g.waiting);
  add("counter", "requests_refused_total", "answers refused because the queue was full",
      static_cast<double>(g.refused));
  add("counter", "prompt_tokens_total", "tokens of prompts read", static_cast<double>(g.prompt_tokens));
  add("counter", "generation_tokens_total", "tokens generated", static_cast<double>(g.generated_tokens));
  add("counter", "model_steps_total", "forward passes", static_cast<double>(g.steps));
  if (g.pages.total > 0) {
    add("gauge", "cache_pages_used", "pages of keys and values that texts fill", static_cast<double>(g.pages.used));
    add("gauge", "cache_pages_promised", "pages that running answers may come to fill, those in use among them",
        static_cast<double>(g.pages.promised));
    add("gauge", "cache_pages_free", "pages that nobody was promised",
        static_cast<double>(g.pages.total - g.pages.promised));
    add("counter", "requests_held_up_total", "steps in which a free slot waited for pages",
        static_cast<double>(g.held_up));
  }
  out +=
      "# HELP longhaul_requests_finished_total answers ended, by reason\n# TYPE longhaul_requests_finished_total "
      "counter\n";
  for (int i = 0; i < 5; ++i) {
    out += format("longhaul_requests_finished_total{{reason=\"{}\"}} {}\n", to_string(static_cast<FinishReason>(i)),
                  g.finished[i]);
  }
  out += format(
      "# HELP longhaul_time_to_first_token_seconds from request to first token\n"
      "# TYPE longhaul_time_to_first_token_seconds summary\nlonghaul_time_to_first_token_seconds_sum {}\n"
      "longhaul_time_to_first_token_seconds_count {}\n",
      g.first_token_s, g.first_token_count);
  add("gauge", "http_connections", "open connections", h.connections);
  add("counter", "http_requests_total", "requests that arrived whole", static_cast<double>(h.requests));
  add("counter", "http_timeouts_total", "requests that did not arrive in time", static_cast<double>(h.timeouts));
  add("counter", "http_dropped_total", "connections dropped: too many, or not reading", static_cast<double>(h.dropped));
  return {200, "text/plain; version=0.0.4", {}, out};
}

}  // namespace

bool equal_in_constant_time(std::string_view given, std::string_view expected) {
  unsigned difference = given.size() == expected.size() ? 0 : 1;
  for (std::size_t i = 0; i < given.size(); ++i) {
    difference |=
        static_cast<unsigned char>(given[i]) ^
        static_cast<unsigned>(static_cast<unsigned char>(expected.empty() ? 0 : expected[i % expected.size()]));
  }
  return difference == 0;
}

Result<std::unique_ptr<ModelServer>> ModelServer::start(const Clock& clock, ModelServerSettings settings) {
  auto server = std::make_unique<ModelServerImpl>(clock, std::move(settings));
  LH_CHECK(server->listen());
  return std::unique_ptr<ModelServer>(std::move(server));
}

}  // namespace longhaul
