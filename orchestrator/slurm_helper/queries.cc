#include "orchestrator/slurm_helper/queries.h"

#include <dlfcn.h>
#include <slurm/slurm.h>
#include <slurm/slurm_errno.h>
#include <slurm/slurmdb.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include "base/text/text.h"
#include "orchestrator/slurm_helper/slurm_errors.h"

namespace longhaul {
namespace {

// A table that leaves out what says nothing.
class Row {
 public:
  Row() : value_(Value::make_table()) {}
  void text(const char* name, const char* content) {
    if (content && *content) value_.set(name, content);
  }
  void text(const char* name, const std::string& content) { text(name, content.c_str()); }
  void number(const char* name, std::int64_t content) {
    if (content != 0) value_.set(name, static_cast<long long>(content));
  }
  void flag(const char* name, bool content) {
    if (content) value_.set(name, true);
  }
  Value take() { return std::move(value_); }

 private:
  Value value_;
};

Error last_error(const std::string& what, int result) {
  // Some calls return the number, others -1 and leave it behind.
  return slurm_error(what, result > 0 ? result : errno);
}

// As `scontrol show config` writes it; "" where everybody sees all.
std::string private_data_text(std::uint16_t private_data) {
  std::vector<std::string> kinds;
  for (const auto& [bit, name] :
       {std::pair(PRIVATE_DATA_ACCOUNTS, "accounts"), std::pair(PRIVATE_DATA_EVENTS, "events"),
        std::pair(PRIVATE_DATA_JOBS, "jobs"), std::pair(PRIVATE_DATA_NODES, "nodes"),
        std::pair(PRIVATE_DATA_PARTITIONS, "partitions"), std::pair(PRIVATE_DATA_RESERVATIONS, "reservations"),
        std::pair(PRIVATE_DATA_USAGE, "usage"), std::pair(PRIVATE_DATA_USERS, "users")})
    if (private_data & bit) kinds.emplace_back(name);
  return join(kinds, ",");
}

std::int64_t minutes_as_seconds(std::uint32_t minutes) {
  return minutes >= NO_VAL ? 0 : static_cast<std::int64_t>(minutes) * 60;
}

int limited(std::uint32_t count) {
  return count >= NO_VAL ? 0 : static_cast<int>(count);
}

// The library names reasons by a function that is not in its header and that was renamed in 23.11.
std::string reason_name(std::uint32_t reason) {
  using Namer = const char* (*)(std::uint32_t);
  static const Namer namer = [] {
    void* symbol = nullptr;
    for (const char* name : {"slurm_job_state_reason_string", "slurm_job_reason_string"})
      if (!symbol) symbol = ::dlsym(RTLD_DEFAULT, name);
    Namer found = nullptr;
    std::memcpy(static_cast<void*>(&found), static_cast<const void*>(&symbol), sizeof found);
    return found;
  }();
  if (reason == WAIT_NO_REASON) return {};
  const char* name = namer ? namer(reason) : nullptr;
  return name ? name : std::to_string(reason);
}

const char* base_state_name(std::uint32_t state) {
  if (state & JOB_REVOKED) return "CANCELLED";
  switch (state & JOB_STATE_BASE) {
    case JOB_PENDING: return "PENDING";
    case JOB_RUNNING: return "RUNNING";
    case JOB_SUSPENDED: return "SUSPENDED";
    case JOB_COMPLETE: return "COMPLETED";
    case JOB_CANCELLED: return "CANCELLED";
    case JOB_FAILED: return "FAILED";
    case JOB_TIMEOUT: return "TIMEOUT";
    case JOB_NODE_FAIL: return "NODE_FAIL";
    case JOB_PREEMPTED: return "PREEMPTED";
    case JOB_BOOT_FAIL: return "BOOT_FAIL";
    case JOB_DEADLINE: return "DEADLINE";
    case JOB_OOM: return "OUT_OF_MEMORY";
    default: return "UNKNOWN";
  }
}

// One that is queued again is PENDING below its COMPLETING. One whose nodes are powered up or configured has not begun.
const char* state_name(std::uint32_t state) {
  if ((state & JOB_CONFIGURING) && (state & JOB_STATE_BASE) == JOB_RUNNING) return "PENDING";
  const bool clears_nodes = (state & JOB_COMPLETING) && (state & JOB_STATE_BASE) != JOB_PENDING;
  return clears_nodes ? "RUNNING" : base_state_name(state);
}

std::uint32_t number_of(const slurm_job_info_t& job) {
#if SLURM_VERSION_NUMBER >= SLURM_VERSION_NUM(25, 11, 0)
  return job.step_id.job_id;
#else
  return job.job_id;
#endif
}

Value job_row(const slurm_job_info_t& job) {
  Row row;
  row.text("id", std::to_string(number_of(job)));
  if (job.array_job_id != 0) {
    row.text("array_id", std::to_string(job.array_job_id));
    if (job.array_task_str && *job.array_task_str) {
      std::string tasks = job.array_task_str;
      if (job.array_max_tasks != 0 && tasks.find('%') == std::string::npos) tasks += format("%{}", job.array_max_tasks);
      row.text("array_tasks", tasks);
    } else if (job.array_task_id != NO_VAL) {
      row.text("array_tasks", std::to_string(job.array_task_id));
    }
  }
  const std::string state = state_name(job.job_state);
  row.text("name", job.name);
  row.text("comment", job.comment);
  row.text("partition", job.partition);
  row.text("account", job.account);
  row.text("state", state);
  if ((job.job_state & JOB_COMPLETING) && (job.job_state & JOB_STATE_BASE) >= JOB_COMPLETE)
    row.text("ends_as", base_state_name(job.job_state));
  row.text("reason",
           replace_all(job.state_desc && *job.state_desc ? std::string(job.state_desc) : reason_name(job.state_reason),
                       " ", "_"));
  row.text("dependency", job.dependency);
  row.text("nodes", job.nodes);
  row.text("work_dir", job.work_dir);
  row.text("command", job.command);
  row.flag("other_user", job.user_id != ::getuid());
  const int status = static_cast<int>(job.exit_code);
  row.number("exit_code", WIFEXITED(status) ? WEXITSTATUS(status) : 0);
  row.number("exit_signal", WIFSIGNALED(status) ? WTERMSIG(status) : 0);
  row.number("restarts", job.restart_cnt);
  row.flag("held", job.priority == 0 && state == "PENDING");
  row.number("submitted_s", job.submit_time);
  // Of a waiting job the library says when it may start, and of a running one when it must end.
  const bool started = state != "PENDING";
  const bool ended = started && state != "RUNNING" && state != "SUSPENDED";
  if (started) row.number("started_s", job.start_time);
  if (ended) row.number("ended_s", job.end_time);
  row.number("time_limit_s", minutes_as_seconds(job.time_limit));
  return row.take();
}

Status send_jobs(int result, job_info_msg_t* message, const std::string& what, const RowSink& sink) {
  if (result != SLURM_SUCCESS) return last_error(what, result);
  for (std::uint32_t i = 0; i < message->record_count; ++i) sink(job_row(message->job_array[i]));
  slurm_free_job_info_msg(message);
  return {};
}

std::string node_state(std::uint32_t state) {
  static const char* const bases[] = {"UNKNOWN", "DOWN", "IDLE", "ALLOCATED", "ERROR", "MIXED", "FUTURE"};
  const std::uint32_t base = state & NODE_STATE_BASE;
  std::string text = base < std::size(bases) ? bases[base] : "UNKNOWN";
  struct Flag {
    std::uint32_t bit;
    const char* name;
  };
  static const Flag flags[] = {
      {NODE_STATE_DRAIN, "DRAIN"},
      {NODE_STATE_COMPLETING, "COMPLETING"},
      {NODE_STATE_NO_RESPOND, "NOT_RESPONDING"},
      {NODE_STATE_FAIL, "FAIL"},
      {NODE_STATE_MAINT, "MAINTENANCE"},
      {NODE_STATE_RES, "RESERVED"},
      {NODE_STATE_REBOOT_REQUESTED, "REBOOT_REQUESTED"},
      {NODE_STATE_POWERED_DOWN, "POWERED_DOWN"},
      {NODE_STATE_POWERING_UP, "POWERING_UP"},
      {NODE_STATE_POWERING_DOWN, "POWERING_DOWN"},
      {NODE_STATE_PLANNED, "PLANNED"},
      {NODE_STATE_INVALID_REG, "INVALID_REG"},
  };
  for (const Flag& flag : flags)
    if (state & flag.bit) text += std::string("+") + flag.name;
  return text;
}

std::string reservation_flags(std::uint64_t flags) {
  struct Flag {
    std::uint64_t bit;
    const char* name;
  };
  static const Flag known[] = {
      {RESERVE_FLAG_MAINT, "MAINT"},
      {RESERVE_FLAG_DAILY, "DAILY"},
      {RESERVE_FLAG_WEEKLY, "WEEKLY"},
      {RESERVE_FLAG_IGN_JOBS, "IGNORE_JOBS"},
      {RESERVE_FLAG_ANY_NODES, "ANY_NODES"},
      {RESERVE_FLAG_PART_NODES, "PART_NODES"},
      {RESERVE_FLAG_OVERLAP, "OVERLAP"},
      {RESERVE_FLAG_SPEC_NODES, "SPEC_NODES"},
      {RESERVE_FLAG_TIME_FLOAT, "TIME_FLOAT"},
      {RESERVE_FLAG_ALL_NODES, "ALL_NODES"},
      {RESERVE_FLAG_FLEX, "FLEX"},
      {RESERVE_FLAG_MAGNETIC, "MAGNETIC"},
  };
  std::vector<std::string> names;
  for (const Flag& flag : known)
    if (flags & flag.bit) names.emplace_back(flag.name);
  return join(names, ",");
}

}  // namespace

Status list_jobs(const RowSink& sink) {
  job_info_msg_t* message = nullptr;
  const int result = slurm_load_job_user(&message, ::getuid(), SHOW_ALL);
  // A controller that has no job of this user says so with an empty list or with "invalid job id".
  if (result != SLURM_SUCCESS && (result == ESLURM_INVALID_JOB_ID || errno == ESLURM_INVALID_JOB_ID)) return {};
  return send_jobs(result, message, "cannot read the jobs", sink);
}

Status list_job(std::uint32_t id, const RowSink& sink) {
  job_info_msg_t* message = nullptr;
#if SLURM_VERSION_NUMBER >= SLURM_VERSION_NUM(26, 5, 0)
  slurm_step_id_t step = SLURM_STEP_ID_INITIALIZER;
  step.job_id = id;
  const int result = slurm_load_job(&message, step, SHOW_ALL);
#else
  const int result = slurm_load_job(&message, id, SHOW_ALL);
#endif
  return send_jobs(result, message, format("cannot read job {}", id), sink);
}

Status list_nodes(const RowSink& sink) {
#ifdef SHOW_MIXED
  constexpr std::uint16_t node_flags = SHOW_ALL | SHOW_MIXED;
#else
  constexpr std::uint16_t node_flags = SHOW_ALL;
#endif
  node_info_msg_t* nodes = nullptr;
  if (const int result = slurm_load_node(0, &nodes, node_flags); result != SLURM_SUCCESS)
    return last_error("cannot read the nodes", result);
  partition_info_msg_t* partitions = nullptr;
  if (const int result = slurm_load_partitions(0, &partitions, SHOW_ALL); result != SLURM_SUCCESS) {
    slurm_free_node_info_msg(nodes);
    return last_error("cannot read the partitions", result);
  }
  slurm_populate_node_partitions(nodes, partitions);
  for (std::uint32_t i = 0; i < nodes->record_count; ++i) {
    const node_info_t& node = nodes->node_array[i];
    if (!node.name) continue;
    Row row;
    row.text("name", node.name);
    row.text("state", node_state(node.node_state));
    row.text("reason", node.reason);
    row.text("features", node.features);
    row.text("gres", node.gres);
    row.text("partitions", node.partitions);
    row.number("cpus", node.cpus);
    row.number("memory_mib", static_cast<std::int64_t>(node.real_memory));
    sink(row.take());
  }
  slurm_free_partition_info_msg(partitions);
  slurm_free_node_info_msg(nodes);
  return {};
}

Status list_partitions(const RowSink& sink) {
  partition_info_msg_t* message = nullptr;
  if (const int result = slurm_load_partitions(0, &message, SHOW_ALL); result != SLURM_SUCCESS)
    return last_error("cannot read the partitions", result);
  for (std::uint32_t i = 0; i < message->record_count; ++i) {
    const partition_info_t& partition = message->partition_array[i];
    Row row;
    row.text("name", partition.name);
    switch (partition.state_up) {
      case PARTITION_UP: row.text("state", "UP"); break;
      case PARTITION_DOWN: row.text("state", "DOWN"); break;
      case PARTITION_DRAIN: row.text("state", "DRAIN"); break;
      default: row.text("state", "INACTIVE");
    }
    row.text("qos", partition.qos_char);
    row.text("nodes", partition.nodes);
    row.text("allowed_accounts", partition.allow_accounts);
    row.text("tres", partition.tres_fmt_str);
    row.number("max_time_s", minutes_as_seconds(partition.max_time));
    row.number("default_time_s", minutes_as_seconds(partition.default_time));
    row.number("nodes_total", partition.total_nodes);
    row.number("nodes_max", limited(partition.max_nodes));
    row.number("nodes_min", limited(partition.min_nodes));
    row.number("cpus_total", partition.total_cpus);
    row.flag("is_default", (partition.flags & PART_FLAG_DEFAULT) != 0);
    row.flag("exclusive", partition.max_share == 0);
    sink(row.take());
  }
  slurm_free_partition_info_msg(message);
  return {};
}

Status list_reservations(const RowSink& sink) {
  reserve_info_msg_t* message = nullptr;
  if (const int result = slurm_load_reservations(0, &message); result != SLURM_SUCCESS)
    return last_error("cannot read the reservations", result);
  for (std::uint32_t i = 0; i < message->record_count; ++i) {
    const reserve_info_t& reservation = message->reservation_array[i];
    Row row;
    row.text("name", reservation.name);
    row.text("nodes", reservation.node_list);
    row.text("partition", reservation.partition);
    row.text("flags", reservation_flags(reservation.flags));
    row.number("start_s", reservation.start_time);
    row.number("end_s", reservation.end_time);
    sink(row.take());
  }
  slurm_free_reservation_info_msg(message);
  return {};
}

Status turn_to_cluster(const std::string& name) {
  std::string names = name;
  errno = 0;
  auto* clusters = slurmdb_get_info_cluster(names.data());
  const std::string what = "cannot find the cluster '" + name + "'";
  if (!clusters && errno != 0) return slurm_error(what, errno);
  auto* iterator = clusters ? slurm_list_iterator_create(clusters) : nullptr;
  auto* record = iterator ? static_cast<slurmdb_cluster_rec_t*>(slurm_list_next(iterator)) : nullptr;
  if (!record)
    return make_error(ErrorCode::invalid_input, what + ": slurmdbd knows none of that name, or its slurmctld is not up",
                      "correct cluster in the site file: `sacctmgr show cluster` lists them");
  slurm_list_iterator_destroy(iterator);
  working_cluster_rec = record;  // lives in the list, and as long as this process
  return {};
}

Result<ControllerFacts> read_controller() {
  slurm_conf_t* configuration = nullptr;
  if (const int result = slurm_load_ctl_conf(0, &configuration); result != SLURM_SUCCESS) {
    // A slurmctld several releases later than the library answers what the library cannot read.
    const int number = result > 0 ? result : errno;
    return slurm_error("cannot read the configuration",
                       number == SLURM_UNEXPECTED_MSG_ERROR ? SLURM_PROTOCOL_VERSION_ERROR : number);
  }
  const auto text = [](const char* content) { return std::string(content ? content : ""); };
  ControllerFacts facts;
  facts.version = text(configuration->version);
  facts.propagated_limits = text(configuration->propagate_rlimits);
  facts.limits_not_propagated = text(configuration->propagate_rlimits_except);
  facts.mpi_parameters = text(configuration->mpi_params);
  const std::string accounting = text(configuration->accounting_storage_type);
  Row row;
  row.text("cluster", configuration->cluster_name);
  row.text("version", facts.version);
  row.number("min_job_age_s", configuration->min_job_age);
  row.number("kill_wait_s", configuration->kill_wait);
  row.number("slurmd_timeout_s", configuration->slurmd_timeout);
  row.number("message_timeout_s", configuration->msg_timeout);
  row.number("max_array_size", configuration->max_array_sz);
  row.number("max_job_count", configuration->max_job_cnt);
  row.flag("accounting", !accounting.empty() && !ends_with(accounting, "/none"));
  row.flag("requeue", configuration->job_requeue != 0);
  row.flag("scrontab", text(configuration->scron_params).find("enable") != std::string::npos);
  row.flag("stepmgr", text(configuration->slurmctld_params).find("enable_stepmgr") != std::string::npos);
  row.text("select_type", configuration->select_type);
  row.text("task_plugin", configuration->task_plugin);
  row.text("mpi_default", configuration->mpi_default);
  row.text("cli_filters", configuration->cli_filter_plugins);
  row.text("private_data", private_data_text(configuration->private_data));
  facts.configuration = row.take();
#if SLURM_VERSION_NUMBER >= SLURM_VERSION_NUM(26, 5, 0)
  slurm_free_conf(configuration);
#else
  slurm_free_ctl_conf(configuration);
#endif
  return facts;
}

}  // namespace longhaul
