#include "worker/lead/monitor/training_watch.h"

#include <doctest/doctest.h>

#include "base/text/text.h"
#include "base/value/json.h"
#include "resiliency/restart_decision.h"

using namespace longhaul;

namespace {

Event line_of(const std::string& text) {
  const auto event = parse_event(text);
  REQUIRE(event.ok());
  return *event;
}
Event loss_at(std::int64_t step, const std::string& loss) {
  return line_of(format(R"({{"ms":1,"kind":"metric","rank":0,"step":{},"loss":{}}})", step, loss));
}
Event saved_at(std::int64_t step) {
  return line_of(format(R"({{"ms":1,"kind":"checkpoint","rank":0,"step":{},"path":"x"}})", step));
}

struct SlowRig {
  explicit SlowRig(const std::string& on_straggler) {
    ResiliencySettings settings;
    settings.on_straggler = on_straggler;
    watch.emplace(settings);
    for (int rank = 0; rank < 4; ++rank) {
      RankObservation one;
      one.rank = rank, one.seen = true, one.beat.step = 0;
      one.host = rank < 2 ? "n1" : "n2";
      ranks.push_back(one);
    }
    watch->new_launch(1, {0, 0, 0, 0});
  }
  std::vector<WarningEvent> go(int steps, double slow, int spares = 1) {
    std::vector<WarningEvent> reported;
    for (int i = 0; i < steps; ++i) {
      for (RankObservation& rank : ranks) {
        ++rank.beat.step;
        rank.beat.computed_ns += static_cast<std::int64_t>(1e8 * (rank.rank == 2 ? slow : 1));
      }
      for (const WarningEvent& one : watch->look(ranks, spares)) reported.push_back(one);
    }
    return reported;
  }
  std::vector<RankObservation> ranks;
  std::optional<TrainingWatch> watch;
};

}  // namespace

TEST_CASE("training watch: a slow rank is an event with host, scores and onset, which reads back as it was written") {
  SlowRig rig("report");
  CHECK(rig.go(30, 1).empty());
  const auto reported = rig.go(30, 1.5);
  REQUIRE(reported.size() == 1);
  CHECK(reported[0].kind == "straggler");
  CHECK(reported[0].rank == 2);
  CHECK(reported[0].host == "n2");
  CHECK(reported[0].since_step == 31);
  CHECK(reported[0].relative_score == doctest::Approx(1 / 1.5).epsilon(0.02));
  const auto back = warning_event_of(Event{5, reported[0].kind, 0, to_value(reported[0])});
  REQUIRE(back);
  CHECK(to_json(to_value(*back)) == to_json(to_value(reported[0])));
  CHECK(!rig.watch->wants_checkpoint());
  (void)rig.watch->take({saved_at(70)});
  CHECK(!rig.watch->demand());
  const auto over = rig.go(30, 1);
  REQUIRE(over.size() == 1);
  CHECK(over[0].kind == "straggler_over");
  CHECK(over[0].rank == 2);
}

TEST_CASE("training watch: swap orders a checkpoint once, and asks for another host when one is there") {
  SlowRig rig("swap");
  (void)rig.go(30, 1);
  (void)rig.go(20, 1.5);
  CHECK(rig.watch->wants_checkpoint());
  CHECK(!rig.watch->wants_checkpoint());
  (void)rig.watch->take({saved_at(20)});  // of before
  CHECK(!rig.watch->demand());
  (void)rig.watch->take({saved_at(50)});
  REQUIRE(rig.watch->demand());
  CHECK(rig.watch->demand()->kind == GuardFinding::Kind::slow_rank);
  CHECK(rig.watch->demand()->rank == 2);
  CHECK(rig.watch->demand()->host == "n2");
  DiagnosedFault slow{.fault = FaultClass::slow_rank, .scope = FaultScope::host, .rank = 2, .host = "n2"};
  slow.slow_host = rig.watch->demand()->host;
  const FaultView view = view_of(slow, ResiliencySettings{});
  TierOffers offers;
  offers.spares_left = 1;
  const TierDecision decision = decide_tier(view, {}, offers);
  CHECK(decision.tier == RestartTier::swap);
  CHECK(decision.hosts_to_leave == std::vector<std::string>{"n2"});
  rig.watch->new_launch(2, {0, 0, 0, 0});
  CHECK(!rig.watch->demand());
}

