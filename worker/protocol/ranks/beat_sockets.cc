#include "worker/protocol/ranks/beat_sockets.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/text/text.h"
#include "resiliency/beat/beat_folder.h"
#include "worker/protocol/ranks/process_watch.h"

namespace longhaul {
namespace {

constexpr std::size_t links_of_rank_max = 16;
constexpr std::size_t read_at_a_look_max = std::size_t{64} << 10;
constexpr std::size_t unsent_max = 4096;
constexpr std::int64_t refusals_reported_max = 8;

Result<FileDescriptor> listen_at(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  LH_ASSERT(path.size() <= beat_socket_path_max && path.size() < sizeof address.sun_path, path);
  std::memcpy(address.sun_path, path.data(), path.size());
  struct stat info{};
  if (::lstat(path.c_str(), &info) == 0) {  // of one before us, who had no time to remove it
    if (!S_ISSOCK(info.st_mode)) return make_error(ErrorCode::io, path + " is there and is no socket", "remove it");
    ::unlink(path.c_str());
  }
  FileDescriptor socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!socket.valid()) return errno_error(ErrorCode::io, "cannot make a socket", errno);
  // Linux gives the file the mode of the socket that is bound to it, so that it is never there with another.
  if (::fchmod(socket.get(), 0600) != 0 ||
      ::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
      ::chmod(path.c_str(), 0600) != 0 || ::listen(socket.get(), 64) != 0)
    return errno_error(ErrorCode::io, "cannot listen at " + path, errno);
  return socket;
}

// The outermost process above `pid` that was started with this variable: what the launcher started as the rank. A shell
// script says its lines through short-lived programs; it is the shell that has to live.
pid_t program_of(pid_t pid, const std::string& entry) {
  constexpr int generations_max = 64;
  const std::string wanted = '\0' + entry + '\0';
  for (int i = 0; i < generations_max; ++i) {
    const auto stat = read_file(format("/proc/{}/stat", pid));
    const auto name_end = stat.ok() ? stat->rfind(") ") : std::string::npos;
    if (name_end == std::string::npos || name_end + 4 >= stat->size()) return pid;
    const pid_t parent = static_cast<pid_t>(std::atoi(stat->c_str() + name_end + 4));
    if (parent <= 1) return pid;
    const auto environment = read_file(format("/proc/{}/environ", parent));
    if (!environment.ok() || ('\0' + *environment).find(wanted) == std::string::npos) return pid;
    pid = parent;
  }
  return pid;
}

std::string printable(std::string_view line) {
  std::string text(line.substr(0, 60));
  for (char& c : text)
    if (c < 0x20 || c == 0x7f || c == '\'') c = '?';  // bytes above 0x7f are negative here and go, too
  return text;
}

}  // namespace

Status BeatSockets::open(const std::string& folder, const std::vector<int>& ranks) {
  for (const int number : ranks) {
    const std::string path = beat_socket_path(folder, number);
    if (std::any_of(ranks_.begin(), ranks_.end(), [&](const auto& rank) { return rank->socket_path == path; }))
      continue;
    if (path.size() > beat_socket_path_max)
      return make_error(ErrorCode::io, format("{} has more than {} bytes", path, beat_socket_path_max));
    auto rank = std::make_unique<Rank>();
    LH_TRY(rank->held, hold_beat_folder(parent_path(path)));
    rank->folder = folder, rank->rank = number, rank->socket_path = path;
    LH_TRY(rank->socket, listen_at(path));
    ranks_.push_back(std::move(rank));
  }
  return {};
}

void BeatSockets::close() {
  for (const std::unique_ptr<Rank>& rank : ranks_) {
    ::unlink(rank->socket_path.c_str());
    rank->held.leave();
    if (parent_path(rank->socket_path) != rank->folder) (void)remove_left_folder(parent_path(rank->socket_path)).ok();
  }
  ranks_.clear();
}

void BeatSockets::look() {
  if (quiet()) return;
  for (const std::unique_ptr<Rank>& rank : ranks_) {
    take_new_connections(*rank);
    for (const std::unique_ptr<Link>& link : rank->links) link->over = !serve(*rank, *link);
    if (std::erase_if(rank->links, [](const auto& link) { return link->over; }) > 0 || rank->links.empty())
      name_process(*rank);
  }
}

// Nobody is connected and nobody wants to be, as where programs write their pages themselves: one question for all.
bool BeatSockets::quiet() const {
  std::vector<pollfd> sockets;
  for (const std::unique_ptr<Rank>& rank : ranks_) {
    if (rank->page) return false;  // somebody was: its process is to be looked at
    sockets.push_back({rank->socket.get(), POLLIN, 0});
  }
  return ::poll(sockets.data(), sockets.size(), 0) == 0;
}

