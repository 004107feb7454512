#include "resiliency/health/nvml_library.h"

#include <dlfcn.h>

#include "base/text/text.h"
#include "resiliency/health/nvml_abi.h"

namespace longhaul {
namespace {

struct CloseLibrary {
  void operator()(void* library) const { ::dlclose(library); }
};
using LibraryHandle = std::unique_ptr<void, CloseLibrary>;

// A function of the library by its name; empty where this driver has none.
template <class... Arguments>
class NvmlCall {
 public:
  void find(void* library, const char* name) {
    call_ = reinterpret_cast<nvml::Return (*)(Arguments...)>(::dlsym(library, name));
  }
  explicit operator bool() const { return call_ != nullptr; }
  nvml::Return operator()(Arguments... arguments) const { return call_ ? call_(arguments...) : nvml::not_supported; }

 private:
  nvml::Return (*call_)(Arguments...) = nullptr;
};

constexpr const char* nvml_script_function = "longhaul_simulated_nvml_script";
constexpr unsigned threshold_slowdown = 1, clock_sm = 1, sensor_gpu = 0;
constexpr int corrected_errors = 0, uncorrected_errors = 1, since_load = 0, since_ever = 1;

}  // namespace

struct NvmlLibrary::Loaded {
  LibraryHandle library;
  NvmlCall<> init, shutdown;
  NvmlCall<unsigned*> count;
  NvmlCall<unsigned, nvml::Device*> handle;
  NvmlCall<nvml::Device, char*, unsigned> uuid;
  NvmlCall<nvml::Device, nvml::PciInfo*> pci;
  NvmlCall<nvml::Device, unsigned, unsigned*> temperature, threshold, clock, clock_max;
  NvmlCall<nvml::Device, unsigned*> power, power_limit;
  NvmlCall<nvml::Device, nvml::Utilization*> utilization;
  NvmlCall<nvml::Device, unsigned long long*> clock_reasons;
  NvmlCall<nvml::Device, int, int, unsigned long long*> ecc;
  NvmlCall<nvml::Device, unsigned*, unsigned*, unsigned*, unsigned*> remapped;
  NvmlCall<nvml::Device, int, nvml::FieldValue*> fields;
  NvmlCall<nvml::Device, unsigned*, nvml::ProcessInfo*> processes;
  NvmlCall<nvml::EventSet*> event_create;
  NvmlCall<nvml::Device, unsigned long long, nvml::EventSet> event_register;
  NvmlCall<nvml::EventSet, nvml::EventData*, unsigned> event_wait;
  NvmlCall<nvml::EventSet> event_free;
  const char* (*error_text)(nvml::Return) = nullptr;
  std::string script;
  nvml::EventSet events = nullptr;
  std::vector<nvml::Device> devices;
  bool started = false;

