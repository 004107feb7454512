// Room base/http
// One HTTP request to a program elsewhere: a webhook, an endpoint that judges answers.
// http_post.h is all of it, and http_post.cc alone knows libcurl; a library of its own (longhaul_http), so that
// programs which post nothing do not link it. It knows neither messages nor answers.
//
// One HTTP POST. Certificates are always verified, and redirects are not followed (they would carry a secret
// elsewhere). A relay on this machine is reached by https as well, or by its socket in the file system, whose owner is
// known: "http+unix://%2Frun%2Frelay.sock/PATH". A port of this machine belongs to whoever took it first, so plain http
// is refused for it, too, unless the caller allows it. Proxies are taken from the usual variables (https_proxy,
// no_proxy), as libcurl does.
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
  bool plain = false;                // http:// too: others may read what is sent, and answer in the receiver's place
  std::size_t answer_max = 0;        // bytes of the answer's body that are kept; 0: it is not read
  std::string receiver = "webhook";  // its name in errors
  std::string trust_hint = "for a certificate of the site's own, name its PEM file in notify.ca_file";
};
struct HttpAnswer {
  int status = 0;
  double retry_after_s = 0;  // as the server asks; 0: it does not
  std::string body = {};
};

// An answer of any status is an answer. Errors: unavailable (try again), invalid_input (this can never go: a scheme
// that is not allowed, not an address, or a certificate that is not to be trusted), unsupported (an answer that is
// longer than answer_max). No message holds the address or a header. Thread-safe.
Result<HttpAnswer> http_post(const HttpPost& post);

}  // namespace longhaul
