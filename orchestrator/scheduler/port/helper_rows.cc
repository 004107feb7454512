#include "orchestrator/scheduler/port/helper_rows.h"

namespace longhaul {

SlurmJob job_of(const Value& row) {
  SlurmJob job;
  job.id = row.get_string("id");
  job.array_id = row.get_string("array_id");
  job.array_tasks = row.get_string("array_tasks");
  if (job.array_tasks.empty()) job.array_id.clear();
  job.name = row.get_string("name");
  job.comment = row.get_string("comment");
  job.partition = row.get_string("partition");
  job.account = row.get_string("account");
  job.state = row.get_string("state");
  job.ends_as = row.get_string("ends_as");
  job.reason = row.get_string("reason");
  job.dependency = row.get_string("dependency");
  job.nodes = row.get_string("nodes");
  job.work_dir = row.get_string("work_dir");
  job.command = row.get_string("command");
  job.other_user = row.get_bool("other_user");
  job.exit_code = static_cast<int>(row.get_integer("exit_code"));
  job.exit_signal = static_cast<int>(row.get_integer("exit_signal"));
  job.restarts = static_cast<int>(row.get_integer("restarts"));
  job.held = row.get_bool("held");
  job.submitted_s = row.get_integer("submitted_s");
  job.started_s = row.get_integer("started_s");
  job.ended_s = row.get_integer("ended_s");
  job.time_limit_s = row.get_integer("time_limit_s");
  return job;
}

SlurmNode node_of(const Value& row) {
  SlurmNode node;
  node.name = row.get_string("name");
  node.state = row.get_string("state");
  node.reason = row.get_string("reason");
  node.features = row.get_string("features");
  node.gres = row.get_string("gres");
  node.partitions = row.get_string("partitions");
  node.cpus = static_cast<int>(row.get_integer("cpus"));
  node.memory_mib = row.get_integer("memory_mib");
  return node;
}

SlurmPartition partition_of(const Value& row) {
  SlurmPartition partition;
  partition.name = row.get_string("name");
  partition.state = row.get_string("state");
  partition.qos = row.get_string("qos");
  partition.nodes = row.get_string("nodes");
  partition.allowed_accounts = row.get_string("allowed_accounts");
  partition.tres = row.get_string("tres");
  partition.max_time_s = row.get_integer("max_time_s");
  partition.default_time_s = row.get_integer("default_time_s");
  partition.nodes_total = static_cast<int>(row.get_integer("nodes_total"));
  partition.nodes_max = static_cast<int>(row.get_integer("nodes_max"));
  partition.nodes_min = static_cast<int>(row.get_integer("nodes_min"));
  partition.cpus_total = static_cast<int>(row.get_integer("cpus_total"));
  partition.is_default = row.get_bool("is_default");
  partition.exclusive = row.get_bool("exclusive");
  return partition;
}

SlurmReservation reservation_of(const Value& row) {
  return {row.get_string("name"),  row.get_string("nodes"),    row.get_string("partition"),
          row.get_string("flags"), row.get_integer("start_s"), row.get_integer("end_s")};
}

SlurmConfiguration configuration_of(const Value& row) {
  SlurmConfiguration made;
  made.cluster = row.get_string("cluster");
  made.version = row.get_string("version");
  made.min_job_age_s = row.get_integer("min_job_age_s");
  made.kill_wait_s = row.get_integer("kill_wait_s");
  made.slurmd_timeout_s = row.get_integer("slurmd_timeout_s");
  made.message_timeout_s = row.get_integer("message_timeout_s");
  made.max_array_size = static_cast<int>(row.get_integer("max_array_size"));
  made.max_job_count = static_cast<int>(row.get_integer("max_job_count"));
  made.accounting = row.get_bool("accounting");
  made.requeue = row.get_bool("requeue");
  made.scrontab = row.get_bool("scrontab");
  made.select_type = row.get_string("select_type");
  made.task_plugin = row.get_string("task_plugin");
  made.mpi_default = row.get_string("mpi_default");
  made.stepmgr = row.get_bool("stepmgr", false);
  made.cli_filters = row.get_string("cli_filters");
  made.private_data = row.get_string("private_data");
  return made;
}

}  // namespace longhaul
