// A program in a container without any library: says what it sees, and beats as a text program does.
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

namespace {

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

bool beats() {
  const std::string path = variable("LONGHAUL_BEAT_SOCKET");
  sockaddr_un at{};
  at.sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof at.sun_path) return false;
  std::memcpy(at.sun_path, path.c_str(), path.size());
  for (int tries = 0; tries < 100; ++tries, ::usleep(100'000)) {
    const int fd = ::socket(AF_UNIX, SOCK_STREAM, 0);
    if (::connect(fd, reinterpret_cast<const sockaddr*>(&at), sizeof at) == 0) {
      const char line[] = "step 7\n";
      const bool said = ::write(fd, line, sizeof line - 1) == static_cast<ssize_t>(sizeof line - 1);
      ::usleep(1'000'000);  // an agent reads ten times a second
      ::close(fd);
      return said;
    }
    ::close(fd);
  }
  return false;
}

const char* yes(bool is) {
  return is ? "yes" : "no";
}

}  // namespace

int main() {
  char folder[4096] = {};
  const bool here = ::getcwd(folder, sizeof folder) != nullptr;
  const std::string path = variable("LONGHAUL_OUT") + "/seen-" + variable("LONGHAUL_RANK");
  std::FILE* file = std::fopen(path.c_str(), "w");
  if (!file) {
    std::perror(path.c_str());
    return 1;
  }
  std::fprintf(file, "host_files=%s input=%s page=%s beats=%s in_out=%s\n", yes(::access("/etc/passwd", F_OK) == 0),
               yes(::access(variable("LONGHAUL_INPUT_DATA").c_str(), R_OK) == 0),
               yes(::access(variable("LONGHAUL_BEAT").c_str(), R_OK) == 0), yes(beats()),
               yes(here && variable("LONGHAUL_OUT") == folder));
  std::fclose(file);
  std::puts("a line of the container's program");
  return 0;
}
