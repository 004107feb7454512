// A client of our own server: health checks and the questions that the deploy stage asks. The only file that includes
// httplib is http_client.cc.
#pragma once

#include <cstdint>
#include <string>

#include "base/error/result.h"

namespace longhaul {

struct HttpReply {
  int status = 0;
  std::string body;
};

// Host and port of a server, or the path of its socket; a token is sent as "Authorization: Bearer ..." where it is not
// empty.
struct HttpTarget {
  std::string host = "127.0.0.1";
  int port = 0;
  std::string token;
  std::string socket_path = {};  // not empty: host and port are not used
};

// `unavailable` when nobody answers in time; any status that was answered is a reply.
Result<HttpReply> http_get(const HttpTarget& target, const std::string& path, std::int64_t deadline_ms);
Result<HttpReply> http_post_json(const HttpTarget& target, const std::string& path, const std::string& body,
                                 std::int64_t deadline_ms);

}  // namespace longhaul
