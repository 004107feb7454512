#include "base/error/result.h"

#include <cerrno>
#include <cstring>

#include "base/error/crash_context.h"
#include "base/text/visible_text.h"

namespace longhaul {

const char* to_string(ErrorCode code) {
  switch (code) {
    case ErrorCode::internal: return "internal";
    case ErrorCode::invalid_input: return "invalid_input";
    case ErrorCode::not_found: return "not_found";
    case ErrorCode::io: return "io";
    case ErrorCode::corrupt: return "corrupt";
    case ErrorCode::unsupported: return "unsupported";
    case ErrorCode::unavailable: return "unavailable";
    case ErrorCode::timeout: return "timeout";
    case ErrorCode::aborted: return "aborted";
    case ErrorCode::conflict: return "conflict";
  }
  return "internal";
}

std::string Error::message() const {
  std::string text;
  if (where) {
    text = where->file.str();
    if (where->line > 0) {
      text += ':' + std::to_string(where->line);
      if (where->column > 0) text += ':' + std::to_string(where->column);
    }
    text += ": ";
  }
  text += what;
  if (!hint.empty()) text += "; " + hint;
  return text;
}

Error Error::with_context(const std::string& fact) const {
  Error copy = *this;
  copy.what = fact + ": " + what;
  return copy;
}

Error make_error(ErrorCode code, std::string what, std::string hint) {
  Error error;
  error.code = code;
  error.what = std::move(what);
  error.hint = std::move(hint);
  return error;
}

Error errno_error(ErrorCode code, std::string what, int error_number) {
  const bool full = error_number == ENOSPC || error_number == EDQUOT || error_number == EFBIG;
  return make_error(code, std::move(what) + ": " + std::strerror(error_number),
                    full ? "free disk space or raise the quota, then run it again" : "");
}

void die(const char* where, const char* condition, const std::string& coordinates) {
  const std::string at = CrashContext::text();
  std::fprintf(stderr, "%s: broken invariant: %s [%s]%s%s\n", where, condition, visible(coordinates).c_str(),
               at.empty() ? "" : " at ", at.c_str());
  std::fflush(stderr);
  std::abort();
}

}  // namespace longhaul
