#include "contracts/records/launch.h"

#include "base/files/files.h"
#include "base/toml.h"

namespace longhaul {

const std::string& beat_folder(const Launch& launch) {
  return launch.beat_dir.empty() ? launch.launch_dir : launch.beat_dir;
}

std::string rendezvous_folder(const Launch& launch) {
  return launch.store_dir.empty() ? join_path(launch.launch_dir, "store") : launch.store_dir;
}

Value launch_to_value(const Launch& launch) {
  Value value = Value::make_table();
  value.set("file", "longhaul launch");
  value.set("format", Launch::format);
  value.set("attempt_key", launch.attempt_key);
  value.set("attempt", launch.attempt);
  value.set("launch", launch.launch);
  value.set("epoch", static_cast<long long>(launch.epoch));
  value.set("ranks", launch.ranks);
  value.set("hosts", ValueArray(launch.hosts.begin(), launch.hosts.end()));
  value.set("rank_host", ValueArray(launch.rank_host.begin(), launch.rank_host.end()));
  value.set("start_checkpoint", launch.start_checkpoint);
  if (launch.at_least_step > 0) value.set("at_least_step", static_cast<long long>(launch.at_least_step));
  value.set("launch_dir", launch.launch_dir);
  value.set("beat_dir", launch.beat_dir);
  value.set("words_dir", launch.store_dir);
  value.set("events_path", launch.events_path);
  value.set("output_dir", launch.output_dir);
  value.set("state_dir", launch.state_dir);
  if (!launch.owner.is_nobody()) {  // attempt and launch are said above
    value.set("restarts", launch.owner.restarts);
    value.set("lead_epoch", launch.owner.epoch);
    value.set("lead_host", launch.owner.host);
  }
  value.set("milestones_dir", launch.milestones_dir);
  value.set("fault_plan", launch.fault_plan);
  value.set("parallel", parallel_dims_fields().to_value(launch.dims));
  return value;
}

Result<Launch> launch_from_value(const Value& value) {
  if (value.get_string("file") != "longhaul launch" || value.get_integer("format") != Launch::format)
    return make_error(ErrorCode::corrupt, "not a launch file of format " + std::to_string(Launch::format));
  Launch launch;
  launch.attempt_key = value.get_string("attempt_key");
  launch.attempt = static_cast<int>(value.get_integer("attempt", 1));
  launch.launch = static_cast<int>(value.get_integer("launch", 1));
  launch.epoch = value.get_integer("epoch", 1);
  launch.ranks = static_cast<int>(value.get_integer("ranks", 1));
  if (const Value* hosts = value.find("hosts"); hosts && hosts->is_array())
    for (const Value& host : hosts->as_array())
      if (host.is_string()) launch.hosts.push_back(host.as_string());
  if (const Value* map = value.find("rank_host"); map && map->is_array())
    for (const Value& host : map->as_array())
      if (host.is_integer()) launch.rank_host.push_back(static_cast<int>(host.as_integer()));
  launch.start_checkpoint = value.get_string("start_checkpoint");
  launch.at_least_step = value.get_integer("at_least_step");
  launch.launch_dir = value.get_string("launch_dir");
  launch.beat_dir = value.get_string("beat_dir");
  launch.store_dir = value.get_string("words_dir");
  launch.events_path = value.get_string("events_path");
  launch.output_dir = value.get_string("output_dir");
  launch.state_dir = value.get_string("state_dir");
  if (const Value* epoch = value.find("lead_epoch"); epoch && epoch->is_integer())
    launch.owner = {launch.attempt, static_cast<int>(value.get_integer("restarts")), epoch->as_integer(),
                    value.get_string("lead_host"), launch.launch};
  launch.milestones_dir = value.get_string("milestones_dir");
  launch.fault_plan = value.get_string("fault_plan");
  if (const Value* parallel = value.find("parallel")) {
    LH_TRY(launch.dims, parallel_dims_fields().parse(*parallel, "parallel"));
  }
  return launch;
}

Result<Launch> read_launch(const std::string& path) {
  LH_TRY(const Value value, read_toml_file(path));
  return launch_from_value(value).with_context(path);
}
Status write_launch(const std::string& path, const Launch& launch) {
  return write_file_atomic(path, to_toml(launch_to_value(launch)));
}

}  // namespace longhaul
