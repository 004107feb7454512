// One root cause, one text.
#include "resiliency/taxonomy/fingerprint.h"

#include <doctest/doctest.h>

#include "base/digest/philox.h"
#include "base/text/text.h"

namespace longhaul {

TEST_CASE("what differs from time to time is taken out") {
  struct Case {
    const char* a;
    const char* b;
    const char* text;
  };
  const Case cases[] = {
      {"rank 3 ended: killed by signal 9 (Killed), in section forward at step 12",
       "rank 12 ended: killed by signal 9 (Killed), in section backward at step 4000",
       "rank # ended: killed by signal 9 (Killed)"},
      {"step 7: cannot read /data/a/b.bin: 0x7ffe12", "step 70: cannot read /x/y: 0xDEADBEEF",
       "step #: cannot read <path>: #"},
      {"2026-03-02T04:11:09.201Z lost 10.0.0.1:4242", "2027-11-22T14:01:59.001Z lost 192.168.17.22:1", "#Z lost #"},
      {"no answer from ranks 1, 2, 7", "no answer from ranks 4", "no answer from ranks #"},
      {"shard 0f8a9b7c6d5e4f3a is damaged", "shard 1c2d3e4f5a6b7c8d is damaged", "shard # is damaged"},
      {"lost  gn0412\nafter 1.5s", "lost gn0007 after 22.75s", "lost gn# after #s"},
  };
  for (const Case& c : cases) {
    CAPTURE(c.a);
    CHECK(fingerprint(c.a) == c.text);
    CHECK(fingerprint(c.b) == c.text);
  }
}

TEST_CASE("what makes it another cause stays") {
  const std::pair<const char*, const char*> different[] = {
      {"killed by signal 9", "killed by signal 11"},         {"rank 3 ended: exit code 1", "rank 3 ended: exit code 2"},
      {"GPU 0: XID 79 (lost)", "GPU 0: XID 94 (lost)"},      {"KeyError: loss", "KeyError: lr"},
      {"stuck in section forward", "stuck in section data"},
  };
  for (const auto& [a, b] : different) {
    CAPTURE(a);
    CHECK(fingerprint(a) != fingerprint(b));
  }
}

TEST_CASE("hosts that are known leave no trace, also at the end of a sentence") {
  CHECK(fingerprint("lost alpha, then beta.", {"alpha", "beta"}) ==
        fingerprint("lost beta, then alpha.", {"alpha", "beta"}));
  CHECK(fingerprint("lost alpha") != fingerprint("lost beta"));
  CHECK(fingerprint("alphabet", {"alpha"}) == "alphabet");
}

TEST_CASE("whatever the text, a fingerprint is short, valid UTF-8, and has no numbers but those that are kept") {
  const std::string alphabet = "019afxT.,:-/+# \n_()\xc3\xa9\xff";
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    CAPTURE(seed);
    PhiloxSequence draw(seed, 0);
    std::string text;
    for (std::uint64_t left = draw.next_below(900); left > 0; --left)
      text += alphabet[draw.next_below(alphabet.size())];
    if (seed % 3 == 0) text += ", in section x at step 9 code 3";
    const std::string once = fingerprint(text);
    CHECK(once.size() <= 400);
    CHECK(is_valid_utf8(once));
    CHECK(once.find_first_of("0123456789") == (seed % 3 == 0 ? once.find('3') : std::string::npos));
  }
  CHECK(fingerprint("") == "");
  CHECK(fingerprint("   ") == "");
  CHECK(fingerprint(", in section ") == ", in section");
}

}  // namespace longhaul
