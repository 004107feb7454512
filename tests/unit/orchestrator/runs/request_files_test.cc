// Requests: who asks is who owns the file, and nothing that lies in the folder can stop its reader.
#include "orchestrator/runs/request_files.h"

#include <doctest/doctest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/files/files.h"
#include "base/text/text.h"
#include "base/value/json.h"
#include "orchestrator/runs/run.h"
#include "orchestrator/state/epoch_log.h"
#include "tests/support/scratch.h"

namespace longhaul {
namespace {

struct RequestFolder {
  testing::Scratch scratch;
  std::string run = scratch.file("r"), folder = join_path(run, "requests");
  SystemClock clock;
  RequestFolder() {
    REQUIRE(make_directories(folder).ok());
    REQUIRE(make_directories(join_path(run, "log")).ok());
    REQUIRE(write_file_atomic(join_path(run, "resolved.toml"), "").ok());
  }
  std::string ask(const std::string& what) {
    const auto id = request(run, what, Value::make_table(), clock);
    REQUIRE(id.ok());
    return *id;
  }
};

}  // namespace

TEST_CASE("trust: who asks is whoever owns the file, whatever it says of itself") {
  if (::geteuid() != 0) {
    MESSAGE("skipped: only root can give a file to another user");
    return;
  }
  const RequestFolder made;
  const std::string forged = "0-forged-cancel.json";
  REQUIRE(write_file_atomic(join_path(made.folder, forged), R"({"what": "cancel", "uid": 0, "user": "root"})").ok());
  REQUIRE(::chown(join_path(made.folder, forged).c_str(), 40001, 40001) == 0);
  const auto seen = read_request(made.folder, forged);
  REQUIRE(seen.has_value());
  CHECK(seen->what == "cancel");
  CHECK(seen->uid == 40001);
  // So it stands in the log, and in what is folded from it.
  Observations observations;
  observations.requests = {*seen};
  const std::vector<Fact> facts = decide({}, {}, RunLedger(), observations, "r");
  REQUIRE(!facts.empty());
  CHECK(facts[0].fields.get_integer("uid", -1) == 40001);
  RunLedger ledger;
  ledger.apply(facts[0]);
  REQUIRE(ledger.requests.size() == 1);
  CHECK(ledger.requests[0].uid == 40001);
}

TEST_CASE("trust: who drove is whoever owns the log") {
  if (::geteuid() != 0) {
    MESSAGE("skipped: only root can give a file to another user");
    return;
  }
  const RequestFolder made;
  std::vector<Fact> facts;
  REQUIRE(EpochLog::claim(made.run, made.clock, facts).ok());
  REQUIRE(::chown(join_path(made.run, "log/000001.jsonl").c_str(), 40001, 40001) == 0);
  const auto read = read_epochs(made.run);
  REQUIRE(read.ok());
  RunLedger ledger;
  for (const Fact& fact : read->facts) ledger.apply(fact);
  CHECK(ledger.driver_uid == 40001);
}

TEST_CASE("trust: a FIFO, a link, a folder or nonsense among the requests is refused at once") {
  RequestFolder made;
  const std::string good = made.ask("cancel");
  const auto path = [&](const std::string& name) { return join_path(made.folder, name); };
  REQUIRE(::mkfifo(path("fifo.json").c_str(), 0666) == 0);
  REQUIRE(::symlink("/dev/zero", path("link.json").c_str()) == 0);
  REQUIRE(make_directories(path("folder.json")).ok());
  REQUIRE(write_file_atomic(path("nonsense.json"), "{").ok());
  const std::int64_t begun = made.clock.monotonic_ns();
  for (const char* name : {"fifo.json", "link.json", "folder.json", "nonsense.json"}) {
    const auto seen = read_request(made.folder, name);
    REQUIRE(seen.has_value());
    CHECK_MESSAGE(seen->what == "unreadable", name);
  }
  CHECK(made.clock.monotonic_ns() - begun < 5'000'000'000);
  CHECK(!read_request(made.folder, "gone.json").has_value());
  const auto seen = read_request(made.folder, good);
  REQUIRE(seen.has_value());
  CHECK(seen->what == "cancel");
  CHECK(seen->uid == static_cast<std::int64_t>(::geteuid()));
}

TEST_CASE("trust: a request under another name than its own asks nothing") {
  RequestFolder made;
  const std::string id = made.ask("cancel");
  REQUIRE(::rename(join_path(made.folder, id).c_str(), join_path(made.folder, "9-again.json").c_str()) == 0);
  CHECK(read_request(made.folder, "9-again.json")->what == "unreadable");
}

}  // namespace longhaul
