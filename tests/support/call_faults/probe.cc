// A program that makes the calls which its words name, and says what came of each: "WORD PATH: ok" or the name of the
// error. Started by call_faults_test.py with the library before it that makes calls fail.
#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;

long ms_since(Clock::time_point begin) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - begin).count();
}

std::string outcome(bool good) {
  return good ? "ok" : ::strerrorname_np(errno);
}

// An open file for one call on it, closed after that.
std::string on_open_file(const std::string& path, const std::function<bool(int)>& call) {
  const int fd = ::open(path.c_str(), O_RDWR | O_CREAT, 0644);
  if (fd < 0) return std::string("not opened: ") + ::strerrorname_np(errno);
  errno = 0;
  const std::string result = outcome(call(fd));
  ::close(fd);
  return result;
}

std::string sorted(std::vector<std::string> names) {
  std::sort(names.begin(), names.end());
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : " ") + name;
  return text;
}

std::string listed(const std::string& path) {
  DIR* folder = ::opendir(path.c_str());
  if (folder == nullptr) return ::strerrorname_np(errno);
  std::vector<std::string> names;
  errno = 0;
  while (const dirent* entry = ::readdir(folder))
    if (entry->d_name[0] != '.') names.emplace_back(entry->d_name);
  const std::string result = errno != 0 ? ::strerrorname_np(errno) : sorted(names);
  ::closedir(folder);
  return result;
}

std::string listed_by_the_library(const std::string& path) {
  std::error_code error;
  std::vector<std::string> names;
  for (std::filesystem::directory_iterator at(path, error), end; !error && at != end; at.increment(error))
    names.push_back(at->path().filename());
  return error ? ::strerrorname_np(error.value()) : sorted(names);
}

std::string of_error(const std::error_code& error) {
  return error ? ::strerrorname_np(error.value()) : "ok";
}

// Seconds since 1970, by every way to ask.
std::string times() {
  timeval day{};
  ::gettimeofday(&day, nullptr);
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::to_string(std::chrono::duration_cast<std::chrono::seconds>(now).count()) + " " +
         std::to_string(::time(nullptr)) + " " + std::to_string(day.tv_sec);
}

// A wait until an absolute time of the clock, 200 ms away; how long it was.
std::string timed_wait() {
  std::mutex mutex;
  std::condition_variable never;
  std::unique_lock lock(mutex);
  const auto begin = Clock::now();
  never.wait_until(lock, std::chrono::system_clock::now() + std::chrono::milliseconds(200), [] { return false; });
  return std::to_string(ms_since(begin));
}

// Made before the first call, so that what the library has made for that one would be gone before this.
struct LastCall {
  std::string path;
  ~LastCall() {
    if (path.empty()) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(50));  // the library looks at its plan again
    struct stat info{};
    (void)::stat(path.c_str(), &info);
  }
};
LastCall last_call;

const std::map<std::string, std::function<std::string(const std::string&)>>& words() {
  static const std::map<std::string, std::function<std::string(const std::string&)>> all = {
      {"open", [](const std::string& path) { return on_open_file(path, [](int) { return true; }); }},
      {"at_the_end", [](const std::string& path) { return last_call.path = path, std::string("ok"); }},
      {"openat",
       [](const std::string& path) {
         const int fd = ::openat(AT_FDCWD, path.c_str(), O_RDONLY);
         const std::string result = outcome(fd >= 0);
         if (fd >= 0) ::close(fd);
         return result;
       }},
      {"fopen",
       [](const std::string& path) {
         std::FILE* file = std::fopen(path.c_str(), "r");
         const std::string result = outcome(file != nullptr);
         if (file != nullptr) std::fclose(file);
         return result;
       }},
      {"ifstream", [](const std::string& path) { return outcome(std::ifstream(path).good()); }},
      {"ofstream",
       [](const std::string& path) {
         std::ofstream file(path, std::ios::app);
         if (!file) return std::string("not opened: ") + ::strerrorname_np(errno);
         file << "a line\n" << std::flush;
         return outcome(file.good());
       }},
      {"read",
       [](const std::string& path) {
         char byte = 0;
         return on_open_file(path, [&](int fd) { return ::read(fd, &byte, 1) >= 0; });
       }},
      {"write",
       [](const std::string& path) { return on_open_file(path, [](int fd) { return ::write(fd, "x", 1) == 1; }); }},
      {"fsync", [](const std::string& path) { return on_open_file(path, [](int fd) { return ::fsync(fd) == 0; }); }},
      {"rename",
       [](const std::string& path) { return outcome(::rename(path.c_str(), (path + ".renamed").c_str()) == 0); }},
      {"library_rename",
       [](const std::string& path) {
         std::error_code error;
         std::filesystem::rename(path, path + ".renamed", error);
         return of_error(error);
       }},
      {"link", [](const std::string& path) { return outcome(::link(path.c_str(), (path + ".linked").c_str()) == 0); }},
      {"stat",
       [](const std::string& path) {
         struct stat info{};
         return outcome(::stat(path.c_str(), &info) == 0);
       }},
      {"library_exists",
       [](const std::string& path) {
         std::error_code error;
         const bool there = std::filesystem::exists(path, error);
         return error ? of_error(error) : there ? "ok" : "no";
       }},
      {"unlink", [](const std::string& path) { return outcome(::unlink(path.c_str()) == 0); }},
      {"mkdir", [](const std::string& path) { return outcome(::mkdir(path.c_str(), 0755) == 0); }},
      {"list", listed},
      {"library_list", listed_by_the_library},
      {"times", [](const std::string&) { return times(); }},
      {"timed_wait", [](const std::string&) { return timed_wait(); }},
      {"sleep_ms",
       [](const std::string& ms) {
         std::this_thread::sleep_for(std::chrono::milliseconds(std::stol(ms)));
         return std::string("ok");
       }},
  };
  return all;
}

}  // namespace

// Words and paths by turns; between them the milliseconds that a call took.
int main(int argc, char** argv) {
  for (int i = 1; i + 1 < argc; i += 2) {
    const auto word = words().find(argv[i]);
    if (word == words().end()) return 2;
    errno = 0;
    const auto begin = Clock::now();
    const std::string result = word->second(argv[i + 1]);
    std::printf("%s|%s|%ld\n", argv[i], result.c_str(), ms_since(begin));
    std::fflush(stdout);
  }
  return 0;
}
