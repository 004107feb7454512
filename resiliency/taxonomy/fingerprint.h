// One root cause, one text: what differs from time to time is taken out of a cause, so that budgets and "the same cause
// three times" count causes and not sentences.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace longhaul {

// Numbers, addresses, digests and times become `#`, absolute paths `<path>`, hosts `<host>`; where it happened ("in
// section forward at step 12") is left out, white space is one space, and the whole is at most 400 bytes. Numbers that
// are the cause itself stay: those after "signal", "code", "xid" and "errno". `hosts`: names that are known here;
// others lose their numbers only ("gn0412" is "gn#").
std::string fingerprint(std::string_view cause, const std::vector<std::string>& hosts = {});

}  // namespace longhaul
