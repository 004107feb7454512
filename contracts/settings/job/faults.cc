#include "contracts/settings/job/faults.h"

#include "base/text/text.h"

namespace longhaul {

const FieldTable<FaultSchedule>& fault_schedule_fields() {
  using S = FaultSchedule;
  static const auto table =
      FieldTable<S>()
          .field("seed", &S::seed, {.help = "the same seed gives the same faults at the same times"})
          .field("every", &S::every, {.help = "time between two faults, on average", .min = 0.1})
          .field("names", &S::names, {.help = "faults that are drawn from, each with the same chance"})
          .field("count", &S::count, {.help = "faults at most", .min = 1, .max = 1e6})
          .field("xid", &S::xid, {.help = "of those that are named xid", .min = 1, .max = 9999});
  return table;
}

FaultSettings parse_faults(const Value& written, const std::string& where, const FaultTarget& target,
                           Diagnostics& diagnostics) {
  FaultSettings settings;
  const std::string path = where + ".faults";
  if (!written.is_table()) {
    diagnostics.add(written.pos, path + " is " + written.kind_name() + ", expected a table", "write [" + path + "]");
    return settings;
  }
  settings.allowed = true;
  for (const ValueMember& member : written.as_table())
    if (member.key != "at" && member.key != "schedule")
      diagnostics.add(member.key_pos, "unknown key '" + member.key + "' in [" + path + "]", "known keys: at, schedule");
  if (const Value* at = written.find("at"); at && !at->is_array()) {
    diagnostics.add(at->pos, path + ".at is " + at->kind_name() + ", expected a list of tables",
                    "at = [ { name = \"SIGKILL\", rank = 1, step = 20 } ]");
  } else if (at) {
    for (std::size_t i = 0; i < at->size(); ++i) {
      const Value& one = at->as_array()[i];
      const std::string place = format("{}.at[{}]", path, i);
      if (!one.is_table()) {
        diagnostics.add(one.pos, place + " is " + one.kind_name() + ", expected a table",
                        "{ name = \"SIGKILL\", rank = 1, step = 20 }");
        continue;
      }
      settings.at.push_back(fault_request_fields().parse(one, place, diagnostics));
      if (one.find("name") && one.find("name")->is_string())
        check_fault_request(settings.at.back(), one, place, target, true, diagnostics);
    }
  }
  const Value* schedule = written.find("schedule");
  if (schedule && !schedule->is_table()) {
    diagnostics.add(schedule->pos, path + ".schedule is " + schedule->kind_name() + ", expected a table",
                    "schedule = { seed = 7, every = \"30s\", names = [\"SIGKILL\"] }");
  } else if (schedule) {
    settings.schedule = fault_schedule_fields().parse(*schedule, path + ".schedule", diagnostics);
    const Value* names = schedule->find("names");
    if (settings.schedule.names.empty() && (!names || (names->is_array() && names->size() == 0)))
      diagnostics.add(schedule->pos, path + ".schedule names no faults", "names = [\"SIGKILL\", \"SIGSTOP\"]");
    for (std::size_t i = 0; i < settings.schedule.names.size(); ++i) {
      FaultRequest request;
      request.name = settings.schedule.names[i];
      request.xid = request.name == "xid" ? settings.schedule.xid : 0;
      Value as_written = Value::make_table();
      as_written.pos = names->as_array()[i].pos;
      check_fault_request(request, as_written, format("{}.schedule.names[{}]", path, i), target, false, diagnostics);
    }
  }
  return settings;
}

Value faults_to_value(const FaultSettings& settings) {
  Value table = Value::make_table();
  if (!settings.allowed) return table;
  table.set("allowed", true);
  if (!settings.at.empty()) {
    Value at = Value::make_array();
    for (const FaultRequest& request : settings.at) at.push_back(fault_request_fields().to_value(request));
    table.set("at", std::move(at));
  }
  if (!settings.schedule.names.empty()) table.set("schedule", fault_schedule_fields().to_value(settings.schedule));
  if (settings.commands != FaultCommands()) table.set("commands", fault_commands_fields().to_value(settings.commands));
  return table;
}

Result<FaultSettings> faults_from_value(const Value& value) {
  FaultSettings settings;
  settings.allowed = value.get_bool("allowed");
  if (const Value* at = value.find("at"); at && at->is_array())
    for (const Value& one : at->as_array()) {
      if (!one.is_table()) return make_error(ErrorCode::corrupt, "faults.at: not a list of tables");
      LH_TRY(FaultRequest request, fault_request_fields().parse(one, "faults.at"));
      settings.at.push_back(std::move(request));
    }
  if (const Value* schedule = value.find("schedule"); schedule && schedule->is_table()) {
    LH_TRY(settings.schedule, fault_schedule_fields().parse(*schedule, "faults.schedule"));
  }
  if (const Value* commands = value.find("commands"); commands && commands->is_table()) {
    LH_TRY(settings.commands, fault_commands_fields().parse(*commands, "faults.commands"));
  }
  return settings;
}

}  // namespace longhaul
