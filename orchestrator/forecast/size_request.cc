#include "orchestrator/forecast/size_request.h"

#include <algorithm>

#include "autotune/trials/layout_artifact.h"
#include "base/text/text.h"
#include "orchestrator/forecast/layout_request.h"
#include "orchestrator/forecast/written_layout.h"
#include "orchestrator/workflow/layout/imported_model.h"

namespace longhaul {

const FieldTable<BudgetRequest>& budget_request_fields() {
  using Q = BudgetRequest;
  static const auto table =
      FieldTable<Q>()
          .field("parameters", &Q::parameters, {.help = "of the model; 0: to be found", .min = 0})
          .field("tokens", &Q::tokens, {.help = "trained on; 0: to be found", .min = 0})
          .field("days", &Q::days, {.unit = "days", .help = "of training without a pause; 0: to be found", .min = 0})
          .field("gpus", &Q::gpus, {.help = "GPUs; 0: to be found, in whole nodes", .min = 0})
          .field("tflops", &Q::tflops,
                 {.unit = "TFLOP/s",
                  .help = "rate of a GPU, 6 operations per parameter and token; 0: what the search predicts for the "
                          "shape that is found",
                  .min = 0})
          .field("mfu", &Q::mfu, {.help = "instead of tflops: share of the GPU's peak", .min = 0, .max = 1})
          .field("tokens_per_parameter", &Q::tokens_per_parameter,
                 {.help = "fixed ratio instead of the one of least loss", .min = 0})
          .field("gpu", &Q::gpu, {.help = "type of GPU instead of the site's, eight to a node: \"H100\""})
          .field("folder", &Q::folder,
                 {.help = "of a model that is there already, with config.json: its shape is taken, and parameters are "
                          "its own"})
          .field("precision", &Q::precision, {.help = "of matrix products", .choices = {"bf16", "fp8"}})
          .field("vocab_size", &Q::vocab_size, {.unit = "tokens", .help = "of the tokenizer", .min = 1})
          .field("sequence_length", &Q::sequence_length, {.unit = "tokens", .help = "of a training sequence", .min = 1})
          .field("batch_tokens", &Q::batch_tokens,
                 {.unit = "tokens", .help = "of a step, about: it has to be divided among the ranks", .min = 1})
          .field("key_value_heads", &Q::key_value_heads, {.help = "at most", .min = 1})
          .field("head_dim", &Q::head_dim, {.help = "of the shape; half of it for narrow models", .min = 2})
          .field(
              "proxy", &Q::proxy,
              {.help = "hidden_size of a narrower model to tune instead: its shape, and what becomes of its settings; "
                       "0: none",
               .min = 0});
  return table;
}

SiteConfig site_with_gpu(const SiteConfig& site, const std::string& gpu) {
  SiteConfig other = site;
  if (gpu.empty()) return other;
  other.node.gpu = gpu, other.node.gpus = 8, other.node.gpu_memory = {}, other.node.gpu_tflops = 0;
  other.network.gpu_memory_gbyte = other.network.gpu_link_gbyte = 0;
  other.network.nics = 0;
  return other;
}

Result<SizeRequest> size_request(const BudgetRequest& q, const SiteConfig& given, const TimeConstants& constants,
                                 std::string& device, std::vector<std::string>& notes) {
  SizeRequest size;
  size.given = {q.parameters, q.tokens, q.days, q.gpus, q.tflops};
  size.given.tokens_per_parameter = q.tokens_per_parameter;
  size.mfu = q.mfu, size.batch_tokens = q.batch_tokens, size.proxy_width = q.proxy;
  size.wish.vocab_size = q.vocab_size, size.wish.sequence_length = q.sequence_length;
  size.wish.key_value_heads = q.key_value_heads, size.wish.head_dim = q.head_dim;
  if (!q.folder.empty()) {
    if (q.parameters > 0)
      return make_error(ErrorCode::invalid_input, "folder and parameters both say the model", "leave one of them out");
    LH_TRY(size.shape, imported_shape(q.folder));
    size.given.parameters = counted_parameters(*size.shape);
  }
  const SiteConfig site = site_with_gpu(given, q.gpu);
  if (site.node.gpus < 1) return size;
  LH_TRY(RankPlace rank, rank_place(site, constants, true, {site.node.gpus, 1, "bf16"}, notes));
  SearchRequest& where = size.where.emplace();
  where.place = std::move(rank.place);
  LH_TRY(where.memory, memory_profile("longhaul"));
  where.memory_limit = rank.memory_limit;
  where.space.precision = {q.precision == "fp8" ? Precision::fp8 : Precision::bf16};
  where.space.engine.emplace().gpu = true;
  size.gpus_per_node = where.place.cluster.gpus_per_node;
  device = rank.device;
  return size;
}

std::string size_toml(const SizeAnswer& a, int gpus_per_node) {
  ModelShape shape = a.task.shape;
  Value model = model_shape_fields().to_value_changed(shape);
  const auto ranks = static_cast<std::int64_t>(a.budget.gpus);
  std::string text = format(
      "# {} parameters on {} tokens\n[stage.pretrain]\nkind = \"pretrain\"\n"
      "inputs = {{ tokens = \"@tokens\" }}\ndevice = \"gpu\"\n",
      human_count(a.budget.parameters), human_count(a.budget.tokens));
  text += format("steps = {}\nsequence_length = {}\nglobal_batch_size = {}\n", a.steps, a.task.sequence_length,
                 a.task.global_batch_size);
  text += format("ranks = {}\n", ranks);
  if (gpus_per_node > 1) text += format("nodes = {}\n", (ranks + gpus_per_node - 1) / gpus_per_node);
  if (a.layout) {
    text += "# as the search finds it; a tune stage confirms it by trials\n";
    const Value layout = written_layout(a.layout->layout);
    for (const ValueMember& member : layout.as_table()) text += member.key + " = " + inline_toml(member.value) + "\n";
  }
  return text + "# vocab_size is that of the tokenizer\nmodel = " + inline_toml(model) + "\n";
}

}  // namespace longhaul
