#include "orchestrator/slurm_helper/job_description.h"

#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <map>

#include "base/files/files.h"
#include "base/text/text.h"
#include "orchestrator/slurm_helper/option_values.h"
#include "orchestrator/slurm_helper/task_variables.h"

namespace longhaul {
namespace {

// The word before the name of a generic resource changed.
constexpr bool slash_gres = SLURM_VERSION_NUMBER >= SLURM_VERSION_NUM(23, 11, 0);
constexpr const char* gres_prefix = slash_gres ? "gres/" : "gres:";

// Since 24.05 what a task asks for is one text: "cpu=2,gres/gpu:a100=1".
constexpr bool one_tres_per_task = SLURM_VERSION_NUMBER >= SLURM_VERSION_NUM(24, 5, 0);
// Since 23.11 the srun of a foreign mpirun has to say that it is one.
constexpr bool external_launchers = SLURM_VERSION_NUMBER >= SLURM_VERSION_NUM(23, 11, 0);

constexpr std::uint32_t unset = NO_VAL;
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

// The library's own reader of points in time; not in its header.
std::optional<time_t> point_in_time(const std::string& text) {
  using Reader = time_t (*)(char*, int);
  void* symbol = ::dlsym(RTLD_DEFAULT, "slurm_parse_time");
  if (!symbol) return std::nullopt;
  Reader reader = nullptr;
  std::memcpy(static_cast<void*>(&reader), static_cast<const void*>(&symbol), sizeof reader);
  std::string copy = text;
  const time_t found = reader(copy.data(), 0);
  return found == 0 ? std::nullopt : std::optional<time_t>(found);
}

}  // namespace

// Reads options one by one, then lets them follow from one another as sbatch does.
class DescriptionBuilder {
 public:
  DescriptionBuilder(const JobRequest& request, const SubmitContext& context) : request_(request), context_(context) {}

  Result<JobDescription> build() {
    LH_TRY(std::string text, read_file(request_.script, script_bytes_max));
    LH_CHECK(check_script(text));
    LH_TRY(const std::vector<BatchOption> options, batch_options(text, request_.script, request_.options));
    made_.message_ = std::make_unique<job_desc_msg_t>();
    slurm_init_job_desc_msg(&message());
    message().contiguous = 0;
    for (const BatchOption& option : options) LH_CHECK(apply(option));
    message().script = keep(std::move(text));
    LH_CHECK(complete());
    return std::move(made_);
  }

 private:
  job_desc_msg_t& message() { return *made_.message_; }
  char* keep(std::string text) {
    made_.texts_.push_back(std::move(text));
    return made_.texts_.back().data();
  }
  void variable(const std::string& name, const std::string& value) { variables_.push_back(name + "=" + value); }

  Status check_script(const std::string& text) const {
    const auto refuse = [&](const std::string& what) {
      return make_error(ErrorCode::invalid_input, request_.script + ": " + what);
    };
    if (text.size() < 2 || text.substr(0, 2) != "#!") return refuse("a batch script begins with #! and an interpreter");
    if (text.find('\0') != std::string::npos) return refuse("a batch script cannot hold NUL characters");
    if (text.find("\r\n") != std::string::npos) return refuse("the lines end with CR LF; use LF");
    return {};
  }

  Error refuse(const BatchOption& option, const std::string& expected) const {
    Error error = make_error(ErrorCode::invalid_input,
                             format("--{}={} is not valid; expected {}", option.name, option.value, expected));
    if (option.line > 0) error.where = SourcePos{request_.script, option.line, 0};
    return error;
  }

  template <class T>
  Status number(const BatchOption& option, T& field, std::int64_t least, std::int64_t most) const {
    const auto value = whole_number(option.value);
    if (!value || *value < least || *value > most) return refuse(option, format("a number from {} to {}", least, most));
    field = static_cast<T>(*value);
    return {};
  }

