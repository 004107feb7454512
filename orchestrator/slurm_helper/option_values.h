// How sbatch reads the values of its options. Pure: no libslurm. nullopt: not such a value.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace longhaul {

std::optional<std::int64_t> whole_number(std::string_view text);
// "16G", "16GB", "512M", "100000K" (rounded up); no unit: MiB.
std::optional<std::uint64_t> mebibytes(const std::string& text);
// "minutes", "minutes:seconds", "hours:minutes:seconds", "days-hours[:minutes[:seconds]]".
std::optional<std::int64_t> time_seconds(const std::string& text);
// The same in minutes, rounded up; 0: unlimited ("UNLIMITED", "INFINITE", "-1", "0").
std::optional<std::uint32_t> time_limit_minutes(const std::string& text);
// "USR1", "SIGUSR1", "10".
std::optional<int> signal_number(std::string name);

}  // namespace longhaul
