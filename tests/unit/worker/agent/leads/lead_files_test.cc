// How often an agent that has lost its lead asks the shared file system and the name service.
#include "worker/agent/leads/lead_files.h"

#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <set>
#include <thread>
#include <utility>
#include <vector>

using namespace longhaul;

namespace {

constexpr int files_per_read = 3;

struct Counted {
  std::atomic<int> reads{0}, questions{0};
  LeadFiles::Ways ways() {
    return {[this] {
              ++reads;
              LeadFilesSeen seen;
              seen.lead = LeadAddress{"k", 1, "n1", 4711};
              return seen;
            },
            [this](const std::string&) -> Result<std::vector<std::string>> {
              ++questions;
              return std::vector<std::string>{"10.0.0.1"};
            }};
  }
};

// look() waits some milliseconds for the thread that reads, which on a busy machine may begin later.
void look_until(LeadFiles& files, const Counted& counted, int reads) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  for (files.look(); files.reads() < reads && std::chrono::steady_clock::now() < deadline;)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  CHECK(counted.reads == reads);
}

// An agent without a lead for a minute: it tries ten times a second.
void be_alone(LeadFiles& files, ManualClock& clock, std::int64_t ms) {
  for (std::int64_t passed = 0; passed < ms; passed += 100) {
    clock.advance_ms(100);
    files.look();
    (void)files.address_of("n1");
  }
}

}  // namespace

TEST_CASE("lead files: an agent without a lead opens a few dozen files a minute, and asks for a name once") {
  Counted counted;
  ManualClock clock;
  LeadFiles files(counted.ways(), clock, 7);
  look_until(files, counted, 1);  // the first time at once
  CHECK(files.seen().lead->port == 4711);
  files.lead_lost(true);
  CHECK(!files.seen().lead.ok());  // that one is gone
  be_alone(files, clock, 60'000);
  MESSAGE("opened in a minute: " << counted.reads * files_per_read);
  CHECK(counted.reads >= 10);
  CHECK(counted.reads * files_per_read <= 66);  // ten tries a second would be hundreds
  CHECK(files.address_of("n1") == "10.0.0.1");
  CHECK(counted.questions == 1);
}

TEST_CASE("lead files: an agent that finds the standby within half a second opens nothing") {
  Counted counted;
  ManualClock clock;
  LeadFiles files(counted.ways(), clock, 7);
  look_until(files, counted, 1);
  files.lead_lost(true);
  be_alone(files, clock, 500);
  CHECK(counted.reads == 1);
  files.lead_lost(false);  // who knows of no standby has no other way
  look_until(files, counted, 2);
}

TEST_CASE("lead files: agents that have lost their lead in the same moment look at moments of their own") {
  std::set<std::int64_t> moments;
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    LookPace pace(seed * 0x9e3779b97f4a7c15);
    pace.begin(0, 500);
    std::int64_t ms = 0;
    for (int looks = 0; looks < 4; ++ms) {
      if (!pace.due(ms)) continue;
      pace.looked(ms);
      ++looks;
    }
    moments.insert(ms);
  }
  CHECK(moments.size() > 40);
}

TEST_CASE("lead files: a file system that does not answer keeps nobody waiting") {
  ManualClock clock;
  std::atomic<bool> answers{false};
  Counted counted;
  LeadFiles::Ways ways = counted.ways();
  ways.read = [&] {
    while (!answers) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return LeadFilesSeen();
  };
  LeadFiles files(ways, clock, 7);
  const auto begun = std::chrono::steady_clock::now();
  be_alone(files, clock, 60'000);
  CHECK(std::chrono::steady_clock::now() - begun < std::chrono::seconds(2));
  CHECK(!files.seen().lead.ok());
  answers = true;
}

namespace {

// What an agent finds out within a moment of real time: another thread asks.
std::string soon(LeadFiles& files, const std::string& host) {
  for (int tries = 0; tries < 400; ++tries) {
    if (const std::string at = files.address_of(host); !at.empty()) return at;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return {};
}

LeadFiles::Ways ways_with_addresses(std::function<Result<std::vector<std::string>>(const std::string&)> resolve) {
  return {[] {
            LeadFilesSeen seen;
            seen.lead = LeadAddress{"k", 1, "n1", 4711, {"10.0.0.7", "fd00::7"}};
            return seen;
          },
          std::move(resolve)};
}

}  // namespace

TEST_CASE("lead files: a lead whose name is none of the network is reached by what it has written beside it") {
  ManualClock clock;
  LeadFiles files(ways_with_addresses([](const std::string& host) -> Result<std::vector<std::string>> {
                    return make_error(ErrorCode::unavailable, "no address of " + host);
                  }),
                  clock, 7);
  files.look();
  CHECK(soon(files, "n1") == "10.0.0.7");
  files.not_reached("n1");
  CHECK(files.address_of("n1") == "fd00::7");
  files.not_reached("n1");
  CHECK(files.address_of("n1") == "10.0.0.7");
}

TEST_CASE("lead files: the name service comes first, and what it does not answer within a second is not waited for") {
  ManualClock clock;
  clock.advance_ms(1);
  std::atomic<bool> answers{false};
  LeadFiles files(ways_with_addresses([&](const std::string&) -> Result<std::vector<std::string>> {
                    while (!answers) std::this_thread::sleep_for(std::chrono::milliseconds(1));
                    return std::vector<std::string>{"192.168.0.1"};
                  }),
                  clock, 7);
  files.look();
  CHECK(files.address_of("n1").empty());
  clock.advance_ms(1'100);
  CHECK(soon(files, "n1") == "10.0.0.7");
  answers = true;
  for (int tries = 0; tries < 400 && files.address_of("n1") != "192.168.0.1"; ++tries)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  CHECK(files.address_of("n1") == "192.168.0.1");
}
