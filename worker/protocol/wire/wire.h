// Room worker/protocol/wire
// The connection between lead and agents: frames, keys, addresses.
// wire.h is the protocol as bytes, without sockets; connection.h is a session over TCP that never blocks.
// lead_address.h says where the lead listens, lead_epoch.h which lead is later; host_probe.h asks a kernel.
// It knows nothing of ranks or reports: a frame has a kind and a body.
//
// What lead and agents say to each other over one connection, as bytes in and bytes out: no sockets, no clocks.
//
// A frame, little endian:
//   magic "LHW1" | version u16 | kind u16 | body length u32 | reserved u32 | epoch i64 | number u64
//   | nonce 32, only in the first frame of either side | body | mac 32
// The body is JSON. The mac is HMAC-SHA256 of all before it. Who connects and who is connected to each add a nonce of
// their own to the secret of the attempt (a file that only its user reads), and every direction has its key and counts
// its frames from 0. So a frame that was made elsewhere, changed, left out, or recorded in another connection is
// refused, and with it the connection.
//
//   lead  -> agent   challenge  no body, and a mac of zeros: nobody knows a key yet
//   agent -> lead    hello      {host, pid, led_from}
//   lead  -> agent   welcome    {led_from, ...}              or refused {why}
//   agent -> lead    promise    {number, host}: to a lead in waiting (below)
//   agent -> lead    report     ...
//   lead  -> agent   order      ...
//   either way       store      what ranks leave for each other (store_message.h)
//
// What lies before the body has its place whatever the release, so a mac is checked over the bytes as they came, and a
// body is read only after that. Until a connection is open no body may be longer than 4 KiB. Another version is refused
// in a signed frame, too: an agent never ends for what a stranger says.
//
// Epochs order the leads of one attempt (lead_epoch.h): a frame has the number, hello and welcome the host (`led_from`)
// as well. An agent refuses a lead of an earlier epoch than it has seen, and takes over the epoch of the one that
// welcomes it; a lead that learns of a later epoch than its own has to give way. A lead in waiting has no epoch yet:
// it speaks with the number of the lead that is lost, names no host, and its welcome has `asks`, the epoch that it
// wants to lead in. The agent answers with the newest epoch that it has promised, which is that one or another's.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/digest/hmac.h"
#include "base/error/result.h"
#include "base/value/value.h"
#include "worker/protocol/wire/lead_epoch.h"

namespace longhaul {

inline constexpr std::uint16_t wire_version = 3;  // 1 had its nonces in bodies, 2 no promises
inline constexpr std::size_t wire_header_bytes = 32, wire_nonce_bytes = 32, wire_mac_bytes = 32;
inline constexpr std::size_t wire_body_max = std::size_t{1} << 20, wire_greeting_max = 4096;  // once open, and before

enum class WireKind : std::uint16_t { challenge = 1, hello, welcome, refused, report, order, store, promise };
const char* to_string(WireKind kind);

struct WireFrame {
  WireKind kind = WireKind::report;
  LeadEpoch epoch = 0;  // the host only of hello and welcome
  Value body;
};

// One end of a connection. Both ends give their nonce (random_hex(32)) and the secret; hello and welcome are the bodies
// that the other side sees first. Errors of take() are for good. Two of them are said in signed frames alone:
//   unsupported   the other side is of another version
//   conflict      a lead has refused this agent for good
// Of the rest `unavailable` is all that somebody without the secret can cause before the other side has proved that it
// knows it (then stranger() says so); aborted: not from who it should be, of an earlier epoch, or refused for now;
// corrupt: signed, and not understood.
class WireSession {
 public:
  static WireSession lead(const std::string& secret, const std::string& nonce, LeadEpoch epoch);
  static WireSession agent(const std::string& secret, const std::string& nonce, LeadEpoch epoch, Value hello);

  // What has to be sent, oldest first; empties it.
  std::string outgoing();
  bool has_outgoing() const { return !out_.empty(); }
  // Bytes as they came, in pieces of any size. Frames for the owner: of a lead first the agent's hello, which it
  // answers with welcome() or refuse(); of an agent first the welcome.
  Result<std::vector<WireFrame>> take(std::string_view bytes);
  void welcome(const Value& body);
  // `for_good`: it need not come again; its take() says conflict.
  void refuse(const std::string& why, bool for_good = false);
  // Only while open.
  void send(WireKind kind, const Value& body);
  bool open() const { return stage_ == Stage::open; }
  // It ended by bytes that nobody has signed who knows the secret.
  bool stranger() const { return stranger_; }
  const LeadEpoch& epoch() const { return epoch_; }

 private:
  enum class Stage { begun, greeted, open, ended };
  WireSession(bool is_lead, const std::string& secret, const std::string& nonce, LeadEpoch epoch, Value hello);
  void derive_keys(std::string_view nonce_of_other);
  void put(WireKind kind, const Value& body);
  Result<std::optional<WireFrame>> next();
  Status check_mac(std::size_t signed_bytes, WireKind kind);
  Status check_version(std::uint16_t version, WireKind kind);
  Status accept(const WireFrame& frame);
  Error not_ours(const std::string& what);

  bool is_lead_;
  std::string secret_, nonce_;  // the nonce as bytes
  LeadEpoch epoch_;
  Value hello_;
  Stage stage_ = Stage::begun;
  bool stranger_ = false, verified_ = false;  // verified: a mac was right
  std::optional<HmacKey> key_out_, key_in_;   // none yet
  std::uint64_t sent_ = 0, received_ = 0;
  std::string out_, in_;
};

}  // namespace longhaul
