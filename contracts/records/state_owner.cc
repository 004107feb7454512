#include "contracts/records/state_owner.h"

#include "base/digest/hash.h"
#include "base/files/file_retry.h"
#include "base/files/files.h"
#include "base/text/text.h"
#include "base/value/json.h"

namespace longhaul {
namespace {

constexpr const char* owner_file = "longhaul state owner";
constexpr std::int64_t owner_format = 1;

Value owner_to_value(const StateOwner& owner) {
  Value value = Value::make_table();
  value.set("file", owner_file);
  value.set("format", owner_format);
  value.set("attempt", owner.attempt);
  value.set("restarts", owner.restarts);
  value.set("epoch", owner.epoch);
  value.set("host", owner.host);
  value.set("launch", owner.launch);
  return value;
}

Result<StateOwner> owner_from(const std::string& text, const std::string& path) {
  LH_TRY(const Value value, parse_json(text, path));
  if (!value.is_table() || value.get_string("file") != owner_file || value.get_integer("format") != owner_format)
    return make_error(ErrorCode::corrupt, path + " does not say who owns the state of a stage",
                      "remove it when no job of this stage runs");
  StateOwner owner;
  owner.attempt = static_cast<int>(value.get_integer("attempt"));
  owner.restarts = static_cast<int>(value.get_integer("restarts"));
  owner.epoch = value.get_integer("epoch");
  owner.host = value.get_string("host");
  owner.launch = static_cast<int>(value.get_integer("launch"));
  return owner;
}

// Leaves a later owner, and puts the own one in the place of an earlier.
Result<StateOwner> owner_at_least(const std::string& state_dir, const StateOwner& own, const FileRetry& retry) {
  LH_TRY(StateOwner there, read_state_owner(state_dir, retry));
  if (there >= own) return there;
  LH_CHECK(retried(
      retry, [&] { return write_file_atomic(state_owner_path(state_dir), to_json_pretty(owner_to_value(own))); }));
  return own;
}

Error owned_by(const StateOwner& later, const StateOwner& own, const std::string& state_dir) {
  return make_error(ErrorCode::conflict, format("{} belongs to {}; this is {}", state_dir, later.text(), own.text()),
                    "it writes nothing any more: the later one goes on");
}

}  // namespace

std::string StateOwner::text() const {
  if (is_nobody()) return "nobody";
  const std::string again = restarts > 0 ? format(" (queued again {} times)", restarts) : "";
  return format("launch {} of attempt {}{} by the lead of epoch {} on {}", launch, attempt, again, epoch, host);
}

std::string StateOwner::tag() const {
  return format("{}.{}.{}.{}-{}", attempt, restarts, epoch, launch, hex64(xxh3_64(host)).substr(0, 4));
}

std::string state_owner_path(const std::string& state_dir) {
  return state_dir + "-owner.json";
}

Result<StateOwner> read_state_owner(const std::string& state_dir, const FileRetry& retry) {
  const std::string path = state_owner_path(state_dir);
  LH_TRY(const std::string text, retried(retry, [&] { return text_if_there(path); }));
  return text.empty() ? StateOwner() : owner_from(text, path);
}

Status take_state(const std::string& state_dir, const StateOwner& owner, const FileRetry& retry) {
  LH_TRY(const StateOwner there, owner_at_least(state_dir, owner, retry));
  return there > owner ? Status(owned_by(there, owner, state_dir)) : Status();
}

Status StateFence::look() const {
  if (owner_.is_nobody()) return {};
  return take_state(state_dir_, owner_);
}

}  // namespace longhaul
