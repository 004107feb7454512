#include "engine/model/adapter/adapter_windows.h"

#include <algorithm>
#include <limits>

namespace longhaul {

AdapterWindows::AdapterWindows(const ParameterLayout& model, const AdapterSpace& space, DType compute,
                               const std::function<bool(int unit)>& is_made, MemoryAccount* account) {
  windows_.resize(static_cast<std::size_t>(space.windows));
  for (Window& window : windows_) window.memory = Tensor(compute, Shape{space.window}, account);
  auto p = model.parameters().begin();
  for (int unit = 0; unit < static_cast<int>(model.units().size()); ++unit) {
    const FlatRange flat = model.units()[static_cast<std::size_t>(unit)].flat;
    while (p->begin < flat.begin) ++p;
    if (p->spec.layer >= 0 || !is_made(unit)) continue;
    Window& window = windows_.emplace_back();
    window.memory = Tensor(compute, Shape{flat.size()}, account);
    window.unit = unit, window.is_kept = true;
  }
}

AdapterWindows::Window& AdapterWindows::take(int unit) {
  auto found = std::ranges::find(windows_, unit, &Window::unit);
  if (found == windows_.end())
    found = std::ranges::min_element(windows_, {}, [](const Window& window) {
      return window.is_kept ? std::numeric_limits<std::int64_t>::max() : window.last_use;
    });
  found->last_use = ++uses_;
  return *found;
}

}  // namespace longhaul
