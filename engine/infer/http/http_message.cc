#include "engine/infer/http/http_message.h"

#include <algorithm>
#include <charconv>
#include <cstring>

#include "base/text/text.h"

namespace longhaul {
namespace {

bool is_token_char(char c) {
  const auto u = static_cast<unsigned char>(c);
  return (u >= '0' && u <= '9') || (u >= 'a' && u <= 'z') || (u >= 'A' && u <= 'Z') ||
         (u != 0 && std::strchr("!#$%&'*+-.^_`|~", c) != nullptr);
}
bool is_token(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), is_token_char);
}

char lower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}
std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) c = lower(c);
  return out;
}

std::string_view trim_blanks(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

bool parse_number(std::string_view text, int base, std::uint64_t& out) {
  if (text.empty() || text.size() > 15) return false;  // 15 digits: no overflow in either base
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out, base);
  return error == std::errc() && end == text.data() + text.size();
}

// A line end that is not CRLF among them: what stands between here and the client may end a line there.
bool holds_controls(std::string_view line) {
  return std::any_of(line.begin(), line.end(), [](char c) {
    const auto u = static_cast<unsigned char>(c);
    return (u < 0x20 && c != '\t') || u == 0x7F;
  });
}

// "close, Keep-Alive" holds "close"?
bool list_holds(std::string_view list, std::string_view word) {
  for (const std::string& item : split(list, ',')) {
    if (lower(trim_blanks(item)) == word) return true;
  }
  return false;
}

}  // namespace

const std::string* HttpRequest::header(std::string_view name) const {
  for (const auto& [key, value] : headers) {
    if (key == name) return &value;
  }
  return nullptr;
}

HttpReader::State HttpReader::fail(int status, std::string what) {
  error_status_ = status;
  error_ = std::move(what);
  buffer_.clear();
  return state_ = State::failed;
}

HttpReader::State HttpReader::feed(std::string_view bytes) {
  if (state_ == State::failed) return state_;
  buffer_.append(bytes);
  return state_ == State::done ? state_ : advance();
}

HttpRequest HttpReader::take() {
  HttpRequest out = std::move(request_);
  request_ = {};
  chunked_ = expects_continue_ = false;
  length_ = chunk_left_ = 0;
  trailer_bytes_ = 0;
  chunk_ = Chunk::size;
  state_ = State::head;
  return out;
}

HttpReader::State HttpReader::advance() {
  if (state_ == State::head) {
    while (starts_with(buffer_, "\r\n")) buffer_.erase(0, 2);  // an empty line before a request is allowed (2.2)
    const std::size_t end = buffer_.find("\r\n\r\n");
    if (end == std::string::npos ? buffer_.size() > limits_.head_max : end > limits_.head_max) {
      return fail(431, format("the request's head is larger than {} bytes", limits_.head_max));
    }
    if (end == std::string::npos) return state_;
    const std::string head = buffer_.substr(0, end + 2);
    buffer_.erase(0, end + 4);
    if (!read_head(head) || !decide_body()) return state_;
    state_ = State::body;
  }
  if (state_ != State::body) return state_;
  if (chunked_) {
    if (read_chunks()) state_ = State::done;
    return state_;
  }
  const std::size_t take =
      std::min<std::size_t>(buffer_.size(), static_cast<std::size_t>(length_) - request_.body.size());
  request_.body.append(buffer_, 0, take);
  buffer_.erase(0, take);
  if (request_.body.size() == length_) state_ = State::done;
  return state_;
}

bool HttpReader::read_head(std::string_view head) {
  bool first = true;
  while (!head.empty()) {
    const std::size_t end = head.find("\r\n");
    const std::string_view line = head.substr(0, end);
    head.remove_prefix(end + 2);
    if (holds_controls(line)) return fail(400, "control character in the request's head"), false;
    if (first ? !read_request_line(line) : !read_header_line(line)) return false;
    first = false;
  }
  return true;
}

