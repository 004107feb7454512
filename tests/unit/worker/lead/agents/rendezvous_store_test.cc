#include "worker/lead/agents/rendezvous_store.h"

#include <doctest/doctest.h>

#include <string>

namespace longhaul {
namespace {

using Sent = std::map<std::string, StoreMessage>;

struct Words {
  RendezvousStore store;
  std::vector<std::string> problems;

  explicit Words(StoreLimits limits = {}) : store(limits) { store.begin(1); }
  Sent take(const std::string& host, const StoreMessage& message) {
    const RendezvousStore::Outcome outcome = store.take(host, message);
    problems.insert(problems.end(), outcome.problems.begin(), outcome.problems.end());
    return outcome.to_hosts;
  }
  Sent put(const std::string& host, const std::string& name, const std::string& word, int launch = 1) {
    return take(host, {launch, {{name, word}}, {}, {}});
  }
  Sent want(const std::string& host, const std::string& name, int launch = 1) {
    return take(host, {launch, {}, {name}, {}});
  }
};

// Of one host alone, one word.
bool brings(const Sent& sent, const std::string& host, const std::string& name, const std::string& word) {
  return sent.size() == 1 && sent.begin()->first == host && sent.begin()->second.refused.empty() &&
         sent.begin()->second.words == std::vector<StoreEntry>{{name, word}};
}
std::string refusal(const Sent& sent, const std::string& host) {
  const auto found = sent.find(host);
  return found == sent.end() || found->second.refused.size() != 1 ? "" : found->second.refused[0].word;
}

}  // namespace

TEST_CASE("words of a launch: they go to the hosts that look for them, before and after they are there") {
  Words words;
  CHECK(words.want("n2", "id").empty());
  CHECK(words.want("n3", "id").empty());
  const Sent sent = words.put("n1", "id", "w");
  REQUIRE(sent.size() == 2);
  for (const char* host : {"n2", "n3"}) {
    CHECK(sent.at(host).words == std::vector<StoreEntry>{{"id", "w"}});
    CHECK(sent.at(host).launch == 1);
  }
  CHECK(words.put("n4", "other", "x").empty());  // nobody looks for it
  CHECK(brings(words.want("n4", "id"), "n4", "id", "w"));
  CHECK(brings(words.want("n2", "id"), "n2", "id", "w"));  // an agent that was started again
  CHECK(words.store.words() == 2);
}

TEST_CASE("words of a launch: the same again is nothing new, another one under its name names both hosts") {
  Words words;
  (void)words.put("n1", "id", "w");
  CHECK(words.put("n1", "id", "w").empty());
  CHECK(words.put("n2", "id", "w").empty());
  CHECK(words.problems.empty());
  const Sent sent = words.put("n3", "id", "v");
  REQUIRE(sent.size() == 2);
  for (const char* host : {"n1", "n3"}) CHECK(refusal(sent, host) == "n1 and n3 have left different ones");
  CHECK(words.problems == std::vector<std::string>{"id: n1 and n3 have left different ones"});
  CHECK(!refusal(words.want("n4", "id"), "n4").empty());
  CHECK(!refusal(words.put("n1", "id", "w"), "n1").empty());  // told again: it stays refused
  CHECK(words.problems.size() == 1);
  CHECK(words.store.words() == 0);
  CHECK(words.store.bytes() == 0);
}

TEST_CASE("words of a launch: those of another launch are neither taken nor kept") {
  Words words;
  CHECK(words.put("n1", "id", "w", 2).empty());
  CHECK(words.want("n2", "id", 0).empty());
  CHECK(words.put("n1", "id", "w").empty());
  words.store.begin(1);
  CHECK(words.store.words() == 1);  // a lead says again what is to be watched
  CHECK(words.want("n2", "mine").empty());
  words.store.begin(2);
  CHECK(words.store.words() == 0);
  CHECK(words.store.bytes() == 0);
  CHECK(words.put("n1", "mine", "w", 2).empty());  // who waited did so in the launch before
  CHECK(words.put("n1", "id", "w").empty());
  CHECK(words.want("n2", "id", 2).empty());
  RendezvousStore none;
  CHECK(none.take("n1", {0, {{"id", "w"}}, {}, {}}).to_hosts.empty());
  CHECK(none.words() == 0);
}

TEST_CASE("words of a launch: they outlive one restart in-process, not two") {
  Words words;
  (void)words.put("n1", "epoch1", "w");
  (void)words.put("n1", "torn", "w"), (void)words.put("n2", "torn", "v");
  (void)words.want("n3", "never1");
  words.store.new_epoch();
  (void)words.put("n1", "epoch2", "w");
  (void)words.want("n3", "never2");
  CHECK(brings(words.want("n2", "epoch1"), "n2", "epoch1", "w"));
  words.store.new_epoch();
  CHECK(words.store.words() == 1);
  CHECK(words.store.bytes() == std::string("epoch2w").size());
  CHECK(brings(words.want("n2", "epoch2"), "n2", "epoch2", "w"));
  CHECK(words.want("n2", "epoch1").empty());
  CHECK(words.want("n2", "torn").empty());
  CHECK(words.put("n1", "never1", "w").empty());
  CHECK(brings(words.put("n1", "never2", "w"), "n3", "never2", "w"));
}

TEST_CASE("words of a launch: what is too much is refused with a reason, and told once") {
  Words few(StoreLimits{3, 1000});
  for (const char* name : {"a", "b", "c"}) CHECK(few.put("n1", name, "w").empty());
  CHECK(few.want("n3", "d").empty());
  const Sent sent = few.put("n1", "d", "w");
  CHECK(refusal(sent, "n1") == "the lead keeps 3 words of 6 bytes for this launch, and no more");
  CHECK(!refusal(sent, "n3").empty());  // who waited for it
  CHECK(!refusal(few.put("n1", "e", "w"), "n1").empty());
  CHECK(!refusal(few.want("n2", "d"), "n2").empty());
  CHECK(brings(few.want("n2", "a"), "n2", "a", "w"));
  CHECK(few.problems.size() == 1);
  for (const char* name : {"x", "y", "z"}) CHECK(few.want("n2", name).empty());
  CHECK(refusal(few.want("n2", "u"), "n2") == "3 other words are waited for already");
  few.store.new_epoch(), few.store.new_epoch();
  CHECK(few.put("n1", "d", "w").empty());  // there is room again
  CHECK(few.want("n2", "u").empty());

  Words small(StoreLimits{100, 20});
  CHECK(small.put("n1", "a", std::string(19, 'w')).empty());
  CHECK(!refusal(small.put("n1", "b", ""), "n1").empty());
  CHECK(small.store.bytes() == 20);
}

}  // namespace longhaul
