#include "worker/agent/store_client.h"

#include <doctest/doctest.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/text/text.h"
#include "contracts/control/rendezvous_folder.h"
#include "tests/support/scratch.h"

namespace longhaul {
namespace {

// What a rank would do (engine/comm/rendezvous.h), and the time as the test says it.
struct CarrierRig {
  testing::Scratch scratch;
  Logger log{"test", ""};
  StoreClient carrier{log};
  std::int64_t now_ns = 0;
  std::string folder = scratch.file("store");

  void put(const std::string& name, const std::string& value) {
    REQUIRE(create_file_exclusive(join_path(folder, name), value).ok());
  }
  void want(const std::string& name) {
    REQUIRE(write_file_renamed(join_path(wanted_entries_folder(folder), name), "").ok());
  }
  StoreMessage look() {
    now_ns += StoreClient::gather_ms * 1'000'000;
    const auto parts = carrier.look(now_ns);
    REQUIRE(parts.size() <= 1);
    return parts.empty() ? StoreMessage{} : parts[0];
  }
  std::string text(const std::string& path) const {
    const auto read = read_file(join_path(folder, path));
    return read.ok() ? *read : "<none>";
  }
};

}  // namespace

TEST_CASE("trust: what is planted among the entries is carried to nobody") {
  CarrierRig rig;
  rig.carrier.watch(4, rig.folder);
  REQUIRE(write_file_atomic(rig.scratch.file("key"), "a key of mine", 0600).ok());
  REQUIRE(::symlink(rig.scratch.file("key").c_str(), join_path(rig.folder, "link").c_str()) == 0);
  REQUIRE(::mkfifo(join_path(rig.folder, "fifo").c_str(), 0666) == 0);
  rig.put("open", "forged");
  REQUIRE(::chmod(join_path(rig.folder, "open").c_str(), 0666) == 0);
  rig.put("id", "w");
  CHECK(rig.look().entries == std::vector<StoreEntry>{{"id", "w"}});
  CHECK(rig.text("refused/link").find("a link of") != std::string::npos);
}

TEST_CASE("carrier: what ranks put and look for is sent once, and all of it again to another lead") {
  CarrierRig rig;
  rig.carrier.watch(4, rig.folder);
  CHECK(rig.look().empty());
  rig.put("id", "w");
  rig.want("other");
  rig.put("half.tmp.1.2", "no entry");
  const StoreMessage news = rig.look();
  CHECK(news.launch == 4);
  CHECK(news.entries == std::vector<StoreEntry>{{"id", "w"}});
  CHECK(news.wanted == std::vector<std::string>{"other"});
  CHECK(rig.look().empty());
  rig.put("second", "x");
  CHECK(rig.look().entries == std::vector<StoreEntry>{{"second", "x"}});

  rig.carrier.lead_lost();
  rig.put("third", "y");
  CHECK(rig.look().empty());
  CHECK(rig.carrier.descriptor(rig.now_ns) == -1);  // nobody to inform: nothing to wake up for
  rig.carrier.watch(4, rig.folder);
  CHECK(rig.look().entries.size() == 3);
  // And another agent of this host begins where this one stood.
  StoreClient next(rig.log);
  next.watch(4, rig.folder);
  const auto again = next.look(0);
  REQUIRE(again.size() == 1);
  CHECK(again[0].entries.size() == 3);
  CHECK(again[0].wanted == std::vector<std::string>{"other"});
}

TEST_CASE("carrier: the kernel reports what appears, and a burst is gathered") {
  CarrierRig rig;
  rig.carrier.watch(1, rig.folder);
  (void)rig.look();
  const auto reported = [&] {
    pollfd end{rig.carrier.descriptor(rig.now_ns), POLLIN, 0};
    return end.fd >= 0 && ::poll(&end, 1, 0) == 1;
  };
  CHECK(!reported());
  rig.want("id");
  CHECK(reported());
  CHECK(rig.look().wanted.size() == 1);
  rig.put("a", "1");
  CHECK(!reported());  // gathered
  CHECK(rig.carrier.next_ns() == rig.now_ns + StoreClient::gather_ms * 1'000'000);
  CHECK(rig.carrier.look(rig.now_ns).empty());
  rig.put("b", "2");
  CHECK(rig.look().entries.size() == 2);
  rig.look();
  CHECK(rig.carrier.next_ns() == 0);
  CHECK(!reported());
}

TEST_CASE("carrier: without the kernel's notice the times of the folders say it, also within one tick of their clock") {
  CarrierRig rig;
  rig.carrier.watch(1, rig.folder);
  int found = 0;
  for (int i = 0; i < 200; ++i) {
    rig.put(format("w{}", i), "x");
    found += static_cast<int>(rig.look().entries.size());
  }
  CHECK(found == 200);
}

TEST_CASE("carrier: what the lead sends is there for the ranks, of this launch alone") {
  CarrierRig rig;
  rig.carrier.take({1, {{"early", "w"}}, {}, {}});  // nothing is watched yet
  rig.carrier.watch(1, rig.folder);
  rig.carrier.take({1, {{"id", std::string("a\0b", 3)}}, {}, {{"torn", "n1 and n2"}}});
  rig.carrier.take({2, {{"late", "w"}}, {}, {}});
  CHECK(rig.text("carried/id") == std::string("a\0b", 3));
  CHECK(rig.text("refused/torn") == "n1 and n2");
  CHECK(rig.text("carried/late") == "<none>");
  CHECK(rig.text("carried/early") == "<none>");
  rig.want("id");  // is here
  CHECK(rig.look().empty());
  rig.carrier.watch(2, rig.scratch.file("next"));
  CHECK(rig.look().empty());
  CHECK(list_directory(rig.scratch.file("next"))->size() == 3);
}

TEST_CASE("carrier: a host without ranks of the launch has no folder") {
  CarrierRig rig;
  rig.carrier.watch(1, "");
  CHECK(rig.look().empty());
  rig.carrier.take({1, {{"id", "w"}}, {}, {}});
  CHECK(list_directory(rig.scratch.path())->empty());
}

TEST_CASE("carrier: a file that is too long for a value is refused where it lies") {
  CarrierRig rig;
  rig.carrier.watch(1, rig.folder);
  rig.put("long", std::string(store_value_bytes_max + 1, 'x'));
  rig.put("whole", std::string(store_value_bytes_max, 'x'));
  const StoreMessage news = rig.look();
  REQUIRE(news.entries.size() == 1);
  CHECK(news.entries[0].name == "whole");
  CHECK(rig.text("refused/long") != "<none>");
}

TEST_CASE("carrier: files of an epoch go with the second restart in-process after it") {
  CarrierRig rig;
  rig.carrier.watch(1, rig.folder);
  const auto use = [&](const std::string& epoch) {
    rig.put(epoch + "-put", "w"), rig.want(epoch + "-asked");
    (void)rig.look();
    rig.carrier.take({1, {{epoch + "-asked", "v"}}, {}, {}});
  };
  const auto files = [&](const std::string& epoch) {
    return (rig.text(epoch + "-put") == "w") + (rig.text("carried/" + epoch + "-asked") == "v") +
           rig.text("wanted/" + epoch + "-asked").empty();
  };
  use("e1");
  rig.carrier.new_epoch(2);
  use("e2");
  rig.carrier.new_epoch(2);  // said again
  CHECK(files("e1") == 3);
  rig.carrier.new_epoch(3);
  CHECK(files("e1") == 0);
  CHECK(files("e2") == 3);
  // An agent that was started again knows of no epoch: it removes nothing that may be of the newest.
  StoreClient next(rig.log);
  next.watch(1, rig.folder);
  next.new_epoch(3);
  (void)next.look(0);
  next.new_epoch(4);
  CHECK(files("e2") == 3);
  next.new_epoch(5);
  CHECK(files("e2") == 0);
}

}  // namespace longhaul
