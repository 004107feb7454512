#include "resiliency/health/host_health.h"

#include <algorithm>
#include <chrono>
#include <iterator>
#include <thread>

#include "base/process/process.h"
#include "base/text/text.h"
#include "resiliency/taxonomy/xid_class.h"

namespace longhaul {
namespace {

constexpr std::int64_t settle_look_ms = 200;

void append(HealthFindings& all, HealthFindings some) {
  all.insert(all.end(), std::make_move_iterator(some.begin()), std::make_move_iterator(some.end()));
}

std::int64_t steady_ms() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

HealthFinding finding_of(const GpuEvent& event) {
  const XidInfo* info = xid_info(event.xid);
  HealthFinding finding =
      health_finding("gpu", class_of_xid(event.xid), event.device >= 0 ? format("GPU {}", event.device) : std::string(),
                     format("XID {} ({})", event.xid, info ? info->meaning : "not in the table"));
  finding.xid = event.xid;
  return finding;
}

}  // namespace

HostHealth::HostHealth(HostHealthOptions options) : options_(std::move(options)), shm_(options_.shm_path) {
  for (const std::string& folder : options_.folders) folders_.emplace_back(folder);
}

HealthFindings HostHealth::look() {
  HealthFindings findings;
  look_at_gpus(findings);
  const MemoryReading memory = read_memory(options_.proc_root);
  append(findings, judge_memory(memory, memory_ ? &*memory_ : nullptr, options_.memory));
  memory_ = memory;
  std::vector<PortReading> ports = read_ports(options_.class_root);
  append(findings, judge_ports(ports, ports_));
  ports_ = std::move(ports);
  look_at_disks(findings);
  if (!looked_) {
    append(findings, judge_environment(options_.environment, options_.cores));
    run_site_check(findings);
  }
  looked_ = true;
  return findings;
}

HealthFindings HostHealth::wait(std::int64_t ms) {
  const auto began = std::chrono::steady_clock::now();
  if (nvml_)
    if (const auto event = nvml_->wait_event(static_cast<unsigned>(ms))) return {finding_of(*event)};
  // A driver without events, or with a lost device, does not wait.
  std::this_thread::sleep_until(began + std::chrono::milliseconds(ms));
  return {};
}

void HostHealth::look_at_gpus(HealthFindings& findings) {
  if (options_.nvml_path.empty() || options_.gpus_expected == 0) return;
  if (!nvml_) {
    auto opened = NvmlLibrary::open(options_.nvml_path);
    if (opened.ok())
      nvml_ = std::move(opened).value();
    else if (opened.error().code != ErrorCode::not_found || options_.gpus_expected > 0)
      findings.push_back(health_finding("gpu", FaultClass::gpu_driver, "", opened.error().what));
  }
  if (nvml_) judge_gpus(findings);
}

void HostHealth::judge_gpus(HealthFindings& findings) {
  for (int seen = 0; seen < 1000; ++seen) {  // a storm of events is reported in part
    const auto event = nvml_->wait_event(0);
    if (!event) break;
    findings.push_back(finding_of(*event));
  }
  std::vector<GpuReading> readings = nvml_->read();
  const GpuUse use = settled_use(readings);
  for (const GpuReading& now : readings) {
    const auto same = [&](const GpuReading& then) { return then.index == now.index; };
    const auto before = std::find_if(gpus_.begin(), gpus_.end(), same);
    const std::set<int>* ours = options_.ours ? &*options_.ours : nullptr;
    if (!ours && use.judged.count(now.index) > 0) ours = &use.may_use;
    append(findings, judge_gpu(now, before == gpus_.end() ? nullptr : &*before, ours, options_.gpu));
    append(findings, trends_.try_emplace(now.index, options_.gpu).first->second.add(now, steady_ms()));
  }
  if (const int count = static_cast<int>(readings.size()); count < options_.gpus_expected)
    findings.push_back(health_finding("gpu", FaultClass::gpu_lost, "",
                                      format("{} of {} GPUs are there", count, options_.gpus_expected)));
  gpus_ = std::move(readings);
}

GpuUse HostHealth::settled_use(std::vector<GpuReading>& readings) {
  GpuUse use;
  if (!options_.job_pids) return use;
  const auto in_use = [](const GpuReading& gpu) { return !gpu.processes.empty(); };
  const auto is_new = [this](int pid) { return foreign_.count(pid) == 0; };
  std::set<int> foreign;
  for (const std::int64_t began_ms = steady_ms(); std::any_of(readings.begin(), readings.end(), in_use);) {
    const auto job_pids = options_.job_pids();
    if (job_pids)
      use = users_.judge(readings, *job_pids, read_host_processes(options_.proc_root), options_.gpus_expected,
                         steady_ms());
    foreign = foreign_users(readings, use);
    if ((job_pids && std::none_of(foreign.begin(), foreign.end(), is_new)) ||
        steady_ms() - began_ms >= options_.foreign_settle_ms)
      break;
    std::this_thread::sleep_for(std::chrono::milliseconds(settle_look_ms));
    readings = nvml_->read();
  }
  foreign_ = std::move(foreign);
  return use;
}

void HostHealth::look_at_disks(HealthFindings& findings) {
  for (FileSystemProbe& folder : folders_)
    append(findings, judge_file_system(folder.look(options_.file_system_deadline_ms), options_.disk));
  if (!options_.shm_path.empty()) append(findings, judge_shared_memory(shm_.look(options_.file_system_deadline_ms)));
}

void HostHealth::run_site_check(HealthFindings& findings) const {
  if (options_.site_check.empty()) return;
  SpawnSpec program;
  program.argv = options_.site_check;
  const auto ran = run_captured(program, options_.site_check_deadline_ms);
  if (ran.ok() && ran->status.success()) return;
  std::string what = ran.ok() ? ran->status.text() : ran.error().what;
  if (ran.ok()) {
    const std::string said = trim(ran->out.empty() ? ran->err : ran->out);
    const std::string last = said.substr(said.rfind('\n') + 1);  // npos + 1 is 0
    if (!last.empty()) what += ": " + repair_utf8(last.substr(0, 400));
  }
  findings.push_back(health_finding("site", FaultClass::site_check, options_.site_check.front(), what));
}

}  // namespace longhaul
