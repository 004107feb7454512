#include "worker/launch/rank_cpus.h"

#include <algorithm>
#include <charconv>
#include <iterator>
#include <string_view>

#include "base/text/text.h"

namespace longhaul {
namespace {

constexpr int cpus_max = 1 << 16;

bool read_number(std::string_view text, int& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size() && number >= 0 && number < cpus_max;
}

CpuNumbers common(const CpuNumbers& a, const CpuNumbers& b) {
  CpuNumbers both;
  std::set_intersection(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(both));
  return both;
}

// Those cores of the `count` shares of `cpus` that are the share `index`; all, where there are fewer cores than shares.
CpuNumbers share_of_cores(const CpuNumbers& cpus, const std::vector<CpuNumbers>& cores, std::size_t index,
                          std::size_t count) {
  std::vector<CpuNumbers> whole;
  for (const CpuNumbers& core : cores)
    if (CpuNumbers of_it = common(core, cpus); !of_it.empty()) whole.push_back(std::move(of_it));
  if (whole.size() < count) return cpus;
  CpuNumbers share;
  for (std::size_t i = index * whole.size() / count; i < (index + 1) * whole.size() / count; ++i)
    share.insert(share.end(), whole[i].begin(), whole[i].end());
  std::sort(share.begin(), share.end());
  return share;
}

}  // namespace

CpuNumbers read_cpu_numbers(const std::string& list) {
  CpuNumbers cpus;
  for (const std::string& part : split(trim(list), ',')) {
    const std::size_t dash = part.find('-');
    int first = 0, last = 0;
    if (!read_number(std::string_view(part).substr(0, dash), first)) return {};
    last = first;
    if (dash != std::string::npos && !read_number(std::string_view(part).substr(dash + 1), last)) return {};
    for (int cpu = first; cpu <= last; ++cpu) cpus.push_back(cpu);
  }
  std::sort(cpus.begin(), cpus.end());
  cpus.erase(std::unique(cpus.begin(), cpus.end()), cpus.end());
  return cpus;
}

std::string cpu_numbers_text(const CpuNumbers& cpus) {
  std::vector<std::string> parts;
  for (std::size_t begin = 0; begin < cpus.size();) {
    std::size_t end = begin;
    while (end + 1 < cpus.size() && cpus[end + 1] == cpus[end] + 1) ++end;
    parts.push_back(end == begin ? std::to_string(cpus[begin]) : format("{}-{}", cpus[begin], cpus[end]));
    begin = end + 1;
  }
  return join(parts, ",");
}

std::optional<CpuNumbers> cpus_beside_gpu(const RankSeat& seat) {
  const bool one_alone = seat.beside_gpus.size() == 1;
  const auto ranks = static_cast<std::size_t>(std::max(0, seat.local_ranks));
  const auto rank = static_cast<std::size_t>(std::max(0, seat.local_rank));
  if (ranks < 2 || rank >= ranks || (!one_alone && seat.beside_gpus.size() < ranks)) return std::nullopt;
  const CpuNumbers& named = seat.beside_gpus[one_alone ? 0 : rank];
  const CpuNumbers own = common(named, seat.all);
  if (own.empty() || own == seat.all) return std::nullopt;
  CpuNumbers share = own;
  if (one_alone) {
    if (common(seat.now, own) == seat.now) return std::nullopt;
  } else {
    std::size_t index = 0, count = 0;  // among the ranks whose GPUs have the same CPUs beside them
    for (std::size_t other = 0; other < ranks; ++other) {
      if (seat.beside_gpus[other] != named) continue;
      index += other < rank;
      ++count;
    }
    share = share_of_cores(own, seat.cores, index, count);
    if (share.size() < static_cast<std::size_t>(seat.threads)) share = own;
  }
  if (share == seat.now || share.size() < static_cast<std::size_t>(seat.threads)) return std::nullopt;
  return share;
}

}  // namespace longhaul
