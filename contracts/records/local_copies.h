// What the copies that a training keeps on its nodes (checkpoint.local_dir) say to programs other than the engine.
//
//   FOLDER/longhaul-<32 hex>/   of one training: private, held by its ranks (base/files/held_folder.h)
//     training                  the path of its state folder
//     rank-00005/step-00000240/ a copy (engine/checkpoint/local/local_copies.h)
#pragma once

namespace longhaul {

inline constexpr const char* copies_of_name = "training";

}  // namespace longhaul
