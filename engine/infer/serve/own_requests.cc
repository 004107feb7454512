#include "engine/infer/serve/own_requests.h"

#include <algorithm>

#include "base/text/text.h"
#include "contracts/settings/stages/inference.h"

namespace longhaul {
namespace {

std::string in_lower_case(std::string text) {
  for (char& c : text)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c + 32);
  return text;
}

// "localhost:8000" -> "localhost", "[::1]:8000" -> "::1"; "" where it is neither a name nor a bracketed address with at
// most a port behind it.
std::string name_in_host(const std::string& host) {
  std::size_t end = host.find(':');
  std::string name = host.substr(0, end);
  if (starts_with(host, "[")) {
    end = host.find(']');
    if (end == std::string::npos) return {};
    name = host.substr(1, end - 1);
    ++end;
  }
  const std::string port = end < host.size() ? host.substr(end) : std::string();
  const bool well = port.empty() || (port[0] == ':' && port.find_first_not_of("0123456789", 1) == std::string::npos);
  return well ? in_lower_case(name) : std::string();
}

}  // namespace

std::optional<ApiError> not_of_own_programs(const HttpRequest& head) {
  const std::string* host = head.header("host");
  if (host == nullptr || !is_loopback(name_in_host(*host)))
    return ApiError{
        403, "without a token this server answers only as localhost, 127.0.0.1 or [::1]; send one of them as Host", "",
        "foreign_host"};
  if (head.header("origin") != nullptr)
    return ApiError{403, "without a token this server answers no web page; start it with a token", "",
                    "foreign_origin"};
  if (head.method != "POST") return std::nullopt;
  const std::string* type = head.header("content-type");
  const std::string media = type == nullptr ? std::string() : in_lower_case(trim(split(*type, ';').front()));
  if (media != "application/json")
    return ApiError{415, "send 'Content-Type: application/json'", "", "unsupported_media_type"};
  return std::nullopt;
}

}  // namespace longhaul
