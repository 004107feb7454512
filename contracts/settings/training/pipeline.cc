#include "contracts/settings/training/pipeline.h"

#include "base/text/text.h"
#include "contracts/settings/training/feature_table.h"

namespace longhaul {

const FieldTable<PipelineSettings>& pipeline_fields() {
  using P = PipelineSettings;
  static const auto table =
      FieldTable<P>()
          .field("schedule", &P::schedule,
                 {.help = "order of forwards and backwards; auto: 1f1b, with vp > 1 interleaved",
                  .choices = {"auto", "1f1b", "interleaved", "zb-h1"},
                  .speed_only = true})
          .field("group", &P::group,
                 {.unit = "micro-batches",
                  .help = "how many pass one chunk before the next chunk, with vp > 1; 0: the smallest that fits",
                  .min = 0,
                  .max = 1 << 26,
                  .speed_only = true})
          .field(
              "stage_layers", &P::stage_layers,
              {.unit = "layers",
               .help = "layers of each of the pp * vp stages, in the order of the model; empty: balanced automatically",
               .min = 0,
               .max = 1e6,
               .speed_only = true})
          .field("embedding_as_layers", &P::embedding_as_layers,
                 {.unit = "layers",
                  .help = "what the embedding costs the first stage when layers are balanced automatically",
                  .min = 0,
                  .max = 1e6,
                  .speed_only = true})
          .field("loss_as_layers", &P::loss_as_layers,
                 {.unit = "layers",
                  .help = "what final norm, output and loss cost the last stage when layers are balanced automatically",
                  .min = 0,
                  .max = 1e6,
                  .speed_only = true});
  return table;
}

Result<PipelineScheduleSettings> schedule_settings(const PipelineSettings& settings, const ParallelDims& dims,
                                                   std::int64_t micro_batches) {
  constexpr std::int64_t counts_max = 1 << 26;  // pipeline_group knows the true bounds
  if (micro_batches < 0 || micro_batches > counts_max || settings.group < 0 || settings.group > counts_max)
    return make_error(ErrorCode::invalid_input, format("{} micro-batches in groups of {}: both must lie in [0, {}]",
                                                       micro_batches, settings.group, counts_max));
  PipelineScheduleSettings schedule;
  schedule.pp = dims.pp, schedule.vp = dims.vp;
  schedule.micro_batches = static_cast<int>(micro_batches), schedule.group = static_cast<int>(settings.group);
  if (settings.schedule == "auto") {
    schedule.kind = dims.vp > 1 ? PipelineKind::interleaved : PipelineKind::one_f_one_b;
  } else {
    LH_TRY(schedule.kind, pipeline_kind_from(settings.schedule));
  }
  LH_CHECK(pipeline_group(schedule));
  EngineCase asked;
  asked.dims = dims, asked.pipeline = settings;
  LH_CHECK(check_engine(asked));
  return schedule;
}

}  // namespace longhaul
