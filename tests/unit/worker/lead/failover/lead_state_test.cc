#include "worker/lead/failover/lead_state.h"

#include <doctest/doctest.h>

#include "base/value/json.h"
#include "worker/protocol/node/reported_times.h"
#include "worker/protocol/node/standby_state.h"
#include "worker/protocol/wire/wire.h"

using namespace longhaul;

TEST_CASE("the state of a lead comes back as it was sent") {
  LeadState state;
  state.attempt_key = "s.1.abc";
  state.epoch = 3, state.started_ms = 1234, state.lead_host = "n1", state.led_from = "n2", state.step = 70;
  state.judged = {60, 50};
  state.seen.set("offset", 4'096);
  state.end_by_ns = 7'000'000'000;
  state.launch.launch = 4, state.launch.ranks = 2, state.launch.hosts = {"n2", "n3"}, state.launch.rank_host = {0, 1};
  state.launch.beat_dir = "/dev/shm/longhaul-x", state.launch.store_dir = "/dev/shm/longhaul-x/store";
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
  state.ports = {60001, 63000};
  Value reported = lead_state_to_value(state, 5'000'000'000, 100'000);
  note_arrival(40'000'000'000, 100'000, reported);
  const auto back = lead_state_from_value(reported);
  REQUIRE(back.ok());
  CHECK(back->attempt_key == state.attempt_key);
  CHECK(back->epoch == 3);
  CHECK(back->started_ms == 1234);
  CHECK(back->lead_host == "n1");
  CHECK(back->led_from == "n2");
  CHECK(back->lost.since_ns == 0);
  CHECK(back->step == 70);
  CHECK(back->judged == EventFacts::Steps{60, 50});
  CHECK(back->seen.get_integer("offset") == 4'096);
  CHECK(back->end_by_ns == 42'000'000'000);  // 2 s were left
  CHECK(back->launch.launch == 4);
  CHECK(back->launch.hosts == state.launch.hosts);
  CHECK(back->launch.rank_host == state.launch.rank_host);
  CHECK(back->launch.beat_dir == state.launch.beat_dir);
  CHECK(back->launch.store_dir == state.launch.store_dir);
  CHECK(back->hosts.working() == state.hosts.working());
  CHECK(back->hosts.spares() == state.hosts.spares());
  CHECK(back->hosts.left() == state.hosts.left());
  CHECK(back->hosts.lost() == std::vector<std::string>{"n3"});
  CHECK(back->hosts.returned() == std::vector<std::string>{"n4"});
  CHECK(back->hosts.wanted() == 2);
  CHECK(back->trial.nodes() == std::vector<std::string>{"n4"});
  CHECK(back->trial.begun_ms() == 88);
  CHECK(back->ports == state.ports);
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
  Value reported = lead_state_to_value({}, 0, 0);
  add_lost_lead({77, {"10.0.0.4", 4711}}, reported);
  const auto state = lead_state_from_value(reported);
  REQUIRE(state.ok());
  CHECK(state->lost.since_ns == 77);
  CHECK(state->lost.at.address == "10.0.0.4");
  CHECK(state->lost.at.port == 4711);
}

TEST_CASE("what is no state of a lead is refused") {
  CHECK(lead_state_from_value(Value::make_table()).error().code == ErrorCode::corrupt);
  Value later = lead_state_to_value({}, 0, 0);
  later.set("format", 2);
  CHECK(lead_state_from_value(later).error().code == ErrorCode::corrupt);
}

TEST_CASE("what a lead has seen is as long ago on a host whose clock is 20 h ahead") {
  constexpr std::int64_t hour = 3'600'000, now = 1'790'000'000'000, ahead = 20 * hour;
  LeadState state;
  state.started_ms = now - 3 * hour;
  state.history.resize(1);
  state.history[0].at_ms = now - hour;
  state.trial = GrowthTrial::of({"n4"}, now - 2 * hour, 1);
  Value reported = lead_state_to_value(state, 0, now);
  note_arrival(5, now + ahead, reported);
  const auto back = lead_state_from_value(reported);
  REQUIRE(back.ok());
  CHECK(back->started_ms == now + ahead - 3 * hour);
  CHECK(back->history[0].at_ms == now + ahead - hour);
  CHECK(back->trial.begun_ms() == now + ahead - 2 * hour);
  CHECK(back->end_by_ns == 0);
}

TEST_CASE("a state of 8,192 ranks with thousands of restarts fits into a message, the newest restarts first") {
  constexpr int ranks = 8'192, of_a_host = 8;
  LeadState state;
  state.launch.launch = 3'000, state.launch.ranks = ranks;
  for (int host = 0; host < ranks / of_a_host; ++host)
    state.launch.hosts.push_back("node" + std::to_string(10'000 + host));
  for (int rank = 0; rank < ranks; ++rank) state.launch.rank_host.push_back(rank / of_a_host);
  state.hosts = HostPool(state.launch.hosts, ranks / of_a_host);
  const std::size_t alone = to_json(lead_state_to_value(state, 0, 0)).size();
  CAPTURE(alone);
  CHECK(alone < 128 << 10);
  for (int fault = 0; fault < 6'000; ++fault) {
    PastRestart past;
    past.at_ms = fault + 1, past.host = state.launch.hosts[static_cast<std::size_t>(fault % 1'000)];
    past.cause = "rank N ended: killed by signal N in section micro_batch";
    state.history.push_back(past);
  }
  const auto reported = lead_state_within(state, 0, 0, wire_body_max);
  REQUIRE(reported);
  CHECK(to_json(*reported).size() <= wire_body_max);
  const auto back = lead_state_from_value(*reported);
  REQUIRE(back.ok());
  CHECK(back->history.size() >= 1'000);
  CHECK(back->history.back().at_ms == 6'000);
  CHECK(!lead_state_within(state, 0, 0, 1'000));
}

TEST_CASE("a standby keeps the newest of what its lead has sent, and nothing where it was not sent the whole") {
  LeadState state;
  state.launch.launch = 3;
  state.end_by_ns = 10'000'000'000;
  state.seen.set("offset", 10);
  Value kept;
  CHECK(!keep_lead_state(lead_news_to_value(state, 0, 1'000), 5, 1'000, kept));
  CHECK(keep_lead_state(lead_state_to_value(state, 0, 1'000), 5, 1'000, kept));
  state.seen.set("offset", 4'000);
  CHECK(keep_lead_state(lead_news_to_value(state, 8'000'000'000, 9'000), 60'000'000'000, 9'000, kept));
  const auto back = lead_state_from_value(kept);
  REQUIRE(back.ok());
  CHECK(back->launch.launch == 3);
  CHECK(back->seen.get_integer("offset") == 4'000);
  CHECK(back->end_by_ns == 62'000'000'000);  // 2 s are left
}
