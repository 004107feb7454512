#include "orchestrator/slurm_helper/option_reader.h"

#include <dlfcn.h>

#include <cstring>
#include <map>

#include "base/text/text.h"
#include "orchestrator/slurm_helper/option_values.h"

namespace longhaul {
namespace {

constexpr std::uint32_t unset = NO_VAL;

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

// "BEGIN,END" as the bits that slurmctld knows; nothing where a name is none of them.
std::optional<std::uint16_t> mail_types(const std::string& names) {
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
  for (const std::string& name : split(names, ',')) {
    const auto found = types.find(name);
    if (found == types.end()) return std::nullopt;
    wanted |= found->second;
  }
  return static_cast<std::uint16_t>(wanted);
}

class OptionReader {
 public:
  OptionReader(const std::string& script, job_desc_msg_t& message, TextStore& texts, KeptOptions& kept)
      : script_(script), message_(message), texts_(texts), kept_(kept) {}

  Status read(const BatchOption& option);

 private:
  Error refuse(const BatchOption& option, const std::string& expected) const {
    Error error = make_error(ErrorCode::invalid_input,
                             format("--{}={} is not valid; expected {}", option.name, option.value, expected));
    if (option.line > 0) error.where = SourcePos{script_, option.line, 0};
    return error;
  }

  template <class T>
  Status number(const BatchOption& option, T& field, std::int64_t least, std::int64_t most) const {
    const auto value = whole_number(option.value);
    if (!value || *value < least || *value > most) return refuse(option, format("a number from {} to {}", least, most));
    field = static_cast<T>(*value);
    return {};
  }

  bool apply_text(const BatchOption& option);
  bool apply_flag(const BatchOption& option);
  Status apply_size(const BatchOption& option, bool& known);
  Status apply_time(const BatchOption& option, bool& known);
  Status apply_rest(const BatchOption& option);
  Status read_nodes(const BatchOption& option);
  Status read_signal(const BatchOption& option);
  Status read_exclusive(const BatchOption& option);
  Status read_hint(const BatchOption& option);

