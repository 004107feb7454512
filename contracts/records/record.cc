#include "contracts/records/record.h"

#include "base/files/files.h"
#include "base/text/text.h"
#include "base/value/json.h"

namespace longhaul {

std::string record_file_name(int restarts) {
  return restarts == 0 ? "record.json" : format("record-{}.json", restarts);
}
std::string claim_file_name(int restarts) {
  return restarts == 0 ? "claim.json" : format("claim-{}.json", restarts);
}

std::string record_text(const JobRecord& r) {
  Value value = Value::make_table();
  value.set("file", "longhaul record");
  value.set("format", JobRecord::format);
  value.set("key", r.key);
  value.set("attempt", r.attempt);
  value.set("host", r.host);
  value.set("started_ms", static_cast<long long>(r.started_ms));
  value.set("ended_ms", static_cast<long long>(r.ended_ms));
  value.set("outcome", r.outcome);
  value.set("exit_code", r.exit_code);
  value.set("signal", r.signal);
  value.set("cause", r.cause);
  value.set("launches", r.launches);
  value.set("ended_by", r.ended_by);
  value.set("step", static_cast<long long>(r.step));
  if (r.saved_step) value.set("saved_step", static_cast<long long>(*r.saved_step));
  value.set("scheduler_job", r.scheduler_job);
  value.set("restarts", r.restarts);
  value.set("nodes", r.nodes);
  Value left = Value::make_array();
  for (const std::string& node : r.nodes_left) left.push_back(node);
  value.set("nodes_left", std::move(left));
  return to_json_pretty(value);
}

Status write_record(const std::string& path, const JobRecord& record) {
  return create_file_exclusive(path, record_text(record));
}

Result<JobRecord> record_from_text(const std::string& text, const std::string& name) {
  LH_TRY(const Value value, parse_json(text, name));
  if (value.get_string("file") != "longhaul record" || value.get_integer("format") != JobRecord::format)
    return make_error(ErrorCode::corrupt, name + " is not a job record of format 1");
  JobRecord r;
  r.key = value.get_string("key");
  r.attempt = static_cast<int>(value.get_integer("attempt"));
  r.host = value.get_string("host");
  r.started_ms = value.get_integer("started_ms");
  r.ended_ms = value.get_integer("ended_ms");
  r.outcome = value.get_string("outcome");
  r.exit_code = static_cast<int>(value.get_integer("exit_code"));
  r.signal = static_cast<int>(value.get_integer("signal"));
  r.cause = value.get_string("cause");
  r.launches = static_cast<int>(value.get_integer("launches"));
  r.ended_by = value.get_string("ended_by");
  r.step = value.get_integer("step", -1);
  if (const Value* saved = value.find("saved_step"); saved && saved->is_integer()) r.saved_step = saved->as_integer();
  r.scheduler_job = value.get_string("scheduler_job");
  r.restarts = static_cast<int>(value.get_integer("restarts"));
  r.nodes = value.get_string("nodes");
  if (const Value* left = value.find("nodes_left"); left && left->is_array())
    for (const Value& node : left->as_array())
      if (node.is_string()) r.nodes_left.push_back(node.as_string());
  return r;
}

Result<JobRecord> read_record(const std::string& path) {
  LH_TRY(const std::string text, read_file(path));
  return record_from_text(text, path);
}

Status write_claim(const std::string& path, const LeadClaim& claim) {
  Value value = Value::make_table();
  value.set("file", "longhaul claim");
  value.set("key", claim.key);
  value.set("host", claim.host);
  value.set("pid", static_cast<long long>(claim.process.pid));
  value.set("start_ticks", static_cast<long long>(claim.process.start_ticks));
  value.set("started_ms", static_cast<long long>(claim.started_ms));
  value.set("scheduler_job", claim.scheduler_job);
  return create_file_exclusive(path, to_json_pretty(value));
}

Result<LeadClaim> read_claim(const std::string& path) {
  LH_TRY(const std::string text, read_file(path));
  LH_TRY(const Value value, parse_json(text, path));
  if (value.get_string("file") != "longhaul claim") return make_error(ErrorCode::corrupt, path + " is not a claim");
  LeadClaim claim;
  claim.key = value.get_string("key");
  claim.host = value.get_string("host");
  claim.process.pid = static_cast<pid_t>(value.get_integer("pid", -1));
  claim.process.start_ticks = static_cast<std::uint64_t>(value.get_integer("start_ticks"));
  claim.started_ms = value.get_integer("started_ms");
  claim.scheduler_job = value.get_string("scheduler_job");
  return claim;
}

}  // namespace longhaul
