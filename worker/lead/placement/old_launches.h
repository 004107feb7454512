// Removes what launches of long ago have left. A training of weeks may be started again hundreds of times, and each
// launch leaves a log of every rank: with thousands of ranks, millions of files. The first launch stays, for what is
// wrong from the start is found there best, and so do the newest.
#pragma once

#include <string>
#include <vector>

namespace longhaul {

class OldLaunches {
 public:
  static constexpr int kept = 20;
  static constexpr int files_at_a_look = 32;  // a shared file system may take a millisecond for each

  // `folder` holds one folder for each launch, named by its number.
  void new_launch(const std::string& folder, int number);
  // Removes some files; meant to be called as often as a lead looks at its ranks.
  void look();
  bool done() const { return doomed_.empty() && left_.empty(); }

 private:
  std::vector<std::string> doomed_;  // folders of launches
  std::vector<std::string> left_;    // of one of them: files behind their folders, removed from the back
};

}  // namespace longhaul
