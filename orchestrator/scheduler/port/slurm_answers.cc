#include "orchestrator/scheduler/port/slurm_answers.h"

#include <charconv>
#include <map>

#include "base/text/text.h"
#include "orchestrator/scheduler/port/slurm_commands.h"

namespace longhaul {
namespace {

int leading_number(const std::string& text) {
  int number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

// "Name=value" pairs of one line of `scontrol -o show`. The first of a name counts: free text stands last.
class Pairs {
 public:
  explicit Pairs(const std::string& line) : line_(" " + line) {}
  std::string operator[](const std::string& name) const {
    const std::string key = " " + name + "=";
    const std::size_t begin = line_.find(key);
    if (begin == std::string::npos) return {};
    const std::size_t from = begin + key.size();
    const std::size_t end = line_.find(' ', from);
    return read_slurm_text(line_.substr(from, end == std::string::npos ? end : end - from));
  }
  // Up to the end of the line.
  std::string rest(const std::string& name) const {
    const std::string key = " " + name + "=";
    const std::size_t begin = line_.find(key);
    return begin == std::string::npos ? std::string() : trim(line_.substr(begin + key.size()));
  }

 private:
  std::string line_;
};

std::vector<std::string> lines_with(const std::string& text, const std::string& beginning) {
  std::vector<std::string> found;
  for (const std::string& line : split(text, '\n'))
    if (starts_with(line, beginning)) found.push_back(line);
  return found;
}

int count_or_unlimited(const std::string& text) {
  return text == "UNLIMITED" ? 0 : leading_number(text);
}

}  // namespace

std::vector<SlurmNode> read_slurm_nodes(const std::string& text) {
  std::vector<SlurmNode> nodes;
  for (const std::string& line : lines_with(text, "NodeName=")) {
    const Pairs pairs(line);
    SlurmNode node;
    node.name = pairs["NodeName"];
    node.state = replace_all(pairs["State"], "*", "+NOT_RESPONDING");
    node.reason = pairs.rest("Reason");
    if (const std::size_t who = node.reason.rfind(" ["); who != std::string::npos) node.reason.resize(who);
    node.features = pairs["AvailableFeatures"];
    node.gres = pairs["Gres"];
    node.partitions = pairs["Partitions"];
    node.cpus = leading_number(pairs["CPUTot"]);
    node.memory_mib = leading_number(pairs["RealMemory"]);
    nodes.push_back(std::move(node));
  }
  return nodes;
}

std::vector<SlurmPartition> read_slurm_partitions(const std::string& text) {
  std::vector<SlurmPartition> partitions;
  for (const std::string& line : lines_with(text, "PartitionName=")) {
    const Pairs pairs(line);
    SlurmPartition partition;
    partition.name = pairs["PartitionName"];
    partition.state = pairs["State"];
    partition.qos = pairs["QoS"];
    partition.nodes = pairs["Nodes"];
    partition.allowed_accounts = pairs["AllowAccounts"] == "ALL" ? "" : pairs["AllowAccounts"];
    partition.tres = pairs["TRES"];
    partition.max_time_s = read_slurm_duration(pairs["MaxTime"]);
    partition.default_time_s = read_slurm_duration(pairs["DefaultTime"]);
    partition.nodes_total = leading_number(pairs["TotalNodes"]);
    partition.nodes_max = count_or_unlimited(pairs["MaxNodes"]);
    partition.nodes_min = leading_number(pairs["MinNodes"]);
    partition.cpus_total = leading_number(pairs["TotalCPUs"]);
    partition.is_default = pairs["Default"] == "YES";
    partition.exclusive = pairs["OverSubscribe"] == "EXCLUSIVE";
    partitions.push_back(std::move(partition));
  }
  return partitions;
}

std::vector<SlurmReservation> read_slurm_reservations(const std::string& text) {
  std::vector<SlurmReservation> reservations;
  for (const std::string& line : lines_with(text, "ReservationName=")) {
    const Pairs pairs(line);
    SlurmReservation reservation;
    reservation.name = pairs["ReservationName"];
    reservation.nodes = pairs["Nodes"];
    reservation.partition = pairs["PartitionName"];
    reservation.flags = pairs["Flags"];
    reservation.start_s = read_slurm_time(pairs["StartTime"]);
    reservation.end_s = read_slurm_time(pairs["EndTime"]);
    reservations.push_back(std::move(reservation));
  }
  return reservations;
}

SlurmConfiguration read_slurm_configuration(const std::string& text) {
  std::map<std::string, std::string> pairs;
  for (const std::string& line : split(text, '\n')) {
    const std::size_t equals = line.find('=');
    if (equals != std::string::npos) pairs[trim(line.substr(0, equals))] = trim(line.substr(equals + 1));
  }
  SlurmConfiguration made;
  made.cluster = pairs["ClusterName"];
  made.version = pairs["SLURM_VERSION"];
  made.min_job_age_s = leading_number(pairs["MinJobAge"]);  // "300 sec"
  made.kill_wait_s = leading_number(pairs["KillWait"]);
  made.slurmd_timeout_s = leading_number(pairs["SlurmdTimeout"]);
  made.message_timeout_s = leading_number(pairs["MessageTimeout"]);
  made.max_array_size = leading_number(pairs["MaxArraySize"]);
  made.max_job_count = leading_number(pairs["MaxJobCount"]);
  const std::string accounting = read_slurm_text(pairs["AccountingStorageType"]);
  made.accounting = !accounting.empty() && !ends_with(accounting, "/none");
  made.requeue = pairs["JobRequeue"] == "1";
  made.scrontab = pairs["ScronParameters"].find("enable") != std::string::npos;
  made.stepmgr = pairs["SlurmctldParameters"].find("enable_stepmgr") != std::string::npos;
  made.select_type = pairs["SelectType"];
  made.task_plugin = pairs["TaskPlugin"];
  made.mpi_default = pairs["MpiDefault"];
  made.cli_filters = read_slurm_text(pairs["CliFilterPlugins"]);
  made.private_data = read_slurm_text(pairs["PrivateData"]);
  if (made.private_data == "none") made.private_data.clear();
  return made;
}

SlurmWillRun read_slurm_will_run(const std::string& text) {
  // "sbatch: Job 7 to start at 1795252879 using 4 processors on nodes n[1-2] in partition main"
  const auto after = [&](const std::string& phrase) {
    const std::size_t at = text.find(phrase);
    if (at == std::string::npos) return std::string();
    const std::size_t from = at + phrase.size();
    return text.substr(from, text.find_first_of(" \n", from) - from);
  };
  SlurmWillRun answer;
  answer.start_s = read_slurm_time(after("to start at "));
  answer.nodes = after(" on nodes ");
  answer.partition = after(" in partition ");
  return answer;
}

}  // namespace longhaul
