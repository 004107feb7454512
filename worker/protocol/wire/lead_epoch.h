// Which lead of an attempt: leads are counted, and each stands on one host. Compared by number first, then by host, so
// that of any two leads everybody agrees which one comes later. A lead in waiting asks for the next number, and an
// agent promises a number once (worker/agent/leads/epoch_promise.h): two leads of one number exist only where an agent
// was started anew in between and has forgotten its promise, and then the order still is one.
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <utility>

#include "base/value/value.h"

namespace longhaul {

struct LeadEpoch {
  std::int64_t number = 1;
  std::string host;  // "": not known; before any other of that number

  // A number alone is an epoch whose host is not known.
  LeadEpoch(std::int64_t of_number = 1, std::string of_host = {}) : number(of_number), host(std::move(of_host)) {}
  auto operator<=>(const LeadEpoch&) const = default;
  std::string text() const;  // "2 (n3)"
};
Value lead_epoch_to_value(const LeadEpoch& epoch);
LeadEpoch lead_epoch_of(const Value& value);  // number 0 where it is none

}  // namespace longhaul
