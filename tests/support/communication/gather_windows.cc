#include "tests/support/communication/gather_windows.h"

#include <algorithm>

namespace longhaul {

namespace {

constexpr int several = 2;  // uses of a unit in a row: as good as any larger number

// UnitGather without memory.
class Windows {
 public:
  Windows(std::size_t units, bool ahead)
      : windows_(std::min<std::size_t>(4, units)), counts_(units, 0), ahead_(ahead) {}

  void shares_changed() {
    for (Window& window : windows_) window.unit = -1;
    last_ = -1;
  }
  // Once, or several times in a row: that makes it younger than what came ahead meanwhile.
  void use(int unit, int times = 1) {
    for (int i = 0; i < times && unit >= 0; ++i) use_once(unit);
  }
  std::vector<std::int64_t> take_counts() {
    std::vector<std::int64_t> taken(counts_.size(), 0);
    taken.swap(counts_);
    return taken;
  }

 private:
  void use_once(int unit) {
    load(unit).last_use = ++uses_;
    if (unit == last_) return;
    const int next = last_ < 0 || unit > last_ ? unit + 1 : unit - 1;
    last_ = unit;
    if (ahead_ && next >= 0 && next < static_cast<int>(counts_.size())) load(next);
  }
  struct Window {
    int unit = -1;
    std::int64_t last_use = 0;
  };
  Window& load(int unit) {
    const auto found = std::ranges::find_if(windows_, [&](const Window& w) { return w.unit == unit; });
    if (found != windows_.end()) return *found;
    Window& oldest = *std::ranges::min_element(windows_, {}, &Window::last_use);
    oldest = {unit, ++uses_};
    ++counts_[static_cast<std::size_t>(unit)];
    return oldest;
  }

  std::vector<Window> windows_;
  std::vector<std::int64_t> counts_;
  bool ahead_;
  std::int64_t uses_ = 0;
  int last_ = -1;
};

// The units in the order in which the model (engine/model/llama.cc, block.cc, moe_layer.cc) asks for them.
class UnitUses {
 public:
  UnitUses(const TrainingOutline& outline, const RankOutline& rank, Windows& windows)
      : o_(outline), rank_(rank), windows_(windows) {
    const ModelShape& s = o_.shape;
    embedding_ = unit_of([&](const ParameterSpec& p) { return p.name == embedding_name(s); });
    positions_ = unit_of([](const ParameterSpec& p) { return p.name == "transformer.wpe.weight"; });
    final_norm_ = unit_of([](const ParameterSpec& p) { return p.last_stage; });
    for (const FlatParameter& p : rank_.layout.parameters()) {
      if (p.spec.layer < 0) continue;
      std::vector<int>& units = p.spec.expert < 0 ? dense_ : experts_;
      units.resize(static_cast<std::size_t>(s.num_hidden_layers), -1);
      units[static_cast<std::size_t>(p.spec.layer)] = unit_at(p.begin);
    }
    output_ = unit_of([&](const ParameterSpec& p) { return p.name == output_name(s); });
  }

  void run(const ScheduleOp& op) {
    const LayerRange layers = rank_.chunks[static_cast<std::size_t>(op.chunk)];
    if (op.kind == ScheduleOp::Kind::forward) {
      forward(layers, rank_.is_first(op.chunk), rank_.is_last(op.chunk));
    } else if (op.kind != ScheduleOp::Kind::backward_weight) {
      if (rank_.is_last(op.chunk)) windows_.use(output_), windows_.use(final_norm_);
      for (int layer = layers.last; layer-- > layers.first;) {
        const bool whole = o_.recompute.of_layer(layer - layers.first).any();
        if (whole) windows_.use(dense(layer), several);
        if (o_.shape.is_moe() && o_.recompute.of_layer(layer - layers.first).feed_forward) feed_forward(layer);
        feed_forward(layer);
        windows_.use(dense(layer), several);
      }
    }
  }

 private:
  template <class Is>
  int unit_of(Is is) const {
    for (const FlatParameter& p : rank_.layout.parameters())
      if (is(p.spec)) return unit_at(p.begin);
    return -1;
  }
  int unit_at(std::int64_t begin) const {
    const std::vector<ShardUnit>& units = rank_.layout.units();
    return static_cast<int>(
        std::ranges::partition_point(units, [&](const ShardUnit& u) { return u.flat.end <= begin; }) - units.begin());
  }
  int dense(int layer) const { return dense_[static_cast<std::size_t>(layer)]; }
  int experts(int layer) const { return experts_[static_cast<std::size_t>(layer)]; }
  void feed_forward(int layer) {
    if (!o_.shape.is_moe()) return windows_.use(dense(layer), several);
    if (o_.shape.shared_size() > 0) windows_.use(dense(layer), several);
    windows_.use(experts(layer), several);
  }
  void forward(LayerRange layers, bool first, bool last) {
    const int vectors = o_.shape.is_gpt2() ? 2 : 1;  // of a norm
    const auto norm_before = [&](int layer) {
      windows_.use(layer < layers.last ? dense(layer) : last ? final_norm_ : -1, vectors);
    };
    if (first) windows_.use(embedding_), windows_.use(positions_);
    norm_before(layers.first);
    for (int layer = layers.first; layer < layers.last; ++layer) {
      windows_.use(dense(layer), several);
      feed_forward(layer);
      norm_before(layer + 1);
    }
  }

  const TrainingOutline& o_;
  const RankOutline& rank_;
  Windows& windows_;
  std::vector<int> dense_, experts_;  // of each layer
  int embedding_ = -1, positions_ = -1, final_norm_ = -1, output_ = -1;
};

}  // namespace

std::vector<std::int64_t> gathers_per_step(const TrainingOutline& outline, const RankOutline& rank) {
  const std::size_t units = rank.layout.units().size();
  if (outline.dims.zero < 3) return std::vector<std::int64_t>(units, 1);
  Windows windows(units, outline.overlap_weights);
  UnitUses uses(outline, rank, windows);
  constexpr int steps = 3;  // which window makes room depends on the step before
  std::vector<std::int64_t> counts;
  for (int step = 0; step < steps; ++step) {
    windows.shares_changed();
    (void)windows.take_counts();
    for (const ScheduleOp& op : rank.schedules.back()) uses.run(op);
    counts = windows.take_counts();
  }
  return counts;
}

}  // namespace longhaul
