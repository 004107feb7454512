// Servers that were left running: the lines that ask and end them.
#include "orchestrator/render/run/left_servers.h"

#include <doctest/doctest.h>

#include "base/files/files.h"
#include "base/process/process.h"
#include "base/text/text.h"
#include "base/value/json.h"
#include "tests/support/scratch.h"

namespace longhaul {
namespace {

// The run's status with a deploy stage whose endpoint.json says this.
RunStatus deployed(const testing::Scratch& scratch, bool left_running, const std::string& host, std::int64_t pid) {
  Value endpoint = Value::make_table();
  endpoint.set("url", "http://127.0.0.1:8000");
  endpoint.set("model", "small");
  endpoint.set("left_running", left_running);
  endpoint.set("host_name", host);
  endpoint.set("supervisor_pid", static_cast<long long>(pid));
  endpoint.set("supervisor_start_ticks", 1);
  REQUIRE(write_file_atomic(scratch.file("endpoint.json"), to_json(endpoint)).ok());
  StageStatus stage;
  stage.id = "serve", stage.kind = "deploy", stage.artifact = scratch.path();
  RunStatus status;
  status.stages = {stage};
  return status;
}

}  // namespace

TEST_CASE("left servers: one whose process is gone is none, and of another host nobody knows from here") {
  const testing::Scratch scratch;
  CHECK(left_servers(deployed(scratch, true, host_name(), 2)).empty());  // no process of ours began at tick 1
  CHECK(left_servers(deployed(scratch, false, "elsewhere", 2)).empty());
  const auto there = left_servers(deployed(scratch, true, "elsewhere", 2));
  REQUIRE(there.size() == 1);
  CHECK(there[0].host == "elsewhere");
  CHECK(there[0].url == "http://127.0.0.1:8000");
}

TEST_CASE("left servers: curl with the token that the server asks for, and what ends it") {
  LeftServer server{"serve", "http://127.0.0.1:8000", "small", "/t/token", "/t/endpoint.json", ""};
  CHECK(left_servers_text({}, "/runs/x").empty());
  CHECK(left_servers_text({server}, "/runs/x") ==
        "\nserver of serve: http://127.0.0.1:8000\n"
        "  curl http://127.0.0.1:8000/v1/completions -H \"Authorization: Bearer $(cat /t/token)\" "
        "-H 'Content-Type: application/json' -d '{\"model\":\"small\",\"prompt\":\"The\",\"max_tokens\":20}'\n"
        "  longhaul cancel /runs/x --server\n");
  server.token_file.clear(), server.host = "n7";
  const std::string elsewhere = left_servers_text({server}, "/runs/x");
  CHECK(elsewhere.find("http://127.0.0.1:8000, on n7 if it is still there\n") != std::string::npos);
  CHECK(elsewhere.find("Bearer") == std::string::npos);
  CHECK(elsewhere.find("cancel /runs/x --server   (on n7)\n") != std::string::npos);
}

TEST_CASE("trust: what an endpoint file says reaches neither the terminal nor a shell as orders") {
  const LeftServer server{"serve", "http://x/$(touch pwned)'\x1b[8m\nrun: fine", "m'; touch pwned; '", "", "", ""};
  const std::string text = left_servers_text({server}, "/runs/x");
  CAPTURE(text);
  CHECK(text.find('\x1b') == std::string::npos);
  CHECK(text.find("\nrun: fine") == std::string::npos);
  CHECK(text.find("m'; touch") == std::string::npos);
}

}  // namespace longhaul
