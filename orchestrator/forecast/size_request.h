// From a person's question about a budget, and a site, to autotune/search/training_size.h; and its answer as a stage.
// Pure, but for config.json of a model that is there already.
#pragma once

#include <string>
#include <vector>

#include "autotune/search/training_size.h"
#include "contracts/schema/field_table.h"
#include "orchestrator/site/site_config.h"

namespace longhaul {

// What `longhaul size` is asked; every key may stand in a file or on the command line. 0: not given.
struct BudgetRequest {
  double parameters = 0, tokens = 0, days = 0, gpus = 0, tflops = 0, mfu = 0, tokens_per_parameter = 0;
  std::string gpu;
  std::string folder;  // of a model that is there already: its shape
  std::string precision = "bf16";
  std::int64_t vocab_size = 128'256, sequence_length = 8192, batch_tokens = 1 << 22;
  std::int64_t key_value_heads = 8, head_dim = 128;
  std::int64_t proxy = 0;  // hidden_size of a narrower model to tune instead
};
const FieldTable<BudgetRequest>& budget_request_fields();

// `site` without GPUs, and no `gpu`: nothing can be predicted. invalid_input: a folder whose model is of a family that
// there is no model of, or that says parameters as well. not_found: a GPU that the constants do not know, with
// the four keys of the site file that would say enough. `device` says what GPU that is, `notes` what was assumed.
Result<SizeRequest> size_request(const BudgetRequest& question, const SiteConfig& site, const TimeConstants& constants,
                                 std::string& device, std::vector<std::string>& notes);

// A site as if its nodes had this GPU, eight of them, as its data sheet has it; "" leaves it.
SiteConfig site_with_gpu(const SiteConfig& site, const std::string& gpu);

// A `pretrain` stage that can be pasted into a workflow, with the layout that was found for it.
std::string size_toml(const SizeAnswer& answer, int gpus_per_node);

}  // namespace longhaul
