// The reader of HTTP requests: any split of the bytes gives the same request, and what is ambiguous is refused.
#include "engine/infer/http/http_message.h"

#include <doctest/doctest.h>

#include "base/digest/philox.h"
#include "base/text/text.h"

namespace longhaul {
namespace {

using ReaderState = HttpReader::State;

int status_of(const std::string& bytes, HttpLimits limits = {}) {
  HttpReader reader(limits);
  return reader.feed(bytes) == ReaderState::failed ? reader.error_status() : 0;
}

std::string get_with(const std::string& headers) {
  return "GET / HTTP/1.1\r\nHost: x\r\n" + headers + "\r\n";
}

}  // namespace

TEST_CASE("a request is the same however its bytes arrive") {
  const std::string plain =
      "POST /v1/completions?x=1 HTTP/1.1\r\nHost: here\r\nContent-Length: 5\r\nX-Thing:  a b \r\n\r\nhello";
  const std::string chunked =
      "POST /v1/completions?x=1 HTTP/1.1\r\nHost: here\r\nTransfer-Encoding: chunked\r\nX-Thing: a b\r\n\r\n"
      "2;ext=1\r\nhe\r\n3\r\nllo\r\n0\r\nTrailer: t\r\n\r\n";
  for (std::uint64_t seed = 0; seed < 400; ++seed) {
    CAPTURE(seed);
    PhiloxSequence random(seed);
    const std::string bytes = seed % 2 == 0 ? plain + chunked : chunked + plain;
    HttpReader reader({});
    int requests = 0;
    const auto check = [&] {
      while (reader.state() == ReaderState::done) {
        const HttpRequest request = reader.take();
        CHECK(request.method == "POST");
        CHECK(request.path == "/v1/completions");
        CHECK(request.query == "x=1");
        CHECK(request.body == "hello");
        REQUIRE(request.header("x-thing") != nullptr);
        CHECK(*request.header("x-thing") == "a b");
        CHECK(request.keep_alive);
        ++requests;
        reader.feed("");
      }
    };
    for (std::size_t at = 0; at < bytes.size();) {
      const std::size_t count =
          std::min<std::size_t>(bytes.size() - at, 1 + random.next_below(seed % 7 == 0 ? 100 : 4));
      reader.feed(std::string_view(bytes).substr(at, count));
      at += count;
      check();
    }
    CHECK(requests == 2);
    CHECK_FALSE(reader.started());
  }
}

TEST_CASE("what can be read in two ways is refused") {
  CHECK(status_of(get_with("Content-Length: 3\r\nTransfer-Encoding: chunked\r\n")) == 400);
  CHECK(status_of(get_with("Content-Length: 3\r\nContent-Length: 4\r\n")) == 400);
  CHECK(status_of(get_with("Content-Length: -1\r\n")) == 400);
  CHECK(status_of(get_with("Content-Length: +1\r\n")) == 400);
  CHECK(status_of(get_with("Content-Length: 1x\r\n")) == 400);
  CHECK(status_of(get_with("Content-Length: 99999999999999999999\r\n")) == 400);
  CHECK(status_of(get_with("Transfer-Encoding: gzip, chunked\r\n")) == 501);
  CHECK(status_of(get_with("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n")) == 400);
  CHECK(status_of(get_with("Space : x\r\n")) == 400);
  CHECK(status_of(get_with("A: b\r\n folded\r\n")) == 400);
  CHECK(status_of(get_with("A: b\rc\r\n")) == 400);
  CHECK(status_of(get_with(std::string("A: b\0c\r\n", 8))) == 400);
  CHECK(status_of(get_with("Host: y\r\n")) == 400);
  CHECK(status_of("GET / HTTP/1.1\r\n\r\n") == 400);
  CHECK(status_of("GET  / HTTP/1.1\r\nHost: x\r\n\r\n") == 400);
  CHECK(status_of("GET / HTTP/2.0\r\nHost: x\r\n\r\n") == 505);
  CHECK(status_of("GET x HTTP/1.1\r\nHost: x\r\n\r\n") == 400);
  CHECK(status_of("G(T / HTTP/1.1\r\nHost: x\r\n\r\n") == 400);
  CHECK(status_of("GET / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n") == 400);
  CHECK(status_of("GET / HTTP/1.0\r\n\r\n") == 0);
  CHECK(status_of(get_with("")) == 0);
}

TEST_CASE("trust: what a proxy may cut elsewhere is refused: lengths twice, line ends and controls in chunks' lines") {
  CHECK(status_of(get_with("Content-Length: 3\r\nContent-Length: 3\r\n")) == 400);
  const std::string head = get_with("Transfer-Encoding: chunked\r\n");
  for (const char* const control : {"\n", "\r", "\x01", "\x7f"}) {
    CHECK(status_of(head + "3;a=" + control + "b\r\nabc\r\n0\r\n\r\n") == 400);
    CHECK(status_of(head + "3\r\nabc\r\n0\r\nA: b" + control + "c\r\n\r\n") == 400);
  }
  CHECK(status_of(head + "3\r\nabc\r\n0\r\nno field\r\n\r\n") == 400);
  CHECK(status_of(head + "3;a=b\r\nabc\r\n0\r\nA: b\tc\r\n\r\n") == 0);
}

TEST_CASE("limits: head, number of headers, body announced or in chunks") {
  HttpLimits limits;
  limits.head_max = 1000;
  limits.headers_max = 5;
  limits.body_max = 10;
  CHECK(status_of(std::string(2000, 'a'), limits) == 431);
  CHECK(status_of(get_with("A: " + std::string(2000, 'a') + "\r\n"), limits) == 431);
  CHECK(status_of(get_with("A: 1\r\nB: 1\r\nC: 1\r\nD: 1\r\nE: 1\r\n"), limits) == 431);
  CHECK(status_of(get_with("Content-Length: 11\r\n"), limits) == 413);
  CHECK(status_of(get_with("Content-Length: 10\r\n"), limits) == 0);
  CHECK(status_of(get_with("Transfer-Encoding: chunked\r\n") + "6\r\nabcdef\r\n5\r\n", limits) == 413);
  CHECK(status_of(get_with("Transfer-Encoding: chunked\r\n") + "fffffffffffffff\r\n", limits) == 413);
  CHECK(status_of(get_with("Transfer-Encoding: chunked\r\n") + "6\r\nabcdefX\r\n", limits) == 400);
  const std::string before_trailer = get_with("Transfer-Encoding: chunked\r\n") + "3\r\nabc\r\n0\r\n";
  CHECK(status_of(before_trailer + "A: " + std::string(900, 'a') + "\r\n\r\n", limits) == 0);
  CHECK(status_of(before_trailer + "A: " + std::string(1000, 'a') + "\r\n\r\n", limits) == 431);
  const std::string field = "A: " + std::string(400, 'a') + "\r\n";  // none is too long, all of them are
  CHECK(status_of(before_trailer + field + field + field + "\r\n", limits) == 431);
  CHECK(status_of(get_with("Transfer-Encoding: chunked\r\n") + "\r\n", limits) == 400);
}

TEST_CASE("limits that nobody has asked for are those of docs/serving.md: 16 KiB, 100 headers, a body of 1 MiB") {
  const auto headers = [](int count) {
    std::string text;
    for (int i = 0; i < count; ++i) text += format("A{}: 1\r\n", i);
    return get_with(text);
  };
  CHECK(status_of(get_with("A: " + std::string(16'000, 'a') + "\r\n"), {}) == 0);
  CHECK(status_of(get_with("A: " + std::string(16'384, 'a') + "\r\n"), {}) == 431);
  CHECK(status_of(headers(95), {}) == 0);
  CHECK(status_of(headers(101), {}) == 431);
  CHECK(status_of(get_with("Content-Length: 1048576\r\n"), {}) == 0);
  CHECK(status_of(get_with("Content-Length: 1048577\r\n"), {}) == 413);
}

TEST_CASE("random bytes never do worse than an error") {
  for (std::uint64_t seed = 0; seed < 2000; ++seed) {
    CAPTURE(seed);
    PhiloxSequence random(seed);
    std::string bytes = "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n";
    for (std::uint64_t i = 1 + random.next_below(6); i-- > 0;) {
      bytes[random.next_below(bytes.size())] = static_cast<char>(random.next_below(256));
    }
    HttpReader reader({});
    for (const char c : bytes) reader.feed({&c, 1});
    if (reader.state() == ReaderState::failed) CHECK(reader.error_status() >= 400);
    CHECK(reader.buffered_bytes() <= bytes.size());
  }
}

TEST_CASE("keep-alive follows version and Connection") {
  const auto keeps = [](const std::string& bytes) {
    HttpReader reader({});
    REQUIRE(reader.feed(bytes) == ReaderState::done);
    return reader.take().keep_alive;
  };
  CHECK(keeps(get_with("")));
  CHECK_FALSE(keeps(get_with("Connection: x, Close\r\n")));
  CHECK_FALSE(keeps("GET / HTTP/1.0\r\n\r\n"));
  CHECK(keeps("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n"));
}

}  // namespace longhaul
