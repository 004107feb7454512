#include "worker/lead/placement/rank_layout.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "base/files/files.h"
#include "base/text/text.h"
#include "contracts/records/launch.h"
#include "tests/support/scratch.h"

using namespace longhaul;

namespace {

// A training of four replicas on four nodes, started by srun.
LeadOf lead_of_four(const testing::Scratch& folder) {
  LeadOf lead;
  lead.attempt.key = "rank-layout-test";
  lead.attempt.stage_dir = folder.path();
  lead.attempt.attempt_dir = folder.file("attempt");
  lead.attempt.launcher = {"srun", "--mpi=pmix", "--nodes=4", "--ntasks=4", "--ntasks-per-node=1"};
  lead.attempt.resiliency.shrink = true;
  lead.task.kind = "pretrain";
  lead.task.dims.dp_shard = 4, lead.task.dims.zero = 1;
  lead.task.resources.ranks = lead.task.resources.nodes = 4;
  lead.task.settings = Value::make_table();
  lead.task.settings.set("micro_batch_size", 2);
  lead.task.settings.set("global_batch_size", 8);
  lead.job.nodes = "n[1-4]";
  return lead;
}

bool holds(const std::vector<std::string>& words, const std::string& word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

}  // namespace

TEST_CASE("shrinking: a lost node without a spare leaves two of four replicas, and a spare") {
  const testing::Scratch folder;
  const LeadOf lead = lead_of_four(folder);
  HostPool hosts = host_pool_of(lead).value();
  TierOffers offers;
  offer_shrink(lead, hosts, {"n2"}, offers);
  CHECK(offers.shrink.offered);
  CHECK(offers.dp_replicas == 2);  // 8 sequences are not three shares of micro-batches of 2
  FaultView fault;
  fault.scope = FaultScope::host, fault.group = FaultGroup::infrastructure;
  fault.fault = "host_unreachable", fault.host = "n2", fault.hosts_lost = {"n2"}, fault.cause = "host_unreachable n2";
  offers.swap = {false, "the job has no spares"};
  const TierDecision decision = decide_tier(fault, {}, offers);
  CHECK(decision.tier == RestartTier::shrink);
  CHECK(decision.hosts_to_leave == std::vector<std::string>{"n2"});

  hosts.leave("n2");
  REQUIRE(shrink(lead, hosts).ok());
  CHECK(hosts.working() == std::vector<std::string>{"n1", "n3"});
  CHECK(hosts.spares() == std::vector<std::string>{"n4"});
  const auto spec = prepare_launch(lead, 2, hosts, false);
  REQUIRE_MESSAGE(spec.ok(), (spec.ok() ? "" : spec.error().message()));
  for (const char* word : {"--nodes=2", "--ntasks=2", "--nodelist=n1,n3", "--overlap"})
    CHECK_MESSAGE(holds(spec->attempt.launcher, word), word);
  const auto launch = read_launch(spec->launch_path);
  REQUIRE(launch.ok());
  CHECK(launch->ranks == 2);
  CHECK(launch->dims.dp_shard == 2);
  CHECK(launch->dims.zero == 1);
  CHECK(launch->rank_host == std::vector<int>{0, 1});

  // The next node that is lost has a spare; the one after that leaves a single replica.
  hosts.leave("n1");
  CHECK(hosts.working() == std::vector<std::string>{"n3", "n4"});
  CHECK(rank_layout(lead, hosts).ranks == 2);
  hosts.leave("n3");
  REQUIRE(shrink(lead, hosts).ok());
  CHECK(rank_layout(lead, hosts).ranks == 1);
  CHECK(hosts.working() == std::vector<std::string>{"n4"});
  hosts.leave("n4");
  CHECK(!shrink(lead, hosts).ok());
}

TEST_CASE("growing back: all replicas once enough nodes are there, and not for less than a larger layout") {
  const testing::Scratch folder;
  LeadOf lead = lead_of_four(folder);
  HostPool hosts = host_pool_of(lead).value();
  CHECK(!grown(lead, hosts, 1));  // nothing was lost
  hosts.lose("n2");
  REQUIRE(shrink(lead, hosts).ok());
  CHECK(!grown(lead, hosts, 0));  // the spare alone makes no third replica
  const auto whole = grown(lead, hosts, 1);
  REQUIRE(whole);
  CHECK(whole->nodes == 4);
  CHECK(whole->dims == lead.task.dims);
  hosts.grow_to(whole->nodes, {"n2"});
  const auto spec = prepare_launch(lead, 3, hosts, false);
  REQUIRE(spec.ok());
  CHECK(spec->launch.ranks == 4);
  CHECK(spec->launch.dims == lead.task.dims);
  for (const char* word : {"--nodes=4", "--ntasks=4", "--overlap"})
    CHECK_MESSAGE(holds(spec->attempt.launcher, word), word);

  HostPool poor = host_pool_of(lead).value();
  for (const char* host : {"n1", "n2", "n3"}) poor.lose(host);
  REQUIRE(shrink(lead, poor).ok());
  CHECK(rank_layout(lead, poor).ranks == 1);
  CHECK(grown(lead, poor, 1)->ranks == 2);
  CHECK(grown(lead, poor, 2)->ranks == 2);
  CHECK(grown(lead, poor, 3)->ranks == 4);
  lead.attempt.resiliency.min_replicas = 4;
  CHECK(!grown(lead, poor, 2));
}

TEST_CASE("shrinking: before anything is lost a launch is as it was asked for") {
  const testing::Scratch folder;
  const LeadOf lead = lead_of_four(folder);
  const auto spec = prepare_launch(lead, 1, host_pool_of(lead).value(), false);
  REQUIRE(spec.ok());
  CHECK(spec->launch.ranks == 4);
  CHECK(spec->launch.dims == lead.task.dims);
  CHECK(spec->attempt.launcher == lead.attempt.launcher);
}

TEST_CASE("mpirun is given the nodes that work, and how many ranks there are of them") {
  const testing::Scratch folder;
  LeadOf lead = lead_of_four(folder);
  lead.attempt.launcher = {"mpirun", "-np", "4", "--map-by", "ppr:1:node"};
  HostPool hosts = host_pool_of(lead).value();
  auto spec = prepare_launch(lead, 1, hosts, false);
  REQUIRE(spec.ok());
  CHECK(join(spec->attempt.launcher, " ") == "mpirun --host n1:1,n2:1,n3:1,n4:1 -np 4 --map-by ppr:1:node");
  hosts.leave("n2");
  REQUIRE(shrink(lead, hosts).ok());
  spec = prepare_launch(lead, 2, hosts, false);
  REQUIRE(spec.ok());
  CHECK(join(spec->attempt.launcher, " ") == "mpirun --host n1:1,n3:1 -np 2 --map-by ppr:1:node");
  CHECK(spec->launch.hosts == std::vector<std::string>{"n1", "n3"});
  lead.job.node = "n3", lead.epoch = 2;  // after a takeover: mpirun begins with the node that it runs on
  spec = prepare_launch(lead, 3, hosts, false);
  REQUIRE(spec.ok());
  CHECK(spec->launch.hosts == std::vector<std::string>{"n3", "n1"});
}

TEST_CASE("shrinking: who may not says why") {
  const testing::Scratch folder;
  const auto refusal = [&](const auto& change, const std::vector<std::string>& lost) {
    LeadOf lead = lead_of_four(folder);
    change(lead);
    TierOffers offers;
    offer_shrink(lead, host_pool_of(lead).value(), lost, offers);
    CHECK(!offers.shrink.offered);
    return offers.shrink.refusal;
  };
  CHECK(refusal([](LeadOf& lead) { lead.attempt.resiliency.shrink = false; }, {"n1"}) == "resiliency.shrink is false");
  CHECK(refusal([](LeadOf& lead) { lead.attempt.resiliency.min_replicas = 3; }, {"n1"}) ==
        "no layout with 3 replicas or more fits 3 nodes");
  CHECK(refusal([](LeadOf&) {}, {"n1", "n2", "n3", "n4"}) == "no layout with 1 replica or more fits 0 nodes");
  CHECK(refusal([](LeadOf& lead) { lead.task.kind = "command", lead.task.settings = Value::make_table(); }, {"n1"}) ==
        "a stage of kind command has no replicas to do without");
  CHECK(refusal([](LeadOf& lead) { lead.attempt.launcher.clear(); }, {}) ==
        "the launcher starts no ranks on fewer nodes");
}

TEST_CASE("shrinking: a lead that takes over lays out its launches alike") {
  const testing::Scratch folder;
  const LeadOf lead = lead_of_four(folder);
  HostPool hosts = host_pool_of(lead).value();
  hosts.leave("n1");
  REQUIRE(shrink(lead, hosts).ok());
  HostPool reported(hosts.all(), hosts.wanted());  // as worker/lead/failover/lead_state.cc has it
  for (const std::string& host : hosts.left()) reported.leave(host);
  CHECK(reported.working() == hosts.working());
  CHECK(reported.spares() == hosts.spares());
  CHECK(rank_layout(lead, reported).dims == rank_layout(lead, hosts).dims);
}
