#include "worker/lead/lead_state.h"

#include <doctest/doctest.h>

using namespace longhaul;

TEST_CASE("the state of a lead comes back as it was told") {
  LeadState state;
  state.attempt_key = "s.1.abc";
  state.epoch = 3, state.started_ms = 1234, state.lead_host = "n1", state.led_from = "n2", state.step = 70,
  state.saved_step = 60;
  state.end_by_ms = 99;
  state.launch.launch = 4, state.launch.ranks = 2, state.launch.hosts = {"n2", "n3"}, state.launch.rank_host = {0, 1};
  state.launch.beat_dir = "/dev/shm/longhaul-x", state.launch.words_dir = "/dev/shm/longhaul-x/words";
  state.hosts = HostPool({"n1", "n2", "n3", "n4"}, 2);
  state.hosts.lose("n4");
  state.hosts.grow_to(2, {"n4"});
  state.hosts.leave("n1");
  state.hosts.lose("n3");
  PastRestart past;
  past.at_ms = 99, past.cause = "killed", past.scope = FaultScope::host, past.host = "n1", past.made_progress = true;
  past.tier = RestartTier::swap, past.fault = "killed", past.accuses = Accusation::doubtful, past.forgiven = true;
  state.history = {past};
  state.trial = GrowthTrial::of({"n4"}, 88, 1);
  const auto back = lead_state_from_value(lead_state_to_value(state));
  REQUIRE(back.ok());
  CHECK(back->attempt_key == state.attempt_key);
  CHECK(back->epoch == 3);
  CHECK(back->started_ms == 1234);
  CHECK(back->lead_host == "n1");
  CHECK(back->led_from == "n2");
  CHECK(back->lost.since_ns == 0);
  CHECK(back->step == 70);
  CHECK(back->saved_step == 60);
  CHECK(back->end_by_ms == 99);
  CHECK(back->launch.launch == 4);
  CHECK(back->launch.hosts == state.launch.hosts);
  CHECK(back->launch.rank_host == state.launch.rank_host);
  CHECK(back->launch.beat_dir == state.launch.beat_dir);
  CHECK(back->launch.words_dir == state.launch.words_dir);
  CHECK(back->hosts.working() == state.hosts.working());
  CHECK(back->hosts.spares() == state.hosts.spares());
  CHECK(back->hosts.left() == state.hosts.left());
  CHECK(back->hosts.lost() == std::vector<std::string>{"n3"});
  CHECK(back->hosts.returned() == std::vector<std::string>{"n4"});
  CHECK(back->hosts.wanted() == 2);
  CHECK(back->trial.nodes() == std::vector<std::string>{"n4"});
  CHECK(back->trial.begun_ms() == 88);
  CHECK(back->trial.launches() == 1);
  REQUIRE(back->history.size() == 1);
  CHECK(back->history[0].scope == FaultScope::host);
  CHECK(back->history[0].tier == RestartTier::swap);
  CHECK(back->history[0].cause == "killed");
  CHECK(back->history[0].made_progress);
  CHECK(back->history[0].fault == "killed");
  CHECK(back->history[0].accuses == Accusation::doubtful);
  CHECK(back->history[0].forgiven);
}

TEST_CASE("what the standby's agent knows of the lead that it has lost comes with the state") {
  Value told = lead_state_to_value({});
  add_lost_lead({77, {"10.0.0.4", 4711}}, told);
  const auto state = lead_state_from_value(told);
  REQUIRE(state.ok());
  CHECK(state->lost.since_ns == 77);
  CHECK(state->lost.at.address == "10.0.0.4");
  CHECK(state->lost.at.port == 4711);
}

TEST_CASE("what is no state of a lead is refused") {
  CHECK(lead_state_from_value(Value::make_table()).error().code == ErrorCode::corrupt);
  Value later = lead_state_to_value({});
  later.set("format", 2);
  CHECK(lead_state_from_value(later).error().code == ErrorCode::corrupt);
}
