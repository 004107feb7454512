#include "orchestrator/notify/http_post.h"

#include <curl/curl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <memory>

#include "base/files/files.h"
#include "base/text/text.h"

namespace longhaul {
namespace {

struct Free {
  void operator()(CURL* handle) const { curl_easy_cleanup(handle); }
  void operator()(curl_slist* list) const { curl_slist_free_all(list); }
  void operator()(CURLU* url) const { curl_url_cleanup(url); }
};

bool library_ready() {
  static const bool ready = curl_global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK;
  return ready;
}

// Whom to trust: the user's file, else what libcurl was built with, else what this system has. The libcurl of a package
// (scripts/package) was built with none, because systems keep theirs in different places.
std::string certificates(CURL* curl, const std::string& ca_file) {
  if (!ca_file.empty()) return ca_file;
  char* built_in = nullptr;
#if LIBCURL_VERSION_NUM >= 0x075400  // 7.84.0
  curl_easy_getinfo(curl, CURLINFO_CAINFO, &built_in);
#endif
  if (built_in) return {};
  for (const char* usual : {"/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt",
                            "/etc/ssl/ca-bundle.pem", "/etc/ssl/cert.pem"})
    if (file_exists(usual)) return usual;
  return {};
}

std::size_t discard(char*, std::size_t size, std::size_t count, void*) {
  return size * count;
}

std::string part_of(CURLU* url, CURLUPart part) {
  char* text = nullptr;
  if (curl_url_get(url, part, &text, 0) != CURLUE_OK) return {};
  std::string out = text;
  curl_free(text);
  return out;
}

// Where a post goes.
struct Target {
  std::string url;
  std::string socket;  // "": url names the host
};

// The socket must be the user's or root's: others would read what is posted.
Status check_socket(const std::string& path) {
  struct stat info{};
  if (::stat(path.c_str(), &info) != 0)
    return make_error(ErrorCode::unavailable, "the webhook's socket is not there", "start the relay that makes it");
  if (S_ISSOCK(info.st_mode) && (info.st_uid == ::geteuid() || info.st_uid == 0)) return {};
  return make_error(
      ErrorCode::invalid_input,
      format("the webhook's socket is {} with owner {} and mode {:04o}: what is posted could be read by others",
             S_ISSOCK(info.st_mode) ? "a socket" : "no socket", info.st_uid, info.st_mode & 07777),
      "name a socket of your own or of root");
}

Result<Target> socket_target(const std::string& address, std::string_view scheme) {
  const std::size_t end = std::min(address.find('/', scheme.size()), address.size());
  const std::string name = address.substr(scheme.size(), end - scheme.size());
  int length = 0;
  const std::unique_ptr<char, decltype(&curl_free)> path(
      curl_easy_unescape(nullptr, name.c_str(), static_cast<int>(name.size()), &length), curl_free);
  Target target{"http://localhost" + address.substr(end),
                path ? std::string(path.get(), static_cast<std::size_t>(length)) : ""};
  if (!starts_with(target.socket, "/") || target.socket.find('\0') != std::string::npos)
    return make_error(ErrorCode::invalid_input, "the webhook's address names no socket",
                      "http+unix://%2FFOLDER%2FSOCKET/PATH, slashes of the socket's path written as %2F");
  LH_CHECK(check_socket(target.socket));
  return target;
}

Result<Target> target_of(const std::string& address) {
  constexpr std::string_view by_socket = "http+unix://";
  if (starts_with(address, by_socket)) return socket_target(address, by_socket);
  const std::unique_ptr<CURLU, Free> url(curl_url());
  if (!url || curl_url_set(url.get(), CURLUPART_URL, address.c_str(), CURLU_NON_SUPPORT_SCHEME) != CURLUE_OK)
    return make_error(ErrorCode::invalid_input, "the webhook's address is not an address", "https://HOST/PATH");
  const std::string scheme = part_of(url.get(), CURLUPART_SCHEME);
  if (scheme != "https")
    return make_error(ErrorCode::invalid_input,
                      "the webhook's address begins with " + scheme + "://, which would send it in the clear",
                      "use https://, or http+unix:// for a relay on this machine");
  return Target{address, {}};
}

bool is_certificate_problem(CURLcode code) {
  return code == CURLE_PEER_FAILED_VERIFICATION || code == CURLE_SSL_CACERT_BADFILE || code == CURLE_SSL_ISSUER_ERROR ||
         code == CURLE_SSL_INVALIDCERTSTATUS;
}

}  // namespace

Result<HttpAnswer> http_post(const HttpPost& post) {
  LH_TRY(const Target target, target_of(post.url));
  if (!library_ready()) return make_error(ErrorCode::unavailable, "libcurl cannot be used");
  const std::unique_ptr<CURL, Free> handle(curl_easy_init());
  if (!handle) return make_error(ErrorCode::unavailable, "libcurl cannot be used");
  std::unique_ptr<curl_slist, Free> headers;
  for (const auto& [name, value] : post.headers) {
    curl_slist* longer = curl_slist_append(headers.get(), (name + ": " + value).c_str());
    if (!longer) return make_error(ErrorCode::unavailable, "no memory for a request");
    (void)headers.release();
    headers.reset(longer);
  }
  CURL* curl = handle.get();
  const long timeout_ms = static_cast<long>(post.timeout_s * 1000);
  curl_easy_setopt(curl, CURLOPT_URL, target.url.c_str());
  if (!target.socket.empty()) curl_easy_setopt(curl, CURLOPT_UNIX_SOCKET_PATH, target.socket.c_str());
  curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, target.socket.empty() ? "https" : "http");
  curl_easy_setopt(curl, CURLOPT_FOLLOWLOCATION, 0L);
  curl_easy_setopt(curl, CURLOPT_SSL_VERIFYPEER, 1L);
  curl_easy_setopt(curl, CURLOPT_SSL_VERIFYHOST, 2L);
  curl_easy_setopt(curl, CURLOPT_SSLVERSION, static_cast<long>(CURL_SSLVERSION_TLSv1_2));
  curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS, timeout_ms);
  curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT_MS, timeout_ms);
  curl_easy_setopt(curl, CURLOPT_USERAGENT, "longhaul");
  curl_easy_setopt(curl, CURLOPT_POST, 1L);
  curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(post.body.size()));
  curl_easy_setopt(curl, CURLOPT_POSTFIELDS, post.body.data());
  curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers.get());
  curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, discard);
  const std::string trusted = certificates(curl, post.ca_file);
  if (!trusted.empty()) curl_easy_setopt(curl, CURLOPT_CAINFO, trusted.c_str());
  if (!target.socket.empty()) curl_easy_setopt(curl, CURLOPT_PROXY, "");
  const CURLcode code = curl_easy_perform(curl);
  if (is_certificate_problem(code))
    return make_error(ErrorCode::invalid_input,
                      std::string("the webhook's server is not trusted: ") + curl_easy_strerror(code),
                      "for a certificate of the site's own, name its PEM file in notify.ca_file");
  if (code != CURLE_OK)
    return make_error(ErrorCode::unavailable, std::string("the webhook did not answer: ") + curl_easy_strerror(code));
  long status = 0;
  curl_off_t retry_after = 0;
  curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
  curl_easy_getinfo(curl, CURLINFO_RETRY_AFTER, &retry_after);
  return HttpAnswer{static_cast<int>(status), static_cast<double>(retry_after)};
}

}  // namespace longhaul
