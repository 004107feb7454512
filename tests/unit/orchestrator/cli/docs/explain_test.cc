// Names of the reference, and what is said of them.
#include "orchestrator/cli/docs/explain.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <set>

#include "base/files/files.h"
#include "base/text/text.h"
#include "contracts/events/event_texts.h"
#include "contracts/events/fault_event.h"
#include "contracts/events/roll_back_event.h"
#include "contracts/events/warning_event.h"
#include "contracts/records/held_allocation.h"
#include "contracts/schema/field_table.h"
#include "contracts/tasks/stage_kinds.h"
#include "orchestrator/cli/options/exit_code.h"
#include "resiliency/taxonomy/fault_table.h"
#include "tests/support/sanitized.h"

namespace longhaul {
namespace {

const std::vector<ReferencePage>& all_pages() {
  static const std::vector<ReferencePage> pages = reference_pages();
  return pages;
}

bool is_said_at(const std::string& asked, const std::string& place) {
  const ExplainAnswer answer = explain(all_pages(), asked);
  for (const Explanation& one : answer.found)
    if (!one.text.empty() && std::find(one.where.begin(), one.where.end(), place) != one.where.end()) return true;
  return false;
}

}  // namespace

TEST_CASE("an exit code is explained by its number and by its name, with what to do") {
  for (const ExitCodeText& code : exit_code_texts()) {
    CAPTURE(code.name);
    CHECK(is_said_at(std::to_string(static_cast<int>(code.code)), "exit-codes.md"));
    CHECK(is_said_at(code.name, "exit-codes.md"));
  }
  const ExplainAnswer answer = explain(all_pages(), "4");
  REQUIRE(!answer.found.empty());
  CHECK(answer.found[0].text.find("what to do: the message lists what is there") != std::string::npos);
}

TEST_CASE("every key of every stage kind, every event and every fault class is explained") {
  int seen = 0;
  for (const StageKind& kind : stage_kinds())
    for (const FieldInfo& field : kind.fields)
      if (field.members.empty() && (!testing::sanitized || seen++ % 20 == 0)) {
        CAPTURE(kind.name + "." + field.name);
        CHECK(is_said_at(kind.name + "." + field.name, "stage-kinds.md, " + kind.name));
      }
  for (const EventText& event : event_texts()) {
    CAPTURE(event.kind);
    CHECK(is_said_at(event.kind, "events.md"));
  }
  for (const FaultInfo& fault : fault_table) {
    CAPTURE(fault.name);
    CHECK(is_said_at(fault.name, "faults.md"));
  }
}

TEST_CASE("a key is found as a file, --set or a short question writes it") {
  CHECK(is_said_at("stage.pretrain.optimizer.lr", "stage-kinds.md, pretrain"));
  CHECK(is_said_at("optimizer.lr", "stage-kinds.md, sft"));
  CHECK(is_said_at("stage.mine.heldout_bytes", "stage-kinds.md, curate"));
  CHECK(is_said_at("HELDOUT_BYTES", "stage-kinds.md, curate"));
  const ExplainAnswer lr = explain(all_pages(), "lr");
  REQUIRE(!lr.found.empty());
  CHECK(
      std::any_of(lr.found.begin(), lr.found.end(), [](const Explanation& one) { return one.name == "optimizer.lr"; }));
  CHECK(is_said_at("validate", "commands.md"));
}

TEST_CASE("what is said alike at several places is said once") {
  const std::vector<ReferencePage> pages = {
      {"a.md",
       "# A\n\n## one\n\n| key | meaning |\n|---|---|\n| `k` | x \\| y |\n\n## two\n\n| key | meaning |\n|---|---|\n"
       "| `k` | x \\| y |\n| `l` | `z` |\n"}};
  const ExplainAnswer k = explain(pages, "k");
  REQUIRE(k.found.size() == 1);
  CHECK(k.found[0].where == std::vector<std::string>{"a.md, one", "a.md, two"});
  CHECK(k.found[0].text == "meaning: x | y\n");
  CHECK(explain(pages, "two.l").found.size() == 1);
}

TEST_CASE("another program's name of a key is answered with the key that it is here") {
  const ExplainAnswer answer = explain(all_pages(), "max_seq_length");
  CHECK(answer.said == "max_seq_length of other programs is called sequence_length here");
  REQUIRE(!answer.found.empty());
  CHECK(answer.found[0].name == "sequence_length");
  CHECK(explain(all_pages(), "stage.mine.num-train-epochs").said ==
        "num_train_epochs of other programs is called epochs here");
  CHECK(explain(all_pages(), "sequence_length").said.empty());
  CHECK(explain(all_pages(), "max_steps").found.size() > 1);  // a key of search stages, and `steps`
}

TEST_CASE("a name that is not known is answered with the nearest ones") {
  const ExplainAnswer answer = explain(all_pages(), "heldout_byte");
  CHECK(answer.found.empty());
  REQUIRE(!answer.nearest.empty());
  CHECK(answer.nearest[0] == "heldout_bytes");
  CHECK(answer.nearest.size() <= 5);
  CHECK(explain(all_pages(), "").found.empty());
  CHECK(explain(all_pages(), "....").found.empty());
  CHECK(explain(all_pages(), std::string(100'000, 'x')).found.empty());
}

TEST_CASE("docs/when-something-fails.md has a section for each exit code") {
  const auto page = read_file(LONGHAUL_SOURCE_DIR "/docs/when-something-fails.md");
  REQUIRE(page.ok());
  for (const ExitCodeText& code : exit_code_texts()) {
    CAPTURE(code.name);
    CHECK(page->find(format("\n## {}: {}\n", static_cast<int>(code.code), code.name)) != std::string::npos);
  }
}

TEST_CASE("each kind of event has one row, and warnings have theirs") {
  std::set<std::string> kinds;
  for (const EventText& event : event_texts()) {
    CAPTURE(event.kind);
    CHECK(kinds.insert(event.kind).second);
  }
  for (const char* warning : warning_event_kinds) {
    CAPTURE(warning);
    CHECK(kinds.contains(warning));
  }
}

// By a constant's name the kinds are found where they are declared; by a literal, in the sources.
TEST_CASE("every kind of event that a program writes has a row") {
  std::set<std::string> kinds;
  for (const EventText& event : event_texts()) kinds.insert(event.kind);
  for (const char* kind :
       {fault_event_kind, recovered_event_kind, stopped_event_kind, rolled_back_event_kind, allocation_held_event_kind})
    CHECK_MESSAGE(kinds.contains(kind), kind);
  int found = 0;
  for (const char* folder : {"engine", "worker", "contracts/events"}) {
    const std::string root = join_path(LONGHAUL_SOURCE_DIR, folder);
    const auto names = list_tree(root);
    REQUIRE(names.ok());
    for (const std::string& name : *names) {
      if (!ends_with(name, ".cc")) continue;
      const auto text = read_file(join_path(root, name));
      REQUIRE(text.ok());
      const std::string call = "write(\"";
      for (std::size_t at = text->find(call); at != std::string::npos; at = text->find(call, at + 1)) {
        const std::string kind = text->substr(at + call.size(), text->find('"', at + call.size()) - at - call.size());
        if (kind.find('.') != std::string::npos) continue;  // a file
        CHECK_MESSAGE(kinds.contains(kind), name << " writes " << kind);
        ++found;
      }
    }
  }
  CHECK(found > 20);
}

}  // namespace longhaul
