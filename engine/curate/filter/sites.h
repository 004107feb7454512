// Which pages of the input are of one site, and what of their text is the site's.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "contracts/settings/stages/curate.h"
#include "engine/curate/filter/page_identity.h"
#include "engine/curate/html/html_repetition.h"
#include "engine/curate/read/inputs.h"

namespace longhaul {

// Pages are of one site when the same folder holds them, the first one below the folder that holds all documents, and
// their paths name the same language. Eight pages of each site, evenly chosen, are looked at, so the cost of a large
// site is small; the same files give the same result on any number of threads.
class Sites {
 public:
  // Pages that cannot be read here are left out: they are counted when their turn comes.
  static Sites look_at(const std::vector<InputFile>& files, const PageNamer& namer, const CurateSettings& settings);

  // Null where the site of a file has too few pages, or none.
  const RepeatedBlocks* repeated_on(const InputFile& file, const PageNamer& namer) const;

 private:
  std::string site_of(const InputFile& file, const PageNamer& namer) const;

  std::size_t common_ = 0;  // bytes of the path that all files have in common, up to a '/'
  std::map<std::string, RepeatedBlocks> sites_;
};

}  // namespace longhaul
