// A session over TCP that never blocks. One thread. Who owns it polls descriptors (wanted_events) and calls pump().
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/files/files.h"
#include "contracts/settings/job/port_range.h"
#include "worker/protocol/wire/wire.h"

namespace longhaul {

// What was sent and has not been acknowledged for so long breaks a connection, which else stands for a quarter of an
// hour after a cut. Longer than a network takes to find another way.
inline constexpr int unanswered_ms = 20'000;

class Connection {
 public:
  Connection(FileDescriptor socket, WireSession session);

  int descriptor() const { return socket_.get(); }
  short wanted_events() const;  // for poll(2)
  // Sends what it can. unavailable: the other side is gone; timeout: nobody there has answered for `unanswered_ms`.
  Status flush() { return send_what_goes(); }
  // Sends what it can and takes what has come. unavailable, timeout: as of flush(); else as WireSession::take.
  Result<std::vector<WireFrame>> pump();
  WireSession& session() { return session_; }
  const WireSession& session() const { return session_; }
  // Bytes that wait to be sent: an other side that takes nothing any more.
  std::size_t backlog() const { return unsent_.size() - sent_; }

 private:
  Status send_what_goes();
  Status broken();  // by errno; the kernel says only once what has broken a connection

  FileDescriptor socket_;
  WireSession session_;
  std::string unsent_;
  std::size_t sent_ = 0;  // of unsent_
  Status broken_;
};

// Starts to connect; whether it did shows when the session opens. `address`: an address of IPv4 or IPv6, or a name that
// the host knows, of which the first address counts that the kernel has a way to.
Result<FileDescriptor> connect_to(const std::string& address, int port);

class Listener {
 public:
  // port 0: any that is free. everywhere: on all of this host's addresses, of IPv6 as well where the host has it, not
  // on loopback alone.
  static Result<Listener> open(int port, bool everywhere);
  // The same at a port of the range that is free, looked for from a random one on. unavailable: all are taken.
  static Result<Listener> open_in(const PortRange& ports, bool everywhere);
  // One that listens already, and was handed over: invalid_input if it does not.
  static Result<Listener> take(FileDescriptor socket);
  int port() const { return port_; }
  int descriptor() const { return socket_.get(); }
  // Not valid: nobody waits.
  Result<FileDescriptor> accept();

 private:
  Listener(FileDescriptor socket, int port) : socket_(std::move(socket)), port_(port) {}
  FileDescriptor socket_;
  int port_ = 0;
};

}  // namespace longhaul
