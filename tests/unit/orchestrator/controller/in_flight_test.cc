// Whether a submission that nobody has answered for may still be under way.
#include "orchestrator/controller/in_flight.h"

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
  const auto alive = [&](const ProcessId& process) { return process.pid == living; };
  const auto in_flight = [&](std::int64_t intent_epoch) {
    LedgerAttempt attempt;
    attempt.intent_epoch = intent_epoch;
    return may_be_in_flight(ledger, attempt, {104, 1}, "here", alive);
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
}

TEST_CASE("a ledger knows who drove the newest epochs, and in which an attempt was decided") {
  RunLedger ledger = driven_ledger();
  CHECK(ledger.drivers.size() == 4);
  Value fields = Value::make_table();
  fields.set("key", "k");
  ledger.apply({FactKind::ready, "p", 0, fields, 0});
  ledger.apply({FactKind::submit, "p", 1, fields, 0});
  CHECK(ledger.find("p")->newest()->intent_epoch == 4);
  for (int epoch = 5; epoch < 200; ++epoch) {
    Fact fact{FactKind::epoch, {}, 0, Value::make_table(), 0};
    fact.fields.set("epoch", epoch);
    ledger.apply(fact);
  }
  CHECK(ledger.drivers.size() == RunLedger::drivers_max);
  CHECK(ledger.drivers.back().epoch == 199);
  LedgerAttempt old;
  old.intent_epoch = 4;
  CHECK(may_be_in_flight(ledger, old, {299, 1}, "", [](const ProcessId&) { return false; }));
}

}  // namespace longhaul
