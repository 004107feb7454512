// The hosts of one simulated training: which compute, which are spares, which are being repaired. Hosts are numbers;
// the first of a cluster are its lemons.
#pragma once

#include <string>
#include <vector>

#include "resiliency/simulate/scenario.h"
#include "resiliency/taxonomy/restart_tier.h"

namespace longhaul {

std::string sim_host_name(int host);  // "h7"
int sim_host_named(const std::string& name);

class SimHosts {
 public:
  explicit SimHosts(const Scenario& scenario);

  const std::vector<int>& running() const { return running_; }
  std::vector<std::string> running_names() const;
  // Of a rack, or of a switch, of so many hosts: those that run.
  std::vector<std::string> side_by_side(int host, int count) const;
  int spares() const { return static_cast<int>(spares_.size()); }
  bool is_lemon(int host) const { return host < lemons_; }
  int lemons() const { return lemons_; }
  int replicas() const;  // data-parallel, of the hosts that run
  // How often faults come, of the rate with every lemon in place: a lemon that was left fails no more.
  double hazard() const;

  // They are repaired from now on; a spare takes the place of each, or with other tiers nobody does. How many it were.
  int leave(const std::vector<std::string>& names, RestartTier tier, double now_s);
  // A new job: all hosts and spares anew; the place of a suspect takes another of the site.
  void renew(const std::vector<std::string>& suspects);
  // When the next host is back that the training could grow by, if it has shrunk; not before `now_s`.
  double next_growth_s(double now_s) const;
  void take_back_repaired(double now_s);
  // Spares fill the places that are missing; whether there were any.
  bool grow();

 private:
  struct HostBack {
    double at_s = 0;
    int host = 0;
  };
  void add_spares();

  const Scenario& scenario_;
  std::vector<int> running_, spares_;
  std::vector<HostBack> repairs_;
  int lemons_ = 0, next_host_ = 0, missing_ = 0;
};

}  // namespace longhaul
