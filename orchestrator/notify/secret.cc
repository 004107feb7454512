#include "orchestrator/notify/secret.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>

#include "base/files.h"
#include "base/text.h"

namespace longhaul {
namespace {

constexpr std::size_t secret_bytes_max = 4096;

Result<std::string> checked(const std::string& what, const std::string& origin, const std::string& text) {
  const std::string secret = trim(text);
  const bool clean = std::all_of(secret.begin(), secret.end(), [](unsigned char c) { return c > 32 && c != 127; });
  if (secret.empty()) return make_error(ErrorCode::invalid_input, what + ": " + origin + " is empty");
  if (!clean || secret.size() > secret_bytes_max)
    return make_error(ErrorCode::invalid_input, what + ": " + origin + " is not one word on one line");
  return secret;
}

Result<std::string> read_secret_file(const std::string& what, const std::string& path) {
  FileDescriptor fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd.valid())
    return errno_error(errno == ENOENT ? ErrorCode::not_found : ErrorCode::io, what + ": cannot open " + path, errno);
  struct stat info{};  // of the opened file: a name could be exchanged in between
  if (::fstat(fd.get(), &info) != 0) return errno_error(ErrorCode::io, what + ": cannot read " + path, errno);
  if (!S_ISREG(info.st_mode)) return make_error(ErrorCode::invalid_input, what + ": " + path + " is not a plain file");
  if ((info.st_mode & 077) != 0)
    return make_error(ErrorCode::invalid_input,
                      format("{}: {} has mode {:04o}, others may read it", what, path, info.st_mode & 07777),
                      "chmod 600 " + shell_quote(path));
  std::string text(secret_bytes_max + 2, '\0');
  const ssize_t n = ::read(fd.get(), text.data(), text.size());
  if (n < 0) return errno_error(ErrorCode::io, what + ": cannot read " + path, errno);
  text.resize(static_cast<std::size_t>(n));
  return checked(what, path, text);
}

}  // namespace

Environment process_environment() {
  return [](const std::string& name) -> std::optional<std::string> {
    const char* value = std::getenv(name.c_str());
    return value ? std::optional<std::string>(value) : std::nullopt;
  };
}

Result<std::string> read_secret(const std::string& what, const std::string& file, const std::string& variable,
                                const Environment& environment) {
  if (!file.empty()) return read_secret_file(what, file);
  if (variable.empty()) return std::string();
  const auto value = environment(variable);
  if (!value)
    return make_error(ErrorCode::not_found, what + ": the variable " + variable + " is not set",
                      "export it where longhaul runs, or name a file of mode 0600");
  return checked(what, "the variable " + variable, *value);
}

}  // namespace longhaul
