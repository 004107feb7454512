// Slurm's names as the tables have them, one by one, against lists that were made from Slurm's sources and recorded
// from its commands (tests/golden/slurm).
#include <doctest/doctest.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "base/files/files.h"
#include "base/text/text.h"
#include "orchestrator/scheduler/names/reason_names.h"
#include "orchestrator/scheduler/names/refusals.h"
#include "orchestrator/scheduler/names/state_names.h"

namespace longhaul {
namespace {

const std::string golden = LONGHAUL_SOURCE_DIR "/tests/golden/slurm/";

std::vector<std::vector<std::string>> rows_of(const std::string& name) {
  const auto text = read_file(golden + name);
  REQUIRE(text.ok());
  std::vector<std::vector<std::string>> rows;
  for (const std::string& line : split(*text, '\n'))
    if (!line.empty() && line[0] != '#') rows.push_back(split(line, '\t'));
  return rows;
}

struct RecordedRefusal {
  std::string release, how, means, message;
};
std::vector<RecordedRefusal> recorded_refusals() {
  const auto text = read_file(golden + "refusals.txt");
  REQUIRE(text.ok());
  std::vector<RecordedRefusal> found;
  for (const std::string& line : split(*text, '\n')) {
    if (starts_with(line, "== ")) {
      const auto columns = split(line, ' ');
      REQUIRE(columns.size() == 4);
      found.push_back({columns[1], columns[2], columns[3], {}});
    } else if (!found.empty()) {
      found.back().message += line + "\n";
    }
  }
  return found;
}

const char* name_of(WaitReason reason) {
  switch (reason) {
    case WaitReason::passes: return "passes";
    case WaitReason::person: return "person";
    case WaitReason::never: return "never";
    case WaitReason::budget: return "budget";
    case WaitReason::given_up: return "given_up";
    case WaitReason::no_such_limit: return "no_such_limit";
  }
  return "";
}
const char* name_of(LimitKind limit) {
  switch (limit) {
    case LimitKind::none: return "none";
    case LimitKind::count: return "count";
    case LimitKind::size: return "size";
    case LimitKind::budget: return "budget";
  }
  return "";
}

}  // namespace

TEST_CASE("slurm names: every state of every release is what it counts as, and no other is in the table") {
  std::set<std::string> listed;
  for (const auto& row : rows_of("states.tsv")) {
    CAPTURE(row[0]);
    CHECK(read_slurm_state(row[0]) == row[1]);
    CHECK(read_slurm_state(row[0] + " by 1000") == row[1]);
    listed.insert(row[0]);
  }
  for (const SlurmStateName& one : slurm_state_names()) {
    CAPTURE(one.name);
    CHECK((listed.contains(one.name) || std::string(one.name) == "NODE_FAILURE"));
  }
}

TEST_CASE("slurm names: a state that is not known is alive, whatever it is called") {
  for (const char* name : {"SOME_LATER_STATE", "", "?", "EXPIRED by 0", "CANCELLED_LATER"}) {
    CAPTURE(name);
    CHECK(read_slurm_state(name) == unknown_slurm_state);
  }
  CHECK_FALSE(is_ended_state(unknown_slurm_state));
  for (const char* ended : {"COMPLETED", "CANCELLED", "FAILED", "TIMEOUT", "NODE_FAIL", "PREEMPTED", "BOOT_FAIL",
                            "DEADLINE", "OUT_OF_MEMORY"})
    CHECK(is_ended_state(ended));
  for (const char* alive : {"PENDING", "RUNNING", "SUSPENDED"}) CHECK_FALSE(is_ended_state(alive));
  CHECK(read_slurm_state("OUT_OF_ME+") == "OUT_OF_MEMORY");
  CHECK(read_slurm_state("CANCELLED+") == "CANCELLED");
}

TEST_CASE("slurm names: who cancelled a job is read where sacct says it") {
  CHECK(canceller_of("CANCELLED by 0") == 0);
  CHECK(canceller_of("CANCELLED by 1000") == 1000);
  for (const char* text : {"CANCELLED", "CANCELLED by", "CANCELLED by x", "CANCELLED by 10 ", "FAILED", "CANCELLED+"}) {
    CAPTURE(text);
    CHECK(canceller_of(text) == -1);
  }
}

TEST_CASE("slurm names: every reason of every release means what its list says") {
  std::set<std::string> listed;
  for (const auto& row : rows_of("reasons.tsv")) {
    REQUIRE(row.size() == 5);
    CAPTURE(row[0]);
    CHECK(name_of(wait_reason(row[0])) == row[1]);
    CHECK(name_of(limit_kind(row[0])) == row[2]);
    CHECK(wait_advice(row[0]).empty() == (row[1] == "passes"));
    listed.insert(row[0]);
  }
  CHECK(listed.size() > 200);
  for (const SlurmReasonName& one : slurm_reason_names()) {
    CAPTURE(one.name);
    CHECK((listed.contains(one.name) || std::string(one.name).find('_') != std::string::npos));
  }
}

TEST_CASE("slurm names: a reason is known in the forms in which commands show it") {
  CHECK(wait_reason("ReqNodeNotAvail, UnavailableNodes:n[1-3]") == WaitReason::passes);
  CHECK(wait_reason("ReqNodeNotAvail,_May_be_reserved_for_other_job") == WaitReason::passes);
  CHECK(wait_reason("(launch failed requeued held)") == WaitReason::passes);
  CHECK(wait_reason("") == WaitReason::passes);
  CHECK(wait_reason("a_sentence_of_a_plugin") == WaitReason::no_such_limit);
  CHECK(wait_advice("a_sentence_of_a_plugin").empty());
  for (const char* name : {"QOS", "Assoc", "Max", "MaxJobCount", "Grp", "Job", "QOSMa", ""}) {
    CAPTURE(name);
    CHECK(limit_kind(name) == LimitKind::none);
  }
}

TEST_CASE("slurm names: every recorded refusal means what stands above it, and every phrase is in one of them") {
  const auto recorded = recorded_refusals();
  CHECK(recorded.size() > 100);
  for (const RecordedRefusal& one : recorded) {
    CAPTURE(one.release);
    CAPTURE(one.message);
    CHECK(to_string(refusal_of(one.message)) == one.means);
  }
  for (const RefusalPhrase& phrase : refusal_phrases()) {
    CAPTURE(phrase.phrase);
    const bool used = std::any_of(recorded.begin(), recorded.end(), [&](const RecordedRefusal& one) {
      return one.message.find(phrase.phrase) != std::string::npos && to_string(phrase.means) == one.means;
    });
    CHECK(used);
  }
}

TEST_CASE("slurm names: what a refusal means is known by its error, and nobody else's error is one") {
  for (const Refusal refusal : {Refusal::silence, Refusal::busy, Refusal::limit, Refusal::unknown, Refusal::never}) {
    CAPTURE(to_string(refusal));
    const Error error = refusal_error("cannot submit x: message", refusal);
    CHECK(refusal_in(error) == refusal);
    CHECK(refusal_in(error.with_context("looking")) == refusal);
    CHECK((error.code == ErrorCode::invalid_input) == (refusal == Refusal::never));
  }
  CHECK(refusal_in(make_error(ErrorCode::unavailable, "no answer within 60 s")) == Refusal::silence);
  CHECK(refusal_in(make_error(ErrorCode::io, "no such file")) == Refusal::never);
}

}  // namespace longhaul
