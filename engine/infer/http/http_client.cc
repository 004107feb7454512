#include "engine/infer/http/http_client.h"

#include <httplib.h>
#include <sys/socket.h>

#include "base/text/text.h"

namespace longhaul {
namespace {

Result<HttpReply> reply_of(const HttpTarget& target, const httplib::Result& result) {
  if (result) return HttpReply{result->status, result->body};
  return make_error(
      ErrorCode::unavailable,
      format("no answer from {}: {}",
             target.socket_path.empty() ? format("{} port {}", target.host, target.port) : target.socket_path,
             httplib::to_string(result.error())));
}

template <class Call>
Result<HttpReply> with_client(const HttpTarget& target, std::int64_t deadline_ms, Call call) {
  try {
    const bool by_file = !target.socket_path.empty();
    httplib::Client client(by_file ? target.socket_path : target.host, by_file ? 80 : target.port);
    if (by_file) client.set_address_family(AF_UNIX);
    const time_t seconds = static_cast<time_t>(deadline_ms / 1000);
    const time_t microseconds = static_cast<time_t>(deadline_ms % 1000 * 1000);
    client.set_connection_timeout(seconds, microseconds);
    client.set_read_timeout(seconds, microseconds);
    client.set_write_timeout(seconds, microseconds);
    httplib::Headers headers;
    if (by_file) headers.emplace("Host", "localhost");
    if (!target.token.empty()) headers.emplace("Authorization", "Bearer " + target.token);
    return reply_of(target, call(client, headers));
  } catch (const std::exception& e) {
    return make_error(ErrorCode::internal, format("HTTP client: {}", e.what()));
  }
}

}  // namespace

Result<HttpReply> http_get(const HttpTarget& target, const std::string& path, std::int64_t deadline_ms) {
  return with_client(target, deadline_ms, [&](httplib::Client& client, const httplib::Headers& headers) {
    return client.Get(path, headers);
  });
}

Result<HttpReply> http_post_json(const HttpTarget& target, const std::string& path, const std::string& body,
                                 std::int64_t deadline_ms) {
  return with_client(target, deadline_ms, [&](httplib::Client& client, const httplib::Headers& headers) {
    return client.Post(path, headers, body, "application/json");
  });
}

}  // namespace longhaul