  const std::string& script_;
  job_desc_msg_t& message_;
  TextStore& texts_;
  KeptOptions& kept_;
};

bool OptionReader::apply_text(const BatchOption& option) {
  const std::map<std::string, char**> fields = {
      {"account", &message_.account},         {"acctg-freq", &message_.acctg_freq},
      {"array", &message_.array_inx},         {"chdir", &message_.work_dir},
      {"comment", &message_.comment},         {"constraint", &message_.features},
      {"dependency", &message_.dependency},   {"error", &message_.std_err},
      {"exclude", &message_.exc_nodes},       {"input", &message_.std_in},
      {"job-name", &message_.name},           {"licenses", &message_.licenses},
      {"mail-user", &message_.mail_user},     {"network", &message_.network},
      {"output", &message_.std_out},          {"partition", &message_.partition},
      {"prefer", &message_.prefer},           {"qos", &message_.qos},
      {"reservation", &message_.reservation}, {"wckey", &message_.wckey},
  };
  const std::map<std::string, std::string*> kept = {
      {"cpus-per-gpu", &kept_.cpus_per_gpu},
      {"export", &kept_.exported},
      {"gpus", &kept_.gpus},
      {"gpus-per-node", &kept_.gpus_per_node},
      {"gres", &kept_.gres},
      {"gpus-per-socket", &kept_.gpus_per_socket},
      {"gpus-per-task", &kept_.gpus_per_task},
      {"nodelist", &kept_.nodelist},
  };
  if (const auto found = fields.find(option.name); found != fields.end()) {
    *found->second = texts_.keep(option.value);
    return true;
  }
  if (const auto found = kept.find(option.name); found != kept.end()) {
    *found->second = option.value;
    return true;
  }
  return false;
}

bool OptionReader::apply_flag(const BatchOption& option) {
  const std::string& name = option.name;
  if (name == "contiguous") {
    message_.contiguous = 1;
  } else if (name == "hold") {
    message_.priority = 0;
  } else if (name == "overcommit") {
    message_.overcommit = 1;
  } else if (name == "oversubscribe") {
    message_.shared = 1;
  } else if (name == "reboot") {
    message_.reboot = 1;
  } else if (name == "requeue") {
    message_.requeue = 1;
  } else if (name == "no-requeue") {
    message_.requeue = 0;
  } else if (name == "spread-job") {
    message_.bitflags |= SPREAD_JOB;
  } else if (name == "use-min-nodes") {
    message_.bitflags |= USE_MIN_NODES;
  } else {
    return name == "ignore-pbs" || name == "parsable" || name == "quiet" || name == "verbose";
  }
  return true;
}

Status OptionReader::apply_size(const BatchOption& option, bool& known) {
  const std::string& name = option.name;
  constexpr std::int64_t most16 = 0xfff0, most32 = 0x7fffffff;
  known = true;
  if (name == "ntasks") {
    kept_.sizes.tasks_set = true;
    return number(option, kept_.sizes.tasks, 0, most32);
  }
  if (name == "cpus-per-task") {
    kept_.sizes.cpus_set = true;
    return number(option, kept_.sizes.cpus_per_task, 1, most16);
  }
  if (name == "nodes") return read_nodes(option);
  if (name == "ntasks-per-node") return number(option, message_.ntasks_per_node, 0, most16);
  if (name == "ntasks-per-core") return number(option, message_.ntasks_per_core, 1, most16);
  if (name == "ntasks-per-socket") return number(option, message_.ntasks_per_socket, 1, most16);
  if (name == "ntasks-per-gpu") {
    kept_.tasks_per_gpu = option.value;
    return number(option, message_.ntasks_per_tres, 1, most16);
  }
  if (name == "threads-per-core") return number(option, message_.threads_per_core, 1, most16);
  if (name == "cores-per-socket") return number(option, message_.cores_per_socket, 1, most16);
  if (name == "sockets-per-node") return number(option, message_.sockets_per_node, 1, most16);
  if (name == "core-spec") return number(option, message_.core_spec, 0, most16 >> 1);
  if (name == "mincpus") return number(option, message_.pn_min_cpus, 1, most16);
  if (name == "priority") return number(option, message_.priority, 0, most32);
  if (name == "wait-all-nodes") return number(option, message_.wait_all_nodes, 0, 1);
  if (name == "segment") {
#if SLURM_VERSION_NUMBER >= SLURM_VERSION_NUM(24, 5, 0)
    return number(option, message_.segment_size, 1, most16);
#else
    return make_error(ErrorCode::invalid_input, "--segment needs Slurm 24.05 or later",
                      "this is a longhaul-slurm for an older one; leave it out at this site");
#endif
  }
  for (auto& [option_name, field] : {std::pair{"mem", &kept_.mem}, std::pair{"mem-per-cpu", &kept_.mem_per_cpu},
                                     std::pair{"mem-per-gpu", &kept_.mem_per_gpu}}) {
    if (name != option_name) continue;
    *field = mebibytes(option.value);
    if (!*field) return refuse(option, "an amount of memory, as 16G or 512M");
    return {};
  }
  if (name == "tmp") {
    const auto amount = mebibytes(option.value);
    if (!amount || *amount > unset - 2) return refuse(option, "an amount of disk, as 100G");
    message_.pn_min_tmp_disk = static_cast<std::uint32_t>(*amount);
    return {};
  }
  known = false;
  return {};
}

Status OptionReader::apply_time(const BatchOption& option, bool& known) {
  const std::string& name = option.name;
  known = true;
  if (name == "time" || name == "time-min") {
    const auto minutes = time_limit_minutes(option.value);
    if (!minutes) return refuse(option, "a duration, as 90, 1:30:00 or 2-12:00");
    (name == "time" ? message_.time_limit : message_.time_min) = *minutes == 0 ? INFINITE : *minutes;
    return {};
  }
  if (name == "begin" || name == "deadline") {
    const auto point = point_in_time(option.value);
    if (!point) return refuse(option, "a point in time, as now+1hour or 2027-01-31T08:00");
    (name == "begin" ? message_.begin_time : message_.deadline) = *point;
    return {};
  }
  if (name == "switches") {
    const auto parts = split(option.value, '@');
    const auto count = whole_number(parts[0]);
    if (!count || *count < 1 || parts.size() > 2) return refuse(option, "count[@longest wait]");
    message_.req_switch = static_cast<std::uint32_t>(*count);
    if (parts.size() == 2) {
      const auto wait = time_seconds(parts[1]);
      if (!wait) return refuse(option, "count[@longest wait]");
      message_.wait4switch = static_cast<std::uint32_t>(*wait);
    }
    return {};
  }
  if (name == "nice") {
    BatchOption with_default = option;
    if (!option.has_value) with_default.value = "100";
    std::int64_t value = 0;
    LH_CHECK(number(with_default, value, -2147483645, 2147483645));
    message_.nice = static_cast<std::uint32_t>(NICE_OFFSET + value);
    return {};
  }
  known = false;
  return {};
}

Status OptionReader::read_nodes(const BatchOption& option) {
  const auto parts = split(option.value, '-');
  const auto least = whole_number(parts[0]);
  const auto most = parts.size() == 2 ? whole_number(parts[1]) : least;
  if (!least || !most || parts.size() > 2 || *least < 0 || *most < *least || *most > 0x7fffffff)
    return refuse(option, "a number of nodes, or a range as 2-4");
  kept_.sizes.nodes_min = static_cast<std::uint32_t>(*least);
  kept_.sizes.nodes_max = static_cast<std::uint32_t>(*most);
  kept_.sizes.nodes_set = true;
  return {};
}

Status OptionReader::read_signal(const BatchOption& option) {
  std::string text = option.value;
  message_.warn_flags = 0;
  const std::size_t colon = text.find(':');
  if (colon != std::string::npos) {
    for (const char c : text.substr(0, colon)) {
      if (c == 'B' || c == 'b') {
        message_.warn_flags |= KILL_JOB_BATCH;
      } else if (c == 'R' || c == 'r') {
        message_.warn_flags |= KILL_JOB_RESV;
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
  message_.warn_signal = static_cast<std::uint16_t>(*signal);
  message_.warn_time = static_cast<std::uint16_t>(*before);
  return {};
}

Status OptionReader::read_exclusive(const BatchOption& option) {
  if (!option.has_value || option.value == "exclusive") {
    message_.shared = JOB_SHARED_NONE;
  } else if (option.value == "user") {
    message_.shared = JOB_SHARED_USER;
  } else if (option.value == "mcs") {
    message_.shared = JOB_SHARED_MCS;
  } else if (option.value == "oversubscribe") {
    message_.shared = JOB_SHARED_OK;
  } else {
    return refuse(option, "no value, user or mcs");
  }
  return {};
}

Status OptionReader::read_hint(const BatchOption& option) {
  if (option.value == "nomultithread" || option.value == "compute_bound") {
    message_.threads_per_core = 1;
  } else if (option.value == "memory_bound") {
    message_.cores_per_socket = 1;
    message_.threads_per_core = 1;
  } else if (option.value == "multithread") {
    message_.ntasks_per_core = INFINITE16;
  } else {
    return refuse(option, "compute_bound, memory_bound, multithread or nomultithread");
  }
  kept_.hint = option.value;
  return {};
}

Status OptionReader::apply_rest(const BatchOption& option) {
  const std::string& name = option.name;
  if (name == "exclusive") return read_exclusive(option);
  if (name == "signal") return read_signal(option);
  if (name == "mail-type") {
    const auto types = mail_types(option.value);
    if (!types) return refuse(option, "NONE, BEGIN, END, FAIL, REQUEUE, ALL, TIME_LIMIT[_90|_80|_50], ...");
    message_.mail_type = *types;
    return {};
  }
  if (name == "hint") return read_hint(option);
  if (name == "no-kill") {
    if (option.has_value && option.value != "set" && option.value != "off" && option.value != "no")
      return refuse(option, "no value, or off");
    message_.kill_on_node_fail = option.has_value && option.value != "set" ? 1 : 0;
    return {};
  }
  if (name == "kill-on-invalid-dep") {
    if (option.value != "yes" && option.value != "no") return refuse(option, "yes or no");
    message_.bitflags |= option.value == "yes" ? KILL_INV_DEP : NO_KILL_INV_DEP;
    return {};
  }
  if (name == "open-mode") {
    if (option.value.empty() || (option.value[0] != 'a' && option.value[0] != 't'))
      return refuse(option, "append or truncate");
    message_.open_mode = option.value[0] == 'a' ? OPEN_MODE_APPEND : OPEN_MODE_TRUNCATE;
    return {};
  }
  if (name == "gres-flags") {
    if (option.value != "enforce-binding" && option.value != "disable-binding")
      return refuse(option, "enforce-binding or disable-binding");
    message_.bitflags |= option.value == "enforce-binding" ? GRES_ENFORCE_BIND : GRES_DISABLE_BIND;
    return {};
  }
  return make_error(ErrorCode::internal, "longhaul-slurm reads the option --" + name + " but does not map it");
}

Status OptionReader::read(const BatchOption& option) {
  if (apply_text(option) || apply_flag(option)) return {};
  bool known = false;
  LH_CHECK(apply_size(option, known));
  if (known) return {};
  LH_CHECK(apply_time(option, known));
  if (known) return {};
  return apply_rest(option);
}

}  // namespace

Result<KeptOptions> read_options(const std::vector<BatchOption>& options, const std::string& script,
                                 job_desc_msg_t& message, TextStore& texts) {
  KeptOptions kept;
  OptionReader reader(script, message, texts, kept);
  for (const BatchOption& option : options) LH_CHECK(reader.read(option));
  return kept;
}

}  // namespace longhaul
