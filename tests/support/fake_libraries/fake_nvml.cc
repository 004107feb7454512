// A simulated NVML, built as a shared library and loaded in the place of the real one. What its devices say is written
// in a text file that FAKE_NVML_SCRIPT names, one event a line ("%h" in its name: the node, as Slurm calls it):
//
//     at 0 devices 4                     how many there are (without such a line: 1)
//     at 0 device 2 temperature 71       at second 0 after nvmlInit
//     at 0.5 device 2 xid 79             is delivered to whoever waits for events, once
//     at 1 device 2 lost 1               every later call answers NVML_ERROR_GPU_IS_LOST
//     at 0 init_error 18                 nvmlInit answers this
//     at 0 files /dev/fake               only those devices are there whose file (/dev/fake0, ...) can be opened, in
//     their
//                                        order: as with a real driver in a cgroup
//     on 1763845200.5 device 2 xid 79    at that Unix time; an event from before nvmlInit is not delivered any more
//     at 1 device 2 corrected +50        so many more than were reported last
//
// Words of a device: temperature slowdown power power_limit clock clock_max busy reasons corrected uncorrected
// corrected_ever uncorrected_ever remapped pending failed recovery_action replay recovery crc crc_flit process (a pid;
// may be repeated) lost xid. What was never said is "not supported". The file is read again at every call, so a test
// may add lines.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "resiliency/health/nvml_abi.h"

namespace longhaul::nvml {
struct DeviceHandle {
  int index;
};
struct EventSetHandle {
  std::size_t delivered;  // lines with an xid that were reported already
};
}  // namespace longhaul::nvml

namespace {

using namespace longhaul;
using Clock = std::chrono::steady_clock;

constexpr int devices_max = 16;
nvml::DeviceHandle handles[devices_max];
Clock::time_point began;
double began_unix_s = 0;
bool initialised = false;

double unix_s() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

std::string script_path() {
  const char* named = std::getenv("FAKE_NVML_SCRIPT");
  const char* node = std::getenv("SLURMD_NODENAME");
  std::string path = named ? named : "";
  if (const std::size_t at = path.find("%h"); at != std::string::npos) path.replace(at, 2, node ? node : "");
  return path;
}

struct Said {
  double at_s;
  int device;  // -1: of the library
  std::string word;
  unsigned long long value;
  bool more = false;      // than what was reported last
  std::string text = {};  // the value as it is written
};

// All lines whose time has come.
std::vector<Said> script() {
  std::ifstream file(script_path());
  const double now_s = std::chrono::duration<double>(Clock::now() - began).count();
  std::vector<Said> said;
  std::string line;
  while (std::getline(file, line)) {
    std::istringstream words(line);
    std::string at, word, value;
    Said one{0, -1, "", 0};
    if (!(words >> at >> one.at_s >> word) || (at != "at" && at != "on")) continue;
    if (at == "on") one.at_s -= began_unix_s;
    if (word == "device" && !(words >> one.device >> word)) continue;
    one.word = word;
    words >> value;
    one.value = std::strtoull(value.c_str(), nullptr, 10);
    one.text = value;
    one.more = !value.empty() && value[0] == '+';
    if (word == "xid" && one.at_s <= -0.001) continue;  // nobody listened then, whole milliseconds earlier
    if (one.at_s <= now_s) said.push_back(one);
  }
  return said;
}

// The last value of a word; false if it was never said.
bool last(int device, const std::string& word, unsigned long long& value) {
  bool found = false;
  for (const Said& one : script())
    if (one.device == device && one.word == word) {
      value = one.value + (one.more && found ? value : 0);
      found = true;
    }
  return found;
}

// Which of the devices this process may open, by their numbers.
std::vector<int> visible_devices() {
  unsigned long long devices = 1;
  (void)last(-1, "devices", devices);
  std::string files;
  for (const Said& one : script())
    if (one.device == -1 && one.word == "files") files = one.text;
  std::vector<int> visible;
  for (int i = 0; i < static_cast<int>(devices) && i < devices_max; ++i)
    if (files.empty() || std::ifstream(files + std::to_string(i)).good()) visible.push_back(i);
  return visible;
}

template <class Number>
nvml::Return answer(nvml::Device device, const char* word, Number* value) {
  unsigned long long reported = 0;
  if (last(device->index, "lost", reported) && reported != 0) return nvml::gpu_is_lost;
  if (!last(device->index, word, reported)) return nvml::not_supported;
  *value = static_cast<Number>(reported);
  return nvml::success;
}

}  // namespace

