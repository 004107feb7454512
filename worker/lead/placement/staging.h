// Where the launches of an attempt make the artifact: staging/<restarts>-<launch>, a folder for each, so that ranks of
// a life of the job that nobody reaches any more, or of a launch before, never write into that of another one.
#pragma once

#include <string>

#include "contracts/records/attempt.h"

namespace longhaul {

std::string staging_folder(const Attempt& attempt, int restarts, int launch);
// Of this life of the job and those before it, but for that of `launch`: what is left of them has no use. A later
// life's stays. The folder of all is gone when nothing is in it any more.
Status clear_staging(const Attempt& attempt, int restarts, int launch = 0);

}  // namespace longhaul
