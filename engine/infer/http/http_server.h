// Room engine/infer/http
// A small HTTP/1.1 server and client of our own, made for many slow connections.
// http_server.h is the server with one polling thread; http_message.h parses and writes without sockets.
// http_client.h asks our own server (health checks); socket_file.h listens on a socket in the file system.
// It knows no route and no model: engine/infer/serve hands in the handlers.
//
// The server's front: one thread and poll() for all connections, so a client that sends or reads slowly costs a
// descriptor and a small buffer, never a thread. (A thread per connection, as common small HTTP libraries have it, lets
// eight clients that drip a byte per second starve the ninth.) A request reaches the handler only when it has arrived
// whole.
//
//   connection:  reading → handling (→ streaming) → writing → reading (keep-alive) | closing
//
// Deadlines: a request must have arrived whole `header_deadline_ms` after its first byte (408); an idle connection is
// closed after `idle_ms`; a client that takes nothing of its answer for `write_stall_ms`, or lets more than
// `output_max` pile up, is dropped. Connections above `connections_max` push out the one that has been reading or idle
// for longest.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/error/result.h"
#include "base/system/clock.h"
#include "engine/infer/http/http_message.h"

namespace longhaul {

struct HttpServerSettings {
  std::string host = "127.0.0.1";
  int port = 0;        // 0: a free one
  int listen_fd = -1;  // a socket that listens already; host and port are then not used
  HttpLimits limits;
  std::int64_t header_deadline_ms = 10'000;
  std::int64_t idle_ms = 30'000;
  std::int64_t write_stall_ms = 20'000;
  std::size_t output_max = 8 << 20;  // bytes waiting for one client
  int connections_max = 512;
};

// The answer to one request. Thread-safe; may outlive the connection, then everything is a no-op. Answer exactly once:
// respond(), or begin_stream(), any number of write(), finish(). Destroying it unanswered gives 500.
class HttpExchange {
 public:
  virtual ~HttpExchange() = default;
  virtual void respond(const HttpResponse& response) = 0;
  virtual void begin_stream(const HttpResponse& head) = 0;  // body is ignored
  virtual void write(std::string_view bytes) = 0;
  virtual void finish() = 0;
  virtual bool gone() const = 0;  // the client has left, or was dropped
  // Called once when the client leaves before the answer is complete; from the server's thread, or here if it has left.
  virtual void on_gone(std::function<void()> callback) = 0;
};

struct HttpHandlers {
  // With the head only, before the body is read: an answer refuses the request. On the server's thread; must be quick.
  std::function<std::optional<HttpResponse>(const HttpRequest& head)> admit;
  // With the whole request, on the server's thread: must not block; hand it to another thread.
  std::function<void(HttpRequest request, std::shared_ptr<HttpExchange> exchange)> handle;
  // Body of answers that the server gives itself (400, 408, 413, ...).
  std::function<HttpResponse(int status, const std::string& what)> error;
};

struct HttpCounters {
  std::int64_t accepted = 0, requests = 0, timeouts = 0, dropped = 0;
  int connections = 0;
};

// Binds and listens; the descriptor is close-on-exec. Errors say who has the port.
Result<int> listen_on(const std::string& host, int port);
Result<int> port_of(int listen_fd);  // 0 for a socket in the file system

class HttpServer {
 public:
  // Binds at once; serves from start() on.
  static Result<std::unique_ptr<HttpServer>> create(const Clock& clock, HttpServerSettings settings,
                                                    HttpHandlers handlers);
  virtual ~HttpServer() = default;
  virtual int port() const = 0;
  virtual void start() = 0;  // starts the server's thread
  // No new connections, idle ones closed, requests that are not whole yet refused (503). Returns when every answer is
  // out, or false at the deadline.
  virtual bool drain(std::int64_t deadline_ms) = 0;
  virtual void stop() = 0;  // closes everything and joins the thread
  virtual HttpCounters counters() const = 0;
};

}  // namespace longhaul