bool HttpReader::read_request_line(std::string_view line) {
  const std::size_t a = line.find(' ');
  const std::size_t b = line.rfind(' ');
  if (a == std::string_view::npos || a == b)
    return fail(400, "the request line is not 'METHOD target HTTP/1.1'"), false;
  const std::string_view method = line.substr(0, a);
  std::string_view target = line.substr(a + 1, b - a - 1);
  const std::string_view version = line.substr(b + 1);
  if (!is_token(method)) return fail(400, "the method is not a word"), false;
  if (version == "HTTP/1.1") {
    request_.minor_version = 1;
  } else if (version == "HTTP/1.0") {
    request_.minor_version = 0;
  } else {
    return fail(starts_with(version, "HTTP/") ? 505 : 400, "only HTTP/1.0 and HTTP/1.1 are spoken here"), false;
  }
  if (starts_with(target, "http://")) {  // absolute form: must be understood (3.2.2)
    const std::size_t slash = target.find('/', 7);
    target = slash == std::string_view::npos ? std::string_view("/") : target.substr(slash);
  }
  if (target.empty() || (target[0] != '/' && target != "*") || target.find(' ') != std::string_view::npos) {
    return fail(400, "the target is not a path"), false;
  }
  const std::size_t question = target.find('?');
  request_.method = method;
  request_.path = target.substr(0, question);
  if (question != std::string_view::npos) request_.query = target.substr(question + 1);
  return true;
}

bool HttpReader::read_header_line(std::string_view line) {
  const std::size_t colon = line.find(':');
  if (colon == std::string_view::npos || !is_token(line.substr(0, colon))) {
    return fail(400, "a header line is not 'Name: value'"), false;
  }
  if (request_.headers.size() >= limits_.headers_max) {
    return fail(431, format("more than {} header lines", limits_.headers_max)), false;
  }
  request_.headers.emplace_back(lower(line.substr(0, colon)), trim_blanks(line.substr(colon + 1)));
  return true;
}

bool HttpReader::decide_body() {
  const std::string* length = nullptr;
  int encodings = 0, hosts = 0;
  for (const auto& [name, value] : request_.headers) {
    if (name == "content-length") {
      if (length != nullptr) return fail(400, "Content-Length is there twice"), false;
      length = &value;
    }
    if (name == "transfer-encoding") {
      ++encodings;
      if (lower(value) != "chunked") return fail(501, "the only transfer encoding known here is chunked"), false;
    }
    if (name == "host") ++hosts;
    if (name == "expect") {
      if (lower(value) != "100-continue") return fail(417, "the only expectation known here is 100-continue"), false;
      expects_continue_ = request_.minor_version == 1;
    }
  }
  if (hosts > 1 || (hosts == 0 && request_.minor_version == 1)) return fail(400, "one Host header is needed"), false;
  if (encodings > 1 || (encodings == 1 && (length != nullptr || request_.minor_version == 0))) {
    return fail(400, "Transfer-Encoding with Content-Length, twice, or in HTTP/1.0"), false;
  }
  const std::string* connection = request_.header("connection");
  request_.keep_alive = request_.minor_version == 1 ? connection == nullptr || !list_holds(*connection, "close")
                                                    : connection != nullptr && list_holds(*connection, "keep-alive");
  chunked_ = encodings == 1;
  if (length != nullptr && !parse_number(*length, 10, length_))
    return fail(400, "Content-Length is not a number"), false;
  if (length_ > limits_.body_max) {
    return fail(413, format("the body of {} bytes is larger than {}", length_, limits_.body_max)), false;
  }
  return true;
}

// True when the last chunk and its trailer were read. The buffer is cut once at the end: a body of one-byte chunks must
// not cost a move of the whole buffer for each.
bool HttpReader::read_chunks() {
  std::size_t at = 0;
  const bool complete = read_chunks_from(at);
  if (state_ != State::failed) buffer_.erase(0, at);
  return complete;
}

