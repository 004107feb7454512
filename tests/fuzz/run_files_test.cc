// What lies in a run's folders and was perhaps written by others, damaged: requests, pointers to artifacts.
#include <doctest/doctest.h>

#include <cstdio>

#include "base/files/files.h"
#include "base/value/json.h"
#include "orchestrator/decide/order_answer.h"
#include "orchestrator/runs/artifact_index.h"
#include "tests/fuzz/mutate.h"
#include "tests/support/plain_file.h"
#include "tests/support/scratch.h"

namespace longhaul {
namespace {

using fuzz::good_or_refused;

PlannedStage trained_stage() {
  PlannedStage stage;
  stage.stage = "train", stage.kind = "pretrain";
  stage.settings = Value::make_table();
  stage.settings.set("steps", 1000);
  return stage;
}

}  // namespace

TEST_CASE("fuzz: requests") {
  RunPlan plan;
  plan.workflow = "w";
  plan.stages.push_back(trained_stage());
  RunLedger ledger({"train"});
  for (const FactKind kind : {FactKind::ready, FactKind::submit, FactKind::submitted, FactKind::started})
    ledger.apply({kind, "train", 1, Value::make_table(), 0});
  const std::string stop =
      R"({"what": "tell", "uid": 1000, "arguments": {"what": "stop_after", "value": 500, "stage": "train"}})";
  const std::string rate = R"({"what": "tell", "arguments": {"what": "lr", "value": 0.0002, "stage": ""}})";
  fuzz::run("requests", {stop, rate}, 3000, [&](const std::string& text) {
    const auto request = parse_json(text, "request");
    if (!request.ok()) return good_or_refused(request);
    const Value* const arguments = request->find("arguments");
    const OrderAnswer answer = answer_order(plan, ledger, arguments ? *arguments : Value());
    REQUIRE_FALSE(answer.answer.empty());
    if (!answer.accepted) return false;
    REQUIRE(answer.stage == "train");
    Order order = answer.order;
    order.id = "001";
    REQUIRE_FALSE(order.text().empty());
    REQUIRE(order_from_value(order_to_value(order)).ok());
    return true;
  });
}

TEST_CASE("fuzz: artifact pointers") {
  const testing::Scratch scratch;
  const std::string folder = scratch.file("out"), root = scratch.file("artifacts");
  REQUIRE(make_directories(folder).ok());
  REQUIRE(write_file_atomic(join_path(folder, "a"), "text").ok());
  Manifest manifest = make_manifest(folder).value();
  manifest.stage = "s", manifest.kind = "command", manifest.key = "key";
  REQUIRE(write_manifest(folder, manifest).ok());
  const auto seen = read_artifact(folder, "key");
  REQUIRE_MESSAGE(seen.ok(), (seen.ok() ? "" : seen.error().message()));
  const ArtifactTrust trust = artifact_trust("");
  REQUIRE(register_artifact(root, "key", *seen, trust).ok());
  const std::string pointer = join_path(root, "key.json");
  fuzz::run("pointers", {read_file(pointer).value()}, 1500, [&](const std::string& text) {
    std::remove(pointer.c_str());
    REQUIRE(write_plain(pointer, text));
    const auto found = find_artifact(root, "key", trust);
    if (found.ok()) REQUIRE(found->digest == seen->digest);
    return good_or_refused(found);
  });
}

}  // namespace longhaul