extern "C" {

// What only the simulated library has: its script, for whoever injects faults (resiliency/health/nvml_library.h).
const char* longhaul_simulated_nvml_script();
const char* longhaul_simulated_nvml_script() {
  static std::string path;
  path = script_path();
  return path.c_str();
}

nvml::Return nvmlInit_v2() {
  began = Clock::now();
  began_unix_s = unix_s();
  unsigned long long error = 0;
  if (last(-1, "init_error", error) && error != 0) return static_cast<int>(error);
  for (int i = 0; i < devices_max; ++i) handles[i].index = i;
  initialised = true;
  return nvml::success;
}
nvml::Return nvmlShutdown() {
  initialised = false;
  return nvml::success;
}
const char* nvmlErrorString(nvml::Return code) {
  return code == 18 ? "Driver/library version mismatch" : "Unknown Error";
}
nvml::Return nvmlDeviceGetCount_v2(unsigned* count) {
  *count = static_cast<unsigned>(visible_devices().size());
  return initialised ? nvml::success : 1;
}
nvml::Return nvmlDeviceGetHandleByIndex_v2(unsigned index, nvml::Device* device) {
  const std::vector<int> visible = visible_devices();
  if (index >= visible.size()) return nvml::gpu_is_lost;
  *device = &handles[visible[index]];
  return nvml::success;
}
nvml::Return nvmlDeviceGetUUID(nvml::Device device, char* text, unsigned length) {
  unsigned long long lost = 0;
  if (last(device->index, "lost", lost) && lost != 0) return nvml::gpu_is_lost;
  std::snprintf(text, length, "GPU-fake-%d", device->index);
  return nvml::success;
}
nvml::Return nvmlDeviceGetPciInfo_v3(nvml::Device device, nvml::PciInfo* pci) {
  std::snprintf(pci->bus_id, sizeof pci->bus_id, "00000000:%02X:00.0", 0x41 + device->index);
  return nvml::success;
}
nvml::Return nvmlDeviceGetTemperature(nvml::Device device, unsigned, unsigned* value) {
  return answer(device, "temperature", value);
}
nvml::Return nvmlDeviceGetTemperatureThreshold(nvml::Device device, unsigned, unsigned* value) {
  return answer(device, "slowdown", value);
}
nvml::Return nvmlDeviceGetPowerUsage(nvml::Device device, unsigned* value) {
  return answer(device, "power", value);
}
nvml::Return nvmlDeviceGetEnforcedPowerLimit(nvml::Device device, unsigned* value) {
  return answer(device, "power_limit", value);
}
nvml::Return nvmlDeviceGetClockInfo(nvml::Device device, unsigned, unsigned* value) {
  return answer(device, "clock", value);
}
nvml::Return nvmlDeviceGetMaxClockInfo(nvml::Device device, unsigned, unsigned* value) {
  return answer(device, "clock_max", value);
}
nvml::Return nvmlDeviceGetUtilizationRates(nvml::Device device, nvml::Utilization* used) {
  used->memory = 0;
  return answer(device, "busy", &used->gpu);
}
nvml::Return nvmlDeviceGetCurrentClocksThrottleReasons(nvml::Device device, unsigned long long* value) {
  return answer(device, "reasons", value);
}
nvml::Return nvmlDeviceGetTotalEccErrors(nvml::Device device, int kind, int counter, unsigned long long* value) {
  const std::string word = std::string(kind == 0 ? "corrected" : "uncorrected") + (counter == 0 ? "" : "_ever");
  return answer(device, word.c_str(), value);
}
nvml::Return nvmlDeviceGetRemappedRows(nvml::Device device, unsigned* corrected, unsigned* uncorrected,
                                       unsigned* pending, unsigned* failed) {
  *corrected = *pending = *failed = 0;
  if (const nvml::Return reported = answer(device, "remapped", uncorrected); reported != nvml::success) return reported;
  (void)answer(device, "pending", pending);
  (void)answer(device, "failed", failed);
  return nvml::success;
}
nvml::Return nvmlDeviceGetFieldValues(nvml::Device device, int count, nvml::FieldValue* fields) {
  static const std::map<unsigned, const char*> words = {{nvml::field_recovery_action, "recovery_action"},
                                                        {nvml::field_nvlink_replay, "replay"},
                                                        {nvml::field_nvlink_recovery, "recovery"},
                                                        {nvml::field_nvlink_crc, "crc"},
                                                        {nvml::field_nvlink_crc_flit, "crc_flit"}};
  for (int i = 0; i < count; ++i) {
    const auto word = words.find(fields[i].field_id);
    fields[i].value_type = nvml::type_uint;
    fields[i].result =
        word == words.end() ? nvml::not_supported : answer(device, word->second, &fields[i].value.unsigned_int);
  }
  return nvml::success;
}
nvml::Return nvmlDeviceGetComputeRunningProcesses_v3(nvml::Device device, unsigned* count, nvml::ProcessInfo* room) {
  std::vector<unsigned> pids;
  for (const Said& one : script())
    if (one.device == device->index && one.word == "process") pids.push_back(static_cast<unsigned>(one.value));
  const unsigned space = *count;
  *count = static_cast<unsigned>(pids.size());
  if (pids.size() > space) return nvml::insufficient_size;
  for (std::size_t i = 0; i < pids.size(); ++i) room[i] = {pids[i], 1ULL << 30, 0, 0};
  return nvml::success;
}
nvml::Return nvmlEventSetCreate(nvml::EventSet* set) {
  *set = new nvml::EventSetHandle{0};
  return nvml::success;
}
nvml::Return nvmlDeviceRegisterEvents(nvml::Device, unsigned long long, nvml::EventSet) {
  return nvml::success;
}
nvml::Return nvmlEventSetWait_v2(nvml::EventSet set, nvml::EventData* data, unsigned ms) {
  const auto until = Clock::now() + std::chrono::milliseconds(ms);
  for (;;) {
    std::size_t seen = 0;
    for (const Said& one : script()) {
      if (one.word != "xid" || seen++ < set->delivered) continue;
      ++set->delivered;
      const std::vector<int> visible = visible_devices();
      if (std::find(visible.begin(), visible.end(), one.device) == visible.end()) continue;
      *data = {&handles[one.device], nvml::event_xid, one.value, 0, 0};
      return nvml::success;
    }
    if (Clock::now() >= until) return nvml::timeout;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}
nvml::Return nvmlEventSetFree(nvml::EventSet set) {
  delete set;
  return nvml::success;
}

}  // extern "C"
