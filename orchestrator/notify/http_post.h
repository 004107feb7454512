// One HTTP POST. Certificates are always verified, and redirects are not followed (they would carry the secret
// elsewhere). A relay on this machine is reached by https as well, or by its socket in the file system, whose owner is
// known: "http+unix://%2Frun%2Frelay.sock/PATH". A port of this machine belongs to whoever took it first, so plain http
// is refused for it, too. The only file that knows libcurl is http_post.cc. Proxies are taken from the usual variables
// (https_proxy, no_proxy), as libcurl does.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "base/error/result.h"

namespace longhaul {

struct HttpPost {
  std::string url;
  std::string body;
  std::vector<std::pair<std::string, std::string>> headers;
  std::string ca_file;  // "": the system's certificates
  double timeout_s = 10;
};
struct HttpAnswer {
  int status = 0;
  double retry_after_s = 0;  // as the server asks; 0: it does not
};

// An answer of any status is an answer. Errors: unavailable (try again), invalid_input (this can never go: not https,
// not an address, or a certificate that is not to be trusted). No message holds the address or a header.
Result<HttpAnswer> http_post(const HttpPost& post);

}  // namespace longhaul
