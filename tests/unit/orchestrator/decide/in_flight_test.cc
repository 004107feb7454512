// Whether a submission that nobody has answered for may still be under way.
#include "orchestrator/decide/in_flight.h"

#include <doctest/doctest.h>

namespace longhaul {
namespace {

RunLedger driven_ledger() {
  RunLedger ledger({"p"});
  for (int epoch = 1; epoch <= 4; ++epoch) {
    Fact fact{FactKind::epoch, {}, 0, Value::make_table(), 0};
    fact.fields.set("epoch", epoch);
    fact.fields.set("host", epoch == 2 ? "other" : "here");
    fact.fields.set("pid", 100 + epoch);
    fact.fields.set("start_ticks", 1);
    ledger.apply(fact);
  }
  return ledger;
}

}  // namespace

TEST_CASE("a submission is under way as long as a controller since its intent may live, this one left out") {
  const RunLedger ledger = driven_ledger();
  pid_t living = 0;
  std::int64_t left = 0;
  const auto alive = [&](const ProcessId& process) { return process.pid == living; };
  const auto in_flight = [&](std::int64_t intent_epoch) {
    LedgerAttempt attempt;
    attempt.intent_epoch = intent_epoch;
    const auto has_left = [&](std::int64_t epoch) { return left == epoch; };
    return overtaken_in_flight_ms(ledger, attempt, {104, 1}, "here", alive, has_left).has_value();
  };
  CHECK_FALSE(in_flight(3));
  living = 104;
  CHECK_FALSE(in_flight(4));  // its own
  CHECK_FALSE(in_flight(3));
  living = 103;
  CHECK(in_flight(3));
  CHECK(in_flight(1));
  living = 101;
  CHECK_FALSE(in_flight(3));  // it came before the intent
  living = 0;
  CHECK(in_flight(2));  // on another host nobody can be asked
  CHECK(in_flight(1));  // ... whoever made the intent
  CHECK(in_flight(0));  // of an epoch that is not known any more
  left = 2;             // the one on the other host has said that all its calls were answered
  CHECK_FALSE(in_flight(2));
  CHECK_FALSE(in_flight(1));
  living = 103;
  CHECK(in_flight(1));  // ... and speaks for itself alone
  left = 3;
  CHECK(in_flight(1));
  CHECK_FALSE(in_flight(3));
}

TEST_CASE("a ledger knows who drove the newest epochs, and in which an attempt was decided") {
  RunLedger ledger = driven_ledger();
  CHECK(ledger.drivers.size() == 4);
  Value fields = Value::make_table();
  fields.set("key", "k");
  ledger.apply({FactKind::ready, "p", 0, fields, 0});
  ledger.apply({FactKind::submit, "p", 1, fields, 0});
  CHECK(ledger.find("p")->newest()->intent_epoch == 4);
  for (int epoch = 5; epoch < 400; ++epoch) {
    Fact fact{FactKind::epoch, {}, 0, Value::make_table(), 0};
    fact.fields.set("epoch", epoch);
    ledger.apply(fact);
  }
  CHECK(ledger.drivers.size() == RunLedger::drivers_max);
  CHECK(ledger.drivers.back().epoch == 399);
  LedgerAttempt old;
  old.intent_epoch = 4;
  const auto no = [](const auto&) { return false; };
  CHECK(overtaken_in_flight_ms(ledger, old, {299, 1}, "", no, no));
}

TEST_CASE("for how long those who may be at a submission have been overtaken, any host's clock shows by itself") {
  RunLedger ledger({"p"});
  const auto claim = [&](const std::string& host, std::int64_t monotonic_ms) {
    Fact fact{FactKind::epoch, {}, 0, Value::make_table(), 0};
    fact.fields.set("epoch", static_cast<long long>(ledger.drivers.size() + 1));
    fact.fields.set("host", host);
    fact.fields.set("pid", static_cast<long long>(100 + ledger.drivers.size()));
    fact.fields.set("start_ticks", 1);
    if (monotonic_ms >= 0) fact.fields.set("monotonic_ms", static_cast<long long>(monotonic_ms));
    ledger.apply(fact);
  };
  const auto overtaken_ms = [&](const std::string& this_host) {
    LedgerAttempt attempt;
    attempt.intent_epoch = 1;
    const auto no = [](const auto&) { return false; };
    return overtaken_in_flight_ms(ledger, attempt, {1, 1}, this_host, no, no);
  };
  claim("other", 900'000);
  CHECK(overtaken_ms("here") == 0);  // nobody has overtaken it yet
  CHECK_FALSE(overtaken_ms("other"));
  claim("here", 5'000);
  CHECK(overtaken_ms("here") == 0);
  claim("here", 55'000);
  CHECK(overtaken_ms("here") == 50'000);
  claim("here", -1);  // by programs that do not say when
  CHECK(overtaken_ms("here") == 50'000);
  claim("here", 105'000);
  CHECK(overtaken_ms("here") == 100'000);
  claim("third", 7);  // it may have submitted last
  CHECK(overtaken_ms("here") == 0);
  for (const std::int64_t s : {1, 2, 3}) claim("here", 200'000 + 20'000 * s);
  CHECK(overtaken_ms("here") == 40'000);
  CHECK(overtaken_ms("third") == 0);
  claim("third", 90'000);  // a driver that wanders between hosts, and says each time that it leaves
  ledger.apply({FactKind::left, {}, 0, Value::make_table(), 0});
  CHECK(overtaken_ms("here") == 40'000);
  claim("here", 300'000);
  CHECK(overtaken_ms("here") == 80'000);
}

}  // namespace longhaul