TEST_CASE("training watch: no swap without a spare, nor of a rank that is fast again") {
  SlowRig rig("swap");
  (void)rig.go(30, 1);
  (void)rig.go(20, 1.5, 0);
  CHECK(!rig.watch->wants_checkpoint());
  (void)rig.watch->take({saved_at(60)});
  CHECK(!rig.watch->demand());
  (void)rig.go(30, 1);
  CHECK(!rig.watch->wants_checkpoint());
  (void)rig.watch->take({saved_at(90)});
  CHECK(!rig.watch->demand());
}

TEST_CASE("training watch: a loss that is no number is reported once, and is a demand where the settings say so") {
  for (const std::string policy : {"report", "restart", "stop"})
    for (const std::string nan : {"null", "\"nan\"", "NaN"}) {
      CAPTURE(policy);
      CAPTURE(nan);
      ResiliencySettings settings;
      settings.on_nan = policy;
      TrainingWatch watch(settings);
      watch.new_launch(3, {0});
      CHECK(watch.take({loss_at(1, "2.5"), loss_at(2, "2.4")}).empty());
      const auto reported = watch.take({loss_at(3, nan), loss_at(4, nan)});
      REQUIRE(reported.size() == 1);
      CHECK(reported[0].kind == "loss_nan");
      CHECK(reported[0].step == 3);
      CHECK(reported[0].launch == 3);
      CHECK(watch.demand().has_value() == (policy != "report"));
      if (!watch.demand()) continue;
      DiagnosedFault found{.fault = FaultClass::loss_nan, .cause = "c"};
      found.bad_loss = watch.demand()->kind == GuardFinding::Kind::bad_loss;
      const FaultView view = view_of(found, settings);
      CHECK(decide_tier(view, {}, {}).tier == (policy == "stop" ? RestartTier::stop : RestartTier::in_job));
    }
}

TEST_CASE("training watch: a spike of the loss begins once and ends once; metrics without a loss say nothing") {
  TrainingWatch watch{ResiliencySettings{}};
  watch.new_launch(1, {0});
  std::vector<Event> events;
  for (int step = 1; step <= 40; ++step) events.push_back(loss_at(step, format("{:.3f}", 2.0 + 0.01 * (step % 3))));
  events.push_back(line_of(R"({"ms":1,"kind":"metric","rank":0,"step":40,"heldout_loss":99})"));
  CHECK(watch.take(events).empty());
  const auto high = watch.take({loss_at(41, "7.5"), loss_at(42, "6.5")});
  REQUIRE(high.size() == 1);
  CHECK(high[0].kind == "loss_spike");
  CHECK(high[0].step == 41);
  const auto over = watch.take({loss_at(43, "2.02"), loss_at(44, "2.01")});
  REQUIRE(over.size() == 1);
  CHECK(over[0].kind == "loss_spike_over");
  CHECK(over[0].since_step == 41);
}

TEST_CASE("training watch: peers are the ranks of one stage of the pipeline") {
  Launch launch;
  launch.ranks = 8;
  launch.dims.pp = 2, launch.dims.dp_shard = 4;
  CHECK(peers_of(launch) == std::vector<int>{0, 0, 0, 0, 1, 1, 1, 1});
  launch.ranks = 10;  // two of them only draw answers
  CHECK(peers_of(launch, 2) == std::vector<int>{0, 0, 0, 0, 1, 1, 1, 1});
  launch.ranks = 3;  // a command: no layout is known
  CHECK(peers_of(launch) == std::vector<int>{0, 0, 0});
}
