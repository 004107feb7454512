// One host's part in an exchange of all hosts of a job: it takes what others send, and sends to its partners, one after
// another. Over TCP sockets of its own, between the addresses by which the hosts of the job know each other; what is
// measured is the network of the hosts, not that of their GPUs.
//
// One thread, which calls work() often: nothing waits. Only who knows the token is taken anything of: it goes over the
// network as it is, made for this exchange alone, and what it opens is a measurement. A connection that has not said it
// within a second is closed, and every connection after the time that a partner has.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/system/clock.h"
#include "worker/protocol/wire/connection.h"

namespace longhaul {

struct ExchangePartner {
  std::string host;  // as it is called in the job
  std::string address;
  int port = 0;
};
struct ExchangeFigure {
  std::string to;
  double mb_per_s = 0;  // the best block; 1e6 bytes/s; 0: none was taken within the deadline
};

class HostExchange {
 public:
  static constexpr std::size_t block_bytes = std::size_t{4} << 20;
  static constexpr int blocks = 3;  // to each partner, each confirmed; the first one opens the window of TCP
  static constexpr std::int64_t partner_ms = 2'000, token_ms = 1'000;
  static constexpr std::size_t incoming_max = 16;  // at once; where there is no room, the oldest without a token goes

  // Listens at a port of that range.
  static Result<std::unique_ptr<HostExchange>> open(std::string token, Clock& clock, const PortRange& ports = {});
  int port() const { return listener_.port(); }
  // Sends to them from now on; called once.
  void begin(std::vector<ExchangePartner> partners);
  // Sends and takes what goes, for at most so long.
  void work(std::int64_t ms);
  // Everything was sent, or given up. Others may still send to this host.
  bool done() const { return begun_ && !sending_ && next_ == partners_.size(); }
  const std::vector<ExchangeFigure>& figures() const { return figures_; }

 private:
  struct Incoming {
    FileDescriptor socket;
    std::int64_t since_ns = 0;
    std::string token;      // as far as it has come
    std::size_t taken = 0;  // of the block
  };
  struct Outgoing {
    FileDescriptor socket;
    std::int64_t since_ns = 0, block_since_ns = 0;
    std::size_t sent = 0;  // of the token and the block
    bool token_sent = false;
    int confirmed = 0;
    double best_mb_per_s = 0;
  };
  HostExchange(std::string token, Listener listener, Clock& clock);
  bool step();  // whether anything moved
  void let_in(FileDescriptor socket);
  bool take(Incoming& from, bool& moved);
  bool send();
  void start_next();
  void end_partner();

  std::string token_;
  Listener listener_;
  Clock& clock_;
  std::vector<char> buffer_;
  std::vector<Incoming> incoming_;
  std::vector<ExchangePartner> partners_;
  std::size_t next_ = 0;
  std::unique_ptr<Outgoing> sending_;
  std::vector<ExchangeFigure> figures_;
  bool begun_ = false;
};

}  // namespace longhaul
