// Takes what looks like a secret out of text that leaves the site: values of names that end in token, secret, password,
// key and the like, bearer tokens, well-known prefixes of access tokens, user:password@ in addresses, webhook paths,
// and private keys. A net below the rule that secrets are not written down in the first place, not a replacement of it.
#pragma once

#include <string>
#include <string_view>

namespace longhaul {

// Would the value of this name be a secret? "HF_TOKEN", "api-key", "db_password"; not "eos_token" or "tokens".
bool names_a_secret(std::string_view name);

// Every value of tables that are named `environment`, whatever its name: TOML `environment = { A = "x" }`, its lines
// below `[stage.s.environment]`, JSON `"environment": {...}`. Names stay. Nothing else is changed.
std::string redact_environments(std::string_view text);

// `text` with "[redacted]" in the place of each secret.
std::string redact_secrets(std::string_view text);

}  // namespace longhaul
