#include "base/http/http_post.h"

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

// What is kept of an answer.
struct AnswerBody {
  std::size_t max = 0;
  std::string text = {};
};

// Called by libcurl, to which another number than that of the bytes is a failure.
std::size_t keep(char* bytes, std::size_t size, std::size_t count, void* to) {
  AnswerBody& body = *static_cast<AnswerBody*>(to);
  const std::size_t more = size * count;
  if (body.max == 0) return more;
  if (more > body.max - body.text.size()) return 0;
  body.text.append(bytes, more);
  return more;
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
Status check_socket(const HttpPost& post, const std::string& path) {
  struct stat info{};
  if (::stat(path.c_str(), &info) != 0)
    return make_error(ErrorCode::unavailable, format("the {}'s socket is not there", post.receiver),
                      "start the relay that makes it");
  if (S_ISSOCK(info.st_mode) && (info.st_uid == ::geteuid() || info.st_uid == 0)) return {};
  return make_error(
      ErrorCode::invalid_input,
      format("the {}'s socket is {} with owner {} and mode {:04o}: what is posted could be read by others",
             post.receiver, S_ISSOCK(info.st_mode) ? "a socket" : "no socket", info.st_uid, info.st_mode & 07777),
      "name a socket of your own or of root");
}

Result<Target> socket_target(const HttpPost& post, std::string_view scheme) {
  const std::string& address = post.url;
  const std::size_t end = std::min(address.find('/', scheme.size()), address.size());
  const std::string name = address.substr(scheme.size(), end - scheme.size());
  int length = 0;
  const std::unique_ptr<char, decltype(&curl_free)> path(
      curl_easy_unescape(nullptr, name.c_str(), static_cast<int>(name.size()), &length), curl_free);
  Target target{"http://localhost" + address.substr(end),
                path ? std::string(path.get(), static_cast<std::size_t>(length)) : ""};
  if (!starts_with(target.socket, "/") || target.socket.find('\0') != std::string::npos)
    return make_error(ErrorCode::invalid_input, format("the {}'s address names no socket", post.receiver),
                      "http+unix://%2FFOLDER%2FSOCKET/PATH, slashes of the socket's path written as %2F");
  LH_CHECK(check_socket(post, target.socket));
  return target;
}

Result<Target> target_of(const HttpPost& post) {
  constexpr std::string_view by_socket = "http+unix://";
  if (starts_with(post.url, by_socket)) return socket_target(post, by_socket);
  const std::unique_ptr<CURLU, Free> url(curl_url());
  if (!url || curl_url_set(url.get(), CURLUPART_URL, post.url.c_str(), CURLU_NON_SUPPORT_SCHEME) != CURLUE_OK)
    return make_error(ErrorCode::invalid_input, format("the {}'s address is not an address", post.receiver),
                      "https://HOST/PATH");
  const std::string scheme = part_of(url.get(), CURLUPART_SCHEME);
  if (scheme == "https" || (scheme == "http" && post.plain)) return Target{post.url, {}};
  return make_error(ErrorCode::invalid_input,
                    format("the {}'s address begins with {}://, which {}", post.receiver, scheme,
                           post.plain ? "is neither https nor http" : "would send it in the clear"),
                    post.plain ? "https://HOST/PATH" : "use https://, or http+unix:// for a relay on this machine");
}

bool is_certificate_problem(CURLcode code) {
  return code == CURLE_PEER_FAILED_VERIFICATION || code == CURLE_SSL_CACERT_BADFILE || code == CURLE_SSL_ISSUER_ERROR ||
         code == CURLE_SSL_INVALIDCERTSTATUS;
}

void set_options(CURL* curl, const HttpPost& post, const Target& target) {
  const long timeout_ms = std::max(1L, static_cast<long>(post.timeout_s * 1000));  // 0 would be no deadline
  curl_easy_setopt(curl, CURLOPT_URL, target.url.c_str());
  if (!target.socket.empty()) curl_easy_setopt(curl, CURLOPT_UNIX_SOCKET_PATH, target.socket.c_str());
  curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, !target.socket.empty() ? "http" : post.plain ? "https,http" : "https");
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
  const std::string trusted = certificates(curl, post.ca_file);
  if (!trusted.empty()) curl_easy_setopt(curl, CURLOPT_CAINFO, trusted.c_str());
  if (!target.socket.empty()) curl_easy_setopt(curl, CURLOPT_PROXY, "");
}

Status problem_of(CURLcode code, const HttpPost& post) {
  if (code == CURLE_OK) return {};
  if (is_certificate_problem(code))
    return make_error(ErrorCode::invalid_input,
                      format("the {}'s server is not trusted: {}", post.receiver, curl_easy_strerror(code)),
                      post.trust_hint);
  if (code == CURLE_WRITE_ERROR)
    return make_error(ErrorCode::unsupported,
                      format("the {}'s answer is longer than {} bytes", post.receiver, post.answer_max));
  return make_error(ErrorCode::unavailable,
                    format("the {} did not answer: {}", post.receiver, curl_easy_strerror(code)));
}

}  // namespace

Result<HttpAnswer> http_post(const HttpPost& post) {
  LH_TRY(const Target target, target_of(post));
  if (!library_ready()) return make_error(ErrorCode::unavailable, "libcurl cannot be used");
  const std::unique_ptr<CURL, Free> handle(curl_easy_init());
  if (!handle) return make_error(ErrorCode::unavailable, "libcurl cannot be used");
  std::unique_ptr<curl_slist, Free> headers;
  for (const auto& [name, value] : post.headers) {
    curl_slist* longer = curl_slist_append(headers.get(), format("{}: {}", name, value).c_str());
    if (!longer) return make_error(ErrorCode::unavailable, "no memory for a request");
    [[maybe_unused]] const curl_slist* before = headers.release();  // the begin of the longer list
    headers.reset(longer);
  }
  CURL* curl = handle.get();
  set_options(curl, post, target);
  curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers.get());
  AnswerBody body{post.answer_max};
  curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, keep);
  curl_easy_setopt(curl, CURLOPT_WRITEDATA, &body);
  LH_CHECK(problem_of(curl_easy_perform(curl), post));
  long status = 0;
  curl_off_t retry_after = 0;
  curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
  curl_easy_getinfo(curl, CURLINFO_RETRY_AFTER, &retry_after);
  return HttpAnswer{static_cast<int>(status), static_cast<double>(retry_after), std::move(body.text)};
}

}  // namespace longhaul
