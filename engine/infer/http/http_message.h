// HTTP/1.1 messages as bytes: a strict, incremental reader of requests and a writer of responses. Pure: no sockets, no
// time. RFC 9112; what it leaves open is refused when it could be read in two ways (both Content-Length and
// Transfer-Encoding, folded header lines, bare CR, differing lengths).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace longhaul {

struct HttpRequest {
  std::string method;  // "POST"
  std::string path;    // target up to '?', percent-encoded as it came
  std::string query;
  int minor_version = 1;
  std::vector<std::pair<std::string, std::string>> headers;  // names in lower case, values trimmed
  std::string body;
  bool keep_alive = true;

  const std::string* header(std::string_view name) const;  // by lower-case name; the first of several
};

struct HttpResponse {
  int status = 200;
  std::string content_type = "application/json";
  std::vector<std::pair<std::string, std::string>> headers;
  std::string body;
};

struct HttpLimits {
  std::size_t head_max = 16 * 1024;
  std::size_t headers_max = 100;
  std::size_t body_max = 1 << 20;
};

// Feeds on bytes as they arrive. After `done`, take() gives the request and the reader begins the next one with the
// bytes that came behind it.
class HttpReader {
 public:
  enum class State { head, body, done, failed };

  explicit HttpReader(HttpLimits limits) : limits_(limits) {}
  State feed(std::string_view bytes);
  State state() const { return state_; }
  // From State::body on: the head is known, so the request can be refused before its body is read.
  const HttpRequest& request() const { return request_; }
  bool expects_continue() const { return expects_continue_; }
  int error_status() const { return error_status_; }  // after failed: 400, 413, 431, 501, 505
  const std::string& error() const { return error_; }
  bool started() const { return state_ != State::head || !buffer_.empty(); }
  std::size_t buffered_bytes() const { return buffer_.size() + request_.body.size(); }
  HttpRequest take();

 private:
  State fail(int status, std::string what);
  State advance();
  bool read_head(std::string_view head);
  bool read_request_line(std::string_view line);
  bool read_header_line(std::string_view line);
  bool decide_body();
  bool read_chunks();
  bool read_chunks_from(std::size_t& at);

  const HttpLimits limits_;
  State state_ = State::head;
  std::string buffer_;  // not consumed yet
  HttpRequest request_;
  bool chunked_ = false;
  bool expects_continue_ = false;
  std::uint64_t length_ = 0;  // of the body, when not chunked
  enum class Chunk { size, data, data_end, trailer } chunk_ = Chunk::size;
  std::uint64_t chunk_left_ = 0;
  std::size_t trailer_bytes_ = 0;
  int error_status_ = 0;
  std::string error_;
};

const char* http_status_text(int status);
// Head and body, with Content-Length.
std::string format_response(const HttpResponse& response, bool keep_alive);
// Head of a stream: chunked for HTTP/1.1, until the end of the connection for HTTP/1.0.
std::string format_stream_head(const HttpResponse& response, bool chunked, bool keep_alive);
std::string format_chunk(std::string_view bytes);  // empty bytes: nothing ("0" would end the stream)
inline constexpr std::string_view last_chunk = "0\r\n\r\n";

}  // namespace longhaul
