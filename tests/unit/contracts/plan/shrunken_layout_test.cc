#include "contracts/plan/shrunken_layout.h"

#include <doctest/doctest.h>

#include "base/text/text.h"
#include "base/toml.h"

using namespace longhaul;

namespace {

ShrinkRules rules_of(const ParallelDims& dims, int nodes, std::int64_t batch = 96, int min_replicas = 1) {
  ShrinkRules rules;
  rules.dims = dims, rules.nodes = nodes, rules.min_replicas = min_replicas;
  rules.batches = {batch};
  return rules;
}

// "3 on 3, 2 on 2": replicas on nodes.
std::string choices_of(const ShrinkRules& rules) {
  std::vector<std::string> parts;
  for (const ShrunkenLayout& layout : shrunken_layouts(rules))
    parts.push_back(format("{} on {}", layout.dims.dp(), layout.nodes));
  return join(parts, ", ");
}

ParallelDims replicas(int dp) {
  ParallelDims dims;
  dims.dp_replicate = dp;
  return dims;
}

}  // namespace

TEST_CASE("shrink: fewer replicas whose batches divide, on whole nodes, most of them first") {
  CHECK(choices_of(rules_of(replicas(4), 4)) == "3 on 3, 2 on 2, 1 on 1");
  CHECK(choices_of(rules_of(replicas(4), 4, 8)) == "2 on 2, 1 on 1");  // 8 sequences are not 3 shares
  CHECK(choices_of(rules_of(replicas(4), 4, 8, 2)) == "2 on 2");
  CHECK(choices_of(rules_of(replicas(4), 4, 8, 3)).empty());
  CHECK(choices_of(rules_of(replicas(8), 4)) == "6 on 3, 4 on 2, 2 on 1, 1 on 1");  // 3 would leave half of a node
  CHECK(choices_of(rules_of(replicas(4), 1)).empty());                              // one node has no fewer
  CHECK(choices_of(rules_of(replicas(1), 1)).empty());
  ShrinkRules growing = rules_of(replicas(4), 4);
  growing.batches = {8, 16, 96};
  CHECK(choices_of(growing) == "2 on 2, 1 on 1");
}

TEST_CASE("shrink: the model's split stays, and shares of the optimizer where they still divide") {
  ParallelDims dims;
  dims.tp = 2, dims.pp = 2, dims.dp_replicate = 2, dims.dp_shard = 4, dims.zero = 1;
  const auto layouts = shrunken_layouts(rules_of(dims, 8));
  REQUIRE(layouts.size() == 5);
  const auto is = [&](std::size_t i, int replicate, int shard, int nodes) {
    ParallelDims wanted = dims;
    wanted.dp_replicate = replicate, wanted.dp_shard = shard;
    CHECK_MESSAGE(layouts[i].dims == wanted, layouts[i].dims.to_string());
    CHECK(layouts[i].nodes == nodes);
  };
  is(0, 1, 6, 6);
  is(1, 1, 4, 4);
  is(2, 1, 3, 3);
  is(3, 1, 2, 2);
  is(4, 1, 1, 1);
  CHECK(shrunken_layout_on(rules_of(dims, 8), 7)->nodes == 6);
  CHECK(shrunken_layout_on(rules_of(dims, 8), 5)->nodes == 4);
  dims.dp_replicate = 4;
  CHECK(shrunken_layout_on(rules_of(dims, 16), 15)->dims.dp_replicate == 3);  // twelve replicas in shares of four
  dims.dp_replicate = 2;
  CHECK(!shrunken_layout_on(rules_of(dims, 8, 96, 4), 3));
}

TEST_CASE("shrink: what experts and pipelines do not allow is no choice") {
  ParallelDims experts;
  experts.dp_shard = 4, experts.ep = 4, experts.zero = 1;
  CHECK(choices_of(rules_of(experts, 4)).empty());  // all four hold the experts together
  experts.dp_replicate = 2;
  CHECK(choices_of(rules_of(experts, 8)) == "4 on 4");

  ParallelDims chunks;
  chunks.pp = 2, chunks.vp = 2, chunks.dp_replicate = 4;
  ShrinkRules rules = rules_of(chunks, 4, 20);  // 5, 10 and 20 micro-batches a rank
  rules.pipeline.group = 5;
  CHECK(choices_of(rules) == "2 on 2, 1 on 1");
  rules.pipeline.group = 9;  // leaves a last group of 1 of 10, which is smaller than the pipeline
  CHECK(choices_of(rules) == "1 on 1");
}

TEST_CASE("shrink: every layout fits what it is said to fit, whatever was asked for") {
  for (const int tp : {1, 2})
    for (const int pp : {1, 2})
      for (const int replicate : {1, 2, 3, 4})
        for (const int shard : {1, 2, 4})
          for (const int of_node : {1, 2, 4}) {
            ParallelDims dims;
            dims.tp = tp, dims.pp = pp, dims.dp_replicate = replicate, dims.dp_shard = shard;
            if (dims.world_size() % of_node != 0) continue;
            const ShrinkRules rules = rules_of(dims, dims.world_size() / of_node, 48);
            int before = dims.dp();
            for (const ShrunkenLayout& layout : shrunken_layouts(rules)) {
              CAPTURE(dims.to_string());
              CAPTURE(layout.dims.to_string());
              CHECK(layout.dims.dp() < before);
              before = layout.dims.dp();
              CHECK((layout.dims.tp == tp && layout.dims.pp == pp));
              CHECK(48 % layout.dims.dp() == 0);
              CHECK(layout.nodes < rules.nodes);
              CHECK(layout.dims.world_size() <= layout.nodes * of_node);
              CHECK((layout.nodes == 1 || layout.dims.world_size() == layout.nodes * of_node));
              CHECK(resolve_dims(layout.dims, layout.dims.world_size()).ok());
            }
          }
}

TEST_CASE("shrink: the rules come from a stage's settings") {
  const auto settings = parse_toml(
      "micro_batch_size = 2\nglobal_batch_size = 24\nbatch_rampup = { start = 8, increment = 8, samples = 100 }\n"
      "pipeline = { group = 3 }\n",
      "settings");
  REQUIRE(settings.ok());
  const auto rules = shrink_rules_of("pretrain", *settings, replicas(4), 2, 0);
  REQUIRE_MESSAGE(rules.ok(), (rules.ok() ? "" : rules.error().message()));
  CHECK(rules->micro_batch_size == 2);
  CHECK(rules->batches == std::vector<std::int64_t>{8, 16, 24});
  CHECK(rules->pipeline.group == 3);
  CHECK(rules->ranks_per_node() == 2);
  CHECK(rules->min_replicas == 1);
  const auto none = shrink_rules_of("curate", Value::make_table(), replicas(4), 2, 1);
  REQUIRE(!none.ok());
  CHECK(none.error().code == ErrorCode::unsupported);
}
