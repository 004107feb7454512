#include "base/files/files.h"
#include "base/text/text.h"
#include "engine/data/tokenize_task.h"
#include "engine/tasks/stages/stages.h"

namespace longhaul {

Status run_tokenize(TaskRun& run) {
  LH_TRY(const TokenizeSettings settings, run.settings(tokenize_fields()));
  TokenizeInputs inputs;
  LH_TRY(inputs.corpus, run.task.input_path("corpus"));
  if (run.task.input("tokenizer")) {
    LH_TRY(inputs.tokenizer, run.task.input_path("tokenizer"));
  }
  run.section("tokenize");
  LH_TRY(const Value stats, tokenize_corpus(inputs, settings, run.launch.output_dir, run.compute.threads(),
                                            [&](std::string_view, double fraction) {
                                              run.events.progress(fraction, 1.0, "of the corpus");
                                            }));
  if (const std::int64_t learned = stats.get_integer("vocab_size");
      !run.task.input("tokenizer") && learned < settings.vocabulary)
    run.events.message("warn",
                       format("vocabulary = {} is more than the text gives: it has {} tokens, and no further pair "
                              "is seen min_frequency = {} times",
                              settings.vocabulary, learned, settings.min_frequency));
  std::vector<Figure> figures;
  if (stats.is_table())
    for (const ValueMember& member : stats.as_table())
      if (member.value.is_number()) figures.push_back({member.key, member.value.as_number(), ""});
  return write_figures(run, figures);
}

}  // namespace longhaul
