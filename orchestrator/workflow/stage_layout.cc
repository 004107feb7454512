#include "orchestrator/workflow/stage_layout.h"

#include <algorithm>

#include "base/text.h"
#include "orchestrator/workflow/layout_check.h"

namespace longhaul {

ParallelDims read_layout(const std::string& stage, const StageKind& kind, const Value& settings, const Value& written,
                         StageCommon& common, Diagnostics& diagnostics) {
  const std::string where = "stage." + stage;
  const Value* parallel = written.find("parallel");
  const auto place_of = [&](const char* key) { return written.find(key) ? written.find(key)->pos : written.pos; };
  ParallelDims dims;
  const std::size_t before = diagnostics.size();
  if (parallel && parallel->is_table())
    dims = parallel_dims_fields().parse(*parallel, where + ".parallel", diagnostics);
  if (diagnostics.size() != before) return dims;
  if (!parallel || !parallel->find("dp_replicate")) dims.dp_replicate = 0;  // what is left, unless the user says it
  if (parallel && parallel->is_table() && !written.find("ranks")) {
    const std::int64_t needed =
        std::int64_t{1} * dims.tp * dims.cp * dims.pp * dims.dp_shard * std::max(1, dims.dp_replicate);
    if (needed > ranks_max) {
      diagnostics.add(parallel->pos,
                      format("{}.parallel multiplies up to {} ranks; a job has at most {}", where, needed, ranks_max),
                      "make an axis smaller");
      return dims;
    }
    common.ranks = static_cast<int>(needed);
  }
  if (!kind.parallel && common.ranks > 1)
    diagnostics.add(place_of("ranks"),
                    format("{}.ranks = {}, but the stage kind '{}' runs on one rank", where, common.ranks, kind.name),
                    "use threads for more cores");
  if (common.ranks % common.nodes != 0 && !settings.find("step"))  // steps divide theirs themselves
    diagnostics.add(place_of("nodes"),
                    format("{}: {} ranks cannot be shared evenly by {} nodes", where, common.ranks, common.nodes),
                    "use ranks that are a multiple of nodes");
  if (parallel && parallel->is_string()) {
    diagnostics.add(parallel->pos,
                    where + ".parallel = \"" + parallel->as_string() +
                        "\": a layout found by another stage is not part of this version",
                    "write the layout, for example { dp_replicate = 2 }");
    return dims;
  }
  if (parallel && !parallel->is_table()) {
    diagnostics.add(parallel->pos, where + ".parallel is " + parallel->kind_name() + ", expected a table",
                    "for example { tp = 2 }");
    return dims;
  }
  const SourcePos at = parallel ? parallel->pos : place_of("ranks");
  auto resolved = resolve_dims(dims, common.ranks);
  if (!resolved.ok()) {
    diagnostics.add(at, where + ": " + resolved.error().what, resolved.error().hint);
    return dims;
  }
  check_layout(stage, kind, settings, written, *resolved, at, diagnostics);
  return *resolved;
}

}  // namespace longhaul
