#include "orchestrator/notify/secret.h"

#include <algorithm>
#include <cstdlib>

#include "base/files/owned_files.h"
#include "base/text/text.h"

namespace longhaul {
namespace {

constexpr std::size_t secret_bytes_max = 4096;

Result<std::string> checked(const std::string& what, const std::string& origin, const std::string& text) {
  const std::string secret = trim(text);
  const bool clean = std::all_of(secret.begin(), secret.end(), [](unsigned char c) { return c > 32 && c != 127; });
  if (secret.empty()) return make_error(ErrorCode::invalid_input, what + ": " + origin + " is empty");
  if (!clean || secret.size() > secret_bytes_max)
    return make_error(ErrorCode::invalid_input, what + ": " + origin + " is not one value on one line");
  return secret;
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
  if (!file.empty()) {
    LH_TRY(const std::string text, read_secret_file(file, what));
    return checked(what, file, text);
  }
  if (variable.empty()) return std::string();
  const auto value = environment(variable);
  if (!value)
    return make_error(ErrorCode::not_found, what + ": the variable " + variable + " is not set",
                      "export it where longhaul runs, or name a file of mode 0600");
  return checked(what, "the variable " + variable, *value);
}

}  // namespace longhaul
