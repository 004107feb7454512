// Runs body(i) for i in [0, count) on some threads. The bodies must not depend on each other; which thread runs which
// is open, so a result must only go to its own place.
#pragma once

#include <atomic>
#include <cstddef>
#include <thread>
#include <vector>

namespace longhaul {

template <class Body>
void parallel_for(std::size_t count, int threads, const Body& body) {
  if (threads <= 0) threads = static_cast<int>(std::thread::hardware_concurrency());
  if (threads <= 1 || count <= 1) {
    for (std::size_t i = 0; i < count; ++i) body(i);
    return;
  }
  std::atomic<std::size_t> next{0};
  const auto work = [&] {
    for (std::size_t i; (i = next.fetch_add(1, std::memory_order_relaxed)) < count;) body(i);
  };
  std::vector<std::thread> pool;
  for (int t = 1; t < threads; ++t) pool.emplace_back(work);
  work();
  for (std::thread& thread : pool) thread.join();
}

}  // namespace longhaul
