#include "worker/lead/recovery/past_restart.h"

#include <string>

namespace longhaul {
namespace {

template <class Enum>
Enum named(const std::string& text, int count, Enum otherwise) {
  for (int i = 0; i < count; ++i)
    if (text == to_string(static_cast<Enum>(i))) return static_cast<Enum>(i);
  return otherwise;
}

}  // namespace

Value past_restart_to_value(const PastRestart& past) {
  Value one = Value::make_table();
  one.set("at_ms", past.at_ms);
  one.set("cause", past.cause);
  one.set("scope", to_string(past.scope));
  one.set("host", past.host);
  one.set("made_progress", past.made_progress);
  one.set("tier", to_string(past.tier));
  one.set("fault", past.fault);
  one.set("accuses", to_string(past.accuses));
  one.set("forgiven", past.forgiven);
  return one;
}

PastRestart past_restart_from_value(const Value& one) {
  PastRestart past;
  past.at_ms = one.get_integer("at_ms");
  past.cause = one.get_string("cause");
  past.scope = named(one.get_string("scope"), 6, FaultScope::rank);
  past.host = one.get_string("host");
  past.made_progress = one.get_bool("made_progress");
  past.tier = named(one.get_string("tier"), restart_tiers, RestartTier::in_job);
  past.fault = one.get_string("fault");
  past.accuses = named(one.get_string("accuses"), 3, Accusation::never);
  past.forgiven = one.get_bool("forgiven");
  return past;
}

}  // namespace longhaul
