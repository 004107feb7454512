#include "worker/lead/recovery/past_restart.h"

#include <doctest/doctest.h>

using namespace longhaul;

TEST_CASE("a restart of the past is the same after its journey, and a word that is not known keeps its default") {
  PastRestart past;
  past.at_ms = 17, past.cause = "bits", past.host = "n3", past.fault = "gpu_memory";
  past.scope = FaultScope::user, past.tier = RestartTier::swap, past.accuses = Accusation::sure;
  past.made_progress = true, past.forgiven = true;
  Value value = past_restart_to_value(past);
  const PastRestart back = past_restart_from_value(value);
  CHECK(past_restart_to_value(back) == value);
  CHECK(back.scope == FaultScope::user);
  CHECK(back.tier == RestartTier::swap);
  CHECK(back.accuses == Accusation::sure);
  for (const char* key : {"scope", "tier", "accuses"}) value.set(key, "unknown");
  const PastRestart newer = past_restart_from_value(value);
  CHECK(newer.scope == FaultScope::rank);
  CHECK(newer.tier == RestartTier::in_job);
  CHECK(newer.accuses == Accusation::never);
}
