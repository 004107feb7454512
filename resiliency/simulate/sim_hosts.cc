#include "resiliency/simulate/sim_hosts.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/text/text.h"

namespace longhaul {

std::string sim_host_name(int host) {
  return format("h{}", host);
}

int sim_host_named(const std::string& name) {
  return std::stoi(name.substr(1));
}

SimHosts::SimHosts(const Scenario& scenario)
    : scenario_(scenario),
      lemons_(static_cast<int>(std::lround(scenario.cluster.lemon_share * scenario.hosts()))),
      next_host_(scenario.hosts()) {
  for (int host = 0; host < scenario.hosts(); ++host) running_.push_back(host);
  add_spares();
}

void SimHosts::add_spares() {
  for (int i = 0; i < scenario_.cluster.spares; ++i) spares_.push_back(next_host_++);
}

std::vector<std::string> SimHosts::side_by_side(int host, int count) const {
  std::vector<std::string> names;
  for (const int other : running_)
    if (other / count == host / count) names.push_back(sim_host_name(other));
  return names;
}

std::vector<std::string> SimHosts::running_names() const {
  std::vector<std::string> names;
  for (const int host : running_) names.push_back(sim_host_name(host));
  return names;
}

int SimHosts::replicas() const {
  const SimTraining& training = scenario_.training;
  return std::max(training.replicas_min, training.replicas - missing_ * training.replicas_by_host);
}

double SimHosts::hazard() const {
  const double factor = scenario_.cluster.lemon_factor;
  const auto lemons = std::count_if(running_.begin(), running_.end(), [&](int host) { return is_lemon(host); });
  const double now = factor * static_cast<double>(lemons) + static_cast<double>(scenario_.hosts() - lemons);
  return now / (factor * lemons_ + scenario_.hosts() - lemons_);
}

int SimHosts::leave(const std::vector<std::string>& names, RestartTier tier, double now_s) {
  int left = 0;
  for (const std::string& name : names) {
    const auto host = std::find(running_.begin(), running_.end(), sim_host_named(name));
    if (host == running_.end()) continue;
    repairs_.push_back({now_s + scenario_.cluster.repair.value, *host});
    ++left;
    if (tier == RestartTier::swap && !spares_.empty()) {
      *host = spares_.back();
      spares_.pop_back();
    } else {
      running_.erase(host);
      ++missing_;
    }
  }
  return left;
}

void SimHosts::renew(const std::vector<std::string>& suspects) {
  for (int& host : running_)
    if (std::find(suspects.begin(), suspects.end(), sim_host_name(host)) != suspects.end()) host = next_host_++;
  while (static_cast<int>(running_.size()) < scenario_.hosts()) running_.push_back(next_host_++);
  spares_.clear();
  add_spares();
  repairs_.clear();
  missing_ = 0;
}

double SimHosts::next_growth_s(double now_s) const {
  double next_s = std::numeric_limits<double>::infinity();
  if (missing_ == 0) return next_s;
  for (const HostBack& back : repairs_) next_s = std::min(next_s, std::max(now_s, back.at_s));
  return next_s;
}

void SimHosts::take_back_repaired(double now_s) {
  for (const HostBack& back : repairs_)
    if (back.at_s <= now_s) spares_.push_back(back.host);
  std::erase_if(repairs_, [&](const HostBack& back) { return back.at_s <= now_s; });
}

bool SimHosts::grow() {
  if (missing_ == 0 || spares_.empty()) return false;
  for (; missing_ > 0 && !spares_.empty(); --missing_) {
    running_.push_back(spares_.back());
    spares_.pop_back();
  }
  return true;
}

}  // namespace longhaul