void BeatSockets::take_new_connections(Rank& rank) {
  for (;;) {
    FileDescriptor socket(::accept4(rank.socket.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!socket.valid()) return;
    ucred peer{};
    socklen_t size = sizeof peer;
    if (::getsockopt(socket.get(), SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0 || peer.uid != ::geteuid()) {
      ++rank.counts.strangers;
      continue;
    }
    if (!rank.page) {
      auto page = HeartbeatPage::create(beat_page_path(rank.folder, rank.rank), rank.rank, peer.pid);
      if (!page.ok()) {
        if (!rank.logged) log_.warn(format("event=no_page rank={} error='{}'", rank.rank, page.error().message()));
        rank.logged = true;
        continue;
      }
      rank.page = std::move(*page);
      if (rank.page->orders_obeyed() >= rank.page->orders()) rank.checkpoints_made = rank.page->checkpoint_orders();
    }
    auto link = std::make_unique<Link>();
    link->socket = std::move(socket);
    link->pid = peer.pid;
    link->sent.checkpoints = rank.checkpoints_made;
    // Programs that inherited a connection may hold many of old; the newest is what counts.
    if (rank.links.size() >= links_of_rank_max) rank.links.erase(rank.links.begin());
    rank.links.push_back(std::move(link));
    if (peer.pid > 0) {
      rank.program = program_of(peer.pid, format("{}={}", beat_socket_variable, rank.socket_path));
      rank.pid = peer.pid;
      rank.page->process(peer.pid);
    }
  }
}

// Of a process that is connected no more and has ended, what is left is the program that had started it. One that has
// only let its connection go may come again.
void BeatSockets::name_process(Rank& rank) {
  const auto newest =
      std::find_if(rank.links.rbegin(), rank.links.rend(), [](const auto& link) { return link->pid > 0; });
  pid_t pid = newest == rank.links.rend() ? rank.pid : (*newest)->pid;
  if (newest == rank.links.rend() && pid != rank.program && process_state(pid) == ProcessState::ended)
    pid = rank.program;
  if (rank.page && pid != rank.pid) rank.page->process(pid);
  rank.pid = pid;
}

bool BeatSockets::serve(Rank& rank, Link& link) {
  read_lines(rank, link);
  if (link.over) return false;
  say_orders(rank, link);
  send(link);
  return !link.over;
}

void BeatSockets::read_lines(Rank& rank, Link& link) {
  const auto take = [&](std::string_view line, bool too_long) { take_line(rank, link, line, too_long); };
  char buffer[4096];
  for (std::size_t done = 0; done < read_at_a_look_max;) {
    const ssize_t n = ::recv(link.socket.get(), buffer, sizeof buffer, MSG_DONTWAIT);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
    if (n <= 0) {
      link.cutter.end(take);
      link.over = true;
      return;
    }
    link.cutter.take({buffer, static_cast<std::size_t>(n)}, take);
    done += static_cast<std::size_t>(n);
  }
}

void BeatSockets::take_line(Rank& rank, Link& link, std::string_view line, bool too_long) {
  ++link.lines;
  auto parsed = parse_beat_line(line);
  if (too_long || !parsed.ok())
    return refuse(rank, link, line,
                  parsed.ok() ? make_error(ErrorCode::invalid_input, "the line is too long") : parsed.error());
  const Status applied = apply_beat_line(*parsed, *rank.page);
  if (!applied.ok()) return refuse(rank, link, line, applied.error());
  ++rank.counts.lines;
  // Who carries out an order has carried out the checkpoints before it.
  if (parsed->keyword == BeatLine::Keyword::done && parsed->number >= link.sent.orders)
    rank.checkpoints_made = std::max(rank.checkpoints_made, link.sent.checkpoints);
}

void BeatSockets::refuse(Rank& rank, Link& link, std::string_view line, const Error& why) {
  ++rank.counts.refused;
  if (!rank.logged)
    log_.warn(format("event=beat_line_refused rank={} line='{}' reason='{}' next=count_them", rank.rank,
                     printable(line), why.what));
  rank.logged = true;
  if (++link.refused > refusals_reported_max) return;
  const std::string answer = format("refused {} {}\n", link.lines, why.message());
  if (link.out.size() + answer.size() <= unsent_max) link.out += answer;
}

void BeatSockets::say_orders(Rank& rank, Link& link) {
  const BeatOrders now = beat_orders(*rank.page);
  if (now.orders <= link.sent.orders) return;
  std::string text;
  for (const std::string& line : order_lines(link.sent, now)) text += line;
  if (link.out.size() + text.size() > unsent_max) return;  // sent once there is room
  link.out += text;
  link.sent = now;
}

void BeatSockets::send(Link& link) {
  while (!link.out.empty()) {
    const ssize_t n = ::send(link.socket.get(), link.out.data(), link.out.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
    if (n <= 0) return;  // it has gone, or hears nothing any more; what it said before is read until its end
    link.out.erase(0, static_cast<std::size_t>(n));
  }
}

bool BeatSockets::say_fault(int number, const std::string& name) {
  for (const std::unique_ptr<Rank>& rank : ranks_) {
    if (rank->rank != number || rank->links.empty()) continue;
    rank->links.back()->out += "fault " + name + "\n";
    send(*rank->links.back());
    return true;
  }
  return false;
}

Status nobody_listens(int rank) {
  return make_error(ErrorCode::not_found,
                    format("no program of rank {} is connected to its {}", rank, beat_socket_variable),
                    "it takes a Python program that uses longhaul_beat.py");
}

std::vector<int> BeatSockets::descriptors() const {
  std::vector<int> all;
  for (const std::unique_ptr<Rank>& rank : ranks_) {
    all.push_back(rank->socket.get());
    for (const std::unique_ptr<Link>& link : rank->links) all.push_back(link->socket.get());
  }
  return all;
}

BeatSockets::Counts BeatSockets::counts(int number) const {
  for (const std::unique_ptr<Rank>& rank : ranks_)
    if (rank->rank == number) return rank->counts;
  return {};
}

}  // namespace longhaul
