#include "worker/protocol/wire/lead_address.h"

#include "base/digest/hash.h"
#include "base/files/owned_files.h"
#include "base/text/text.h"
#include "base/value/json.h"

namespace longhaul {
namespace {

constexpr const char* file_kind = "lead-address";
constexpr int secret_bytes = 32;

std::string with_restarts(const std::string& attempt_dir, const char* name, int restarts) {
  return join_path(attempt_dir, restarts == 0 ? std::string(name) : format("{}-{}", name, restarts));
}

}  // namespace

std::string lead_address_path(const std::string& attempt_dir, int restarts) {
  return with_restarts(attempt_dir, "lead-address", restarts);
}

std::string standby_address_path(const std::string& lead_address) {
  return lead_address + "-standby";
}

std::string lead_secret_path(const std::string& attempt_dir, int restarts) {
  return with_restarts(attempt_dir, "lead-secret", restarts);
}

std::string agent_log_path(const std::string& attempt_dir, const std::string& host) {
  return join_path(attempt_dir, "agent-" + host + ".log");
}

Status write_lead_address(const std::string& path, const LeadAddress& address) {
  Value value = Value::make_table();
  value.set("file", file_kind);
  value.set("format", LeadAddress::format);
  value.set("attempt_key", address.attempt_key);
  value.set("epoch", address.epoch);
  value.set("host", address.host);
  value.set("port", address.port);
  value.set("addresses", ValueArray(address.addresses.begin(), address.addresses.end()));
  return write_file_renamed(path, to_json_pretty(value));
}

Result<LeadAddress> read_lead_address(const std::string& path) {
  LH_TRY(const std::string text, read_file(path));
  LH_TRY(const Value value, parse_json(text, path));
  if (value.get_string("file") != file_kind || value.get_integer("format") != LeadAddress::format)
    return make_error(ErrorCode::corrupt, path + " is no address of a lead, or of another release");
  LeadAddress address;
  address.attempt_key = value.get_string("attempt_key");
  address.epoch = value.get_integer("epoch");
  address.host = value.get_string("host");
  address.port = static_cast<int>(value.get_integer("port"));
  if (const Value* addresses = value.find("addresses"); addresses && addresses->is_array())
    for (const Value& one : addresses->as_array())
      if (one.is_string()) address.addresses.push_back(one.as_string());
  if (address.host.empty() || address.port <= 0 || address.port > 65535)
    return make_error(ErrorCode::corrupt, path + " names no host and port");
  return address;
}

Result<std::string> make_lead_secret(const std::string& path) {
  LH_TRY(const std::string secret, random_hex(secret_bytes));
  LH_CHECK(remove_tree(path));
  LH_CHECK(write_file_renamed(path, secret, 0600));  // an agent that reads half a secret ends
  return secret;
}

Result<std::string> read_lead_secret(const std::string& path) {
  auto read = read_secret_file(path, "the secret between lead and agents");
  if (!read.ok() && read.error().code == ErrorCode::io)  // a file system that is away: it may come back
    return make_error(ErrorCode::not_found, read.error().message());
  LH_TRY(const std::string secret, std::move(read));
  if (secret.size() < 2 * secret_bytes) return make_error(ErrorCode::corrupt, path + " is too short for a secret");
  return secret;
}

}  // namespace longhaul
