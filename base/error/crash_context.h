// What this thread is at, for the words of a process that ends on a broken invariant (die() in base/error/result.h): a
// call that a GPU refuses is reported with the rank and the step. The text is made only then.
#pragma once

#include <functional>
#include <string>

namespace longhaul {

class CrashContext {
 public:
  // `say` is called by die() on this thread while this object lives, and may use what the thread may; what it says then
  // stands after what those around it say. On the stack of the thread that makes it.
  explicit CrashContext(std::function<std::string()> say);
  ~CrashContext();
  CrashContext(const CrashContext&) = delete;
  CrashContext& operator=(const CrashContext&) = delete;

  // Of this thread: "rank 3 of 8, after step 119; save"; empty: nobody has said where it is.
  static std::string text();

 private:
  std::function<std::string()> say_;
  CrashContext* around_;
};

}  // namespace longhaul
