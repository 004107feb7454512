#include "engine/checkpoint/global/checkpoint_load.h"

#include <algorithm>
#include <memory>
#include <span>

#include "base/system/parallel_for.h"
#include "engine/checkpoint/global/checkpoint_reader.h"
#include "engine/checkpoint/global/checkpoint_share.h"

namespace longhaul {
namespace {

// What this rank holds of a parameter in one of its arrays.
struct Target {
  std::string tensor;
  BoxRange range;
  const StateArray* array;
  FlatRange packed;
};
// What an entry of the checkpoint has of a target.
struct EntryCopy {
  std::size_t target, entry;
  Result<std::int64_t> copied = 0;
};

class ShareLoad {
 public:
  ShareLoad(CheckpointReader& reader, TrainingState& state, int threads)
      : reader_(reader), arrays_(arrays_of(state)), threads_(std::max(1, threads)) {
    for (std::size_t array = 0; array < arrays_.size(); ++array)
      for (const FlatParameter& p : state.layout->parameters())
        state.layout->owned().for_each_in({p.begin, p.end},
                                          [&](FlatRange here, FlatRange packed) { want(array, p, here, packed); });
  }

  // In memory all at once, elsewhere one target at a time.
  Status copy() {
    const auto end_of_memory = std::ranges::stable_partition(copies_, [&](const EntryCopy& copy) {
                                 return targets_[copy.target].array->in_memory();
                               }).begin();
    copy_some({copies_.begin(), end_of_memory},
              [](const Target& target) { return target.array->memory().rows(target.packed.begin, target.packed.end); });
    for (auto first = end_of_memory; first != copies_.end();) {
      const auto last =
          std::find_if(first, copies_.end(), [&](const EntryCopy& copy) { return copy.target != first->target; });
      const Target& target = targets_[first->target];
      LH_CHECK(target.array->edit(target.packed, [&](View values) {
        copy_some({first, last}, [&](const Target&) { return values; });
        return Status();
      }));
      first = last;
    }
    return {};
  }

  // Every number of every target came from some entry.
  Status check(const std::string& path) const {
    std::vector<std::int64_t> filled(targets_.size());
    for (const EntryCopy& copy : copies_) {
      LH_CHECK(copy.copied);
      filled[copy.target] += *copy.copied;
    }
    for (std::size_t i = 0; i < targets_.size(); ++i)
      if (filled[i] != targets_[i].range.end - targets_[i].range.begin)
        return make_error(ErrorCode::corrupt, path + " does not hold " + targets_[i].tensor);
    return {};
  }

 private:
  // Copies of one target follow each other.
  void want(std::size_t array, const FlatParameter& p, FlatRange here, FlatRange packed) {
    targets_.push_back({p.spec.name + state_suffixes()[array],
                        {p.box, here.begin - p.begin, here.end - p.begin},
                        &arrays_[array],
                        packed});
    for (const std::size_t entry : reader_.entries_of(targets_.back().tensor, targets_.back().range))
      copies_.push_back({targets_.size() - 1, entry});
  }
  void copy_some(std::span<EntryCopy> some, const auto& values_of) const {
    parallel_for(some.size(), threads_, [&](std::size_t i) {
      const Target& target = targets_[some[i].target];
      some[i].copied = reader_.copy_entry(some[i].entry, target.range, values_of(target));
    });
  }

  CheckpointReader& reader_;
  const std::vector<StateArray> arrays_;
  int threads_;
  std::vector<Target> targets_;
  std::vector<EntryCopy> copies_;
};

}  // namespace

Status load_checkpoint(const std::string& path, TrainingState& state, int threads) {
  LH_TRY(const std::unique_ptr<CheckpointReader> reader, CheckpointReader::open(path));
  const CheckpointManifest& manifest = reader->manifest();
  if (!(manifest.shape == state.shape))
    return make_error(ErrorCode::invalid_input, path + " was written by a model of another shape",
                      "give this training a state folder of its own");
  ShareLoad share(*reader, state, threads);
  LH_CHECK(share.copy());
  LH_CHECK(share.check(path));
  state.progress = {manifest.step, manifest.consumed_samples, manifest.adam_step};
  state.seed = manifest.seed;
  state.extra = manifest.extra;
  state.stored_types = stored_types(manifest);
  return {};
}

}  // namespace longhaul
