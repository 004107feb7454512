// An endpoint in the test's own process, which judges answers as the test asks it to.
#pragma once

#include <doctest/doctest.h>

#include <cstdlib>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/text/text.h"
#include "engine/infer/http/http_server.h"

namespace longhaul {

inline HttpResponse endpoint_says(const std::string& body, int status = 200) {
  HttpResponse response;
  response.status = status, response.body = body;
  return response;
}

// Answers its n-th request (from 0) as `answer` says, and not at all where that says nothing; keeps what it was asked.
class RewardServer {
 public:
  using Answer = std::function<std::optional<HttpResponse>(std::size_t number, const HttpRequest& request)>;
  explicit RewardServer(Answer answer) : answer_(std::move(answer)) {
    ::setenv("no_proxy", "127.0.0.1", 1);
    HttpHandlers handlers;
    handlers.admit = [](const HttpRequest&) { return std::nullopt; };
    handlers.error = [](int status, const std::string& what) {
      HttpResponse response;
      response.status = status, response.body = what;
      return response;
    };
    handlers.handle = [this](HttpRequest request, std::shared_ptr<HttpExchange> exchange) {
      const std::lock_guard<std::mutex> guard(lock_);
      requests_.push_back(std::move(request));
      if (const auto response = answer_(requests_.size() - 1, requests_.back()))
        exchange->respond(*response);
      else
        open_.push_back(std::move(exchange));
    };
    auto made = HttpServer::create(clock_, HttpServerSettings(), std::move(handlers));
    REQUIRE_MESSAGE(made.ok(), made.error().message());
    server_ = std::move(*made);
    server_->start();
  }
  ~RewardServer() {
    {
      const std::lock_guard<std::mutex> guard(lock_);
      open_.clear();
    }
    server_->stop();
  }
  std::string url() const { return format("http://127.0.0.1:{}/judge?of=answers", server_->port()); }
  std::vector<HttpRequest> requests() {
    const std::lock_guard<std::mutex> guard(lock_);
    return requests_;
  }

 private:
  SystemClock clock_;
  Answer answer_;
  std::mutex lock_;
  std::vector<HttpRequest> requests_;
  std::vector<std::shared_ptr<HttpExchange>> open_;
  std::unique_ptr<HttpServer> server_;
};

}  // namespace longhaul
