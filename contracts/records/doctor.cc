#include "contracts/records/doctor.h"

#include "base/files/files.h"
#include "base/value/json.h"

namespace longhaul {
namespace {

constexpr const char* order_kind = "doctor-order";

Value list_of(const std::vector<std::string>& arguments) {
  Value list = Value::make_array();
  for (const std::string& argument : arguments) list.push_back(argument);
  return list;
}

std::vector<std::string> texts_of(const Value& table, const char* key) {
  std::vector<std::string> arguments;
  if (const Value* list = table.find(key); list && list->is_array())
    for (const Value& argument : list->as_array())
      if (argument.is_string()) arguments.push_back(argument.as_string());
  return arguments;
}

}  // namespace

std::string doctor_order_path(const std::string& folder) {
  return join_path(folder, "order.json");
}

std::string doctor_facts_path(const std::string& folder) {
  return join_path(folder, "facts.json");
}

std::string doctor_done_path(const std::string& folder) {
  return join_path(folder, "done");
}

Status write_doctor_order(const DoctorOrder& order) {
  Value value = Value::make_table();
  value.set("file", order_kind);
  value.set("format", DoctorOrder::format);
  value.set("folder", order.folder);
  value.set("launcher", list_of(order.launcher));
  value.set("agent_launcher", list_of(order.agent_launcher));
  value.set("sbatch", list_of(order.sbatch));
  value.set("mpi", order.mpi);
  value.set("ports", order.ports);
  value.set("node_local", order.node_local);
  value.set("modules", list_of(order.modules));
  value.set("nodes", order.nodes);
  value.set("ranks", order.ranks);
  value.set("gpus_per_node", order.gpus_per_node);
  return write_file_renamed(doctor_order_path(order.folder), to_json_pretty(value));
}

Result<DoctorOrder> read_doctor_order(const std::string& path) {
  LH_TRY(const std::string text, read_file(path));
  LH_TRY(const Value value, parse_json(text, path));
  if (value.get_string("file") != order_kind || value.get_integer("format") != DoctorOrder::format)
    return make_error(ErrorCode::corrupt, path + " is no order of a doctor, or of another release");
  DoctorOrder order;
  order.folder = value.get_string("folder");
  order.launcher = texts_of(value, "launcher");
  order.agent_launcher = texts_of(value, "agent_launcher");
  order.sbatch = texts_of(value, "sbatch");
  order.mpi = value.get_string("mpi");
  order.ports = value.get_string("ports");
  order.node_local = value.get_string("node_local");
  order.modules = texts_of(value, "modules");
  order.nodes = static_cast<int>(value.get_integer("nodes", 1));
  order.ranks = static_cast<int>(value.get_integer("ranks", 1));
  order.gpus_per_node = static_cast<int>(value.get_integer("gpus_per_node"));
  return order;
}

Value doctor_fact_to_value(const DoctorFact& fact) {
  Value value = Value::make_table();
  value.set("name", fact.name);
  value.set("answer", fact.answer);
  value.set("detail", fact.detail);
  if (!fact.key.empty()) value.set("key", fact.key), value.set("value", fact.value);
  return value;
}

DoctorFact doctor_fact_of(const Value& value) {
  DoctorFact fact{value.get_string("name"), value.get_string("answer"), value.get_string("detail")};
  fact.key = value.get_string("key");
  if (const Value* found = value.find("value")) fact.value = *found;
  return fact;
}

Status write_doctor_facts(const std::string& folder, const std::vector<DoctorFact>& facts) {
  Value list = Value::make_array();
  for (const DoctorFact& fact : facts) list.push_back(doctor_fact_to_value(fact));
  return write_file_renamed(doctor_facts_path(folder), to_json_pretty(list));
}

Result<std::vector<DoctorFact>> read_doctor_facts(const std::string& folder) {
  std::vector<DoctorFact> facts;
  const auto text = read_file(doctor_facts_path(folder));
  if (!text.ok())
    return text.error().code == ErrorCode::not_found ? Result<std::vector<DoctorFact>>(facts) : text.error();
  LH_TRY(const Value list, parse_json(*text, doctor_facts_path(folder)));
  if (list.is_array())
    for (const Value& one : list.as_array()) facts.push_back(doctor_fact_of(one));
  return facts;
}

}  // namespace longhaul
