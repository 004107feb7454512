// What an agent says of its ranks arrives as it was said, waits included; nonsense is refused.
#include "worker/protocol/node/node_report.h"

#include <doctest/doctest.h>

using namespace longhaul;

TEST_CASE("a report of a rank that waits arrives whole") {
  NodeReport report;
  report.host = "n1", report.launch = 2;
  RankReport rank;
  rank.beat.rank = 3, rank.beat.pid = 77, rank.beat.step = 12, rank.beat.section = "micro_batch";
  rank.beat.communicators = {{"tp@2", 9, 8}, {"pp@1", 0, 0}};
  rank.beat.waits_in = 1, rank.beat.waits_for = 5, rank.beat.polls = 1234, rank.beat.computed_ns = 5'000'000'000;
  rank.idle_ms = 40, rank.state = ProcessState::stopped;
  report.ranks = {rank};
  const auto read = node_report_from_value(node_report_to_value(report));
  REQUIRE(read.ok());
  REQUIRE(read->ranks.size() == 1);
  const RankReport& got = read->ranks[0];
  CHECK(got == rank);
  CHECK(got.beat.waits_in == 1);
  CHECK(got.beat.waits_for == 5);
  CHECK(got.beat.polls == 1234);
  CHECK(got.beat.computed_ns == 5'000'000'000);
  CHECK(got.idle_ms == 40);
  RankReport later = rank;
  later.beat.polls = 2000, later.idle_ms = 140;
  CHECK(later == rank);  // time that passes is nothing new to report
  later.beat.waits_in = beat_waits_nowhere;
  CHECK(!(later == rank));
  report.ranks[0].beat.waits_in = 2;  // there are two communicators
  CHECK(node_report_from_value(node_report_to_value(report)).error().code == ErrorCode::corrupt);
}

TEST_CASE("trust: the folder of a launch in a node's memory has a name that nobody can compute") {
  const std::string one = new_node_beat_folder().value(), two = new_node_beat_folder().value();
  CHECK(one != two);
  CHECK(one.find(node_beat_prefix) == 0);
  CHECK(one.size() == std::string(node_beat_prefix).size() + 32);
}

TEST_CASE("where ranks leave their entries comes with what is to be watched") {
  AgentOrder order;
  order.kind = AgentOrder::Kind::watch;
  order.launch = 2, order.folder = "/dev/shm/longhaul-1", order.ranks = {1};
  CHECK(agent_order_from_value(agent_order_to_value(order))->store_dir.empty());
  order.store_dir = "/dev/shm/longhaul-1/store";
  CHECK(agent_order_from_value(agent_order_to_value(order))->store_dir == order.store_dir);
}

TEST_CASE("what was found wrong with the node travels with the report, and a report without it is one of nobody") {
  NodeReport report;
  report.host = "n1";
  CHECK(node_report_from_value(node_report_to_value(report))->health.since == 0);
  report.health.since = 99, report.health.looks = 3, report.health.figures = {41.5, 12};
  report.health.notes = {{7, health_finding("disk", FaultClass::disk_low, "/runs", "1 % is free")}};
  const auto read = node_report_from_value(node_report_to_value(report));
  REQUIRE(read.ok());
  CHECK(read->health.since == 99);
  CHECK(read->health.looks == 3);
  CHECK(read->health.figures.gflops == 41.5);
  REQUIRE(read->health.notes.size() == 1);
  CHECK(read->health.notes[0].serial == 7);
  CHECK(read->health.notes[0].finding.fault == FaultClass::disk_low);
}

TEST_CASE("what an exchange found travels with the report, and its partners with the order") {
  NodeReport report;
  report.host = "n1";
  CHECK(node_report_from_value(node_report_to_value(report))->exchange_port == 0);
  report.exchange_port = 4321, report.exchange_done = true;
  report.exchanged = {{"n2", 812.5}, {"n3", 0}};
  const auto read = node_report_from_value(node_report_to_value(report));
  REQUIRE(read.ok());
  CHECK(read->exchange_port == 4321);
  CHECK(read->exchange_done);
  REQUIRE(read->exchanged.size() == 2);
  CHECK(read->exchanged[0].to == "n2");
  CHECK(read->exchanged[0].mb_per_s == 812.5);
  CHECK(read->exchanged[1].mb_per_s == 0);

  AgentOrder order;
  order.kind = AgentOrder::Kind::exchange;
  order.id = "secret", order.partners = {{"n2", "10.0.0.2", 99}};
  const auto reported = agent_order_from_value(agent_order_to_value(order));
  REQUIRE(reported.ok());
  CHECK(reported->kind == AgentOrder::Kind::exchange);
  CHECK(reported->id == "secret");
  REQUIRE(reported->partners.size() == 1);
  CHECK(reported->partners[0].host == "n2");
  CHECK(reported->partners[0].address == "10.0.0.2");
  CHECK(reported->partners[0].port == 99);
}

TEST_CASE("faults that a node is to suffer travel with the order, and those that it could not with the report") {
  NodeReport report;
  report.host = "n1", report.health.since = 9, report.health.gpu_script = "/tmp/n1.script";
  report.fault_problems = {{"at-0", "there is no script"}, {"ordered-1", "nobody listens"}};
  const auto read = node_report_from_value(node_report_to_value(report));
  REQUIRE(read.ok());
  CHECK(read->health.gpu_script == "/tmp/n1.script");
  CHECK(read->fault_problems == report.fault_problems);
  AgentOrder order;
  order.kind = AgentOrder::Kind::fault;
  order.folder = "gpu", order.id = "at-0", order.what = "0 device 1 xid 79\n", order.ranks = {3};
  const auto heard = agent_order_from_value(agent_order_to_value(order));
  REQUIRE(heard.ok());
  CHECK(heard->folder == "gpu");
  CHECK(heard->id == "at-0");
  CHECK(heard->what == order.what);
  CHECK(heard->ranks == order.ranks);
}
