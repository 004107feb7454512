#include "worker/lead/agents/rendezvous_store.h"

#include <doctest/doctest.h>

#include <string>

namespace longhaul {
namespace {

using Sent = std::map<std::string, StoreMessage>;

struct StoreRig {
  RendezvousStore store;
  std::vector<std::string> problems;

  explicit StoreRig(StoreLimits limits = {}) : store(limits) { store.begin(1); }
  Sent take(const std::string& host, const StoreMessage& message) {
    const RendezvousStore::Outcome outcome = store.take(host, message);
    problems.insert(problems.end(), outcome.problems.begin(), outcome.problems.end());
    return outcome.to_hosts;
  }
  Sent put(const std::string& host, const std::string& name, const std::string& value, int launch = 1) {
    return take(host, {launch, {{name, value}}, {}, {}});
  }
  Sent want(const std::string& host, const std::string& name, int launch = 1) {
    return take(host, {launch, {}, {name}, {}});
  }
};

// Of one host alone, one entry.
bool brings(const Sent& sent, const std::string& host, const std::string& name, const std::string& value) {
  return sent.size() == 1 && sent.begin()->first == host && sent.begin()->second.refused.empty() &&
         sent.begin()->second.entries == std::vector<StoreEntry>{{name, value}};
}
std::string refusal(const Sent& sent, const std::string& host) {
  const auto found = sent.find(host);
  return found == sent.end() || found->second.refused.size() != 1 ? "" : found->second.refused[0].value;
}

}  // namespace

TEST_CASE("store of a launch: they go to the hosts that look for them, before and after they are there") {
  StoreRig rig;
  CHECK(rig.want("n2", "id").empty());
  CHECK(rig.want("n3", "id").empty());
  const Sent sent = rig.put("n1", "id", "w");
  REQUIRE(sent.size() == 2);
  for (const char* host : {"n2", "n3"}) {
    CHECK(sent.at(host).entries == std::vector<StoreEntry>{{"id", "w"}});
    CHECK(sent.at(host).launch == 1);
  }
  CHECK(rig.put("n4", "other", "x").empty());  // nobody looks for it
  CHECK(brings(rig.want("n4", "id"), "n4", "id", "w"));
  CHECK(brings(rig.want("n2", "id"), "n2", "id", "w"));  // an agent that was started again
  CHECK(rig.store.entries() == 2);
}

TEST_CASE("store of a launch: the same again is nothing new, another one under its name names both hosts") {
  StoreRig rig;
  (void)rig.put("n1", "id", "w");
  CHECK(rig.put("n1", "id", "w").empty());
  CHECK(rig.put("n2", "id", "w").empty());
  CHECK(rig.problems.empty());
  const Sent sent = rig.put("n3", "id", "v");
  REQUIRE(sent.size() == 2);
  for (const char* host : {"n1", "n3"}) CHECK(refusal(sent, host) == "n1 and n3 have left different ones");
  CHECK(rig.problems == std::vector<std::string>{"id: n1 and n3 have left different ones"});
  CHECK(!refusal(rig.want("n4", "id"), "n4").empty());
  CHECK(!refusal(rig.put("n1", "id", "w"), "n1").empty());  // sent again: it stays refused
  CHECK(rig.problems.size() == 1);
  CHECK(rig.store.entries() == 0);
  CHECK(rig.store.bytes() == 0);
}

TEST_CASE("store of a launch: those of another launch are neither taken nor kept") {
  StoreRig rig;
  CHECK(rig.put("n1", "id", "w", 2).empty());
  CHECK(rig.want("n2", "id", 0).empty());
  CHECK(rig.put("n1", "id", "w").empty());
  rig.store.begin(1);
  CHECK(rig.store.entries() == 1);  // a lead says again what is to be watched
  CHECK(rig.want("n2", "mine").empty());
  rig.store.begin(2);
  CHECK(rig.store.entries() == 0);
  CHECK(rig.store.bytes() == 0);
  CHECK(rig.put("n1", "mine", "w", 2).empty());  // who waited did so in the launch before
  CHECK(rig.put("n1", "id", "w").empty());
  CHECK(rig.want("n2", "id", 2).empty());
  RendezvousStore none;
  CHECK(none.take("n1", {0, {{"id", "w"}}, {}, {}}).to_hosts.empty());
  CHECK(none.entries() == 0);
}

TEST_CASE("store of a launch: they outlive one restart in-process, not two") {
  StoreRig rig;
  (void)rig.put("n1", "epoch1", "w");
  (void)rig.put("n1", "torn", "w"), (void)rig.put("n2", "torn", "v");
  (void)rig.want("n3", "never1");
  rig.store.new_epoch();
  (void)rig.put("n1", "epoch2", "w");
  (void)rig.want("n3", "never2");
  CHECK(brings(rig.want("n2", "epoch1"), "n2", "epoch1", "w"));
  rig.store.new_epoch();
  CHECK(rig.store.entries() == 1);
  CHECK(rig.store.bytes() == std::string("epoch2w").size());
  CHECK(brings(rig.want("n2", "epoch2"), "n2", "epoch2", "w"));
  CHECK(rig.want("n2", "epoch1").empty());
  CHECK(rig.want("n2", "torn").empty());
  CHECK(rig.put("n1", "never1", "w").empty());
  CHECK(brings(rig.put("n1", "never2", "w"), "n3", "never2", "w"));
}

TEST_CASE("store of a launch: what is too much is refused with a reason, and reported once") {
  StoreRig few(StoreLimits{3, 1000});
  for (const char* name : {"a", "b", "c"}) CHECK(few.put("n1", name, "w").empty());
  CHECK(few.want("n3", "d").empty());
  const Sent sent = few.put("n1", "d", "w");
  CHECK(refusal(sent, "n1") == "the lead keeps 3 entries of 6 bytes for this launch, and no more");
  CHECK(!refusal(sent, "n3").empty());  // who waited for it
  CHECK(!refusal(few.put("n1", "e", "w"), "n1").empty());
  CHECK(!refusal(few.want("n2", "d"), "n2").empty());
  CHECK(brings(few.want("n2", "a"), "n2", "a", "w"));
  CHECK(few.problems.size() == 1);
  for (const char* name : {"x", "y", "z"}) CHECK(few.want("n2", name).empty());
  CHECK(refusal(few.want("n2", "u"), "n2") == "3 other entries are waited for already");
  few.store.new_epoch(), few.store.new_epoch();
  CHECK(few.put("n1", "d", "w").empty());  // there is room again
  CHECK(few.want("n2", "u").empty());

  StoreRig small(StoreLimits{100, 20});
  CHECK(small.put("n1", "a", std::string(19, 'w')).empty());
  CHECK(!refusal(small.put("n1", "b", ""), "n1").empty());
  CHECK(small.store.bytes() == 20);
}

}  // namespace longhaul
