// Every figure has one meaning, and names that a workflow compares by are found or not.
#include "contracts/figures/figure_table.h"

#include <doctest/doctest.h>

#include <set>
#include <string>

#include "base/files/files.h"
#include "base/text/text.h"

using namespace longhaul;

TEST_CASE("figures: a name means one thing in a kind of stage, and its code is a file that names it") {
  std::set<std::string> seen;
  for (const FigureMeaning& row : figure_meanings()) {
    CAPTURE(row.name);
    CHECK(!std::string(row.formula).empty());
    for (const std::string& kind : split(row.stages, ' ')) CHECK(seen.insert(kind + " " + row.name).second);
    for (const std::string& when : split(row.when, ' ')) CHECK((when == "step" || when == "end"));
    CHECK(file_exists(std::string(LONGHAUL_SOURCE_DIR) + "/" + row.code));
  }
  CHECK(seen.size() > 60);
}

TEST_CASE("figures: of a kind of ours names are known, with intervals and baselines; of a command any may be") {
  CHECK(reports_at_end("pretrain", "heldout_loss"));
  CHECK(!reports_at_end("pretrain", "validation_loss"));
  CHECK(!reports_at_end("pretrain", "grad_norm"));  // of steps alone
  CHECK(!reports_at_end("pretrain", "heldout_accuracy"));
  CHECK(reports_at_end("align", "heldout_accuracy"));
  CHECK(reports_at_end("evaluate", "preference_accuracy_low"));
  CHECK(reports_at_end("evaluate", "choice_accuracy_per_byte_high"));
  CHECK(reports_at_end("evaluate", "baseline_bits_per_byte"));
  CHECK(reports_at_end("evaluate", "baseline_choice_accuracy_high"));
  CHECK(!reports_at_end("evaluate", "perplexity_low"));
  for (const char* name :
       {"piqa.acc", "piqa.acc_norm_stderr", "gsm8k.exact_match.strict-match", "baseline_piqa.acc_low",
        "gsm8k.exact_match.strict-match_difference_high", "wiki.bits_per_byte", "x.questions", "t.mc2_difference_low",
        "h.pass_at_16", "h.pass_at_1_stderr", "i.inst_level_loose_acc_high"})
    CHECK(reports_at_end("evaluate", name));
  for (const char* name : {"piqa.accuracy", "piqa.", "piqa.acc_normal", "piqa.f1_stderr", "h.pass_at_", "h.pass_at_x"})
    CHECK(!reports_at_end("evaluate", name));
  CHECK(!reports_at_end("pretrain", "piqa.acc"));
  CHECK(!reports_at_end("pretrain", "baseline_loss"));
  CHECK(reports_at_end("reward", "heldout_accuracy_low"));
  CHECK(reports_at_end("reward", "heldout_accuracy_chat"));
  CHECK(reports_at_end("reward", "heldout_accuracy_chat_high"));
  CHECK(!reports_at_end("reward", "heldout_kl"));
  CHECK(reports_at_end("sample", "best_accuracy_low"));
  CHECK(!reports_at_end("sample", "loss"));
  CHECK(reports_at_end("command", "anything"));
}
