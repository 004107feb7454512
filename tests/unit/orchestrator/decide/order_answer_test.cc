#include "orchestrator/decide/order_answer.h"

#include <doctest/doctest.h>

#include "orchestrator/decide/decide.h"

using namespace longhaul;

namespace {

PlannedStage tellable_stage(const std::string& name, const std::string& kind) {
  PlannedStage stage;
  stage.stage = name;
  stage.kind = kind;
  stage.settings = Value::make_table();
  if (kind == "pretrain") stage.settings.set("steps", 100);
  return stage;
}

struct OrderRig {
  RunPlan plan;
  RunLedger ledger;
  OrderRig() {
    plan.workflow = "w";
    for (const auto& [name, kind] : {std::pair{"tokens", "tokenize"}, {"train", "pretrain"}, {"tune", "sft"}})
      plan.stages.push_back(tellable_stage(name, kind));
    ledger = RunLedger({"tokens", "train", "tune"});
  }
  void start(const std::string& stage) {
    for (const FactKind kind : {FactKind::ready, FactKind::submit, FactKind::submitted, FactKind::started})
      ledger.apply({kind, stage, 1, Value::make_table(), 0});
  }
  Value ask(const std::string& what, double value, const std::string& stage = {}) {
    Value arguments = Value::make_table();
    arguments.set("what", what);
    arguments.set("value", value);
    arguments.set("stage", stage);
    return arguments;
  }
};

}  // namespace

TEST_CASE("tell: arguments become orders, and nonsense says which orders there are") {
  REQUIRE(parse_order_arguments({"checkpoint"}, "").ok());
  CHECK((*parse_order_arguments({"stacks"}, "")).front().get_string("what") == "stacks");
  const auto stop = parse_order_arguments({"stop-after", "500"}, "train");
  REQUIRE(stop.ok());
  CHECK((*stop)[0].get_string("what") == "stop_after");
  CHECK((*stop)[0].get_number("value") == 500);
  CHECK((*stop)[0].get_string("stage") == "train");
  const auto set = parse_order_arguments({"set", "lr=2.5e-4", "checkpoint_interval=10"}, "");
  REQUIRE(set.ok());
  CHECK(set->size() == 2);
  CHECK((*set)[0].get_number("value") == 2.5e-4);
  CHECK(parse_order_arguments({"stop-after", "1"}, "").ok());
  CHECK(parse_order_arguments({"set", "checkpoint_interval=1"}, "").ok());
  for (const std::vector<std::string>& arguments :
       std::vector<std::vector<std::string>>{{},
                                             {"chekpoint"},
                                             {"checkpoint", "now"},
                                             {"stop-after"},
                                             {"stop-after", "0"},
                                             {"stop-after", "1.5"},
                                             {"stop-after", "ten"},
                                             {"stop-after", "5", "6"},
                                             {"set"},
                                             {"set", "lr"},
                                             {"set", "lr=-1"},
                                             {"set", "lr=nan"},
                                             {"set", "lr=1e-4x"},
                                             {"set", "checkpoint_interval=0.5"},
                                             {"set", "hidden_size=8"}}) {
    const auto reported = parse_order_arguments(arguments, "");
    REQUIRE(!reported.ok());
    CHECK(reported.error().code == ErrorCode::invalid_input);
    CHECK(reported.error().hint.find("stop-after") != std::string::npos);
  }
}

TEST_CASE("tell: only a running stage that can obey, and the refusal says why") {
  OrderRig rig;
  CHECK(answer_order(rig.plan, rig.ledger, rig.ask("checkpoint", 0)).answer.find("no stage is running") !=
        std::string::npos);
  CHECK(answer_order(rig.plan, rig.ledger, rig.ask("checkpoint", 0, "train")).answer.find("waiting") !=
        std::string::npos);
  rig.start("tokens");
  CHECK(answer_order(rig.plan, rig.ledger, rig.ask("stacks", 0)).accepted);  // of any kind of stage
  CHECK(answer_order(rig.plan, rig.ledger, rig.ask("checkpoint", 0, "tokens")).answer.find("takes no orders") !=
        std::string::npos);
  CHECK(answer_order(rig.plan, rig.ledger, rig.ask("checkpoint", 0, "trian")).answer.find("no stage 'trian'") !=
        std::string::npos);
  rig.start("train");
  const OrderAnswer answer = answer_order(rig.plan, rig.ledger, rig.ask("stop_after", 40));
  CHECK(answer.accepted);
  CHECK(answer.stage == "train");
  CHECK(answer.order.text() == "stop after step 40");
  CHECK(!answer_order(rig.plan, rig.ledger, rig.ask("stop_after", 100)).accepted);  // its last step anyhow
  CHECK(!answer_order(rig.plan, rig.ledger, rig.ask("lr", -1)).accepted);
  CHECK(!answer_order(rig.plan, rig.ledger, rig.ask("dance", 1)).accepted);
  rig.start("tune");
  CHECK(answer_order(rig.plan, rig.ledger, rig.ask("checkpoint", 0)).answer.find("--stage: train, tune") !=
        std::string::npos);
  CHECK(answer_order(rig.plan, rig.ledger, rig.ask("checkpoint", 0, "tune")).accepted);
}

