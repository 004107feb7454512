// A lead looks whether it was followed before it launches again, and before it reports an end: by the file of its
// address, for agents that have turned to another one do not come back to say so.
#include <signal.h>

#include "tests/unit/worker/three_nodes.h"

namespace longhaul {
namespace {

class FollowedLead : public ThreeNodes {
 public:
  FollowedLead() { attempt.resiliency.restarts = 2; }

  pid_t lead_and_work() {
    const pid_t script = start();
    until_followable();
    return script;
  }
  // As a lead writes it that has taken over while this one stood still.
  void name_another_lead() { REQUIRE(write_lead_address(address_path(), {attempt.key, 9, "127.0.0.9", 9}).ok()); }
  void kill_rank() {
    for (const pid_t pid : processes(attempt.key, "python3")) ::kill(pid, SIGKILL);
  }
  bool logged(const std::string& what) { return text("work/attempts/1/lead.log").find(what) != std::string::npos; }
  // The kinds of events that say who did what, in their order.
  std::string story() {
    std::uint64_t offset = 0;
    const auto all = read_events(attempt.events_path(), offset);
    std::string reported;
    if (all.ok())
      for (const Event& event : *all)
        if (event.kind == "launched" || event.kind == "taken_over" || event.kind == "published")
          reported += event.kind + " ";
    return reported;
  }
};

}  // namespace

TEST_CASE("followed: a lead that finds another one's address does not launch again, and the next one does") {
  FollowedLead rig;
  const pid_t script = rig.lead_and_work();
  rig.name_another_lead();
  rig.kill_rank();
  rig.until([&] { return rig.events("launched").size() == 2; });
  CHECK(rig.logged("event=superseded next=leave_all_to_the_new_lead"));
  CHECK(rig.story() == "launched taken_over launched ");
  rig.finish();
  rig.until([&] { return file_exists(rig.attempt.record_path(0)); });
  CHECK(rig.wait(script).success());
  CHECK(rig.record().outcome == "succeeded");
}

TEST_CASE("followed: a lead that finds another one's address reports no end and publishes nothing") {
  FollowedLead rig;
  const pid_t script = rig.lead_and_work();
  rig.name_another_lead();
  rig.finish();
  rig.until([&] { return file_exists(rig.attempt.record_path(0)); });
  CHECK(rig.wait(script).success());
  CHECK(rig.logged("event=superseded next=leave_all_to_the_new_lead"));
  CHECK(rig.story() == "launched taken_over published ");
  CHECK(rig.record().outcome == "succeeded");
}

TEST_CASE("followed: a lead whose address somebody has removed leads on, launches again, and can be found again") {
  FollowedLead rig;
  const pid_t script = rig.lead_and_work();
  const auto before = read_lead_address(rig.address_path());
  REQUIRE(before.ok());
  REQUIRE(remove_tree(rig.address_path()).ok());
  rig.kill_rank();
  rig.until([&] { return rig.events("launched").size() == 2; });
  const auto again = read_lead_address(rig.address_path());
  REQUIRE(again.ok());
  CHECK(again->epoch == 1);
  CHECK(again->port == before->port);
  REQUIRE(remove_tree(rig.address_path()).ok());
  rig.finish();  // and it reports its end
  CHECK(rig.wait(script).success());
  CHECK(rig.record().outcome == "succeeded");
  CHECK(rig.record().launches == 2);
  CHECK(rig.logged("event=address_gone next=write_it_again"));
  CHECK(rig.story() == "launched launched published ");
}

}  // namespace longhaul