  ~Loaded() {
    if (events) (void)event_free(events);
    if (started) (void)shutdown();
  }
  void find_calls();
  void register_events();
  GpuReading read(int index) const;
  void read_counters(nvml::Device device, GpuReading& reading) const;
  void read_fields(nvml::Device device, GpuReading& reading) const;
  void read_processes(nvml::Device device, GpuReading& reading) const;
  std::string text(nvml::Return code) const {
    const char* said = error_text ? error_text(code) : nullptr;
    return said ? said : format("error {}", code);
  }
};

void NvmlLibrary::Loaded::find_calls() {
  void* const from = library.get();
  init.find(from, "nvmlInit_v2");
  shutdown.find(from, "nvmlShutdown");
  count.find(from, "nvmlDeviceGetCount_v2");
  handle.find(from, "nvmlDeviceGetHandleByIndex_v2");
  uuid.find(from, "nvmlDeviceGetUUID");
  pci.find(from, "nvmlDeviceGetPciInfo_v3");
  temperature.find(from, "nvmlDeviceGetTemperature");
  threshold.find(from, "nvmlDeviceGetTemperatureThreshold");
  clock.find(from, "nvmlDeviceGetClockInfo");
  clock_max.find(from, "nvmlDeviceGetMaxClockInfo");
  power.find(from, "nvmlDeviceGetPowerUsage");
  power_limit.find(from, "nvmlDeviceGetEnforcedPowerLimit");
  utilization.find(from, "nvmlDeviceGetUtilizationRates");
  clock_reasons.find(from, "nvmlDeviceGetCurrentClocksEventReasons");
  if (!clock_reasons) clock_reasons.find(from, "nvmlDeviceGetCurrentClocksThrottleReasons");  // its name before 2023
  ecc.find(from, "nvmlDeviceGetTotalEccErrors");
  remapped.find(from, "nvmlDeviceGetRemappedRows");
  fields.find(from, "nvmlDeviceGetFieldValues");
  processes.find(from, "nvmlDeviceGetComputeRunningProcesses_v3");
  event_create.find(from, "nvmlEventSetCreate");
  event_register.find(from, "nvmlDeviceRegisterEvents");
  event_wait.find(from, "nvmlEventSetWait_v2");
  event_free.find(from, "nvmlEventSetFree");
  error_text = reinterpret_cast<const char* (*)(nvml::Return)>(::dlsym(from, "nvmlErrorString"));
}

void NvmlLibrary::Loaded::register_events() {
  if (event_create(&events) != nvml::success) events = nullptr;
  if (!events) return;
  for (nvml::Device device : devices)
    if (device) (void)event_register(device, nvml::event_xid, events);
}

GpuReading NvmlLibrary::Loaded::read(int index) const {
  GpuReading reading;
  reading.index = index;
  nvml::Device device = devices[static_cast<std::size_t>(index)];
  char text_of[96] = {};
  const nvml::Return answered = device ? uuid(device, text_of, sizeof text_of) : nvml::gpu_is_lost;
  reading.lost = answered == nvml::gpu_is_lost;
  if (answered == nvml::success) reading.uuid = text_of;
  if (reading.lost) return reading;
  nvml::PciInfo where{};
  if (pci(device, &where) == nvml::success) {
    where.bus_id[sizeof where.bus_id - 1] = '\0';
    reading.pci = where.bus_id;
  }
  unsigned value = 0;
  if (temperature(device, sensor_gpu, &value) == nvml::success) reading.temperature_c = value;
  if (threshold(device, threshold_slowdown, &value) == nvml::success) reading.slowdown_c = value;
  if (power(device, &value) == nvml::success) reading.power_mw = value;
  if (power_limit(device, &value) == nvml::success) reading.power_limit_mw = value;
  if (clock(device, clock_sm, &value) == nvml::success) reading.sm_clock_mhz = value;
  if (clock_max(device, clock_sm, &value) == nvml::success) reading.sm_clock_max_mhz = value;
  nvml::Utilization used{};
  if (utilization(device, &used) == nvml::success) reading.busy_pct = used.gpu;
  unsigned long long reasons = 0;
  const nvml::Return reasons_status = clock_reasons(device, &reasons);
  if (reasons_status == nvml::success) reading.clock_reasons = reasons;
  read_counters(device, reading);
  read_fields(device, reading);
  read_processes(device, reading);
  reading.lost = reasons_status == nvml::gpu_is_lost;
  return reading;
}

void NvmlLibrary::Loaded::read_counters(nvml::Device device, GpuReading& reading) const {
  unsigned long long errors = 0;
  if (ecc(device, corrected_errors, since_load, &errors) == nvml::success) reading.corrected = errors;
  if (ecc(device, uncorrected_errors, since_load, &errors) == nvml::success) reading.uncorrected = errors;
  if (ecc(device, corrected_errors, since_ever, &errors) == nvml::success) reading.corrected_ever = errors;
  if (ecc(device, uncorrected_errors, since_ever, &errors) == nvml::success) reading.uncorrected_ever = errors;
  unsigned rows_corrected = 0, rows_uncorrected = 0, pending = 0, failed = 0;
  if (remapped(device, &rows_corrected, &rows_uncorrected, &pending, &failed) != nvml::success) return;
  reading.remapped_rows = rows_uncorrected;
  reading.remap_pending = pending != 0;
  reading.remap_failed = failed != 0;
}

void NvmlLibrary::Loaded::read_fields(nvml::Device device, GpuReading& reading) const {
  nvml::FieldValue asked[5] = {};
  asked[0].field_id = nvml::field_recovery_action;
  asked[1].field_id = nvml::field_nvlink_replay;
  asked[2].field_id = nvml::field_nvlink_recovery;
  asked[3].field_id = nvml::field_nvlink_crc;
  asked[4].field_id = nvml::field_nvlink_crc_flit;
  if (fields(device, static_cast<int>(std::size(asked)), asked) != nvml::success) return;
  const auto number_of = [](const nvml::FieldValue& field) -> std::optional<unsigned long long> {
    if (field.result != nvml::success) return std::nullopt;
    switch (field.value_type) {
      case nvml::type_uint: return field.value.unsigned_int;
      case nvml::type_ulong: return field.value.unsigned_long;
      case nvml::type_ulonglong: return field.value.unsigned_long_long;
      case nvml::type_slonglong: return static_cast<unsigned long long>(field.value.signed_long_long);
      case nvml::type_sint: return static_cast<unsigned long long>(field.value.signed_int);
      case nvml::type_ushort: return field.value.unsigned_short;
      default: return std::nullopt;
    }
  };
  if (const auto action = number_of(asked[0])) reading.recovery_action = static_cast<int>(*action);
  reading.nvlink_replays = number_of(asked[1]);
  reading.nvlink_recoveries = number_of(asked[2]);
  reading.nvlink_crc = number_of(asked[3]);
  if (const auto flit = number_of(asked[4])) reading.nvlink_crc = reading.nvlink_crc.value_or(0) + *flit;
}

void NvmlLibrary::Loaded::read_processes(nvml::Device device, GpuReading& reading) const {
  std::vector<nvml::ProcessInfo> room(32);
  for (int tries = 0; tries < 4; ++tries) {  // more may start between two calls
    unsigned running = static_cast<unsigned>(room.size());
    const nvml::Return status = processes(device, &running, room.data());
    if (status == nvml::insufficient_size) {
      room.resize(running + 32);
      continue;
    }
    if (status != nvml::success) return;
    for (unsigned i = 0; i < running && i < room.size(); ++i)
      reading.processes.push_back({static_cast<int>(room[i].pid), room[i].used_bytes});
    return;
  }
}

NvmlLibrary::NvmlLibrary(std::unique_ptr<Loaded> loaded) : loaded_(std::move(loaded)) {}
NvmlLibrary::~NvmlLibrary() = default;
NvmlLibrary::NvmlLibrary(NvmlLibrary&&) noexcept = default;
NvmlLibrary& NvmlLibrary::operator=(NvmlLibrary&&) noexcept = default;

Result<NvmlLibrary> NvmlLibrary::open(const std::string& path) {
  auto loaded = std::make_unique<Loaded>();
  loaded->library.reset(::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL));
  if (!loaded->library) {
    const char* why = ::dlerror();
    return make_error(ErrorCode::not_found, format("cannot load {}: {}", path, why ? why : "no reason given"));
  }
  loaded->find_calls();
  if (!loaded->init) return make_error(ErrorCode::corrupt, path + " has no nvmlInit_v2", "it is another library");
  if (const nvml::Return began = loaded->init(); began != nvml::success)
    return make_error(ErrorCode::unavailable, path + " does not start: " + loaded->text(began),
                      "look at the driver: nvidia-smi");
  loaded->started = true;
  if (const auto script = reinterpret_cast<const char* (*)()>(::dlsym(loaded->library.get(), nvml_script_function)))
    loaded->script = script();
  unsigned devices = 0;
  if (const nvml::Return status = loaded->count(&devices); status != nvml::success)
    return make_error(ErrorCode::unavailable, path + " does not give the number of GPUs: " + loaded->text(status));
  loaded->devices.assign(devices, nullptr);
  for (unsigned i = 0; i < devices; ++i)
    if (loaded->handle(i, &loaded->devices[i]) != nvml::success) loaded->devices[i] = nullptr;
  loaded->register_events();
  return NvmlLibrary(std::move(loaded));
}

const std::string& NvmlLibrary::script() const {
  return loaded_->script;
}

std::vector<GpuReading> NvmlLibrary::read() {
  std::vector<GpuReading> readings;
  for (std::size_t i = 0; i < loaded_->devices.size(); ++i) readings.push_back(loaded_->read(static_cast<int>(i)));
  return readings;
}

std::optional<GpuEvent> NvmlLibrary::wait_event(unsigned ms) {
  if (!loaded_->events) return std::nullopt;
  nvml::EventData data{};
  if (loaded_->event_wait(loaded_->events, &data, ms) != nvml::success) return std::nullopt;
  if (data.type != nvml::event_xid) return std::nullopt;
  GpuEvent event;
  event.xid = static_cast<int>(data.data);
  for (std::size_t i = 0; i < loaded_->devices.size(); ++i)
    if (loaded_->devices[i] == data.device) event.device = static_cast<int>(i);
  return event;
}

}  // namespace longhaul