TEST_CASE("tell: the log has the order, its answer and its outcome, each once") {
  OrderRig rig;
  rig.start("train");
  Observations seen;
  seen.requests.push_back({"000001-abc-tell.json", "tell", rig.ask("checkpoint", 0)});
  auto facts = decide(rig.plan, {}, rig.ledger, seen, "run");
  REQUIRE(facts.size() == 1);
  CHECK(facts[0].kind == FactKind::request);
  CHECK(facts[0].fields.get_bool("accepted"));
  auto reread = parse_fact(fact_line(facts[0]).substr(0, fact_line(facts[0]).size() - 1));
  REQUIRE(reread.ok());
  rig.ledger.apply(*reread);
  REQUIRE(rig.ledger.orders.size() == 1);
  CHECK(rig.ledger.orders[0].order.id == "000001-abc-tell");
  CHECK(rig.ledger.orders[0].stage == "train");
  CHECK(!rig.ledger.cancel_requested);
  CHECK(decide(rig.plan, {}, rig.ledger, seen, "run").empty());  // answered
  seen.orders["000001-abc-tell"] = {true, "done at step 7"};
  facts = decide(rig.plan, {}, rig.ledger, seen, "run");
  REQUIRE(facts.size() == 1);
  CHECK(facts[0].kind == FactKind::order_ended);
  rig.ledger.apply(facts[0]);
  CHECK(rig.ledger.orders[0].outcome == "done at step 7");
  CHECK(rig.ledger.orders[0].done);
  CHECK(decide(rig.plan, {}, rig.ledger, seen, "run").empty());
}

TEST_CASE("tell: an order that its stage outlived is closed, and one that stands survives a retry") {
  OrderRig rig;
  rig.start("train");
  Observations seen;
  seen.requests.push_back({"1.json", "tell", rig.ask("stop_after", 40)});
  for (const Fact& fact : decide(rig.plan, {}, rig.ledger, seen, "run")) rig.ledger.apply(fact);
  seen.requests.clear();
  RunLedger retried = rig.ledger, failed = rig.ledger;
  retried.apply({FactKind::retry, "train", 1, Value::make_table(), 0});
  for (const Fact& fact : decide(rig.plan, {}, retried, seen, "run")) CHECK(fact.kind != FactKind::order_ended);
  failed.apply({FactKind::failed, "train", 1, Value::make_table(), 0});
  const auto facts = decide(rig.plan, {}, failed, seen, "run");
  REQUIRE(!facts.empty());
  CHECK(facts[0].kind == FactKind::order_ended);
  CHECK(facts[0].text("text").find("ended before") != std::string::npos);
}

TEST_CASE(
    "tell: a fault is for stages that are marked as tests, and wrong arguments are refused before anything is asked") {
  const auto reported = parse_order_arguments({"fault", "SIGKILL", "rank=1", "step=20"}, "train");
  REQUIRE(reported.ok());
  REQUIRE(reported->size() == 1);
  const Value& asked = reported->front();
  CHECK(asked.get_string("what") == "fault");
  for (const std::vector<std::string>& arguments :
       std::vector<std::vector<std::string>>{{"fault"},
                                             {"fault", "SIGKIL"},
                                             {"fault", "GPU_SLEEP"},
                                             {"fault", "xid"},
                                             {"fault", "SIGKILL", "rank"},
                                             {"fault", "SIGKILL", "rank=x"},
                                             {"fault", "SIGKILL", "name=SIGSTOP"},
                                             {"fault", "SIGKILL", "step=3", "after=1s"},
                                             {"fault", "SIGKILL", "stp=3"}})
    CHECK_MESSAGE(!parse_order_arguments(arguments, "").ok(), arguments.back());

  OrderRig rig;
  rig.start("train");
  PlannedStage& train = rig.plan.stages[1];
  train.common.ranks = 4;
  const std::string refusal = answer_order(rig.plan, rig.ledger, asked).answer;
  CHECK(refusal.find("allow_fault_injection") != std::string::npos);
  train.faults.allowed = true;
  const OrderAnswer answer = answer_order(rig.plan, rig.ledger, asked);
  CHECK_MESSAGE(answer.accepted, answer.answer);
  CHECK(answer.answer == "train: SIGKILL of rank 1 at step 20");
  const auto order = order_from_value(order_to_value({"001", answer.order.what, 0, answer.order.fault}));
  REQUIRE(order.ok());
  CHECK(order->fault == answer.order.fault);
  CHECK(order->stands() == false);
  train.common.ranks = 1;
  CHECK(answer_order(rig.plan, rig.ledger, asked).answer.find("the stage has 1 ranks") != std::string::npos);

  // What the site and the stage's settings allow is judged by the controller alone.
  const auto cut = parse_order_arguments({"fault", "cut_network", "lasts=3s"}, "train");
  REQUIRE(cut.ok());
  CHECK(answer_order(rig.plan, rig.ledger, cut->front()).answer.find("[faults] cut_network = ") != std::string::npos);
  train.faults.commands.cut_network = "/site/cut {host} {seconds}";
  CHECK(answer_order(rig.plan, rig.ledger, cut->front()).accepted);
  const auto xid = parse_order_arguments({"fault", "xid", "xid=79"}, "train");
  REQUIRE(xid.ok());
  CHECK(answer_order(rig.plan, rig.ledger, xid->front()).answer == "train: xid 79 of rank 0");
  train.common.resiliency.health = "off";
  CHECK(answer_order(rig.plan, rig.ledger, xid->front()).answer.find("resiliency.health is \"off\"") !=
        std::string::npos);
}
