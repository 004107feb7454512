#include "orchestrator/slurm_helper/job_description.h"

#include <unistd.h>

#include <algorithm>
#include <utility>

#include "base/files/files.h"
#include "base/text/text.h"
#include "orchestrator/slurm_helper/option_reader.h"
#include "orchestrator/slurm_helper/task_variables.h"

namespace longhaul {
namespace {

// The prefix of the name of a generic resource changed.
constexpr bool slash_gres = SLURM_VERSION_NUMBER >= SLURM_VERSION_NUM(23, 11, 0);
constexpr const char* gres_prefix = slash_gres ? "gres/" : "gres:";

// Since 24.05 what a task asks for is one text: "cpu=2,gres/gpu:a100=1".
constexpr bool one_tres_per_task = SLURM_VERSION_NUMBER >= SLURM_VERSION_NUM(24, 5, 0);
// Since 23.11 the srun of a foreign mpirun has to say that it is one.
constexpr bool external_launchers = SLURM_VERSION_NUMBER >= SLURM_VERSION_NUM(23, 11, 0);

constexpr std::uint64_t script_bytes_max = 64ULL << 20;

// "2,h100:4" -> "gres:gpu:2,gres:gpu:h100:4"
std::string tres_list(const std::string& name, const std::string& value) {
  std::vector<std::string> parts;
  for (const std::string& part : split(value, ',')) parts.push_back(format("{}:{}", name, part));
  return join(parts, ",");
}

std::string gpu_tres(const std::string& value) {
  return tres_list(std::string(gres_prefix) + "gpu", value);
}

Status check_script(const std::string& script, const std::string& text) {
  const auto refuse = [&](const std::string& what) {
    return make_error(ErrorCode::invalid_input, script + ": " + what);
  };
  if (text.size() < 2 || text.substr(0, 2) != "#!") return refuse("a batch script begins with #! and an interpreter");
  if (text.find('\0') != std::string::npos) return refuse("a batch script cannot hold NUL characters");
  if (text.find("\r\n") != std::string::npos) return refuse("the lines end with CR LF; use LF");
  return {};
}

Status check_together(const job_desc_msg_t& m, const KeptOptions& kept, const std::string& script) {
  const int memories = (kept.mem ? 1 : 0) + (kept.mem_per_cpu ? 1 : 0) + (kept.mem_per_gpu ? 1 : 0);
  if (memories > 1)
    return make_error(ErrorCode::invalid_input, script + ": --mem, --mem-per-cpu and --mem-per-gpu exclude each other");
  if (m.deadline != 0 && m.begin_time != 0 && m.deadline < m.begin_time)
    return make_error(ErrorCode::invalid_input, script + ": --deadline lies before --begin");
  return {};
}

std::uint32_t count_hosts_of(const std::string& nodelist) {
  const auto hosts = nodelist.empty() ? nullptr : slurm_hostlist_create(nodelist.c_str());
  if (!hosts) return 0;
  const auto count = static_cast<std::uint32_t>(slurm_hostlist_count(hosts));
  slurm_hostlist_destroy(hosts);
  return count;
}

SizeHints size_hints(const job_desc_msg_t& m, const KeptOptions& kept) {
  const std::uint16_t none = NO_VAL16;
  SizeHints hints;
  hints.listed_nodes = count_hosts_of(kept.nodelist);
  if (m.ntasks_per_node != none) hints.tasks_per_node = m.ntasks_per_node;
  for (const std::uint16_t factor : {m.sockets_per_node, m.cores_per_socket, m.threads_per_core})
    if (factor != none) hints.tasks_of_node.push_back(factor);
  return hints;
}

void complete_sizes(job_desc_msg_t& m, const JobSizes& sizes) {
  if (sizes.cpus_set && (m.pn_min_cpus == NO_VAL16 || m.pn_min_cpus < sizes.cpus_per_task))
    m.pn_min_cpus = static_cast<std::uint16_t>(sizes.cpus_per_task);
  if (sizes.tasks_set) {
    m.bitflags |= JOB_NTASKS_SET;
    m.num_tasks = sizes.tasks;
  }
  if (m.overcommit == 1) {
    m.min_cpus = std::max(sizes.nodes_min, 1U);
  } else if (sizes.cpus_set) {
    m.min_cpus = sizes.tasks * sizes.cpus_per_task;
  } else {
    m.min_cpus = sizes.nodes_set && sizes.nodes_min == 0 ? 0 : sizes.tasks;
  }
  if (sizes.cpus_set) {
    m.bitflags |= JOB_CPUS_SET;
    m.cpus_per_task = static_cast<std::uint16_t>(sizes.cpus_per_task);
  }
  if (sizes.nodes_set) {
    m.min_nodes = sizes.nodes_min;
    if (sizes.nodes_max > 0) m.max_nodes = sizes.nodes_max;
  } else if (sizes.tasks_set && sizes.tasks == 0) {
    m.min_nodes = 0;
  }
}

void complete_tres(job_desc_msg_t& m, const KeptOptions& kept, TextStore& texts) {
  if (!kept.gpus.empty()) m.tres_per_job = texts.keep(gpu_tres(kept.gpus));
  if (!kept.gpus_per_socket.empty()) m.tres_per_socket = texts.keep(gpu_tres(kept.gpus_per_socket));
  std::string per_task = kept.gpus_per_task.empty() ? std::string() : gpu_tres(kept.gpus_per_task);
  if (one_tres_per_task)
    per_task = tres_per_task(kept.sizes.cpus_set ? kept.sizes.cpus_per_task : 0, kept.gpus_per_task);
  if (!per_task.empty()) m.tres_per_task = texts.keep(std::move(per_task));
  std::vector<std::string> per_node;
  if (!kept.gpus_per_node.empty()) per_node.push_back(gpu_tres(kept.gpus_per_node));
  if (!kept.gres.empty() && kept.gres != "none" && kept.gres != "NONE") {
    for (const std::string& part : split(kept.gres, ','))
      per_node.push_back(starts_with(part, "gres:") || starts_with(part, "gres/") ? gres_prefix + part.substr(5)
                                                                                  : gres_prefix + part);
  }
  if (!per_node.empty()) m.tres_per_node = texts.keep(join(per_node, ","));
  if (!kept.cpus_per_gpu.empty()) m.cpus_per_tres = texts.keep(gpu_tres(kept.cpus_per_gpu));
  if (kept.mem_per_gpu) m.mem_per_tres = texts.keep(gpu_tres(std::to_string(*kept.mem_per_gpu)));
  if (kept.mem) {
    m.pn_min_memory = *kept.mem;
  } else if (kept.mem_per_cpu) {
    m.pn_min_memory = *kept.mem_per_cpu | MEM_PER_CPU;
  }
}

// What sbatch says of the request to the job's programs: NAME=value.
std::vector<std::string> request_variables(const job_desc_msg_t& m, const KeptOptions& kept) {
  std::vector<std::string> variables;
  const auto variable = [&](const std::string& name, const std::string& value) {
    variables.push_back(name + "=" + value);
  };
  variable("SLURM_JOB_NAME", m.name);
  if (kept.sizes.cpus_set) variable("SLURM_CPUS_PER_TASK", std::to_string(kept.sizes.cpus_per_task));
  if (kept.sizes.tasks_set && kept.sizes.tasks > 0) {
    variable("SLURM_NPROCS", std::to_string(kept.sizes.tasks));
    variable("SLURM_NTASKS", std::to_string(kept.sizes.tasks));
  }
  const std::uint16_t none = NO_VAL16;
  if (m.ntasks_per_core != none) variable("SLURM_NTASKS_PER_CORE", std::to_string(m.ntasks_per_core));
  if (!kept.tasks_per_gpu.empty()) variable("SLURM_NTASKS_PER_GPU", kept.tasks_per_gpu);
  if (m.ntasks_per_node != none) variable("SLURM_NTASKS_PER_NODE", std::to_string(m.ntasks_per_node));
  if (m.ntasks_per_socket != none) variable("SLURM_NTASKS_PER_SOCKET", std::to_string(m.ntasks_per_socket));
  if (m.threads_per_core != none) variable("SLURM_THREADS_PER_CORE", std::to_string(m.threads_per_core));
  if (!kept.hint.empty()) variable("SLURM_HINT", kept.hint);
  for (const auto& [name, value] :
       {std::pair{"SLURM_GPUS", &kept.gpus}, std::pair{"SLURM_GPUS_PER_NODE", &kept.gpus_per_node},
        std::pair{"SLURM_GPUS_PER_SOCKET", &kept.gpus_per_socket}, std::pair{"SLURM_CPUS_PER_GPU", &kept.cpus_per_gpu}})
    if (!value->empty()) variable(name, *value);
  if (m.tres_per_task)
    variable(one_tres_per_task ? "SLURM_TRES_PER_TASK" : "SLURM_GPUS_PER_TASK",
             one_tres_per_task ? m.tres_per_task : kept.gpus_per_task);
  if (kept.mem_per_gpu) variable("SLURM_MEM_PER_GPU", std::to_string(*kept.mem_per_gpu));
  if (m.open_mode == OPEN_MODE_APPEND) variable("SLURM_OPEN_MODE", "a");
  if (m.open_mode == OPEN_MODE_TRUNCATE) variable("SLURM_OPEN_MODE", "t");
  if (m.dependency) variable("SLURM_JOB_DEPENDENCY", m.dependency);
  if (m.acctg_freq) variable("SLURM_ACCTG_FREQ", m.acctg_freq);
  return variables;
}

}  // namespace

void JobDescription::set_environment(std::vector<std::string> variables, const std::string& exported,
                                     const SubmitContext& context) {
  const ExportOption rule = parse_export(exported);
  for (const std::string& entry : context.environment)
    if (rule.inherits(entry)) environment_.push_back(const_cast<char*>(entry.c_str()));
  if (!rule.everything) {
    variables.push_back("SLURM_EXPORT_ENV=" + exported);
    variables.push_back("SLURM_GET_USER_ENV=1");
    for (const auto& [name, value] : rule.set) variables.push_back(name + "=" + value);
  }
  if (external_launchers)
    for (std::string& entry : launcher_variables({environment_.begin(), environment_.end()}, context.hydra_bootstrap))
      variables.push_back(std::move(entry));
  for (std::string& entry : variables) environment_.push_back(texts_.keep(std::move(entry)));
  message_->env_size = static_cast<std::uint32_t>(environment_.size());
  environment_.push_back(nullptr);
  message_->environment = environment_.data();
}

void JobDescription::set_arguments(const JobRequest& request) {
  arguments_.push_back(texts_.keep(request.script));
  for (const std::string& argument : request.arguments) arguments_.push_back(texts_.keep(argument));
  message_->argc = static_cast<std::uint32_t>(arguments_.size());
  message_->argv = arguments_.data();
}

// Options one by one, then what follows from them together, as sbatch does.
Result<JobDescription> JobDescription::make(const JobRequest& request, const SubmitContext& context) {
  LH_TRY(std::string text, read_file(request.script, script_bytes_max));
  LH_CHECK(check_script(request.script, text));
  LH_TRY(const std::vector<BatchOption> options, batch_options(text, request.script, request.options));
  JobDescription made;
  job_desc_msg_t& m = *made.message_;
  slurm_init_job_desc_msg(&m);
  m.contiguous = 0;
  LH_TRY(KeptOptions kept, read_options(options, request.script, m, made.texts_));
  m.script = made.texts_.keep(std::move(text));
  LH_CHECK(check_together(m, kept, request.script));
  if (!m.name) m.name = made.texts_.keep(file_name(request.script));
  if (!m.work_dir) m.work_dir = made.texts_.keep(context.working_directory);
  if (!kept.nodelist.empty()) m.req_nodes = made.texts_.keep(kept.nodelist);
  m.user_id = ::getuid();
  m.group_id = ::getgid();
  kept.sizes = derive_sizes(kept.sizes, size_hints(m, kept));
  complete_sizes(m, kept.sizes);
  complete_tres(m, kept, made.texts_);
  made.set_environment(request_variables(m, kept), kept.exported, context);
  made.set_arguments(request);
  return made;
}

}  // namespace longhaul