bool HttpReader::read_chunks_from(std::size_t& at) {
  while (true) {
    if (chunk_ == Chunk::data) {
      const std::size_t take = std::min<std::size_t>(buffer_.size() - at, static_cast<std::size_t>(chunk_left_));
      request_.body.append(buffer_, at, take);
      at += take;
      chunk_left_ -= take;
      if (chunk_left_ > 0) return false;
      chunk_ = Chunk::data_end;
    }
    const std::size_t end = buffer_.find("\r\n", at);
    if ((end == std::string::npos ? buffer_.size() : end) - at > 1024)
      return fail(400, "a chunk's line is too long"), false;
    if (end == std::string::npos) return false;
    const std::string line = buffer_.substr(at, end - at);
    at = end + 2;
    if (holds_controls(line)) return fail(400, "control character in a chunk's line or in the trailer"), false;
    if (chunk_ == Chunk::data_end) {
      if (!line.empty()) return fail(400, "a chunk is longer than its size"), false;
      chunk_ = Chunk::size;
    } else if (chunk_ == Chunk::size) {
      const std::string_view digits = trim_blanks(std::string_view(line).substr(0, line.find(';')));
      if (!parse_number(digits, 16, chunk_left_)) return fail(400, "a chunk's size is not a number"), false;
      if (chunk_left_ > limits_.body_max || request_.body.size() + chunk_left_ > limits_.body_max) {
        return fail(413, format("the body is larger than {} bytes", limits_.body_max)), false;
      }
      chunk_ = chunk_left_ == 0 ? Chunk::trailer : Chunk::data;
    } else {  // trailer fields are read and dropped
      if (line.empty()) return true;
      const std::size_t colon = line.find(':');
      if (colon == std::string::npos || !is_token(std::string_view(line).substr(0, colon)))
        return fail(400, "a line of the trailer is not 'Name: value'"), false;
      trailer_bytes_ += line.size();
      if (trailer_bytes_ > limits_.head_max) return fail(431, "the trailer is too long"), false;
    }
  }
}

const char* http_status_text(int status) {
  switch (status) {
    case 200: return "OK";
    case 400: return "Bad Request";
    case 401: return "Unauthorized";
    case 404: return "Not Found";
    case 405: return "Method Not Allowed";
    case 408: return "Request Timeout";
    case 413: return "Content Too Large";
    case 417: return "Expectation Failed";
    case 429: return "Too Many Requests";
    case 415: return "Unsupported Media Type";
    case 431: return "Request Header Fields Too Large";
    case 500: return "Internal Server Error";
    case 501: return "Not Implemented";
    case 503: return "Service Unavailable";
    case 504: return "Gateway Timeout";
    case 505: return "HTTP Version Not Supported";
    default: return "Status";
  }
}

namespace {

std::string head_of(const HttpResponse& response, bool keep_alive) {
  std::string out =
      format("HTTP/1.1 {} {}\r\nContent-Type: {}\r\nConnection: {}\r\n", response.status,
             http_status_text(response.status), response.content_type, keep_alive ? "keep-alive" : "close");
  out += "X-Content-Type-Options: nosniff\r\n";  // a browser must not take an answer's text for a page
  for (const auto& [name, value] : response.headers) out += format("{}: {}\r\n", name, value);
  return out;
}

}  // namespace

std::string format_response(const HttpResponse& response, bool keep_alive) {
  return head_of(response, keep_alive) + format("Content-Length: {}\r\n\r\n", response.body.size()) + response.body;
}

std::string format_stream_head(const HttpResponse& response, bool chunked, bool keep_alive) {
  return head_of(response, keep_alive) + (chunked ? "Transfer-Encoding: chunked\r\n\r\n" : "\r\n");
}

std::string format_chunk(std::string_view bytes) {
  if (bytes.empty()) return {};
  return format("{:x}\r\n", bytes.size()) + std::string(bytes) + "\r\n";
}

}  // namespace longhaul
