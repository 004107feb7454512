// The folder in which the ranks of one host leave entries for those of other hosts (engine/comm/rendezvous.h), as ranks
// and the agent of that host agree upon it. Launch::store_dir names it.
//
//   <name>           an entry: left by a rank of this host, once, whole from its first moment on
//   carried/<name>   an entry of another host, brought by the agent because somebody here had asked for it
//   wanted/<name>    empty: a rank of this host looks for the entry
//   refused/<name>   why the entry cannot be had, for good: whoever looks for it reads that instead
//
// The last three are made by the agent. Where they are not there nobody carries entries: then all ranks see one folder.
// Names distinguish epochs; an entry is kept at least until the second restart in-process after it.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace longhaul {

inline constexpr std::size_t store_value_bytes_max = 4096;
inline constexpr std::size_t store_key_max = 120;

// Letters, digits, '-', '_' and '.', the first of them no '.'; none of a file that is being written, and no folder's.
bool is_store_key(std::string_view name);

std::string carried_entries_folder(const std::string& store_dir);
std::string wanted_entries_folder(const std::string& store_dir);
std::string refused_entries_folder(const std::string& store_dir);

}  // namespace longhaul