  Status apply(const BatchOption& option);
  bool apply_text(const BatchOption& option);
  bool apply_flag(const BatchOption& option);
  Status apply_size(const BatchOption& option, bool& known);
  Status apply_time(const BatchOption& option, bool& known);
  Status apply_rest(const BatchOption& option);
  Status read_nodes(const BatchOption& option);
  Status read_signal(const BatchOption& option);
  Status read_exclusive(const BatchOption& option);
  Status read_mail(const BatchOption& option);
  Status read_hint(const BatchOption& option);
  Status complete();
  void complete_sizes();
  void complete_tres();
  void complete_environment();

  const JobRequest& request_;
  const SubmitContext& context_;
  JobDescription made_;
  std::vector<std::string> variables_;
  // What sbatch keeps beside the message while it reads.
  std::uint32_t nodes_min_ = 1, nodes_max_ = 0, tasks_ = 1, cpus_per_task_ = 0;
  bool nodes_set_ = false, tasks_set_ = false, cpus_set_ = false;
  std::string gpus_, gpus_per_node_, gpus_per_socket_, gpus_per_task_, gres_, cpus_per_gpu_, nodelist_;
  std::optional<std::uint64_t> mem_, mem_per_cpu_, mem_per_gpu_;
  std::string export_, hint_, gpu_tasks_;
};

bool DescriptionBuilder::apply_text(const BatchOption& option) {
  job_desc_msg_t& m = message();
  const std::map<std::string, char**> fields = {
      {"account", &m.account},         {"acctg-freq", &m.acctg_freq},
      {"array", &m.array_inx},         {"chdir", &m.work_dir},
      {"comment", &m.comment},         {"constraint", &m.features},
      {"dependency", &m.dependency},   {"error", &m.std_err},
      {"exclude", &m.exc_nodes},       {"input", &m.std_in},
      {"job-name", &m.name},           {"licenses", &m.licenses},
      {"mail-user", &m.mail_user},     {"network", &m.network},
      {"output", &m.std_out},          {"partition", &m.partition},
      {"prefer", &m.prefer},           {"qos", &m.qos},
      {"reservation", &m.reservation}, {"wckey", &m.wckey},
  };
  const std::map<std::string, std::string*> kept = {
      {"cpus-per-gpu", &cpus_per_gpu_},   {"export", &export_},     {"gpus", &gpus_},
      {"gpus-per-node", &gpus_per_node_}, {"gres", &gres_},         {"gpus-per-socket", &gpus_per_socket_},
      {"gpus-per-task", &gpus_per_task_}, {"nodelist", &nodelist_},
  };
  if (const auto found = fields.find(option.name); found != fields.end()) {
    *found->second = keep(option.value);
    return true;
  }
  if (const auto found = kept.find(option.name); found != kept.end()) {
    *found->second = option.value;
    return true;
  }
  return false;
}

bool DescriptionBuilder::apply_flag(const BatchOption& option) {
  job_desc_msg_t& m = message();
  const std::string& name = option.name;
  if (name == "contiguous") {
    m.contiguous = 1;
  } else if (name == "hold") {
    m.priority = 0;
  } else if (name == "overcommit") {
    m.overcommit = 1;
  } else if (name == "oversubscribe") {
    m.shared = 1;
  } else if (name == "reboot") {
    m.reboot = 1;
  } else if (name == "requeue") {
    m.requeue = 1;
  } else if (name == "no-requeue") {
    m.requeue = 0;
  } else if (name == "spread-job") {
    m.bitflags |= SPREAD_JOB;
  } else if (name == "use-min-nodes") {
    m.bitflags |= USE_MIN_NODES;
  } else {
    return name == "ignore-pbs" || name == "parsable" || name == "quiet" || name == "verbose";
  }
  return true;
}

Status DescriptionBuilder::apply_size(const BatchOption& option, bool& known) {
  job_desc_msg_t& m = message();
  const std::string& name = option.name;
  constexpr std::int64_t most16 = 0xfff0, most32 = 0x7fffffff;
  known = true;
  if (name == "ntasks") {
    tasks_set_ = true;
    return number(option, tasks_, 0, most32);
  }
  if (name == "cpus-per-task") {
    cpus_set_ = true;
    return number(option, cpus_per_task_, 1, most16);
  }
  if (name == "nodes") return read_nodes(option);
  if (name == "ntasks-per-node") return number(option, m.ntasks_per_node, 0, most16);
  if (name == "ntasks-per-core") return number(option, m.ntasks_per_core, 1, most16);
  if (name == "ntasks-per-socket") return number(option, m.ntasks_per_socket, 1, most16);
  if (name == "ntasks-per-gpu") {
    gpu_tasks_ = option.value;
    return number(option, m.ntasks_per_tres, 1, most16);
  }
  if (name == "threads-per-core") return number(option, m.threads_per_core, 1, most16);
  if (name == "cores-per-socket") return number(option, m.cores_per_socket, 1, most16);
  if (name == "sockets-per-node") return number(option, m.sockets_per_node, 1, most16);
  if (name == "core-spec") return number(option, m.core_spec, 0, most16 >> 1);
  if (name == "mincpus") return number(option, m.pn_min_cpus, 1, most16);
  if (name == "priority") return number(option, m.priority, 0, most32);
  if (name == "wait-all-nodes") return number(option, m.wait_all_nodes, 0, 1);
  if (name == "segment") {
#if SLURM_VERSION_NUMBER >= SLURM_VERSION_NUM(24, 5, 0)
    return number(option, m.segment_size, 1, most16);
#else
    return make_error(ErrorCode::invalid_input, "--segment needs Slurm 24.05 or later",
                      "this is a longhaul-slurm for an older one; leave it out at this site");
#endif
  }
  for (auto& [option_name, field] :
       {std::pair{"mem", &mem_}, std::pair{"mem-per-cpu", &mem_per_cpu_}, std::pair{"mem-per-gpu", &mem_per_gpu_}}) {
    if (name != option_name) continue;
    *field = mebibytes(option.value);
    if (!*field) return refuse(option, "an amount of memory, as 16G or 512M");
    return {};
  }
  if (name == "tmp") {
    const auto amount = mebibytes(option.value);
    if (!amount || *amount > unset - 2) return refuse(option, "an amount of disk, as 100G");
    m.pn_min_tmp_disk = static_cast<std::uint32_t>(*amount);
    return {};
  }
  known = false;
  return {};
}

Status DescriptionBuilder::apply_time(const BatchOption& option, bool& known) {
  job_desc_msg_t& m = message();
  const std::string& name = option.name;
  known = true;
  if (name == "time" || name == "time-min") {
    const auto minutes = time_limit_minutes(option.value);
    if (!minutes) return refuse(option, "a duration, as 90, 1:30:00 or 2-12:00");
    (name == "time" ? m.time_limit : m.time_min) = *minutes == 0 ? INFINITE : *minutes;
    return {};
  }
  if (name == "begin" || name == "deadline") {
    const auto point = point_in_time(option.value);
    if (!point) return refuse(option, "a point in time, as now+1hour or 2027-01-31T08:00");
    (name == "begin" ? m.begin_time : m.deadline) = *point;
    return {};
  }
  if (name == "switches") {
    const auto parts = split(option.value, '@');
    const auto count = whole_number(parts[0]);
    if (!count || *count < 1 || parts.size() > 2) return refuse(option, "count[@longest wait]");
    m.req_switch = static_cast<std::uint32_t>(*count);
    if (parts.size() == 2) {
      const auto wait = time_seconds(parts[1]);
      if (!wait) return refuse(option, "count[@longest wait]");
      m.wait4switch = static_cast<std::uint32_t>(*wait);
    }
    return {};
  }
  if (name == "nice") {
    BatchOption with_default = option;
    if (!option.has_value) with_default.value = "100";
    std::int64_t value = 0;
    LH_CHECK(number(with_default, value, -2147483645, 2147483645));
    m.nice = static_cast<std::uint32_t>(NICE_OFFSET + value);
    return {};
  }
  known = false;
  return {};
}

Status DescriptionBuilder::read_nodes(const BatchOption& option) {
  const auto parts = split(option.value, '-');
  const auto least = whole_number(parts[0]);
  const auto most = parts.size() == 2 ? whole_number(parts[1]) : least;
  if (!least || !most || parts.size() > 2 || *least < 0 || *most < *least || *most > 0x7fffffff)
    return refuse(option, "a number of nodes, or a range as 2-4");
  nodes_min_ = static_cast<std::uint32_t>(*least);
  nodes_max_ = static_cast<std::uint32_t>(*most);
  nodes_set_ = true;
  return {};
}

Status DescriptionBuilder::read_signal(const BatchOption& option) {
  job_desc_msg_t& m = message();
  std::string text = option.value;
  m.warn_flags = 0;
  const std::size_t colon = text.find(':');
  if (colon != std::string::npos) {
    for (const char c : text.substr(0, colon)) {
      if (c == 'B' || c == 'b') {
        m.warn_flags |= KILL_JOB_BATCH;
      } else if (c == 'R' || c == 'r') {
        m.warn_flags |= KILL_JOB_RESV;
      } else {
        return refuse(option, "[R][B:]signal[@seconds]");
      }
    }
    text = text.substr(colon + 1);
  }
  const auto parts = split(text, '@');
  const auto signal = signal_number(parts[0]);
  const auto before = parts.size() == 2 ? whole_number(parts[1]) : std::optional<std::int64_t>(60);
  if (!signal || !before || *before < 0 || *before > 0xffff || parts.size() > 2)
    return refuse(option, "[R][B:]signal[@seconds], as B:USR1@300");
  m.warn_signal = static_cast<std::uint16_t>(*signal);
  m.warn_time = static_cast<std::uint16_t>(*before);
  return {};
}

Status DescriptionBuilder::read_exclusive(const BatchOption& option) {
  if (!option.has_value || option.value == "exclusive") {
    message().shared = JOB_SHARED_NONE;
  } else if (option.value == "user") {
    message().shared = JOB_SHARED_USER;
  } else if (option.value == "mcs") {
    message().shared = JOB_SHARED_MCS;
  } else if (option.value == "oversubscribe") {
    message().shared = JOB_SHARED_OK;
  } else {
    return refuse(option, "no value, user or mcs");
  }
  return {};
}

Status DescriptionBuilder::read_mail(const BatchOption& option) {
  static const std::map<std::string, unsigned> types = {
      {"NONE", 0U},
      {"BEGIN", MAIL_JOB_BEGIN},
      {"END", MAIL_JOB_END},
      {"FAIL", MAIL_JOB_FAIL},
      {"REQUEUE", MAIL_JOB_REQUEUE},
      {"INVALID_DEPEND", MAIL_INVALID_DEPEND},
      {"STAGE_OUT", MAIL_JOB_STAGE_OUT},
      {"ALL",
       MAIL_INVALID_DEPEND | MAIL_JOB_BEGIN | MAIL_JOB_END | MAIL_JOB_FAIL | MAIL_JOB_REQUEUE | MAIL_JOB_STAGE_OUT},
      {"TIME_LIMIT", MAIL_JOB_TIME100},
      {"TIME_LIMIT_90", MAIL_JOB_TIME90},
      {"TIME_LIMIT_80", MAIL_JOB_TIME80},
      {"TIME_LIMIT_50", MAIL_JOB_TIME50},
      {"ARRAY_TASKS", MAIL_ARRAY_TASKS},
  };
  unsigned wanted = 0;
  for (const std::string& word : split(option.value, ',')) {
    const auto found = types.find(word);
    if (found == types.end())
      return refuse(option, "NONE, BEGIN, END, FAIL, REQUEUE, ALL, TIME_LIMIT[_90|_80|_50], ...");
    wanted |= found->second;
  }
  message().mail_type = static_cast<std::uint16_t>(wanted);
  return {};
}

Status DescriptionBuilder::read_hint(const BatchOption& option) {
  job_desc_msg_t& m = message();
  if (option.value == "nomultithread" || option.value == "compute_bound") {
    m.threads_per_core = 1;
  } else if (option.value == "memory_bound") {
    m.cores_per_socket = 1;
    m.threads_per_core = 1;
  } else if (option.value == "multithread") {
    m.ntasks_per_core = INFINITE16;
  } else {
    return refuse(option, "compute_bound, memory_bound, multithread or nomultithread");
  }
  hint_ = option.value;
  return {};
}

Status DescriptionBuilder::apply_rest(const BatchOption& option) {
  job_desc_msg_t& m = message();
  const std::string& name = option.name;
  if (name == "exclusive") return read_exclusive(option);
  if (name == "signal") return read_signal(option);
  if (name == "mail-type") return read_mail(option);
  if (name == "hint") return read_hint(option);
  if (name == "no-kill") {
    if (option.has_value && option.value != "set" && option.value != "off" && option.value != "no")
      return refuse(option, "no value, or off");
    m.kill_on_node_fail = option.has_value && option.value != "set" ? 1 : 0;
    return {};
  }
  if (name == "kill-on-invalid-dep") {
    if (option.value != "yes" && option.value != "no") return refuse(option, "yes or no");
    m.bitflags |= option.value == "yes" ? KILL_INV_DEP : NO_KILL_INV_DEP;
    return {};
  }
  if (name == "open-mode") {
    if (option.value.empty() || (option.value[0] != 'a' && option.value[0] != 't'))
      return refuse(option, "append or truncate");
    m.open_mode = option.value[0] == 'a' ? OPEN_MODE_APPEND : OPEN_MODE_TRUNCATE;
    return {};
  }
  if (name == "gres-flags") {
    if (option.value != "enforce-binding" && option.value != "disable-binding")
      return refuse(option, "enforce-binding or disable-binding");
    m.bitflags |= option.value == "enforce-binding" ? GRES_ENFORCE_BIND : GRES_DISABLE_BIND;
    return {};
  }
  return make_error(ErrorCode::internal, "longhaul-slurm reads the option --" + name + " but does not map it");
}

Status DescriptionBuilder::apply(const BatchOption& option) {
  if (apply_text(option) || apply_flag(option)) return {};
  bool known = false;
  LH_CHECK(apply_size(option, known));
  if (known) return {};
  LH_CHECK(apply_time(option, known));
  if (known) return {};
  return apply_rest(option);
}

// Tasks follow from nodes and the other way round (sbatch's own order of steps).
void DescriptionBuilder::complete_sizes() {
  job_desc_msg_t& m = message();
  if (!nodelist_.empty()) {
    const auto hosts = slurm_hostlist_create(nodelist_.c_str());
    if (hosts) {
      const auto count = static_cast<std::uint32_t>(slurm_hostlist_count(hosts));
      nodes_min_ = nodes_set_ ? std::max(count, nodes_min_) : count;
      nodes_set_ = true;
      slurm_hostlist_destroy(hosts);
    }
    m.req_nodes = keep(nodelist_);
  }
  const bool fixed_nodes = nodes_max_ == 0 || nodes_min_ == nodes_max_;
  const std::uint16_t none = NO_VAL16;
  if (m.ntasks_per_node != none && m.ntasks_per_node > 0 && !tasks_set_ && fixed_nodes) {
    tasks_ = nodes_min_ * m.ntasks_per_node;
    tasks_set_ = true;
  }
  if (cpus_set_ && (m.pn_min_cpus == none || m.pn_min_cpus < cpus_per_task_))
    m.pn_min_cpus = static_cast<std::uint16_t>(cpus_per_task_);
  if (nodes_set_ && fixed_nodes && !tasks_set_) {
    tasks_ = std::max(nodes_min_, 1U);
    for (const std::uint16_t factor : {m.sockets_per_node, m.cores_per_socket, m.threads_per_core}) {
      if (factor == none) continue;
      tasks_ *= factor;
      tasks_set_ = true;
    }
  } else if (nodes_set_ && tasks_set_) {
    nodes_max_ = std::min(nodes_max_, tasks_);
    if (tasks_ < nodes_min_) nodes_min_ = nodes_max_ = tasks_;
  }
  if (tasks_set_) {
    m.bitflags |= JOB_NTASKS_SET;
    m.num_tasks = tasks_;
  }
  if (m.overcommit == 1) {
    m.min_cpus = std::max(nodes_min_, 1U);
  } else if (cpus_set_) {
    m.min_cpus = tasks_ * cpus_per_task_;
  } else {
    m.min_cpus = nodes_set_ && nodes_min_ == 0 ? 0 : tasks_;
  }
  if (cpus_set_) {
    m.bitflags |= JOB_CPUS_SET;
    m.cpus_per_task = static_cast<std::uint16_t>(cpus_per_task_);
  }
  if (nodes_set_) {
    m.min_nodes = nodes_min_;
    if (nodes_max_ > 0) m.max_nodes = nodes_max_;
  } else if (tasks_set_ && tasks_ == 0) {
    m.min_nodes = 0;
  }
}

void DescriptionBuilder::complete_tres() {
  job_desc_msg_t& m = message();
  if (!gpus_.empty()) m.tres_per_job = keep(gpu_tres(gpus_));
  if (!gpus_per_socket_.empty()) m.tres_per_socket = keep(gpu_tres(gpus_per_socket_));
  std::string per_task = gpus_per_task_.empty() ? std::string() : gpu_tres(gpus_per_task_);
  if (one_tres_per_task) per_task = tres_per_task(cpus_set_ ? cpus_per_task_ : 0, gpus_per_task_);
  if (!per_task.empty()) m.tres_per_task = keep(std::move(per_task));
  std::vector<std::string> per_node;
  if (!gpus_per_node_.empty()) per_node.push_back(gpu_tres(gpus_per_node_));
  if (!gres_.empty() && gres_ != "none" && gres_ != "NONE") {
    for (const std::string& part : split(gres_, ','))
      per_node.push_back(starts_with(part, "gres:") || starts_with(part, "gres/") ? gres_prefix + part.substr(5)
                                                                                  : gres_prefix + part);
  }
  if (!per_node.empty()) m.tres_per_node = keep(join(per_node, ","));
  if (!cpus_per_gpu_.empty()) m.cpus_per_tres = keep(gpu_tres(cpus_per_gpu_));
  if (mem_per_gpu_) m.mem_per_tres = keep(gpu_tres(std::to_string(*mem_per_gpu_)));
  if (mem_) {
    m.pn_min_memory = *mem_;
  } else if (mem_per_cpu_) {
    m.pn_min_memory = *mem_per_cpu_ | MEM_PER_CPU;
  }
}

void DescriptionBuilder::complete_environment() {
  job_desc_msg_t& m = message();
  variable("SLURM_JOB_NAME", m.name);
  if (cpus_set_) variable("SLURM_CPUS_PER_TASK", std::to_string(cpus_per_task_));
  if (tasks_set_ && tasks_ > 0) {
    variable("SLURM_NPROCS", std::to_string(tasks_));
    variable("SLURM_NTASKS", std::to_string(tasks_));
  }
  const std::uint16_t none = NO_VAL16;
  if (m.ntasks_per_core != none) variable("SLURM_NTASKS_PER_CORE", std::to_string(m.ntasks_per_core));
  if (!gpu_tasks_.empty()) variable("SLURM_NTASKS_PER_GPU", gpu_tasks_);
  if (m.ntasks_per_node != none) variable("SLURM_NTASKS_PER_NODE", std::to_string(m.ntasks_per_node));
  if (m.ntasks_per_socket != none) variable("SLURM_NTASKS_PER_SOCKET", std::to_string(m.ntasks_per_socket));
  if (m.threads_per_core != none) variable("SLURM_THREADS_PER_CORE", std::to_string(m.threads_per_core));
  if (!hint_.empty()) variable("SLURM_HINT", hint_);
  for (const auto& [name, value] :
       {std::pair{"SLURM_GPUS", &gpus_}, std::pair{"SLURM_GPUS_PER_NODE", &gpus_per_node_},
        std::pair{"SLURM_GPUS_PER_SOCKET", &gpus_per_socket_}, std::pair{"SLURM_CPUS_PER_GPU", &cpus_per_gpu_}})
    if (!value->empty()) variable(name, *value);
  if (m.tres_per_task)
    variable(one_tres_per_task ? "SLURM_TRES_PER_TASK" : "SLURM_GPUS_PER_TASK",
             one_tres_per_task ? m.tres_per_task : gpus_per_task_);
  if (mem_per_gpu_) variable("SLURM_MEM_PER_GPU", std::to_string(*mem_per_gpu_));
  if (m.open_mode == OPEN_MODE_APPEND) variable("SLURM_OPEN_MODE", "a");
  if (m.open_mode == OPEN_MODE_TRUNCATE) variable("SLURM_OPEN_MODE", "t");
  if (m.dependency) variable("SLURM_JOB_DEPENDENCY", m.dependency);
  if (m.acctg_freq) variable("SLURM_ACCTG_FREQ", m.acctg_freq);

  // --export: ALL (default), NONE, or variables with or without a value, ALL among them or not.
  const auto add_inherited = [&](const std::function<bool(const std::string&)>& wanted) {
    for (const std::string& entry : context_.environment)
      if (wanted(entry)) made_.environment_.push_back(const_cast<char*>(entry.c_str()));
  };
  const bool everything = export_.empty() || export_ == "ALL" || export_ == "all";
  if (everything) {
    add_inherited([](const std::string&) { return true; });
  } else {
    variable("SLURM_EXPORT_ENV", export_);
    variable("SLURM_GET_USER_ENV", "1");
    bool all = false;
    std::map<std::string, std::string> set;
    std::vector<std::string> named;
    for (const std::string& word : split(export_ == "NONE" ? std::string() : export_, ',')) {
      const std::size_t equals = word.find('=');
      if (word == "ALL") {
        all = true;
      } else if (equals != std::string::npos) {
        set[word.substr(0, equals)] = word.substr(equals + 1);
      } else if (!word.empty()) {
        named.push_back(word + "=");
      }
    }
    add_inherited([&](const std::string& entry) {
      if (set.contains(entry.substr(0, entry.find('=')))) return false;
      if (all || starts_with(entry, "SLURM_") || starts_with(entry, "SPANK_")) return true;
      return std::any_of(named.begin(), named.end(), [&](const std::string& name) { return starts_with(entry, name); });
    });
    for (const auto& [name, value] : set) variable(name, value);
  }
  if (external_launchers)
    for (std::string& entry :
         launcher_variables({made_.environment_.begin(), made_.environment_.end()}, context_.hydra_bootstrap))
      variables_.push_back(std::move(entry));
  for (std::string& entry : variables_) made_.environment_.push_back(keep(std::move(entry)));
  m.env_size = static_cast<std::uint32_t>(made_.environment_.size());
  made_.environment_.push_back(nullptr);
  m.environment = made_.environment_.data();
}

Status DescriptionBuilder::complete() {
  job_desc_msg_t& m = message();
  const int memories = (mem_ ? 1 : 0) + (mem_per_cpu_ ? 1 : 0) + (mem_per_gpu_ ? 1 : 0);
  if (memories > 1)
    return make_error(ErrorCode::invalid_input,
                      request_.script + ": --mem, --mem-per-cpu and --mem-per-gpu exclude each other");
  if (m.deadline != 0 && m.begin_time != 0 && m.deadline < m.begin_time)
    return make_error(ErrorCode::invalid_input, request_.script + ": --deadline lies before --begin");
  if (!m.name) m.name = keep(file_name(request_.script));
  if (!m.work_dir) m.work_dir = keep(context_.working_directory);
  m.user_id = ::getuid();
  m.group_id = ::getgid();
  complete_sizes();
  complete_tres();
  complete_environment();
  made_.arguments_.push_back(keep(request_.script));
  for (const std::string& argument : request_.arguments) made_.arguments_.push_back(keep(argument));
  m.argc = static_cast<std::uint32_t>(made_.arguments_.size());
  m.argv = made_.arguments_.data();
  return {};
}

Result<JobDescription> JobDescription::make(const JobRequest& request, const SubmitContext& context) {
  return DescriptionBuilder(request, context).build();
}

}  // namespace longhaul
